// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// The snapshot or the commit that a cached value comes from.
@usableFromInline
package struct TierOrigin: Sendable {
  /// The commit version of the snapshot, inverted.
  @usableFromInline let readVersion: UInt64
  /// The commit version of the transaction that wrote the value; zero if it is not known.
  @usableFromInline let commitVersion: UInt64
  @usableFromInline let storeHash: UInt64
  @usableFromInline let table: SharedTable?
  /// The lifetime of a sliding expiration in milliseconds, or zero.
  @usableFromInline var lifetime: Int64 = 0
  /// The time in milliseconds that the computation of the value took, or zero.
  @usableFromInline var computeTime: UInt32 = 0
  /// The hashes of the value's tags.
  @usableFromInline var tags: [UInt64] = []

  /// Creates the origin of a value in a generation, whose table is `table`.
  @inlinable
  package init(readVersion: UInt64, commitVersion: UInt64, storeHash: UInt64, table: SharedTable?) {
    self.readVersion = readVersion
    self.commitVersion = commitVersion
    self.storeHash = storeHash
    self.table = table
  }

  /// Creates the origin of a value that a look-up found.
  package init(_ lookup: Lookup, commitVersion: UInt64) {
    self.init(
      readVersion: lookup.readVersion, commitVersion: commitVersion, storeHash: lookup.hash,
      table: lookup.generation.table)
  }

  /// The origin of a value in a tier without a store.
  static var memory: TierOrigin {
    TierOrigin(readVersion: 0, commitVersion: 0, storeHash: 0, table: nil)
  }
}

/// One decoded value.
@usableFromInline
struct TierEntry<Key: CacheKey, Value: Sendable>: Sendable {
  @usableFromInline let key: Key
  @usableFromInline let keyHash: Int
  @usableFromInline var value: Value
  /// The commit version, inverted, of the newest snapshot that is known to contain the value;
  /// `UInt64.max`, which no slot validates, while `record` is pending.
  @usableFromInline var readVersion: UInt64
  @usableFromInline var storeHash: UInt64
  /// The commit version of the transaction that wrote the entry; zero if it is not known.
  @usableFromInline var commitVersion: UInt64
  @usableFromInline var expires: Int64
  /// The lifetime of a sliding expiration in milliseconds, or zero.
  @usableFromInline var lifetime: Int64
  @usableFromInline var cost: Int
  /// Whether the value was used since the hand of the clock passed it, and whether it has tags: a hit
  /// compares both with one load.
  @usableFromInline var marks: UInt8
  /// Whether the key is a string of ASCII characters.
  @usableFromInline let hasPlainKey: Bool
  /// The mark of the use clock at which the value's use was last known to be recorded, or zero.
  @usableFromInline var usedAt: UInt32
  /// The time in milliseconds that the computation of the value took, or zero.
  @usableFromInline var computeTime: UInt32
  /// The hashes of the tags.
  @usableFromInline var tags: [UInt64] {
    didSet { marks = marks & ~TierMarks.tagged | (tags.isEmpty ? 0 : TierMarks.tagged) }
  }
  /// The write request of a value that was not known to be committed when it was last used.
  @usableFromInline var record: WriteRequest?

  /// Creates an entry that no version validates.
  @inlinable
  init(key: Key, keyHash: Int, value: Value, expires: Int64, cost: Int) {
    self.key = key
    self.keyHash = keyHash
    self.value = value
    self.readVersion = UInt64.max
    self.storeHash = 0
    self.commitVersion = 0
    self.expires = expires
    self.lifetime = 0
    self.cost = cost
    self.marks = 0
    self.usedAt = 0
    self.computeTime = 0
    self.tags = []
    self.hasPlainKey = (key as? String)?.utf8.allSatisfy { $0 < 0x80 } ?? false
    self.record = nil
  }

  @inlinable @inline(__always) var wasUsed: Bool {
    get { marks & TierMarks.used != 0 }
    set { marks = marks & ~TierMarks.used | (newValue ? TierMarks.used : 0) }
  }

  /// Returns whether the entry has a key of the same hash.
  @inlinable @inline(__always)
  func matches(_ other: Key) -> Bool {
    guard hasPlainKey else { return isSameKey(key, other) }
    // A string that equals one of ASCII characters but has other bytes contains longer characters, as
    // the Kelvin sign for K, and no shorter ones: comparing the lengths suffices.
    guard key == other else { return false }
    return (key as? String)?.utf8.count == (other as? String)?.utf8.count
  }
}

