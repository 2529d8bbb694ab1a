// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine
public import Synchronization

// THE TIER IN MEMORY
//
// Decoded values of this process, in shards of one lock each. A value is filed with the label of
// the snapshot it was read in (inverted: its seal) and the stamp slot of its key. It is handed out
// only while nothing newer was stamped in the slot, by any process, and nothing of the key waits in
// this process's queue: three loads of words that rarely change.
//
// A value that was set and is not committed yet carries its record in the queue instead of a seal.
// Once the record is committed, the value is sealed with the commit's label at its next use.
//
// Labels are bound to the table they were compared with, not to a store's path or a generation's
// number: a shard that meets another table drops what it has. When the store moves to another
// generation, every shard drops what is of the old one, and with it the old one's mapping.
//
// Bounded by cost and count, with CLOCK: a hit sets a mark, the hand takes the first without one.

/// One decoded value.
@usableFromInline
struct TierEntry<Key: CacheKey, Value: Sendable>: Sendable {
  @usableFromInline let key: Key
  @usableFromInline let keyHash: Int
  @usableFromInline var value: Value
  /// The inverted label of the newest snapshot the value is known to be right in;
  /// `UInt64.max`, which no slot satisfies, while `record` is waiting.
  @usableFromInline var seal: UInt64
  @usableFromInline var storeHash: UInt64
  /// The label of the transaction that wrote the entry; zero when not known.
  @usableFromInline var label: UInt64
  @usableFromInline var expires: Int64
  @usableFromInline var cost: Int
  @usableFromInline var wasUsed: Bool
  /// Whether the key is a text of ASCII characters alone.
  @usableFromInline let hasPlainKey: Bool
  @usableFromInline var record: WriteRequest?

  @inlinable
  init(
    key: Key, keyHash: Int, value: Value, seal: UInt64, storeHash: UInt64, label: UInt64,
    expires: Int64, cost: Int, record: WriteRequest?
  ) {
    self.key = key
    self.keyHash = keyHash
    self.value = value
    self.seal = seal
    self.storeHash = storeHash
    self.label = label
    self.expires = expires
    self.cost = cost
    self.wasUsed = false
    self.hasPlainKey = (key as? String)?.utf8.allSatisfy { $0 < 0x80 } ?? false
    self.record = record
  }

  /// Whether the entry is that of a key, of the same hash.
  @inlinable @inline(__always)
  func isOf(_ other: Key) -> Bool {
    guard hasPlainKey else { return isSameKey(key, other) }
    // A text that equals one of ASCII characters and is another has a longer character somewhere, as
    // the Kelvin sign is to K, and no shorter one: told by the length, without looking at each byte.
    guard key == other else { return false }
    return (key as? String)?.utf8.count == (other as? String)?.utf8.count
  }
}

/// One lock's worth of values: entries side by side, found by linear probing.
@usableFromInline
struct TierShard<Key: CacheKey, Value: Sendable>: Sendable {
  @usableFromInline var entries: ContiguousArray<TierEntry<Key, Value>> = []
  /// Positions in `entries` plus one; zero: free. Its size is a power of two, at most half full.
  @usableFromInline var index: ContiguousArray<Int32> = ContiguousArray(repeating: 0, count: 16)
  /// The table the seals are compared with: of the newest generation filed from.
  @usableFromInline var view = SharedTableView()
  @usableFromInline var hits: UInt64 = 0
  /// The incarnation of that table.
  var incarnation: UInt64 = 0
  @usableFromInline var cost = 0
  @usableFromInline var hand = 0

  /// The position of a key's entry, or -1.
  @inlinable @inline(__always)
  func position(of key: Key, hash: Int) -> Int {
    let mask = index.count &- 1
    var probe = hash & mask
    while true {
      let position = Int(index[probe]) &- 1
      if position < 0 { return -1 }
      if entries[position].keyHash == hash, entries[position].isOf(key) {
        return position
      }
      probe = (probe &+ 1) & mask
    }
  }

  @inlinable
  mutating func insert(_ entry: TierEntry<Key, Value>, costLimit: Int, countLimit: Int) {
    remove(entry.key, hash: entry.keyHash)
    guard entry.cost <= costLimit, countLimit > 0 else { return }
    while cost + entry.cost > costLimit || entries.count >= countLimit { evictOne() }
    if (entries.count + 1) * 2 > index.count { grow() }
    entries.append(entry)
    cost += entry.cost
    link(entries.count - 1)
  }

  @inlinable @discardableResult
  mutating func remove(_ key: Key, hash: Int) -> Bool {
    let position = position(of: key, hash: hash)
    guard position >= 0 else { return false }
    remove(at: position)
    return true
  }

