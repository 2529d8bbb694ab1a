// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Synchronization

// The dictionary leads to a place in an array, so that the hand of the clock can go round the array
// and a hit sets its bit without hashing twice. A removed entry's place is taken by the last one.
//
// A pull-up must not overwrite a newer value: each of 64 stripes of keys has a stamp that every write
// and removal advances.

@usableFromInline
struct MemoryEntry<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline let key: Key
  @usableFromInline let value: Value
  /// Seconds since 2001.
  @usableFromInline let deadline: Double
  let cost: Int
  /// It was read since the hand was here.
  @usableFromInline var isUsed = false

  init(key: Key, value: Value, deadline: Double, cost: Int) {
    self.key = key
    self.value = value
    self.deadline = deadline
    self.cost = cost
  }
}

/// The contents of a storage in memory, and their lock.
@usableFromInline
final class MemoryState<Key: Hashable & Sendable, Value: Sendable>: Sendable {
  @usableFromInline typealias Entry = MemoryEntry<Key, Value>

  @usableFromInline
  struct Contents: Sendable {
    @usableFromInline var places: [Key: Int] = [:]
    @usableFromInline var entries: [Entry] = []
    var cost = 0
    var hand = 0
    var updates = 0
    var stamps = [UInt64](repeating: 0, count: StripedLock.count)
  }

  @usableFromInline let contents = Mutex(Contents())
  @usableFromInline let isBounded: Bool
  private let countLimit: Int
  private let costLimit: Int

  init(countLimit: Int, costLimit: Int) {
    self.countLimit = countLimit
    self.costLimit = costLimit
    isBounded = countLimit != .max || costLimit != .max
  }

  // MARK: Reading

  @inlinable
  func read(_ key: Key, isExpired: (Double) -> Bool) -> Value? {
    contents.withLock { contents in
      guard let place = contents.places[key] else { return nil }
      if isBounded, !contents.entries[place].isUsed { contents.entries[place].isUsed = true }
      let deadline = contents.entries[place].deadline
      if deadline != .infinity, isExpired(deadline) { return nil }
      return contents.entries[place].value
    }
  }

  func entry(_ key: Key) -> Entry? {
    contents.withLock { contents in contents.places[key].map { contents.entries[$0] } }
  }

  var all: [Entry] { contents.withLock { $0.entries } }

  // MARK: Writing

  func put(_ entry: Entry) { contents.withLock { put(entry, &$0) } }

  /// Stores an entry, or does not while an update is going on.
  func putUnlessUpdating(_ entry: Entry) -> Bool {
    contents.withLock { contents in
      guard contents.updates == 0 else { return false }
      put(entry, &contents)
      return true
    }
  }

  func remove(_ key: Key) { contents.withLock { remove(key, &$0) } }

  func removeUnlessUpdating(_ key: Key) -> Bool {
    contents.withLock { contents in
      guard contents.updates == 0 else { return false }
      remove(key, &contents)
      return true
    }
  }

  func removeAll() { contents.withLock { removeAll(&$0) } }

  func removeAllUnlessUpdating() -> Bool {
    contents.withLock { contents in
      guard contents.updates == 0 else { return false }
      removeAll(&contents)
      return true
    }
  }

  func beginUpdate() { contents.withLock { $0.updates += 1 } }
  func endUpdate() { contents.withLock { $0.updates -= 1 } }

  // MARK: Pull-ups

  func stamp(_ key: Key) -> UInt64 { contents.withLock { $0.stamps[Self.stripe(key)] } }

  /// Stores an entry if nothing of its stripe was written or removed since.
  func fill(_ entry: Entry, ifStill stamp: UInt64) -> Bool {
    contents.withLock { contents in
      guard contents.stamps[Self.stripe(entry.key)] == stamp else { return false }
      put(entry, &contents)
      return true
    }
  }

  private static func stripe(_ key: Key) -> Int {
    Int(UInt(bitPattern: key.hashValue) % UInt(StripedLock.count))
  }

  // MARK: Parts

  private func put(_ entry: Entry, _ contents: inout Contents) {
    contents.stamps[Self.stripe(entry.key)] &+= 1
    if entry.cost > costLimit {
      // Nothing else goes for what can never fit.
      if let place = contents.places[entry.key] { take(place, &contents) }
      return
    }
    if let place = contents.places[entry.key] {
      contents.cost &-= contents.entries[place].cost
      contents.entries[place] = entry
    } else {
      contents.places[entry.key] = contents.entries.count
      contents.entries.append(entry)
    }
    contents.cost &+= entry.cost
    if isBounded { evict(&contents, sparing: entry.key) }
  }

  private func remove(_ key: Key, _ contents: inout Contents) {
    contents.stamps[Self.stripe(key)] &+= 1
    if let place = contents.places[key] { take(place, &contents) }
  }

  private func removeAll(_ contents: inout Contents) {
    contents.places = [:]
    contents.entries = []
    contents.cost = 0
    contents.hand = 0
    for stripe in 0..<StripedLock.count { contents.stamps[stripe] &+= 1 }
  }

  private func take(_ place: Int, _ contents: inout Contents) {
    let gone = contents.entries[place]
    contents.cost &-= gone.cost
    contents.places[gone.key] = nil
    let last = contents.entries.removeLast()
    if place < contents.entries.count {
      contents.entries[place] = last
      contents.places[last.key] = place
    }
  }

  /// Moves the hand until the bounds are kept. What has just come is not what goes for it.
  private func evict(_ contents: inout Contents, sparing key: Key) {
    while contents.entries.count > countLimit || contents.cost > costLimit {
      if contents.hand >= contents.entries.count { contents.hand = 0 }
      if contents.entries.count == 1 {
        take(0, &contents)
      } else if contents.entries[contents.hand].key == key {
        contents.hand += 1
      } else if contents.entries[contents.hand].isUsed {
        contents.entries[contents.hand].isUsed = false
        contents.hand += 1
      } else {
        take(contents.hand, &contents)
        // The last one came here: its turn is later.
        contents.hand += 1
      }
    }
  }
}
