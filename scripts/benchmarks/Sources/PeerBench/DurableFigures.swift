// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// Writes that are on the disk when the call returns: Larder compared with SQLite (WAL, FULL), in C and through
/// GRDB, on this disk and on one whose syncs take a millisecond longer.
struct DurableFigures {
  let directory: String
  let results: Results
  private static let keys = 10_000
  private static let rivals = ["larder", "sqlite", "grdb"]
  /// Measured with one process only.
  private static let single = ["strict", "objects", "defaults"]
  /// No store: what the disk alone takes, which limits every ratio of single writes.
  private static let floor = "disk"

  private var seconds: Double { results.isQuick ? 1 : 3 }
  private var rounds: Int { results.isQuick ? 3 : 7 }

  /// What the processes of one run did.
  private struct Outcome {
    var perSecond: [Double] = []
    var times: [UInt32] = []
    var total: Double { perSecond.reduce(0, +) }
    var fairness: Double { (perSecond.min() ?? 0) / max(perSecond.max() ?? 1, 1) }
    var p999: Double { Latencies(times).p999 / 1e6 }
  }

  var sections: [(name: String, body: () throws -> Void)] {
    [
      ("durable", { try run(slow: false) }), ("slow disk", { try run(slow: true) }),
      ("batch", batch),
      (
        "recovery",
        {
          try DurableRecoveryFigure(directory: directory, isQuick: results.isQuick).measure(results)
        }
      ),
    ]
  }

  // MARK: Single writes

  private func run(slow: Bool) throws {
    let environment = slow ? try DurableShim(in: directory).slow : [:]
    let path = directory + (slow ? "/slow" : "/fast")
    try Files.make(path)
    let everyone = Self.rivals + [Self.floor] + (slow ? [] : Self.single)
    for rival in everyone { try Child.wait(["--child-durable-fill", rival, path]) }
    let disk = slow ? "a disk with 1 ms more per sync" : "this disk"
    let suffix = slow ? "_slow" : ""
    for count in [1, 8] {
      var outcomes: [String: [Outcome]] = [:]
      let contenders = count == 1 ? everyone : Self.rivals
      for _ in 0..<rounds {
        for rival in contenders {
          outcomes[rival, default: []].append(try together(count, rival, path, environment))
        }
      }
      Child.say("\n\(count) processes, commits a second, \(disk)")
      for rival in contenders {
        let all = outcomes[rival]!
        Child.say(
          "  " + Results.pad(rival, 10)
            + String(
              format: "%9.0f   slowest / fastest %.2f   p99.9 %.1f ms",
              Rounds.median(all.map(\.total)), Rounds.median(all.map(\.fairness)),
              Rounds.median(all.map(\.p999))))
      }
      func add(
        _ id: String, _ rival: String, _ name: String, _ bar: Double, own: String = "larder"
      ) {
        let value = Ratio(zip(outcomes[own]!, outcomes[rival]!).map { $0.total / $1.total })
        results.add(
          Figure(
            id: id + suffix, value: value.value, unit: "x", bar: .atLeast(bar),
            own: Rounds.median(outcomes[own]!.map(\.total)), rival: name,
            rivalValue: Rounds.median(outcomes[rival]!.map(\.total)), rivalUnit: "/s",
            spread: value.spread))
      }
      if count == 1 {
        add("durable.single_c", "sqlite", "SQLite in C, WAL FULL", 1)
        add("durable.single_grdb", "grdb", "GRDB, WAL FULL", 1.5)
        let limit = Ratio(zip(outcomes[Self.floor]!, outcomes["grdb"]!).map { $0.total / $1.total })
        Child.say(
          String(
            format: "  one write and one sync without a store against GRDB: %.2fx", limit.value))
        if slow { continue }
        add("durable.strict", "sqlite", "SQLite in C, WAL FULL", 0.9, own: "strict")
        add("durable.object_save", "grdb", "GRDB, WAL FULL: the same row", 1.5, own: "objects")
        add("durable.default_set", "grdb", "GRDB, WAL FULL: the same row", 1.5, own: "defaults")
        continue
      }
      add("durable.eight", "sqlite", "SQLite in C, WAL FULL", slow ? 3.5 : 2)
      let own = outcomes["larder"]!
      let other = outcomes["sqlite"]!
      results.add(
        Figure(
          id: "durable.fairness" + suffix, value: Rounds.median(own.map(\.fairness)), unit: "",
          bar: .atLeast(0.8), own: Rounds.median(own.map(\.fairness)),
          rival: "SQLite in C, WAL FULL", rivalValue: Rounds.median(other.map(\.fairness)),
          rivalUnit: ""))
      if slow {
        results.add(
          Figure(
            id: "durable.p999_eight", value: Rounds.median(own.map(\.p999)), unit: "ms",
            bar: .atMost(30), own: Rounds.median(own.map(\.p999)),
            rival: "SQLite in C, WAL FULL", rivalValue: Rounds.median(other.map(\.p999)),
            rivalUnit: "ms"))
      }
    }
  }

