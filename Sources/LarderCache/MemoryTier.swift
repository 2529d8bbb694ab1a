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
// three loads of words that rarely change. A value with tags is also compared with the slots of its
// tags (`TagRecord.swift`).
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
  /// The engine of a tier over a store.
  private let core: StoreCore?
  /// Whether `core` exists. A flag, because each hit would retain and release a reference.
  @usableFromInline let usesStore: Bool
  /// The longest time since the values of a remote server were current.
  @usableFromInline let staleness: StalenessLimit?
  @usableFromInline let costLimit: Int
  @usableFromInline let countLimit: Int
  /// Checked before a shard's lock is acquired.
  @usableFromInline let fork: ForkMark
  /// Whether uses are recorded with the newest tick, for objects of bounded types.
  private let recordsExactUses: Bool
  /// The name of the link to the remote server of the values.
  private let remote: RemoteName?
  /// Whether the values are those of a remote server.
  var isRemote: Bool { remote != nil }
  /// The follower of generation switches. The store has a weak reference to it.
  private let follower: GenerationFollower?

  package init(
    core: StoreCore?, options: CacheOptions, recordsExactUses: Bool = false,
    remote: (name: RemoteName, limit: StalenessLimit)? = nil
  ) {
    self.core = core
    self.remote = remote?.name
    staleness = remote?.limit
    self.recordsExactUses = recordsExactUses
    usesStore = core != nil
    let count = options.memoryCountLimit >= 4096 ? 16 : 1
    shards = (0..<count).map { _ in Shard() }
    shift = Int.bitWidth - count.trailingZeroBitCount
    costLimit = max(options.memoryCostLimit.bytes, 0) / count
    countLimit = max(options.memoryCountLimit, 0) / count
    fork = ForkMark(isUsed: core != nil)
    // A weak reference to the tier would make its reference counting slow: refer to the shards.
    follower = core?.follow { [shards] table in
      for shard in shards { shard.state.withLock { $0.leave(for: table) } }
    }
  }

  @inlinable @inline(__always)
  func shard(_ hash: Int) -> Shard {
    // The index uses the low bits, the choice of the shard the high ones.
    shards.count == 1 ? shards[0] : shards[Int(truncatingIfNeeded: UInt(bitPattern: hash) >> shift)]
  }

  /// Returns the value of a key, if it is in memory and at least as new as every acknowledged commit.
  @inlinable @inline(__always)
  package func validValue(_ key: Key) -> Value? {
    if fork.isForkedChild { return nil }
    let hash = key.hashValue
    return shard(hash).state.withLock { shard -> Value? in
      let position = shard.position(of: key, hash: hash)
      if position < 0 { return nil }
      let storeHash = shard.entries[position].storeHash
      if usesStore {
        let slot = StampSlot(hash: storeHash)
        // Before the stamps: they contain every change that the link had applied by then.
        var time: Int64?
        if let staleness {
          time = now
          if !shard.view.isFresh(at: time!, within: staleness) { return nil }
        }
        // Pending writes first: a write is stamped before it stops being pending, so the stamps that
        // are read afterwards contain it. In the other order it could commit between the two checks,
        // and both would miss it.
        guard
          !shard.view.mayBeShadowed(slot: slot),
          shard.view.isCurrent(slot: slot, readVersion: shard.entries[position].readVersion)
        else { return nil }
        if staleness != nil,
          !shard.view.isLinked(commitVersion: shard.entries[position].commitVersion)
        {
          return nil
        }
        if shard.entries[position].expires != Int64.max,
          !shard.isAlive(position, at: time ?? now)
        {
          return nil
        }
        if !shard.use(position) { return nil }
        if let mark = shard.view.touch(hash: storeHash, seen: shard.entries[position].usedAt) {
          shard.entries[position].usedAt = mark
        }
        shard.hits &+= 1
        if shard.hits & 63 == 0 { countHits() }
      } else if shard.entries[position].expires != Int64.max, !shard.isAlive(position, at: now) {
        return nil
      } else if !shard.use(position) {
        return nil
      }
      return shard.entries[position].value
    }
  }

  /// The time by the clock of expiration.
  @usableFromInline var now: Int64 { core?.now ?? systemMilliseconds() }

  @usableFromInline func countHits() { core?.countMemoryHits(64) }

  // MARK: Inserting

  /// Advances the read version of a cached value whose stored version was found unchanged.
  ///
  /// - Returns: The value and its position, or `nil` if the tier does not hold the version
  ///   `commitVersion`.
  @inlinable
  package func revalidate(
    _ key: Key, commitVersion: UInt64, readVersion: UInt64, table: SharedTable
  ) -> (value: Value, spot: TierPosition)? {
    let hash = key.hashValue
    let number = number(ofShard: hash)
    return shards[number].state.withLock { shard in
      let position = shard.position(of: key, hash: hash)
      guard position >= 0, shard.view.matches(table),
        shard.entries[position].commitVersion == commitVersion,
        shard.entries[position].record == nil
      else { return nil }
      if readVersion < shard.entries[position].readVersion {
        shard.entries[position].readVersion = readVersion
      }
      return (shard.entries[position].value, TierPosition(shard: number, position: position))
    }
  }

  /// Calls `body` under the shard's lock with the entry of a key, if there is one, and the table of the
  /// shard.
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

  /// Inserts a value that was read from the store or committed, unless a newer one is there.
  ///
  /// - Parameter mayInsert: A closure that is called under the shard's lock and returns whether the
  ///   value may be inserted: a pending write of the key forbids it.
  /// - Returns: The position of the value, or `nil` if it was not inserted.
  @inlinable @discardableResult
  package func insert(
    _ value: Value, forKey key: Key, from origin: TierOrigin, expires: Int64, cost: Int,
    if mayInsert: () -> Bool = { true }
  ) -> TierPosition? {
    let hash = key.hashValue
    let number = number(ofShard: hash)
    return shards[number].state.withLock { shard -> TierPosition? in
      if let table = origin.table {
        if !shard.view.matches(table), !changeTable(to: table, &shard) { return nil }
        let position = shard.position(of: key, hash: hash)
        if position >= 0, shard.entries[position].record == nil,
          shard.entries[position].readVersion < origin.readVersion
        {
          return nil
        }
      }
      guard mayInsert() else { return nil }
      var entry = TierEntry(key: key, keyHash: hash, value: value, expires: expires, cost: cost)
      entry.readVersion = origin.readVersion
      entry.storeHash = origin.storeHash
      entry.commitVersion = origin.commitVersion
      entry.lifetime = origin.lifetime
      entry.computeTime = origin.computeTime
      if !origin.tags.isEmpty { entry.tags = origin.tags }
      guard shard.insert(entry, costLimit: costLimit, countLimit: countLimit) else { return nil }
      return TierPosition(shard: number, position: shard.entries.count - 1)
    }
  }

  /// Changes the table of a shard, unless it is older than the shard's.
  ///
  /// - Returns: Whether it changed the table.
  @usableFromInline
  func changeTable(to table: SharedTable, _ shard: inout TierShard<Key, Value>) -> Bool {
    if table.incarnation < shard.incarnation { return false }
    rebind(table, &shard)
    return true
  }

  /// Changes the table of a shard and drops its values: slots and versions of one table have no meaning
  /// in another.
  private func rebind(_ table: SharedTable, _ shard: inout TierShard<Key, Value>) {
    if shard.view.table != nil { shard.removeAll() }
    shard.incarnation = table.incarnation
    shard.view = SharedTableView(
      table, pending: core?.pending, recordsExactUses: recordsExactUses, remote: remote)
  }

  /// Changes the shard of a key to a newer table, which its values were not read from.
  func adopt(_ key: Key, table: SharedTable) {
    shard(key.hashValue).state.withLock { shard in
      guard table.incarnation >= shard.incarnation, shard.view.table !== table else { return }
      rebind(table, &shard)
    }
  }

  /// Inserts the value of a pending write: this process reads it at once.
  @inlinable
  func insert(
    waiting value: Value, forKey key: Key, expires: Int64, lifetime: Int64, cost: Int,
    record: WriteRequest
  ) {
    let hash = key.hashValue
    shard(hash).state.withLock { shard in
      var entry = TierEntry(key: key, keyHash: hash, value: value, expires: expires, cost: cost)
      entry.record = record
      entry.lifetime = lifetime
      shard.insert(entry, costLimit: costLimit, countLimit: countLimit)
    }
  }

  /// Removes the value of a key if `mayRemove`, called under the lock of the shard, returns `true`.
  package func remove(_ key: Key, if mayRemove: () -> Bool = { true }) {
    if fork.isForkedChild { return }
    let hash = key.hashValue
    shard(hash).state.withLock { shard in
      if mayRemove() { _ = shard.remove(key, hash: hash) }
    }
  }

  package func removeAll() {
    if fork.isForkedChild { return }
    for shard in shards { shard.state.withLock { $0.removeAll() } }
  }

  /// Removes the values with a tag.
  ///
  /// - Complexity: O(*n*) for *n* values in memory.
  func removeAll(tagged tag: UInt64) {
    for shard in shards {
      shard.state.withLock { shard in
        let tagged = shard.entries.filter { $0.tags.contains(tag) }
        for entry in tagged { shard.remove(entry.key, hash: entry.keyHash) }
      }
    }
  }

  /// The keys in memory.
  var keys: [Key] { shards.flatMap { $0.state.withLock { $0.entries.map(\.key) } } }
}
