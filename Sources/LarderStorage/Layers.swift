// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// One storage in front of another. Turns.swift says how the two are kept from contradicting
/// each other.
@usableFromInline
struct Layers<Key: Sendable, Value: Sendable>: Sendable {
  @usableFromInline let front: StorageOperations<Key, Value>
  let back: StorageOperations<Key, Value>
  let turns = Turns()

  /// Both have to be complete.
  @usableFromInline
  init(front: StorageOperations<Key, Value>, back: StorageOperations<Key, Value>) {
    self.front = front
    self.back = back
  }

  // MARK: Reading

  /// Reads in front, then in the back, from which the front is filled.
  @inlinable
  var pullingRead: StorageCall<Key, Value?> {
    let (layers, inFront) = (self, front.read.now)
    guard let inFront else {
      let front = front.read
      return .later { key in
        if let value = try await front(key) { return value }
        return try await layers.missLater(key)
      }
    }
    let kind = readKind
    let now: @Sendable (Key) throws -> Value? = { key in
      if let value = try inFront(key) { return value }
      return try layers.missNow(key)
    }
    switch (front.read.kind, kind) {
    case (_, .quick): return StorageCall(now)
    case (.quick, .blocking):
      // A hit in front needs no other thread.
      return StorageCall(now: now) { key in
        if let value = try inFront(key) { return value }
        return try await layers.missElsewhere(key)
      }
    case (.quick, .asynchronous):
      return .later { key in
        if let value = try inFront(key) { return value }
        return try await layers.missLater(key)
      }
    case (_, .blocking): return .blocking(now)
    default:
      let front = front.read
      return .later { key in
        if let value = try await front(key) { return value }
        return try await layers.missLater(key)
      }
    }
  }

  @usableFromInline
  var readKind: StorageCallKind {
    max(front.read.kind, back.entries.kind, front.write.kind, front.fill?.kind ?? .quick)
  }

  @usableFromInline
  func missNow(_ key: Key) throws -> Value? {
    let hash = Turns.hash(key)
    let stamp = turns.stamp(hash)
    let filling = try? front.fill?.wait(key)
    guard let entry = try back.entries.wait(key) else { return nil }
    if let filling, mayFill(entry) {
      // A front that cannot be filled hides no value.
      _ = try? turns.fill(hash, ifStill: stamp) { try filling.commit.wait(entry) }
    }
    return entry.value
  }

  @usableFromInline
  func missElsewhere(_ key: Key) async throws -> Value? {
    try await BackgroundExecutor.shared.run { try missNow(key) }
  }

  @usableFromInline
  func missLater(_ key: Key) async throws -> Value? {
    let hash = Turns.hash(key)
    let stamp = turns.stamp(hash)
    let filling = try? await front.fill?(key)
    guard let entry = try await back.entries(key) else { return nil }
    if let filling, mayFill(entry) {
      _ = try? await turns.fill(hash, ifStill: stamp) { try await filling.commit(entry) }
    }
    return entry.value
  }

  /// What expires does not go where nothing does.
  private func mayFill(_ entry: StorageEntry<Value>) -> Bool {
    entry.expires == nil || front.keepsExpiry
  }

  var contains: StorageCall<Key, Bool> {
    let (first, second) = (front.containing, back.containing)
    return .composed(max(first.kind, second.kind)) { key in
      try first.now!(key) || second.now!(key)
    } later: { key in
      if try await first(key) { return true }
      return try await second(key)
    }
  }

  var entry: StorageCall<Key, StorageEntry<Value>?> {
    let (first, second) = (front.entries, back.entries)
    return .composed(max(first.kind, second.kind)) { key in
      try first.now!(key) ?? second.now!(key)
    } later: { key in
      if let entry = try await first(key) { return entry }
      return try await second(key)
    }
  }

  /// The keys of both; only the back's where keys cannot be compared.
  var keys: StorageCall<Void, [Key]>? {
    guard let second = back.keys else { return nil }
    guard let first = front.keys else { return nil }
    return .composed(max(first.kind, second.kind)) { _ in
      union(try second.now!(()), try first.now!(()))
    } later: { _ in
      union(try await second(()), try await first(()))
    }
  }