  /// Runs processes that write at the same time.
  private func together(
    _ count: Int, _ rival: String, _ path: String, _ environment: [String: String]
  ) throws -> Outcome {
    let children = try (0..<count).map { index in
      try Child(
        ["--child-durable", rival, path, "\(index)", "\(seconds)"], environment: environment)
    }
    for child in children { _ = try child.line() }
    for child in children { try child.send("go") }
    var outcome = Outcome()
    for child in children {
      let times = try child.numbers()
      outcome.perSecond.append(Double(times.count) / seconds)
      outcome.times += times.map { UInt32(clamping: $0) }
      try child.finish()
    }
    return outcome
  }

  /// In the other process: writes for a time, and prints what each write took in nanoseconds.
  static func write(_ arguments: [String]) throws {
    let subject = try subject(arguments[0], arguments[1], loads: false)
    let (index, seconds) = (Int(arguments[2])!, Double(arguments[3])!)
    let order = Dataset(count: keys).order(index, keys)
    var times: [UInt32] = []
    // The first write of a process opens more than later ones.
    try subject.set([order[0]], shift: 0, &times)
    times = []
    Child.say("ready")
    _ = readLine()
    let end = bench_now() + UInt64(seconds * 1e9)
    var next = 0
    // Not the values of an earlier run: an object that has not changed is not written.
    let shift = Int.random(in: 0..<keys)
    while bench_now() < end {
      try subject.set([order[next % keys]], shift: shift + next + next / keys, &times)
      next += 1
    }
    Child.say(times.map(String.init).joined(separator: " "))
  }

  /// In the other process: makes the data that processes write to.
  static func fill(_ arguments: [String]) throws {
    _ = try subject(arguments[0], arguments[1], loads: true)
  }

  private static func subject(
    _ rival: String, _ path: String, loads: Bool
  ) throws -> any BenchmarkSubject {
    let data = Dataset(count: keys)
    return switch rival {
    case "larder": try StoreContender(in: path, data, .durable, loads: loads)
    case "strict": try StoreContender(in: path, data, .durableStrict, loads: loads)
    case "objects": try DurableContender.objects(in: path, data, loads: loads)
    case "defaults": try DurableContender.defaults(in: path, data, loads: loads)
    case "disk": try DiskContender(in: path, data, loads: loads)
    case "sqlite": CContender.sqlite(in: path, data, synchronous: 2, loads: loads)
    default: try GRDBContender(in: path, data, synchronous: "FULL", loads: loads)
    }
  }

  // MARK: Batches

  private func batch() throws {
    let path = directory + "/batch"
    try Files.make(path)
    let data = Dataset(count: Self.keys)
    let store = try StoreContender(in: path, data, .durable)
    let grdb = try GRDBContender(in: path, data, synchronous: "FULL")
    var (own, other): ([Double], [Double]) = ([], [])
    for round in 0..<(2 * rounds) {
      let order = data.order(round, 1000)
      own.append(try Self.milliseconds { try store.setTogether(order, shift: round) })
      other.append(try Self.milliseconds { try grdb.setTogether(order, shift: round) })
    }
    let ratio = Ratio(zip(own, other).map { $1 / $0 })
    results.add(
      Figure(
        id: "durable.batch", value: ratio.value, unit: "x", bar: .atLeast(1.2),
        own: Rounds.median(own), rival: "GRDB, WAL FULL", rivalValue: Rounds.median(other),
        rivalUnit: "ms", spread: ratio.spread))
  }

  private static func milliseconds(_ body: () throws -> Void) rethrows -> Double {
    let start = bench_now()
    try body()
    return Double(bench_now() - start) / 1e6
  }
}
