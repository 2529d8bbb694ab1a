// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderTesting
import Testing

/// The simulations of `larder replay --compare` against slow and simple ones.
@Suite(.timeLimit(.minutes(60))) struct ReplayComparisonTests {
  private struct Access {
    let key: Int
    let size: Int
  }

  /// Keys of a skewed distribution, numbered in the order of their first access.
  private func accesses(_ count: Int, keys: Int, seed: UInt64) -> [Access] {
    var random = SeededRandom(seed: seed)
    let sizes = (0..<keys).map { _ in Int.random(in: 0..<500, using: &random) }
    var numbers: [Int: Int] = [:]
    return (0..<count).map { _ in
      let bound = Int.random(in: 1...keys, using: &random)
      let key = Int.random(in: 0..<bound, using: &random)
      let number = numbers[key, default: numbers.count]
      numbers[key] = number
      return Access(key: number, size: sizes[key])
    }
  }

  private func hits(
    _ trace: [String: Any], _ list: String, _ policy: String
  ) throws -> [Int] {
    try trace.objects(list).filter { $0["policy"] as? String == policy }
      .map { try $0.number("hits") }
  }

  private func leastRecentlyUsed(
    _ accesses: [Access], limit: Int, cost: (Access) -> Int
  ) -> Int {
    var stored: [Access] = []
    var hits = 0
    for access in accesses {
      if let index = stored.firstIndex(where: { $0.key == access.key }) {
        hits += 1
        stored.append(stored.remove(at: index))
        continue
      }
      if cost(access) > limit { continue }
      while stored.reduce(0, { $0 + cost($1) }) + cost(access) > limit { stored.removeFirst() }
      stored.append(access)
    }
    return hits
  }

  /// Returns the most hits of all sequences of evictions.
  private func mostHits(_ keys: ArraySlice<Int>, _ stored: Set<Int>, limit: Int) -> Int {
    guard let key = keys.first else { return 0 }
    let rest = keys.dropFirst()
    if stored.contains(key) { return 1 + mostHits(rest, stored, limit: limit) }
    if stored.count < limit { return mostHits(rest, stored.union([key]), limit: limit) }
    return stored.map { victim in
      mostHits(rest, stored.subtracting([victim]).union([key]), limit: limit)
    }.max() ?? 0
  }

  @Test func `Simulated LRU has the hits of a list in order of use, in entries and in bytes`()
    throws
  {
    try withReplay { ground in
      let accesses = accesses(2000, keys: 60, seed: 5)
      let path = try ground.trace(accesses.map { "\($0.key) \($0.size)" })
      let entries = try ground.json([path, "--compare", "--entries", "1,2,7,30,60"])[0]
      #expect(
        try hits(entries, "simulations", "lru")
          == [1, 2, 7, 30, 60].map { leastRecentlyUsed(accesses, limit: $0) { _ in 1 } })
      let bytes = try ground.json([path, "--compare", "--bytes", "4096,8K,16K"])[0]
      #expect(
        try hits(bytes, "simulations", "lru")
          == [4096, 8192, 16_384].map { limit in
            leastRecentlyUsed(accesses, limit: limit) {
              EntryHeader.size + EncodedKey($0.key).bytes.count + $0.size
            }
          })
    }
  }

  @Test func `Simulated Belady has the most hits of all choices on small traces`() throws {
    try withReplay { ground in
      let traces = (0..<6).map { accesses(16, keys: 6, seed: UInt64($0)) }
      let paths = try traces.enumerated().map { index, accesses in
        try ground.trace(accesses.map { "\($0.key)" }, "trace-\(index)")
      }
      let results = try ground.json(paths + ["--compare", "--entries", "1,2,3,4"])
      for (accesses, result) in zip(traces, results) {
        let most = (1...4).map { mostHits(accesses.map(\.key)[...], [], limit: $0) }
        #expect(try hits(result, "simulations", "belady") == most)
      }
    }
  }

  @Test func `The optimum has at least the hits of every policy, and the plot shows all lines`()
    throws
  {
    try withReplay { ground in
      let path = try ground.trace(accesses(5000, keys: 400, seed: 9).map { "key-\($0.key)" })
      let plot = ground.directory + "/plot.svg"
      let result = try ground.json(
        [path, "--compare", "--entries", "10,40,160", "--svg", plot])[0]
      let most = try hits(result, "simulations", "belady")
      #expect(most.count == 3)
      for policy in EvictionPolicy.all {
        let found = try hits(result, "runs", "\(policy)")
        #expect(found.count == 3 && zip(found, most).allSatisfy { $0 <= $1 }, "\(result)")
      }
      let text = try String(contentsOfFile: plot, encoding: .utf8)
      #expect(text.hasPrefix("<svg ") && text.hasSuffix("</svg>\n"))
      #expect(text.components(separatedBy: "<polyline ").count == 5)
      for name in ["sampledLRU", "adaptive", "exact LRU", "optimum", "hit ratio"] {
        #expect(text.contains(">\(name)</text>"), "\(text)")
      }
      let shown = try ground.run([path, "--compare", "--entries", "10,40"])
      #expect(shown.lines.last?.hasPrefix("40 entries") == true, "\(shown.output)")
      let sized = try ground.run(["-", "--compare", "--bytes", "1M"], input: ["a 5", "a 5"])
      #expect(
        sized.output.contains("Belady, by next use") && sized.output.contains("BYTE HIT RATIO"),
        "\(sized.output)")
    }
  }
}
#endif