  // MARK: Writing

  /// Runs parts in the key's turn, one after the other, the stamp being advanced before and after.
  func inTurn<Input: Sendable>(
    _ parts: [StorageCall<Input, Void>], key: @escaping @Sendable (Input) -> Key
  ) -> StorageCall<Input, Void> {
    let turns = turns
    return .composed(parts.map(\.kind).max() ?? .quick) { input in
      let hash = Turns.hash(key(input))
      try turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        for part in parts { try part.now!(input) }
      }
    } later: { input in
      let hash = Turns.hash(key(input))
      try await turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        for part in parts { try await part(input) }
      }
    }
  }

  /// How the front takes what may expire: if it cannot, it forgets the key.
  var frontWrite: StorageCall<StorageWrite<Key, Value>, Void> {
    guard !front.keepsExpiry, let remove = front.remove else { return front.write }
    let write = front.write
    return .composed(max(write.kind, remove.kind)) { item in
      if item.expires == nil { try write.now!(item) } else { try remove.now!(item.key) }
    } later: { item in
      if item.expires == nil { try await write(item) } else { try await remove(item.key) }
    }
  }

  /// Removes everything, from the back to the front.
  func clearing(_ parts: [StorageCall<Void, Void>]) -> StorageCall<Void, Void> {
    let turns = turns
    return .composed(parts.map(\.kind).max() ?? .quick) { _ in
      turns.advanceAll()
      defer { turns.advanceAll() }
      for part in parts { try part.now!(()) }
    } later: { _ in
      turns.advanceAll()
      defer { turns.advanceAll() }
      for part in parts { try await part(()) }
    }
  }

  /// Fills both, the back first: what the back refuses, the front does not have.
  var fill: StorageCall<Key, StorageFilling<Value>>? {
    guard let first = back.fill, let second = front.fill else { return nil }
    let turns = turns
    @Sendable func filling(
      _ key: Key, _ stamp: UInt64, _ back: StorageFilling<Value>, _ front: StorageFilling<Value>
    ) -> StorageFilling<Value> {
      let hash = Turns.hash(key)
      return StorageFilling(
        commit: .composed(max(back.commit.kind, front.commit.kind)) { entry in
          try turns.fill(hash, ifStill: stamp) {
            guard try back.commit.now!(entry) else { return false }
            return try front.commit.now!(entry)
          }
        } later: { entry in
          try await turns.fill(hash, ifStill: stamp) {
            guard try await back.commit(entry) else { return false }
            return try await front.commit(entry)
          }
        })
    }
    return .composed(max(first.kind, second.kind)) { key in
      let stamp = turns.stamp(Turns.hash(key))
      return filling(key, stamp, try first.now!(key), try second.now!(key))
    } later: { key in
      let stamp = turns.stamp(Turns.hash(key))
      let back = try await first(key)
      return filling(key, stamp, back, try await second(key))
    }
  }

  /// Changes the value in the back as the back does it, then stores it in front.
  var update: StorageCall<StorageUpdate<Key, Value>, Value?> {
    let (turns, change, write, remove) = (turns, back.update!, front.write, front.remove)
    let kind = max(change.kind, write.kind, remove?.kind ?? .quick)
    return .composed(kind) { update in
      let hash = Turns.hash(update.key)
      return try turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        let value = try change.now!(update)
        if let value {
          try write.now!(StorageWrite(key: update.key, value: value))
        } else {
          try remove?.now!(update.key)
        }
        return value
      }
    } later: { update in
      let hash = Turns.hash(update.key)
      return try await turns.take(hash) {
        turns.advance(hash)
        defer { turns.advance(hash) }
        let value = try await change(update)
        if let value {
          try await write(StorageWrite(key: update.key, value: value))
        } else {
          try await remove?(update.key)
        }
        return value
      }
    }
  }
}

/// The keys of both, each once. Keys that cannot be compared: the first ones.
private func union<Key>(_ first: [Key], _ second: [Key]) -> [Key] {
  var known = Set<AnyHashable>()
  return (first + second).enumerated().filter { index, key in
    guard let key = key as? AnyHashable else { return index < first.count }
    return known.insert(key).inserted
  }.map(\.element)
}
