// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// One decoded value.
@usableFromInline
struct TierEntry<Key: CacheKey, Value: Sendable>: Sendable {
  @usableFromInline let key: Key
  @usableFromInline let keyHash: Int
  @usableFromInline var value: Value
  /// The inverted label of the newest snapshot the value is known to be right in;
  /// `UInt64.max`, which no slot satisfies, while `record` is waiting.
  @usableFromInline var readVersion: UInt64
  @usableFromInline var storeHash: UInt64
  /// The label of the transaction that wrote the entry; zero when not known.
  @usableFromInline var commitVersion: UInt64
  @usableFromInline var expires: Int64
  @usableFromInline var cost: Int
  @usableFromInline var wasUsed: Bool
  /// Whether the key is a text of ASCII characters alone.
  @usableFromInline let hasPlainKey: Bool
  @usableFromInline var record: WriteRequest?

  @inlinable
  init(
    key: Key, keyHash: Int, value: Value, readVersion: UInt64, storeHash: UInt64,
    commitVersion: UInt64,
    expires: Int64, cost: Int, record: WriteRequest?
  ) {
    self.key = key
    self.keyHash = keyHash
    self.value = value
    self.readVersion = readVersion
    self.storeHash = storeHash
    self.commitVersion = commitVersion
    self.expires = expires
    self.cost = cost
    self.wasUsed = false
    self.hasPlainKey = (key as? String)?.utf8.allSatisfy { $0 < 0x80 } ?? false
    self.record = record
  }

  /// Whether the entry is that of a key, of the same hash.
  @inlinable @inline(__always)
  func matches(_ other: Key) -> Bool {
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
      if entries[position].keyHash == hash, entries[position].matches(key) {
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
