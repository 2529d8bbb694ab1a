// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// `larder-peer-bench SUITE [--json FILE] [--quick] [--work DIRECTORY] [--traces DIRECTORY]`
@main
struct PeerBench {
  static func main() async {
    do {
      if Machine.isDebugBuild {
        throw BenchFailure(
          "This is a debug build: its figures would mean nothing. Use scripts/bench.")
      }
      let arguments = Array(CommandLine.arguments.dropFirst())
      switch arguments.first {
      case "--child-drive": try DrivenContender.drive(Array(arguments.dropFirst()))
      case "--child-open": try LifecycleWorkloads.open(arguments[1], arguments[2])
      case "--child-subscribe": LifecycleWorkloads.subscribe(arguments[1])
      case "--child-durable": try DurableFigures.write(Array(arguments.dropFirst()))
      case "--child-durable-fill": try DurableFigures.fill(Array(arguments.dropFirst()))
      case "--child-durable-log": try DurableRecoveryFigure.fill(Array(arguments.dropFirst()))
      case "--child-durable-recover":
        try DurableRecoveryFigure.recover(Array(arguments.dropFirst()))
      case "--child-together": try await LifecycleWorkloads.together(arguments[1])
      default: try run(arguments)
      }
    } catch {
      FileHandle.standardError.write(Data("larder-peer-bench: \(error)\n".utf8))
      exit(1)
    }
  }

  /// Rivals that scripts/bench could not start or install: told, never left out in silence.
  private static func reportAbsent(_ results: Results) {
    let environment = ProcessInfo.processInfo.environment
    for name in ["Redis", "memcached", "diskcache"] {
      let variable = "LARDER_BENCH_" + name.uppercased()
      if environment[variable] != nil { continue }
      results.absent(name, environment[variable + "_ABSENT"] ?? "scripts/bench starts it")
    }
  }

  private static func run(_ arguments: [String]) throws {
    var json: String?
    var work: String?
    var traces: String?
    var isQuick = false
    var rest = arguments
    guard !rest.isEmpty else {
      throw BenchFailure("Say what to measure: peers, durable, workloads or scale.")
    }
    let suite = rest.removeFirst()
    while !rest.isEmpty {
      let argument = rest.removeFirst()
      switch argument {
      case "--quick": isQuick = true
      case "--json", "--work", "--traces":
        guard !rest.isEmpty else { throw BenchFailure("\(argument) wants a path.") }
        let path = rest.removeFirst()
        switch argument {
        case "--json": json = path
        case "--work": work = path
        default: traces = path
        }
      default: throw BenchFailure("There is no option \(argument).")
      }
    }
    Child.say(Machine.description)
    let results = Results(isQuick: isQuick, json: json)
    let directory = try Files.fresh(in: work)
    defer { Files.remove(directory) }
    if suite != "scale", suite != "durable" { reportAbsent(results) }
    let sections: [(name: String, body: () throws -> Void)]
    switch suite {
    case "peers":
      sections = PeerFigures(directory: directory, results: results).sections
    case "workloads":
      let life = LifecycleWorkloads(directory: directory, results: results)
      let mixed = MixedWorkloads(directory: directory, results: results)
      let beside = ProcessInfo.processInfo.environment["LARDER_BENCH_TRACES"] ?? "traces"
      let replays = TraceWorkload(
        directory: directory, traces: traces ?? beside, results: results)
      sections = [
        ("life", life.run), ("sizes", mixed.sizes), ("mixed", mixed.mixed),
        ("processes", mixed.processes), ("traces", replays.run),
      ]
    case "scale":
      sections = [("scale", ScaleFigures(directory: directory, results: results).run)]
    case "durable":
      sections = DurableFigures(directory: directory, results: results).sections
    default: throw BenchFailure("There is no suite \(suite).")
    }
    // One that fails does not take the others with it.
    var failures: [String] = []
    for (name, body) in sections {
      let start = bench_now()
      do {
        try body()
      } catch {
        failures.append(name)
        results.failed(name, "\(error)")
      }
      try results.save()
      Child.say(String(format: "\n(\(name): %.1f s)", Double(bench_now() - start) / 1e9))
    }
    let figures = results.figures
    if !figures.isEmpty {
      Child.say("\n" + Figure.heading)
      for figure in figures { Child.say(figure.row) }
      let missed = figures.filter { !$0.isMet }
      Child.say(
        missed.isEmpty
          ? "\nAll \(figures.count) bars are met."
          : "\n\(missed.count) of \(figures.count) bars are not met: "
            + missed.map(\.id).joined(separator: ", "))
    }
    guard failures.isEmpty else {
      throw BenchFailure("These failed: " + failures.joined(separator: ", ") + ".")
    }
  }
}
