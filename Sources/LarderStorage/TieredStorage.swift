// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// One storage in front of another. StripedLock.swift describes how both stay consistent.
@usableFromInline
struct TieredStorage<Key: Sendable, Value: Sendable>: Sendable {
  @usableFromInline let front: StorageOperations<Key, Value>
  let back: StorageOperations<Key, Value>
  let turns = StripedLock()
  @usableFromInline let bypass = StaleFrontBypass()

  /// Both have to be complete.
  @usableFromInline
  init(front: StorageOperations<Key, Value>, back: StorageOperations<Key, Value>) {
    self.front = front
    self.back = back
  }

  // MARK: Reading

  /// Reads in front, then in the back, from which the front is filled.
  @inlinable
  var readThrough: StorageOperation<Key, Value?> {
    let (layers, inFront, bypass) = (self, front.read.now, bypass)
    guard let inFront else {
      let front = front.read
      return .asynchronous { key in
        if !bypass.contains(key), let value = try await front(key) { return value }
        return try await layers.missLater(key)
      }
    }
    let kind = readKind
    let now: @Sendable (Key) throws -> Value? = { key in
      if !bypass.contains(key), let value = try inFront(key) { return value }
      return try layers.missNow(key)
    }
    switch (front.read.kind, kind) {
    case (_, .quick): return StorageOperation(now)
    case (.quick, .blocking):
      // A hit in front needs no other thread.
      return StorageOperation(now: now) { key in
        if !bypass.contains(key), let value = try inFront(key) { return value }
        return try await layers.missElsewhere(key)
      }
    case (.quick, .asynchronous):
      return .asynchronous { key in
        if !bypass.contains(key), let value = try inFront(key) { return value }
        return try await layers.missLater(key)
      }
    case (_, .blocking): return .blocking(now)
    default:
      let front = front.read
      return .asynchronous { key in
        if !bypass.contains(key), let value = try await front(key) { return value }
        return try await layers.missLater(key)
      }
    }
  }

  @usableFromInline
  var readKind: ExecutionMode {
    max(front.read.kind, back.entries.kind, front.write.kind, front.fill?.kind ?? .quick)
  }

  @usableFromInline
  func missNow(_ key: Key) throws -> Value? {
    let hash = StripedLock.hash(key)
    let stamp = turns.stamp(hash)
    let filling = mayFill(key) ? try? front.fill?.wait(key) : nil
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
    let hash = StripedLock.hash(key)
    let stamp = turns.stamp(hash)
    let filling = mayFill(key) ? try? await front.fill?(key) : nil
    guard let entry = try await back.entries(key) else { return nil }
    if let filling, mayFill(entry) {
      _ = try? await turns.fill(hash, ifStill: stamp) { try await filling.commit(entry) }
    }
    return entry.value
  }

  /// Nothing is pulled up whose time is not known, or where the front holds something outdated.
  private func mayFill(_ key: Key) -> Bool { back.reportsExpiration && !bypass.contains(key) }

  /// A value that expires is not stored in a layer without expiration.
  private func mayFill(_ entry: StorageEntry<Value>) -> Bool {
    entry.expires == nil || front.supportsExpiration
  }

  var contains: StorageOperation<Key, Bool> {
    frontFirst(front.containing, back.containing) { $0 }
  }

  /// The result is `nil` if one of the two does not report expiration times.
  var entry: StorageOperation<Key, StorageEntry<Value>?>? {
    guard front.reportsExpiration, back.reportsExpiration else { return nil }
    return frontFirst(front.entries, back.entries) { $0 != nil }
  }

  /// A read of the front, unless it is bypassed, and without a hit there a read of the back.
  func frontFirst<Output>(
    _ first: StorageOperation<Key, Output>, _ second: StorageOperation<Key, Output>,
    isHit: @escaping @Sendable (Output) -> Bool
  ) -> StorageOperation<Key, Output> {
    let bypass = bypass
    return .composed(max(first.kind, second.kind)) { key in
      if !bypass.contains(key), case let found = try first.now!(key), isHit(found) { return found }
      return try second.now!(key)
    } asynchronous: { key in
      if !bypass.contains(key), case let found = try await first(key), isHit(found) { return found }
      return try await second(key)
    }
  }

  var hasUnreportedExpiration: Bool { !front.reportsExpiration || !back.reportsExpiration }

  /// The keys of both; only the back's where keys cannot be compared.
  var keys: StorageOperation<Void, [Key]>? {
    guard let second = back.keys else { return nil }
    guard let first = front.keys else { return nil }
    let bypass = bypass
    return .composed(max(first.kind, second.kind)) { _ in
      union(try second.now!(()), try first.now!(()).filter { !bypass.contains($0) })
    } asynchronous: { _ in
      union(try await second(()), try await first(()).filter { !bypass.contains($0) })
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
