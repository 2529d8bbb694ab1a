// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBRival
import Larder

/// What processes do with each other: they want the same missing value, and they watch.
extension LifeWorkloads {
  /// Eight processes want the same missing value at once; it takes 20 ms to compute.
  func stampede(_ store: SharedStore) throws {
    let children = try (0..<8).map { _ in try Child(["--child-together", store.path]) }
    var times: [UInt32] = []
    var computed: [Double] = []
    for round in 0..<(isQuick ? 5 : 25) {
      for child in children { try child.send("compute \(round)") }
      var count = 0
      for child in children {
        let answer = try child.numbers()
        times.append(UInt32(clamping: answer[0]))
        count += Int(answer[1])
      }
      computed.append(Double(count))
    }
    for child in children { try child.finish() }
    Child.say("\nstampede of 8 processes, 20 ms to compute\n" + Results.heading)
    results.add("Larder", "stampede of 8 processes, 20 ms to compute", size: 256, times)
    let all = computed.reduce(0, +)
    results.note(
      "stampede: \(Int(all)) computations for \(computed.count) keys wanted by 8 processes")
    guard Int(all) == computed.count else { throw BenchFailure("Something was computed twice.") }
  }

  /// From the beginning of a committed set here to its sight in another process.
  func observers(_ store: SharedStore) throws {
    let cache = PersistentCache<String, Int>(storage: store, namespace: "watched")
    try cache.setValue(0, forKey: "key")
    let child = try Child(["--child-together", store.path])
    try child.send("observe")
    _ = try child.line()
    var times: [UInt32] = []
    for number in 1...(isQuick ? 50 : 500) {
      let start = bench_now()
      try cache.setValue(number, forKey: "key")
      let seen = try child.numbers()
      guard seen[0] == UInt64(number) else {
        throw BenchFailure("The observer saw something else.")
      }
      times.append(UInt32(clamping: seen[1] - start))
    }
    try cache.setValue(-1, forKey: "key")
    try child.finish()
    Child.say("\na set, until another process sees it\n" + Results.heading)
    results.add("Larder", "a set, until another process sees it", size: 8, times)
  }

  /// In the other process.
  static func together(_ path: String) async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, [UInt8]>(storage: store, namespace: "computed")
    while let line = readLine() {
      let words = line.split(separator: " ")
      if words[0] == "observe" {
        let watched = PersistentCache<String, Int>(storage: store, namespace: "watched")
        for try await number in watched.values(forKey: "key") {
          guard let number, number >= 0 else { return }
          Child.say("\(number) \(bench_now())")
        }
      } else {
        let computed = Computed()
        let start = bench_now()
        _ = try await cache.value(forKey: Int(words[1])!) {
          computed.count = 1
          usleep(20_000)
          return [UInt8](repeating: 7, count: 256)
        }
        Child.say("\(bench_now() - start) \(computed.count)")
      }
    }
  }

  /// Written by one task, read after it.
  private final class Computed: @unchecked Sendable { var count = 0 }
}
