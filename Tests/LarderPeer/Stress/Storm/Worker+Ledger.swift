// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderEngine
import LarderTesting

// Keys of the cache. Each has one writer at a time, so the order of issue is the order of commits.

extension Worker {
  /// Writes its own keys with every write operation of the cache.
  func write() -> [Operation] {
    let own = OracleRegion.kept.own(place)
    let removable = OracleRegion.removed.own(place)
    let expirable = OracleRegion.expiring.own(place)
    // Two caches over one store must agree.
    let second = PersistentCache<Int, StressValue>(storage: store, namespace: "kept")
    return [
      Operation(6) { try await self.set(own.randomElement()!, .kept, self.kept) },
      Operation(5) { try self.writeBehind(own, second) },
      Operation(3) { try await self.setBatch(own) },
      Operation(1) { try self.undo(own.randomElement()!) },
      Operation(2) { try await self.remove(removable) },
      Operation(2) { try self.expire(expirable.randomElement()!) },
      Operation(1) {
        let key = own.randomElement()!
        if let value = self.kept[key], !value.isWhole(key) { self.violation("key \(key) is torn") }
        second.clearMemoryCache()
      },
    ]
  }

  private func set(
    _ key: Int, _ region: OracleRegion, _ cache: PersistentCache<Int, StressValue>
  ) async throws {
    let write = board.issue(key, of: region)
    try await cache.setValue(StressValue(write), forKey: key)
    board.acknowledge(write, of: region)
  }

  /// Writes through two caches alternately, often into one batch, then waits for the commits.
  private func writeBehind(_ keys: [Int], _ second: PersistentCache<Int, StressValue>) throws {
    var issued: [StormOracle.Write] = []
    for step in 0..<Int.random(in: 1...6) {
      let write = board.issue(keys.randomElement()!, of: .kept)
      let (mine, other) = step % 2 == 0 ? (kept, second) : (second, kept)
      mine[write.key] = StressValue(write)
      let seen = other[write.key]?.sequence
      if seen ?? (plan.mayVanish ? .max : 0) < write.sequence {
        violation("own write \(write.sequence) of key \(write.key) read as \(seen ?? 0)")
      }
      issued.append(write)
    }
    try store.sync()
    board.acknowledge(issued, of: .kept)
  }

  private func setBatch(_ keys: [Int]) async throws {
    let writes = board.issue(keys.shuffled().prefix(3), of: .kept)
    try await kept.setValues(writes.map { (key: $0.key, value: StressValue($0)) })
    board.acknowledge(writes, of: .kept)
  }

  private struct Undone: Error {}

  /// Sets a key, then removes it in a transaction that is rolled back.
  private func undo(_ key: Int) throws {
    let write = board.issue(key, of: .kept)
    try kept.setValue(StressValue(write), forKey: key)
    board.acknowledge(write, of: .kept)
    do {
      try store.write { transaction in
        _ = try transaction.remove(forKey: key, in: "kept")
        try transaction.removeAll(in: "removed")
        throw Undone()
      }
    } catch is Undone {}
  }

  /// Sets keys and removes one of them, or all keys of the namespace if this writer owns them all.
  private func remove(_ keys: [Int]) async throws {
    for key in keys where Bool.random() { try await set(key, .removed, removed) }
    let write = board.issue(keys.randomElement()!, of: .removed, removing: true)
    _ = try await removed.removeValue(forKey: write.key)
    board.acknowledge(write, of: .removed)
    if let value = removed[write.key], value.sequence < write.sequence {
      violation("key \(write.key) has \(value.sequence), removal \(write.sequence) is acknowledged")
    }
    guard place.count == 1, Int.random(in: 0..<4) == 0 else { return }
    let writes = board.issue(OracleRegion.removed.keys, of: .removed, removing: true)
    try await removed.removeAll()
    board.acknowledge(writes, of: .removed)
  }

  private func expire(_ key: Int) throws {
    if plan.usesBoardClock { board.add(.clock, UInt64.random(in: 0...50)) }
    let write = board.issue(key, of: .expiring)
    let deadline = now + Int64.random(in: 1...200)
    board.lowerDeadline(key, to: UInt64(deadline))
    try expiring.setValue(
      StressValue(write, deadline: deadline), forKey: key,
      expires: .at(millisecondsSince1970: deadline))
    board.acknowledge(write, of: .expiring)
    board[.expiring, key, .deadline] = UInt64(deadline)
    if Int.random(in: 0..<20) == 0 { try store.removeExpired() }
  }

  /// Reads from memory as fast as it can.
  func read() {
    var turns = 0
    readFast(
      .kept, period: 0x1000,
      slowly: {
        turns += 1
        if turns % 256 == 0 { kept.clearMemoryCache() }
        try readSlowly()
      }, { kept[$0] })
  }

  /// Reads keys that are removed and expire, and several keys at once in every byte.
  private func readSlowly() throws {
    for (region, cache) in cacheRegions.dropFirst() {
      let key = region.keys.randomElement()!
      check(key, of: region, everyByte: false) { cache[key] }
    }
    let keys = [OracleRegion.kept.keys.randomElement()!, OracleRegion.kept.keys.randomElement()!]
    let before = keys.map { expectation(.kept, $0) }
    let values = try kept.values(forKeys: keys)
    for (key, before) in zip(keys, before) { judge(values[key], key, of: .kept, before) }
  }
}
#endif
