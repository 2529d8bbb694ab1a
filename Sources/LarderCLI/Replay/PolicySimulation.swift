// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
/// The hits of a simulated policy.
struct SimulatedHits: Equatable {
  var hits = 0
  var hitBytes = 0
}

/// Simulations of policies that no store implements, for comparison: exact LRU and the optimum.
///
/// Like a store, both store every missed entry that is not larger than the cache.
struct PolicySimulation {
  private let trace: Trace
  private let capacity: Trace.Capacity

  init(_ trace: Trace, _ capacity: Trace.Capacity) {
    self.trace = trace
    self.capacity = capacity
  }

  private func cost(_ index: Int) -> Int { capacity.isEntries ? 1 : trace.cost(index) }

  /// Returns the hits if the least recently used entries are evicted.
  ///
  /// - Parameter onHit: A closure that is called with the index of each hit.
  /// - Complexity: O(*n*) in the number of accesses.
  func leastRecentlyUsed(onHit: (Int) -> Void = { _ in }) -> SimulatedHits {
    var result = SimulatedHits()
    var list = RecencyList(count: trace.keyCount)
    var costs = [Int](repeating: 0, count: trace.keyCount)
    var free = capacity.number
    for index in 0..<trace.count {
      let key = Int(trace.keys[index])
      let operation = trace.operation(index)
      if costs[key] > 0 {
        list.remove(key)
        if operation == .remove {
          free += costs[key]
          costs[key] = 0
          continue
        }
        list.append(key)
        guard operation == .get, index >= trace.warmUp else { continue }
        result.hits += 1
        result.hitBytes += trace.size(index)
        onHit(index)
        continue
      }
      let cost = cost(index)
      if cost > capacity.number || operation == .remove { continue }
      while free < cost, let victim = list.first {
        list.remove(victim)
        free += costs[victim]
        costs[victim] = 0
      }
      list.append(key)
      costs[key] = cost
      free -= cost
    }
    return result
  }

  /// Returns the hits if the entries with the latest next access are evicted (Belady): the most
  /// hits that are possible with a capacity in entries. With a capacity in bytes it is not optimal.
  ///
  /// - Complexity: O(*n* log *n*) in the number of accesses.
  func latestNextUse() -> SimulatedHits {
    let next = nextAccesses()
    var result = SimulatedHits()
    var heap = MaximumHeap()
    var costs = [Int](repeating: 0, count: trace.keyCount)
    var nextOfKey = [UInt32](repeating: 0, count: trace.keyCount)
    var free = capacity.number
    for index in 0..<trace.count {
      let key = Int(trace.keys[index])
      if costs[key] > 0 {
        result.hits += 1
        result.hitBytes += trace.size(index)
      } else {
        let cost = cost(index)
        if cost > capacity.number { continue }
        while free < cost, let top = heap.removeMaximum() {
          let victim = Int(UInt32(truncatingIfNeeded: top))
          // The heap keeps the former next accesses of a key.
          guard costs[victim] > 0, nextOfKey[victim] == UInt32(top >> 32) else { continue }
          free += costs[victim]
          costs[victim] = 0
        }
        costs[key] = cost
        free -= cost
      }
      nextOfKey[key] = next[index]
      heap.insert(UInt64(next[index]) << 32 | UInt64(key))
    }
    return result
  }

  /// Returns the index of the next access to the same key, for each access; the largest number if
  /// there is none.
  private func nextAccesses() -> [UInt32] {
    var next = [UInt32](repeating: .max, count: trace.count)
    var last = [UInt32](repeating: .max, count: trace.keyCount)
    for index in (0..<trace.count).reversed() {
      let key = Int(trace.keys[index])
      next[index] = last[key]
      last[key] = UInt32(index)
    }
    return next
  }
}

/// A doubly linked list of keys in the order of their last access.
private struct RecencyList {
  // The last position is the end of the list in both directions.
  private var previous: [Int32]
  private var following: [Int32]
  private let end: Int

  init(count: Int) {
    end = count
    previous = [Int32](repeating: Int32(count), count: count + 1)
    following = previous
  }

  var first: Int? {
    let key = Int(following[end])
    return key == end ? nil : key
  }

  mutating func append(_ key: Int) {
    let last = Int(previous[end])
    following[last] = Int32(key)
    previous[key] = Int32(last)
    following[key] = Int32(end)
    previous[end] = Int32(key)
  }

  mutating func remove(_ key: Int) {
    following[Int(previous[key])] = following[key]
    previous[Int(following[key])] = previous[key]
  }
}

/// A binary heap that returns the largest number first.
private struct MaximumHeap {
  private var numbers: [UInt64] = []

  mutating func insert(_ number: UInt64) {
    var place = numbers.count
    numbers.append(number)
    while place > 0, case let parent = (place - 1) / 2, numbers[parent] < number {
      numbers[place] = numbers[parent]
      place = parent
    }
    numbers[place] = number
  }

  mutating func removeMaximum() -> UInt64? {
    guard let maximum = numbers.first else { return nil }
    let number = numbers.removeLast()
    guard !numbers.isEmpty else { return maximum }
    var place = 0
    while case var child = 2 * place + 1, child < numbers.count {
      if child + 1 < numbers.count, numbers[child + 1] > numbers[child] { child += 1 }
      guard numbers[child] > number else { break }
      numbers[place] = numbers[child]
      place = child
    }
    numbers[place] = number
    return maximum
  }
}
#endif
