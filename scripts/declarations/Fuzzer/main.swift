// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

// scripts/fuzz declarations: writes random pairs of programs, and lets two live processes work on one store.

struct Options {
  var seed = 0
  var batch = 0
  var count = 50
  var directory = ""
  var seconds = 60
  /// The only round, or the first one.
  var round: Int?
  var first = 0

  init(_ arguments: [String]) {
    var rest = arguments[...]
    while let name = rest.popFirst(), let value = rest.popFirst() {
      switch name {
      case "--seed": seed = Int(value)!
      case "--batch": batch = Int(value)!
      case "--count": count = Int(value)!
      case "--directory": directory = value
      case "--seconds": seconds = Int(value)!
      case "--round": round = Int(value)!
      case "--first": first = Int(value)!
      default: fatalError("There is no option \(name).")
      }
    }
  }

  var pairs: [Pair] {
    (0..<count).map { number in
      var generator = Generator(seed: seed, batch: batch, number: number)
      return generator.pair()
    }
  }
}

/// Prints a line at once.
func write(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

func generate(_ options: Options) throws {
  let pairs = options.pairs
  for (program, name) in ["A", "B"].enumerated() {
    let directory = URL(fileURLWithPath: options.directory).appendingPathComponent(name)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    for (number, pair) in pairs.enumerated() {
      let file = directory.appendingPathComponent("T\(number).swift")
      try Data(pair.programs[program].file(number).utf8).write(to: file)
    }
    let list = pairs.indices.map { "handler\($0)()" }.joined(separator: ", ")
    try Data("let handlers: [any Handler] = [\(list)]\n".utf8)
      .write(to: directory.appendingPathComponent("Handlers.swift"))
  }
}

/// One store, both programs.
struct Round {
  let options: Options
  let number: Int
  var subjects: [Subject]
  private var random: Random
  private var peers: [Peer] = []
  private let directory: URL
  private(set) var operations = 0
  private(set) var refusals = 0
  private(set) var kills = 0
  private(set) var differences = 0

  init(_ options: Options, _ number: Int, _ pairs: [Pair]) throws {
    self.options = options
    self.number = number
    random = Random(options.seed, options.batch, number, 2)
    subjects = pairs.enumerated().map { place, pair in
      Subject(
        pair, number: place, random: Random(options.seed, options.batch, number, 100 + place))
    }
    directory = URL(fileURLWithPath: options.directory).appendingPathComponent("round-\(getpid())")
    try? FileManager.default.removeItem(at: directory)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    for program in 0..<2 { peers.append(try start(program)) }
  }

  private func start(_ program: Int) throws -> Peer {
    let name = ["A", "B"][program]
    return try Peer(
      URL(fileURLWithPath: options.directory).appendingPathComponent("\(name)/program"),
      store: directory.appendingPathComponent("store").path,
      errors: directory.appendingPathComponent("\(name).errors"))
  }

  /// Works on one type after the other for a while.
  mutating func run(until end: Date) throws {
    var live = Array(subjects.indices)
    for _ in 0..<(subjects.count * 4) where !live.isEmpty && Date() < end {
      let place = random.pick(live)
      for _ in 0..<(5 + random.below(25)) {
        if try !step(place) {
          live.removeAll { $0 == place }
          break
        }
      }
    }
    for program in 0..<2 {
      try peers[program].send(Request(operation: .verify))
      switch try peers[program].receive() {
      case .answer(let answer):
        let texts = answer.faults + (answer.failure.map { [$0.message] } ?? [])
        if !texts.isEmpty { report(texts.joined(separator: "\n"), nil) }
      case .ended: report("the program ended: \(peers[program].lastWords)", nil)
      case .hangs:
        report("verify() hangs", nil)
        peers[program].kill()
      }
    }
    for peer in peers { peer.close() }
    try FileManager.default.removeItem(at: directory)
  }

  /// Returns whether the type is as it should be.
  private mutating func step(_ place: Int) throws -> Bool {
    let subject = subjects[place]
    let program = random.below(2)
    let request = subject.request(by: program)
    if subject.isVolatile(request, by: program) { return true }
    operations += 1
    let isKilled = random.chance(1)
    try peers[program].send(request)
    if isKilled {
      usleep(UInt32(random.below(3000)))
      peers[program].kill()
      peers[program] = try start(program)
      kills += 1
      subject.kill(request, by: program)
      subject.note(request, by: program, "killed")
      return true
    }
    do {
      switch try peers[program].receive() {
      case .ended:
        let words = peers[program].lastWords
        subject.note(request, by: program, "the program ended")
        peers[program].kill()
        peers[program] = try start(program)
        throw Difference(text: "the program ended: \(words)")
      case .hangs:
        subject.note(request, by: program, "no answer")
        peers[program].kill()
        peers[program] = try start(program)
        throw Difference(text: "no answer for minutes")
      case .answer(let answer):
        let outcome =
          answer.failure.map { "\($0.code): \($0.message.prefix(300))" }
          ?? "\(answer.ids) \(answer.count) \(answer.views)"
        subject.note(request, by: program, outcome)
        if answer.failure != nil { refusals += 1 }
        try subject.take(answer, to: request, by: program)
      }
    } catch let difference as Difference {
      report(difference.text, subject)
      return false
    }
    return true
  }

  private mutating func report(_ text: String, _ subject: Subject?) {
    differences += 1
    var lines = ["", "DIFFERENCE: \(text)"]
    if let subject {
      lines.append("type \(subject.number), changes: \(subject.pair.changes)")
      for (name, type) in zip(["A", "B"], subject.pair.programs) {
        lines += ["--- \(name)", type.text]
      }
      lines += ["--- what was done"] + subject.history.suffix(60)
    }
    lines.append(
      "replay: scripts/fuzz declarations --seed \(options.seed) --batch \(options.batch) --round "
        + "\(number)")
    write(lines.joined(separator: "\n"))
  }
}

func run(_ options: Options) throws -> Int {
  let pairs = options.pairs
  let end = Date().addingTimeInterval(Double(options.seconds))
  var (rounds, operations, refusals, kills, differences) = (0, 0, 0, 0, 0)
  var number = options.round ?? options.first
  repeat {
    var round = try Round(options, number, pairs)
    try round.run(until: options.round == nil ? end : .distantFuture)
    rounds += 1
    operations += round.operations
    refusals += round.refusals
    kills += round.kills
    differences += round.differences
    number += 1
  } while options.round == nil && Date() < end
  write(
    "{\"seed\": \(options.seed), \"batch\": \(options.batch), \"declarations\": \(pairs.count * 2), "
      + "\"rounds\": \(rounds), \"operations\": \(operations), \"refusals\": \(refusals), "
      + "\"kills\": \(kills), \"differences\": \(differences)}")
  return differences
}

signal(SIGPIPE, SIG_IGN)
let options = Options(Array(CommandLine.arguments.dropFirst(2)))
if CommandLine.arguments[1] == "generate" {
  try generate(options)
} else {
  exit(try run(options) == 0 ? 0 : 1)
}