  /// Drops what was filed from an older table than the store's new one.
  mutating func leave(for table: SharedTable) {
    guard incarnation < table.incarnation else { return }
    if view.table != nil {
      removeAll()
      view = SharedTableView()
    }
    // Also of an empty shard: a read that began before the change files nothing of the old table.
    incarnation = table.incarnation
  }

  mutating func removeAll() {
    entries = []
    index = ContiguousArray(repeating: 0, count: 16)
    cost = 0
    hand = 0
  }

  @inlinable
  mutating func evictOne() {
    guard !entries.isEmpty else { return }
    while true {
      if hand >= entries.count { hand = 0 }
      if !entries[hand].wasUsed {
        remove(at: hand)
        return
      }
      entries[hand].wasUsed = false
      hand += 1
    }
  }

  @inlinable
  mutating func link(_ position: Int) {
    let mask = index.count - 1
    var probe = entries[position].keyHash & mask
    while index[probe] != 0 { probe = (probe + 1) & mask }
    index[probe] = Int32(position + 1)
  }

  /// The place in `index` that leads to an entry.
  @inlinable
  func place(of position: Int) -> Int {
    let mask = index.count - 1
    var probe = entries[position].keyHash & mask
    while Int(index[probe]) != position + 1 { probe = (probe + 1) & mask }
    return probe
  }

  @inlinable
  mutating func remove(at position: Int) {
    unlink(place(of: position))
    cost -= entries[position].cost
    let last = entries.count - 1
    if position != last {
      index[place(of: last)] = Int32(position + 1)
      entries.swapAt(position, last)
    }
    entries.removeLast()
  }

  /// Frees a place and closes the gap, so that later probes do not stop at it.
  @inlinable
  mutating func unlink(_ place: Int) {
    let mask = index.count - 1
    var gap = place
    var probe = (place + 1) & mask
    while index[probe] != 0 {
      let home = entries[Int(index[probe]) - 1].keyHash & mask
      // Whether the entry may move to the gap: its home is not between gap and probe.
      if (probe &- home) & mask >= (probe &- gap) & mask {
        index[gap] = index[probe]
        gap = probe
      }
      probe = (probe + 1) & mask
    }
    index[gap] = 0
  }

  @inlinable
  mutating func grow() {
    index = ContiguousArray(repeating: 0, count: index.count * 2)
    for position in entries.indices { link(position) }
  }
}

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
  package func hit(_ key: Key) -> Value? {
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
          shard.view.isCurrent(slot: slot, seal: shard.entries[position].seal)
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
  package func renew(_ key: Key, label: UInt64, seal: UInt64, table: SharedTable) -> Value? {
    let hash = key.hashValue
    return shard(hash).state.withLock { shard in
      let position = shard.position(of: key, hash: hash)
      guard position >= 0, shard.view.isOf(table),
        shard.entries[position].label == label, shard.entries[position].record == nil
      else { return nil }
      if seal < shard.entries[position].seal { shard.entries[position].seal = seal }
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
  package func file(
    _ value: Value, forKey key: Key, seal: UInt64, label: UInt64, expires: Int64, cost: Int,
    storeHash: UInt64, table: SharedTable?, if mayFile: () -> Bool = { true }
  ) {
    let hash = key.hashValue
    shard(hash).state.withLock { shard in
      if let table, !shard.view.isOf(table), !turn(to: table, &shard) { return }
      let position = shard.position(of: key, hash: hash)
      if position >= 0, shard.entries[position].record == nil, table != nil,
        shard.entries[position].seal < seal
      {
        return
      }
      guard mayFile() else { return }
      shard.insert(
        TierEntry(
          key: key, keyHash: hash, value: value, seal: seal, storeHash: storeHash, label: label,
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
    follow(table, &shard)
    return true
  }

  /// Leaves what was filed from another table: its slots and labels say nothing in this one.
  private func follow(_ table: SharedTable, _ shard: inout TierShard<Key, Value>) {
    if shard.view.table != nil { shard.removeAll() }
    shard.incarnation = table.incarnation
    shard.view = SharedTableView(table, pending: core?.pending)
  }

  /// Makes a shard compare its seals with a table it did not file from yet.
  func adopt(_ key: Key, table: SharedTable) {
    shard(key.hashValue).state.withLock { shard in
      guard table.incarnation >= shard.incarnation, shard.view.table !== table else { return }
      follow(table, &shard)
    }
  }

  /// Files a value that waits in the queue: this process sees it at once.
  @inlinable
  func file(
    waiting value: Value, forKey key: Key, expires: Int64, cost: Int, record: WriteRequest
  ) {
    let hash = key.hashValue
    shard(hash).state.withLock { shard in
      shard.insert(
        TierEntry(
          key: key, keyHash: hash, value: value, seal: UInt64.max, storeHash: 0, label: 0,
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
