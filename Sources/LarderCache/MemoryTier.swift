// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine
public import Synchronization

// THE MEMORY TIER
//
// Decoded values of this process, in shards with one lock each. A cached value keeps the read version
// of the snapshot it was read in (inverted) and the stamp slot of its key. It is returned only while
// no process has stamped a newer commit in the slot and this process has no pending write of the key:
// three loads of words that rarely change.
//
// A value that was set and is not committed yet keeps its write request instead of a read version.
// After the commit, its next use replaces the request with the version of the commit.
//
// Versions belong to the shared-memory table they were compared with, not to the path of a store or
// the number of a generation: a shard that gets another table drops its values. After a generation
// switch every shard drops the values of the old generation, and with them its mapping.
//
// Cost and count are bounded by CLOCK: a hit sets a mark, and the hand evicts the first value without
// one. `TierShard.swift` has the entries and the hash table of a shard.

/// The decoded values of one cache, or one type of object, in this process.
@usableFromInline
package final class MemoryTier<Key: CacheKey, Value: Sendable>: Sendable {
  @usableFromInline
  final class Shard: Sendable {
    @usableFromInline let state = Mutex(TierShard<Key, Value>())
    init() {}
  }

  @usableFromInline let shards: [Shard]
  @usableFromInline let shift: Int
  /// `nil`: memory only.
  private let core: StoreCore?
  /// Whether `core` is there; a flag, because a reference would be counted at every hit.
  @usableFromInline let usesStore: Bool
  @usableFromInline let costLimit: Int
  @usableFromInline let countLimit: Int
  /// Checked before a shard's lock is acquired.
  @usableFromInline let fork: ForkMark
  /// Kept for as long as the tier lives; the store refers to it weakly.
  private let follower: GenerationFollower?

  package init(core: StoreCore?, options: CacheOptions) {
    self.core = core
    usesStore = core != nil
    let count = options.memoryCountLimit >= 4096 ? 16 : 1
    shards = (0..<count).map { _ in Shard() }
    shift = Int.bitWidth - count.trailingZeroBitCount
    costLimit = max(options.memoryCostLimit.bytes, 0) / count
    countLimit = max(options.memoryCountLimit, 0) / count
    fork = ForkMark(isUsed: core != nil)
    // Of the shards, not of the tier: a weak reference to that would make counting it slow.
    follower = core?.follow { [shards] table in
      for shard in shards { shard.state.withLock { $0.leave(for: table) } }
    }
  }

  @inlinable @inline(__always)
  func shard(_ hash: Int) -> Shard {
    // The index uses the low bits, the choice of the shard the high ones.
    shards.count == 1 ? shards[0] : shards[Int(truncatingIfNeeded: UInt(bitPattern: hash) >> shift)]
  }

  /// The value of a key, if it is in memory and the newest any process was told of.
  @inlinable @inline(__always)
  package func validValue(_ key: Key) -> Value? {
    if fork.isForkedChild { return nil }
    let hash = key.hashValue
    return shard(hash).state.withLock { shard -> Value? in
      let position = shard.position(of: key, hash: hash)
      if position < 0 { return nil }
      let storeHash = shard.entries[position].storeHash
      if usesStore {
        let slot = Int(truncatingIfNeeded: storeHash & 0xFFFF)
        // In this order: a write that is not waiting any more was stamped before it stopped, so
        // the stamps looked at afterwards tell of it. The other way round it could commit between
        // the two looks and be missed by both.
        guard
          !shard.view.mayBeShadowed(slot: slot),
          shard.view.isCurrent(slot: slot, readVersion: shard.entries[position].readVersion)
        else { return nil }
        if shard.entries[position].expires != Int64.max,
          shard.entries[position].expires <= now
        {
          return nil
        }
        shard.view.touch(hash: storeHash)
        shard.hits &+= 1
        if shard.hits & 63 == 0 { countHits() }
      } else if shard.entries[position].expires != Int64.max,
        shard.entries[position].expires <= now
      {
        return nil
      }
      if !shard.entries[position].wasUsed { shard.entries[position].wasUsed = true }
      return shard.entries[position].value
    }
  }

  /// The clock expiry goes by.
  @usableFromInline var now: Int64 { core?.now ?? systemMilliseconds() }

  @usableFromInline func countHits() { core?.countMemoryHits(64) }

  // MARK: Filing

  /// A value that is in memory under a label, sealed anew: its entry was found to be the same.
  @inlinable
  package func revalidate(
    _ key: Key, commitVersion: UInt64, readVersion: UInt64, table: SharedTable
  ) -> Value? {
    let hash = key.hashValue
    return shard(hash).state.withLock { shard in
      let position = shard.position(of: key, hash: hash)
      guard position >= 0, shard.view.matches(table),
        shard.entries[position].commitVersion == commitVersion,
        shard.entries[position].record == nil
      else { return nil }
      if readVersion < shard.entries[position].readVersion {
        shard.entries[position].readVersion = readVersion
      }
      return shard.entries[position].value
    }
  }

  func withEntry<R>(
    _ key: Key, _ body: (inout TierEntry<Key, Value>, SharedTable?) -> R
  ) -> R? {
    if fork.isForkedChild { return nil }
    let hash = key.hashValue
    return shard(hash).state.withLock { shard in
      let position = shard.position(of: key, hash: hash)
      guard position >= 0 else { return nil }
      return body(&shard.entries[position], shard.view.table)
    }
  }

  /// Files a value that was read from the store or committed, unless something newer is there.
  ///
  /// - Parameter mayFile: Asked under the shard's lock whether the value is still wanted: a write
  ///   that waits in the queue forbids it.
  @inlinable
  package func insert(
    _ value: Value, forKey key: Key, readVersion: UInt64, commitVersion: UInt64, expires: Int64,
    cost: Int,
    storeHash: UInt64, table: SharedTable?, if mayInsert: () -> Bool = { true }
  ) {
    let hash = key.hashValue
    shard(hash).state.withLock { shard in
      if let table, !shard.view.matches(table), !turn(to: table, &shard) { return }
      let position = shard.position(of: key, hash: hash)
      if position >= 0, shard.entries[position].record == nil, table != nil,
        shard.entries[position].readVersion < readVersion
      {
        return
      }
      guard mayInsert() else { return }
      shard.insert(
        TierEntry(
          key: key, keyHash: hash, value: value, readVersion: readVersion, storeHash: storeHash,
          commitVersion: commitVersion,
          expires: expires, cost: cost, record: nil),
        costLimit: costLimit, countLimit: countLimit)
    }
  }

  /// Makes a shard file from another table than before.
  ///
  /// - Returns: Whether that is not older.
  @usableFromInline
  func turn(to table: SharedTable, _ shard: inout TierShard<Key, Value>) -> Bool {
    if table.incarnation < shard.incarnation { return false }
    rebind(table, &shard)
    return true
  }

  /// Leaves what was filed from another table: its slots and labels say nothing in this one.
  private func rebind(_ table: SharedTable, _ shard: inout TierShard<Key, Value>) {
    if shard.view.table != nil { shard.removeAll() }
    shard.incarnation = table.incarnation
    shard.view = SharedTableView(table, pending: core?.pending)
  }

  /// Makes a shard compare its seals with a table it did not file from yet.
  func adopt(_ key: Key, table: SharedTable) {
    shard(key.hashValue).state.withLock { shard in
      guard table.incarnation >= shard.incarnation, shard.view.table !== table else { return }
      rebind(table, &shard)
    }
  }

  /// Files a value that waits in the queue: this process sees it at once.
  @inlinable
  func insert(
    waiting value: Value, forKey key: Key, expires: Int64, cost: Int, record: WriteRequest
  ) {
    let hash = key.hashValue
    shard(hash).state.withLock { shard in
      shard.insert(
        TierEntry(
          key: key, keyHash: hash, value: value, readVersion: UInt64.max, storeHash: 0,
          commitVersion: 0,
          expires: expires, cost: cost, record: record),
        costLimit: costLimit, countLimit: countLimit)
    }
  }

  package func remove(_ key: Key) {
    if fork.isForkedChild { return }
    let hash = key.hashValue
    shard(hash).state.withLock { shard in _ = shard.remove(key, hash: hash) }
  }

  package func removeAll() {
    if fork.isForkedChild { return }
    for shard in shards { shard.state.withLock { $0.removeAll() } }
  }

  /// The keys in memory; what a cache without a store holds.
  var keys: [Key] { shards.flatMap { $0.state.withLock { $0.entries.map(\.key) } } }
}