/// The marks of a value in a tier. Numbers, because a hit compares them in the code of a client.
@usableFromInline
enum TierMarks {
  @inlinable @inline(__always) static var used: UInt8 { 1 }
  @inlinable @inline(__always) static var tagged: UInt8 { 2 }
}

/// The values under one lock: a contiguous array of entries, and an index with linear probing.
@usableFromInline
struct TierShard<Key: CacheKey, Value: Sendable>: Sendable {
  @usableFromInline var entries: ContiguousArray<TierEntry<Key, Value>> = []
  /// Positions in `entries` plus one; zero: free. Its size is a power of two, at most half full.
  @usableFromInline var index: ContiguousArray<Int32> = ContiguousArray(repeating: 0, count: 16)
  /// The table that validates the read versions: the one of the newest generation read from.
  @usableFromInline var view = SharedTableView()
  @usableFromInline var hits: UInt64 = 0
  /// The incarnation of that table.
  var incarnation: UInt64 = 0
  @usableFromInline var cost = 0
  @usableFromInline var hand = 0

  /// Returns whether the entry at a position, which may expire, has not expired. Records a use of one
  /// with a sliding expiration.
  @inlinable @inline(__always)
  mutating func isAlive(_ position: Int, at now: Int64) -> Bool {
    if entries[position].lifetime == 0 { return entries[position].expires > now }
    return renew(position, at: now)
  }

  /// Marks the value at a position as used, unless it was removed by one of its tags.
  ///
  /// - Returns: Whether it was not removed.
  @inlinable @inline(__always)
  mutating func use(_ position: Int) -> Bool {
    let marks = entries[position].marks
    if marks == TierMarks.used { return true }
    if marks & TierMarks.tagged != 0, !areTagsCurrent(position) { return false }
    entries[position].marks = marks | TierMarks.used
    return true
  }

  @usableFromInline
  func areTagsCurrent(_ position: Int) -> Bool {
    // Without a store, a removal by tag removes the values themselves.
    view.table == nil
      || view.areCurrent(
        entries[position].tags, readVersion: entries[position].readVersion)
  }

  @usableFromInline
  mutating func renew(_ position: Int, at now: Int64) -> Bool {
    let (expires, lifetime) = (entries[position].expires, entries[position].lifetime)
    if view.table != nil {
      return view.renew(
        hash: entries[position].storeHash, lifetime: lifetime, expires: expires, at: now)
    }
    // Without a store, the entry is the only copy of the value.
    guard expires > now else { return false }
    entries[position].expires = EntryHeader.deadline(of: lifetime, from: now)
    return true
  }

  /// Returns the position of a key's entry, or -1.
  @inlinable @inline(__always)
  func position(of key: Key, hash: Int) -> Int {
    let mask = index.count &- 1
    var probe = hash & mask
    while true {
      let position = Int(index[probe]) &- 1
      if position < 0 { return -1 }
      if entries[position].keyHash == hash, entries[position].matches(key) {
        return position
      }
      probe = (probe &+ 1) & mask
    }
  }

  /// Inserts an entry as the last one, in place of one of the same key.
  ///
  /// - Returns: Whether the limits permit it.
  @inlinable @discardableResult
  mutating func insert(
    _ entry: consuming TierEntry<Key, Value>, costLimit: Int, countLimit: Int
  ) -> Bool {
    remove(entry.key, hash: entry.keyHash)
    guard entry.cost <= costLimit, countLimit > 0 else { return false }
    while cost + entry.cost > costLimit || entries.count >= countLimit { evictOne() }
    if (entries.count + 1) * 2 > index.count { grow() }
    cost += entry.cost
    entries.append(entry)
    link(entries.count - 1)
    return true
  }

  @inlinable @discardableResult
  mutating func remove(_ key: Key, hash: Int) -> Bool {
    let position = position(of: key, hash: hash)
    guard position >= 0 else { return false }
    remove(at: position)
    return true
  }

  /// Drops the values of a table that is older than the store's new one.
  mutating func leave(for table: SharedTable) {
    guard incarnation < table.incarnation else { return }
    if view.table != nil {
      removeAll()
      view = SharedTableView()
    }
    // In an empty shard as well: a read that began before the switch inserts no value of the old table.
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

  /// Returns the offset in `index` of an entry's position.
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

  /// Frees an offset of `index` and closes the gap, so that later probes do not stop at it.
  @inlinable
  mutating func unlink(_ place: Int) {
    let mask = index.count - 1
    var gap = place
    var probe = (place + 1) & mask
    while index[probe] != 0 {
      let home = entries[Int(index[probe]) - 1].keyHash & mask
      // The entry may move to the gap unless its home is between gap and probe.
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
