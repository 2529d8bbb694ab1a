// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import ArgumentParser
import Foundation
import LarderDynamic
import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting

// THE FUZZER OF THE TOOL
//
// `larder` reads and writes what programs store without their types, so it must have the same idea of every
// value. Each trial stores random objects of the types of ToolFuzzTypes.swift in a new store, and then
//
//   - asks random queries of the tool, of the library, and of plain Swift (ToolFuzzQueries.swift),
//   - exports all objects, imports them into an empty store, and reads them there; imports changed lines,
//     which are refused, or stored as the program would have stored them (ToolFuzzTransfer.swift),
//   - passes keys and values of caches, defaults and queues between commands and programs
//     (ToolFuzzEntries.swift).
//
// Most queries and lines call what the commands call, in this process; some run the tool itself.

struct ToolFuzzCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "tool", abstract: "Compare the tool with the library, over random objects.")

  @OptionGroup var options: RunOptions

  @Option(help: "Only this trial of the seed.")
  var trial: UInt64?

  func run() throws {
    StandardError.say("seed \(options.seed)")
    let begin = Clocks.monotonicNanoseconds()
    var totals = ToolFuzzTotals()
    var number = trial ?? 0
    repeat {
      let seed = Seed(options.seed).derived(number)
      let place = "--seed \(options.seed) --trial \(number)"
      do {
        var run = try ToolFuzzTrial(seed, place)
        try run.run(number, &totals)
      } catch {
        totals.violate("trial", "\(place) failed: \(error)")
      }
      number += 1
      totals.trials += 1
    } while trial == nil && elapsedSeconds(since: begin) < options.seconds
      && totals.violations.values.reduce(0, +) < 40
    ParentProcess.send(totals.line(seed: options.seed))
    if !totals.violations.isEmpty { throw ExitCode(1) }
  }
}

/// The number of comparisons, and the differences.
struct ToolFuzzTotals {
  var trials = 0
  var objects = 0
  var queries = 0
  var refusals = 0
  var processes = 0
  var roundTrips = 0
  var lines = 0
  var keys = 0
  private(set) var violations: [String: Int] = [:]

  /// Adds a difference; only the first ones of each kind are printed.
  mutating func violate(_ kind: String, _ text: @autoclosure () -> String) {
    violations[kind, default: 0] += 1
    if violations[kind]! <= 6 { StandardError.say("VIOLATION \(kind): \(text())\n") }
  }

  func line(seed: UInt64) -> String {
    let counts = [
      ("seed", Int(seed)), ("trials", trials), ("objects", objects), ("queries", queries),
      ("refused_queries", refusals), ("processes", processes), ("round_trips", roundTrips),
      ("lines", lines), ("keys", keys), ("violations", violations.values.reduce(0, +)),
    ]
    return "{" + counts.map { "\"\($0)\": \($1)" }.joined(separator: ", ") + "}"
  }
}

/// One store of random objects.
struct ToolFuzzTrial {
  let place: String
  var random: SeededRandom
  let directory: TemporaryDirectory
  let tool: ToolProcess
  let store: ObjectStore
  let untyped: DynamicObjects
  var crates: [Crate] = []
  var makers: [DepotMaker] = []
  var depots: [Depot] = []

  init(_ seed: Seed, _ place: String) throws {
    self.place = place
    random = seed.generator()
    directory = try TemporaryDirectory()
    tool = try ToolProcess(store: directory.appending("a"))
    store = try ObjectStore(at: tool.store)
    untyped = DynamicObjects(store.storage)
  }

  mutating func run(_ number: UInt64, _ totals: inout ToolFuzzTotals) throws {
    defer { store.close() }
    try fill(&totals)
    for _ in 0..<100 { try askCrates(&totals) }
    for _ in 0..<40 { try askDepots(&totals) }
    for _ in 0..<50 { try askWrong(&totals) }
    for _ in 0..<50 { try askBroken(&totals) }
    try transfer(&totals)
    if number % 3 == 0 {
      try passEntries(&totals)
      try passDefaults(&totals)
      try passQueue(&totals)
    }
    let findings = try store.storage.verify()
    if !findings.isEmpty { totals.violate("verify", "\(place): \(findings)") }
  }

  private mutating func fill(_ totals: inout ToolFuzzTotals) throws {
    for id in 0..<Int.random(in: 6...24, using: &random) { crates.append(.random(id, &random)) }
    crates.shuffle(using: &random)
    for start in stride(from: 0, to: crates.count, by: 30) {
      try store.save(Array(crates[start..<min(start + 30, crates.count)]))
    }
    // Objects that are replaced keep their place.
    for _ in 0..<5 {
      let place = Int.random(in: 0..<crates.count, using: &random)
      crates[place] = .random(crates[place].id, &random)
      try store.save(crates[place])
    }
    for id in 0..<8 {
      let boss = random.chance(40) ? nil : makers.randomElement(using: &random)
      makers.append(
        DepotMaker(
          id: id, name: ToolValues.text(&random), score: ToolValues.single(&random),
          price: random.chance(40) ? nil : ToolValues.decimal(&random),
          box: random.chance(40) ? nil : ToolValues.box(&random), boss: boss))
    }
    try store.save(makers, children: .ignore)
    for id in 0..<20 {
      depots.append(
        Depot(
          id: ["", "d", "\u{e9}", "a b"].randomElement(using: &random)! + "\(id)",
          name: ToolValues.text(&random), price: ToolValues.decimal(&random),
          tint: CrateTint.allCases.randomElement(using: &random)!,
          maker: random.chance(30) ? nil : makers.randomElement(using: &random),
          crew: Array(makers.shuffled(using: &random).prefix(Int(random.next() % 3)))))
    }
    try store.save(depots, children: .ignore)
    try store.save((0..<10).map { _ in Sack.random(&random) })
    // A reference may lead to an object that is gone.
    if random.chance(50) {
      try store.delete(DepotMaker.self, id: 7)
      makers.removeLast()
    }
    for type in [0, 1] where type == 0 || random.chance(70) {
      try type == 0 ? store.prepare(Crate.self) : store.prepare(Depot.self)
    }
    totals.objects += crates.count + makers.count + depots.count + 10
  }
}

/// The tool as a process, on one store.
struct ToolProcess {
  let store: String
  private let path: String

  init(store: String) throws {
    self.store = store
    path = try TestExecutable("larder").path
  }

  func run(_ arguments: [String], input: [String] = []) throws -> ChildProcess.Outcome {
    try ChildProcess.run(path, arguments, input: input)
  }

  /// Runs a command on the store. Operands after `--` stay after it.
  func on(_ command: String, _ arguments: [String], input: [String] = []) throws
    -> ChildProcess.Outcome
  {
    let words = command.split(separator: " ").map(String.init)
    return try run(words + ["--store", store] + arguments, input: input)
  }
}
#endif
