// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// Real traces through the real store: a get, and after a miss a set, under a budget of so many
/// entries; the hit ratio beside that of exact LRU, from the traces' own reference.
struct TraceWorkload {
  let directory: String
  let traces: String
  let results: Results

  /// What a miss costs the back end that the cache stands before, in milliseconds.
  private static let backEnd = 5.0
  private static let value = [UInt8](repeating: 7, count: 100)

  func run() throws {
    let path = traces + "/reference.csv"
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else {
      return results.absent("traces", "there is no \(path); name their directory with --traces")
    }
    let table = text.split(separator: "\n").map { $0.split(separator: ",").map(String.init) }
    let policies = table[0]
    var rows = Dictionary(grouping: table.dropFirst()) { $0[0] }
    results.note(
      "\nTraces: hit ratio in percent; each miss is said to cost \(Int(Self.backEnd)) ms behind the "
        + "cache\n" + Results.pad("trace, entries", 24)
        + ["requests", "Larder", "exact LRU", "per request", "saved"].map { Results.right($0, 13) }
        .joined())
    for (name, capacities) in rows.sorted(by: { $0.key < $1.key }) {
      rows[name] = nil
      let large = capacities.filter { Int($0[1])! >= 300 }
      // Quick: not the longest, with one budget each.
      let size =
        try FileManager.default.attributesOfItem(
          atPath: traces + "/\(name).trc.gz")[.size] as! Int
      if large.isEmpty || results.isQuick && size > 2_500_000 { continue }
      let (keys, count) = try load(name)
      for row in results.isQuick ? [large[large.count / 2]] : Array(large.prefix(3)) {
        try replay(name, keys, count, row, policies)
      }
    }
  }

  private func replay(
    _ name: String, _ keys: [Int32], _ count: Int, _ row: [String], _ policies: [String]
  ) throws {
    let capacity = Int(row[1])!
    let path = directory + "/trace"
    defer { Files.remove(path) }
    // What an entry counts, to the byte: its keys are all of one length.
    let names = (0..<count).map { "k\(10_000_000 + $0)" }
    let probe = try SharedStore(at: path + "-probe")
    try probe.namespace("trace").setBytes(Self.value, forKey: names[0])
    let entry = try probe.statistics().bytes
    probe.close()
    Files.remove(path + "-probe")
    let store = try SharedStore(at: path, .init(budget: .bytes(entry * capacity)))
    defer { store.close() }
    let namespace = try store.namespace("trace")
    var hits = 0
    let time = try Rounds.nanoseconds {
      for key in keys {
        if try namespace.bytes(forKey: names[Int(key)]) != nil {
          hits += 1
        } else {
          try namespace.setBytes(Self.value, forKey: names[Int(key)])
        }
      }
    }
    guard try store.statistics().entries <= capacity else {
      throw BenchFailure("The store holds more than its budget.")
    }
    let percent = Double(hits) * 100 / Double(keys.count)
    results.hitRatio(name, capacity: capacity, "Larder", percent)
    for (policy, text) in zip(policies, row).dropFirst(2) {
      results.hitRatio(name, capacity: capacity, policy, Double(text) ?? 0)
    }
    let saved = Double(hits) * Self.backEnd / 1000 - time / 1e9
    let cells = [
      "\(keys.count)", String(format: "%.2f", percent), row[2],
      Results.duration(time / Double(keys.count)), String(format: "%.0f s", saved),
    ]
    Child.say(
      Results.pad("\(name), \(capacity)", 24) + cells.map { Results.right($0, 13) }.joined())
    results.trace(
      name, capacity: capacity, requests: keys.count, hitPercent: percent,
      nanoseconds: time / Double(keys.count), savedSeconds: saved, backEndMilliseconds: Self.backEnd
    )
  }

  /// The requests, with their keys numbered from zero, and how many keys there are.
  private func load(_ name: String) throws -> ([Int32], Int) {
    let process = Process()
    let output = Pipe()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["gzip", "-dc", traces + "/\(name).trc.gz"]
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    var numbers: [Int: Int32] = [:]
    var keys: [Int32] = []
    var (number, isKey, hasDigits) = (0, true, false)
    for byte in data {
      switch byte {
      case 48...57 where isKey: (number, hasDigits) = (number &* 10 &+ Int(byte) - 48, true)
      case 10:
        if hasDigits {
          let next = Int32(numbers.count)
          let known = numbers[number, default: next]
          if known == next { numbers[number] = next }
          keys.append(known)
        }
        (number, isKey, hasDigits) = (0, true, false)
      default: isKey = false
      }
    }
    return (keys, numbers.count)
  }
}
