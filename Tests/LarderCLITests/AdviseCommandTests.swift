// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// `larder advise` on a store that this process uses.
@Suite(.serialized, .timeLimit(.minutes(60))) struct AdviseCommandTests {
  /// A thread that reads keys of a Zipf distribution, and writes those that it does not find.
  private final class Load: Sendable {
    private let isEnded = Atomic<Bool>(false)
    private let thread: Mutex<JoinableThread<[Int32]>?>

    /// - Parameter read: A closure that reads a key, and returns whether it has an entry.
    init(
      keys: Int, first: [Int32], read: @escaping @Sendable (Int) -> Bool,
      write: @escaping @Sendable (Int) -> Void
    ) {
      thread = Mutex(nil)
      let started = JoinableThread { [self] in
        var log = first
        var zipf = Zipf(keys: keys, seed: 5)
        while !isEnded.load(ordering: .relaxed) {
          let key = zipf.next()
          log.append(Int32(key))
          if !read(key) { write(key) }
        }
        return log
      }
      thread.withLock { $0 = started }
    }

    /// Ends the thread, and returns its accesses.
    func end() -> [Int32] {
      isEnded.store(true, ordering: .relaxed)
      return thread.withLock { $0 }!.join()
    }
  }

  /// Random keys, of which number *n* has the weight 1 / (*n* + 1).
  private struct Zipf {
    private var sums: [Double]
    private var random: SeededRandom

    init(keys: Int, seed: UInt64) {
      random = SeededRandom(seed: seed)
      var sum = 0.0
      sums = (0..<keys).map { index in
        sum += 1 / Double(index + 1)
        return sum
      }
    }

    mutating func next() -> Int {
      let wanted = Double.random(in: 0..<sums.last!, using: &random)
      var (low, high) = (0, sums.count - 1)
      while low < high {
        let middle = (low + high) / 2
        if sums[middle] > wanted { high = middle } else { low = middle + 1 }
      }
      return low
    }
  }

  /// The hit ratio of exact LRU in the second half of the accesses, in which the cache is full.
  private func exactLRU(_ accesses: [Int32], keys: Int, capacity: Int) -> Double {
    var last = [Int](repeating: -1, count: keys)
    var stored = [Bool](repeating: false, count: keys)
    var queue: [(key: Int, time: Int)] = []
    var (head, count, hits) = (0, 0, 0)
    for (time, access) in accesses.enumerated() {
      let key = Int(access)
      if stored[key] {
        hits += time >= accesses.count / 2 ? 1 : 0
      } else {
        stored[key] = true
        count += 1
      }
      last[key] = time
      queue.append((key, time))
      while count > capacity {
        let oldest = queue[head]
        head += 1
        if last[oldest.key] == oldest.time {
          stored[oldest.key] = false
          count -= 1
        }
      }
    }
    return Double(hits) / Double(accesses.count - accesses.count / 2)
  }

  /// Returns what in an answer of `larder advise` is not within a few points of exact LRU.
  private func deviations(
    _ answer: [String: Any], _ accesses: [Int32], keys: Int
  ) throws -> [String] {
    var found: [String] = []
    let share = try #require(answer["share"] as? Double)
    if share <= 0.01 || share >= 0.7 { found.append("share \(share)") }
    let budgets = try answer.objects("budgets")
    #expect(budgets.compactMap { $0["factor"] as? Double } == [0.25, 0.5, 1, 2, 4])
    for budget in budgets.prefix(3) {
      let exact = try exactLRU(accesses, keys: keys, capacity: budget.number("entries"))
      let lru = try #require(budget["lru"] as? Double)
      let adaptive = try #require(budget["adaptive"] as? Double)
      if abs(lru - exact) >= 0.04 { found.append("LRU \(budget) \(exact)") }
      if adaptive <= exact - 0.04 { found.append("adaptive \(budget) \(exact)") }
    }
    // The store itself has this policy and budget.
    let now = try #require(answer["hitRatio"] as? Double)
    let modelled = try #require(budgets[2]["adaptive"] as? Double)
    if abs(now - modelled) >= 0.08 { found.append("now \(now) \(modelled)") }
    return found
  }

  private func options(entries: Int) -> StoreOptions {
    var options = StoreOptions(budget: .megabytes(256))
    options.entryBudget = entries
    return options
  }

  private func isSampled(_ store: SharedStore) throws -> Bool {
    try store.core.generation().table.sampleThreshold != 0
  }

  @Test func `The curve of a sampled Zipf stream is within four points of exact LRU`() throws {
    try withTool { tool in
      let (keys, entries) = (60_000, 20_000)
      let store = try SharedStore(at: tool.store, options(entries: entries))
      // A full store. The log contains its entries in the order of their writes.
      var zipf = Zipf(keys: keys, seed: 3)
      let first = (0..<60_000).map { _ in Int32(zipf.next()) }
      for start in stride(from: 0, to: first.count, by: 1000) {
        try store.write { transaction in
          for key in first[start..<start + 1000] {
            try transaction.setBytes([1, 2, 3], forKey: Int(key))
          }
        }
      }
      // On a machine with other work a sample of few seconds has few uses: then the next one is longer.
      var (log, deviations) = (first, ["no sample"])
      for seconds in [3, 15, 60] where !deviations.isEmpty {
        let load = Load(keys: keys, first: log) { key in
          (try? store.bytes(forKey: key)) != nil
        } write: { key in
          try? store.setBytes([1, 2, 3], forKey: key)
        }
        let answer = try tool.json("advise", "--seconds", "\(seconds)")
        log = load.end()
        deviations = try self.deviations(answer, log, keys: keys)
      }
      #expect(deviations == [])
      #expect(try !isSampled(store))
    }
  }

  @Test func `The text names the hit ratio by budget, by namespace, and the overflow pages`() throws
  {
    try withTool { tool in
      let store = try SharedStore(at: tool.store, options(entries: 300))
      let small = PersistentCache<Int, [UInt8]>(storage: store, namespace: "small")
      let large = try store.namespace("large")
      let load = Load(keys: 1000, first: []) { key in
        key % 2 == 0
          ? (try? small.value(forKey: key)) != nil : (try? large.bytes(forKey: key)) != nil
      } write: { key in
        if key % 2 == 0 {
          try? small.setValue([1], forKey: key)
        } else {
          try? large.setBytes([UInt8](repeating: 1, count: 2040), forKey: key)
        }
      }
      let text = try tool.output("advise", "--seconds", "3")
      _ = load.end()
      for part in [
        "BUDGET", "75 entries", "1/4", "300 entries", "now", "1,200 entries", "x 4",
        "Half the budget: -", "The policy sampledLRU instead of adaptive: about ",
        "A memory tier of ", "NAMESPACE, adaptive", "small", "large",
        "Namespace \"large\": about ", "overflow pages",
      ] { #expect(text.contains(part), "\(part): \(text)") }
      #expect(!text.contains("memory 0.0 %"), "\(text)")
    }
  }

  @Test func `An unused store and bad arguments exit with a message that names the remedy`() throws
  {
    try withTool { tool in
      let missing = try tool.run("advise", "--seconds", "1")
      #expect(missing.status == .exited(2) && missing.standardError.contains("There is no store"))
      let store = try SharedStore(at: tool.store, options(entries: 300))
      try store.setBytes([1], forKey: 1)
      for seconds in ["0", "3601", "x", "-1"] {
        #expect(try tool.run("advise", "--seconds=\(seconds)").status == .exited(64), "\(seconds)")
      }
      #expect(try tool.run("advise", tool.store, "--seconds", "1").status == .exited(64))
      let unused = try tool.run("advise", "--seconds", "1", "--json")
      #expect(unused.status == .exited(70))
      #expect(unused.standardError.contains("\"noReads\""))
      #expect(unused.standardError.contains("longer --seconds"), "\(unused)")
      #expect(try !isSampled(store))
    }
  }

  @Test func `After a killed advise, a tick of another process ends the sampling`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store, options(entries: 300))
      // A cache starts the thread of the store.
      let cache = PersistentCache<Int, Int>(storage: store)
      try cache.setValue(1, forKey: 1)
      let child = try ChildProcess(
        tool.path, ["advise", "--store", tool.store, "--seconds", "600"])
      try eventually("it samples") { try isSampled(store) }
      let second = try tool.run("advise", "--seconds", "1")
      #expect(second.status == .exited(70))
      #expect(second.standardError.contains("Another process samples"), "\(second)")
      child.kill(SIGKILL)
      #expect(try child.wait() == .signalled(SIGKILL))
      try eventually("the sampling has ended") { try !isSampled(store) }
      let third = try tool.run("advise", "--seconds", "1")
      #expect(third.standardError.contains("No process read"), "\(third)")
    }
  }
}
#endif
