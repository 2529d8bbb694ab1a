// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

extension Worker {
  /// The wall clock of the store, in milliseconds.
  var now: Int64 { plan.usesBoardClock ? board.clock : Clocks.wallMilliseconds() }

  /// Writes the keys that are its own, in every way there is. One writer a key: so the order of
  /// issue is the order of commits.
  func write() async throws {
    let writers = plan.roles.indices.filter { plan.roles[$0] == .writer }
    let index = writers.firstIndex(of: slot)!
    func own(_ keys: Range<Int>) -> [Int] { keys.filter { $0 % writers.count == index } }
    let kept = own(LedgerKeys.kept)
    let removed = own(LedgerKeys.removed)
    let expiring = own(LedgerKeys.expiring)
    // A second cache over the same store: they have to agree.
    let second = PersistentCache<Int, StressValue>(storage: store, namespace: "kept")
    var round = 0
    await loop {
      round += 1
      switch Int.random(in: 0..<20) {
      case 0..<6: try await set(kept.randomElement()!)
      case 6..<11: try writeBehind(kept, second)
      case 11..<14: try await setBatch(kept)
      case 14: try setInTransaction(kept)
      case 15..<17: try await remove(removed)
      case 17..<19: try expire(expiring)
      default:
        let key = kept.randomElement()!
        if let value = self.kept[key], !value.isWhole(key) { violation("key \(key) is torn") }
        second.clearMemoryCache()
      }
    }
  }

  private func set(_ key: Int) async throws {
    let sequence = board.issue(key)
    let value = StressValue(key: key, sequence: sequence)
    try await cache(of: key).setValue(value, forKey: key)
    board.raise(key, .acknowledged, to: sequence)
  }

  /// Two caches take turns behind, in one batch as often as not; then all is committed.
  private func writeBehind(_ keys: [Int], _ second: PersistentCache<Int, StressValue>) throws {
    var issued: [(Int, UInt64)] = []
    for step in 0..<Int.random(in: 1...6) {
      let key = keys.randomElement()!
      let sequence = board.issue(key)
      let (mine, other) = step % 2 == 0 ? (kept, second) : (second, kept)
      mine[key] = StressValue(key: key, sequence: sequence)
      let seen = other[key]?.sequence
      if seen ?? (plan.mayVanish ? .max : 0) < sequence {
        violation("own write \(sequence) of key \(key) read as \(seen ?? 0)")
      }
      issued.append((key, sequence))
    }
    try store.sync()
    for (key, sequence) in issued { board.raise(key, .acknowledged, to: sequence) }
  }

  private func setBatch(_ keys: [Int]) async throws {
    let batch = keys.shuffled().prefix(3).map { key in
      (key: key, value: StressValue(key: key, sequence: board.issue(key)))
    }
    try await kept.setValues(batch)
    for item in batch { board.raise(item.key, .acknowledged, to: item.value.sequence) }
  }

  private func setInTransaction(_ keys: [Int]) throws {
    let key = keys.randomElement()!
    // The bytes a cache would have stored, through the store itself.
    let sequence = board.issue(key)
    let value = StressValue(key: key, sequence: sequence)
    try kept.setValue(value, forKey: key)
    board.raise(key, .acknowledged, to: sequence)
    struct Undone: Error {}
    do {
      try store.write { transaction in
        _ = try transaction.remove(forKey: key, in: "kept")
        try transaction.removeAll(in: "removed")
        throw Undone()
      }
    } catch is Undone {}
  }

  /// Sets keys and removes them, one by one or all of the namespace that are this writer's.
  private func remove(_ keys: [Int]) async throws {
    for key in keys where Bool.random() { try await set(key) }
    let key = keys.randomElement()!
    let sequence = board.issue(key)
    board.raise(key, .removalIssued, to: sequence)
    _ = try await removed.removeValue(forKey: key)
    board.raise(key, .acknowledged, to: sequence)
    if let value = removed[key], value.sequence < sequence {
      violation("key \(key) holds \(value.sequence), removal \(sequence) was acknowledged")
    }
    // Only a writer that is alone knows what a removeAll removes.
    guard plan.roles.count(where: { $0 == .writer }) == 1, Int.random(in: 0..<4) == 0 else {
      return
    }
    let sequences = LedgerKeys.removed.map { key in
      let sequence = board.issue(key)
      board.raise(key, .removalIssued, to: sequence)
      return (key, sequence)
    }
    try await removed.removeAll()
    for (key, sequence) in sequences { board.raise(key, .acknowledged, to: sequence) }
  }

  private func expire(_ keys: [Int]) throws {
    if plan.usesBoardClock { board.add(.clock, UInt64.random(in: 0...50)) }
    let key = keys.randomElement()!
    let sequence = board.issue(key)
    let deadline = now + Int64.random(in: 1...200)
    board.lowerDeadline(key, to: UInt64(deadline))
    if board.ledger(key, .deadline) == 0 { board.setDeadline(key, to: UInt64(deadline)) }
    try expiring.setValue(
      StressValue(key: key, sequence: sequence, deadline: deadline), forKey: key,
      expires: .at(millisecondsSince1970: deadline))
    board.raise(key, .acknowledged, to: sequence)
    board.setDeadline(key, to: UInt64(deadline))
    if Int.random(in: 0..<20) == 0 { try store.removeExpired() }
  }

  /// Reads as fast as it can. What was acknowledged before a read began must be seen by it.
  func read() {
    var newest = [UInt64](repeating: 0, count: StormOracle.ledgerCount)
    var random = SplitMix64(state: UInt64.random(in: 0...UInt64.max))
    var reads: UInt64 = 0
    while true {
      reads &+= 1
      if reads & 0xFFF == 0 {
        board.beat(slot)
        board.add(.reads, 0x1000)
        if board.isOver { break }
        if reads & 0xF_FFFF == 0 { kept.clearMemoryCache() }
        readSlowly()
      }
      let key = Int(random.next() % UInt64(LedgerKeys.kept.count))
      let acknowledged = board.ledger(key, .acknowledged)
      let value = kept[key]
      judge(value, key, acknowledged: acknowledged, before: 0, deadline: 0)
      guard let value else { continue }
      if value.sequence < newest[key] {
        violation("key \(key) read as \(value.sequence) after \(newest[key])")
      }
      newest[key] = max(newest[key], value.sequence)
      // This process has been told: from here on nobody may read anything older.
      if value.sequence > acknowledged {
        board.raise(key, .acknowledged, to: value.sequence)
      }
    }
  }

  /// The keys that come and go, every byte of a value, and several at once.
  private func readSlowly() {
    for key in [LedgerKeys.removed.randomElement()!, LedgerKeys.expiring.randomElement()!] {
      let acknowledged = board.ledger(key, .acknowledged)
      let deadline = board.ledger(key, .deadline)
      let before = now
      let value = cache(of: key)[key]
      judge(value, key, acknowledged: acknowledged, before: before, deadline: deadline)
    }
    let keys = [LedgerKeys.kept.randomElement()!, LedgerKeys.kept.randomElement()!]
    let acknowledged = keys.map { board.ledger($0, .acknowledged) }
    do {
      let values = try kept.values(forKeys: keys)
      for (key, acknowledged) in zip(keys, acknowledged) {
        judge(values[key], key, acknowledged: acknowledged, before: 0, deadline: 0)
        if let value = values[key], !value.isWhole(key) { violation("key \(key) is torn") }
      }
    } catch {
      Worker.judge(error, board)
    }
  }
}
