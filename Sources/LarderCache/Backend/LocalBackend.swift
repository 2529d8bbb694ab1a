// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The operations of a backend that no other process shares: write marks replace stamps.
///
/// Every write notes its key in `writes` before it changes the data, so that no older computation or
/// fill replaces it, and in `changes` afterwards, for observers.
protocol LocalBackend<Key, Value>: CacheBackend {
  var writes: LocalWriteTracker<Key> { get }
  var changes: LocalChangeNotifier<Key> { get }

  /// Stores a value if its key was not written since `mark`.
  ///
  /// - Returns: Whether it stored the value.
  func set(
    _ value: Value, for key: Key, _ expires: Expiration, since mark: LocalWriteTracker<Key>.Mark
  ) throws -> Bool
}

extension LocalBackend {
  var tier: MemoryTier<Key, Value> { context.tier }

  /// Returns the value in memory with its expiration time.
  func cached(_ key: Key) -> LoadedValue<Value>? {
    tier.withEntry(key) { entry, _ in
      guard entry.expires == EntryHeader.never || entry.expires > tier.now else { return nil }
      entry.wasUsed = true
      return LoadedValue(value: entry.value, expires: entry.expires)
    } ?? nil
  }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    var result: [Key: Value] = [:]
    for key in keys { result[key] = try load(key)?.value }
    return result
  }

  func setAsync(_ value: Value, for key: Key, _ expires: Expiration) async throws {
    try set(value, for: key, expires)
  }

  func enqueue(_ value: Value?, for key: Key, _ expires: Expiration) throws -> QueuedWrite? {
    if let value { try set(value, for: key, expires) } else { _ = try remove(key) }
    return nil
  }

  func setAll(_ values: some Sequence<(key: Key, value: Value)>, _ expires: Expiration) throws {
    for (key, value) in values { try set(value, for: key, expires) }
  }

  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ expires: Expiration
  ) async throws {
    try setAll(values, expires)
  }

  func removeAsync(_ key: Key) async throws -> Bool { try remove(key) }

  func clearMemory() {
    tier.removeAll()
    changes.note(nil)
  }

  func compute(
    _ key: Key, _ expires: Expiration, _ flight: Flight<Value>,
    _ body: @Sendable () async throws -> Value
  ) async throws -> Value {
    if let value = try loadForComputation(key) { return value }
    let mark = writes.begin(key)
    flight.beginComputing()
    let value = try await body()
    // A write or removal during the computation is newer than its result.
    do { _ = try set(value, for: key, expires, since: mark) } catch { report(error) }
    return value
  }

  func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    // The mark precedes the read, so that every later write is noticed.
    let mark = writes.begin(key)
    let isThere = try cached(key) != nil || contains(key)
    return { [self] value, expires in
      try !isThere && set(value, for: key, expires, since: mark)
    }
  }

  func observe(_ key: Key) throws -> ObservedValue<Value> {
    let mark = changes.mark
    let loaded = try load(key)
    return ObservedValue(value: loaded?.value) { [self] in
      let expires = loaded?.expires ?? EntryHeader.never
      await changes.change(
        of: key, after: mark,
        milliseconds: expires == EntryHeader.never ? nil : max(expires - tier.now, 0))
    }
  }
}

/// The backend of a cache without a storage: the memory tier holds the only copy of each value.
final class MemoryBackend<Key: CacheKey, Value: Codable & Sendable>: LocalBackend {
  let context: CacheContext<Key, Value>
  let flights = SingleFlightGroup()
  let writes = LocalWriteTracker<Key>()
  let changes = LocalChangeNotifier<Key>()

  init(_ context: CacheContext<Key, Value>) { self.context = context }

  var identity: ObjectIdentifier { ObjectIdentifier(self) }

  func report(_ error: any Error) {}

  func load(_ key: Key) -> LoadedValue<Value>? { cached(key) }

  func contains(_ key: Key) -> Bool { false }

  func keys(_ decode: ([UInt8]) -> Key?) -> [Key] { tier.keys }

  func set(_ value: Value, for key: Key, _ expires: Expiration) {
    writes.note(key)
    _ = insert(value, key, expires) { true }
  }

  func set(
    _ value: Value, for key: Key, _ expires: Expiration, since mark: LocalWriteTracker<Key>.Mark
  ) -> Bool {
    insert(value, key, expires) { mark.isCurrent }
  }

  func remove(_ key: Key) -> Bool {
    writes.note(key)
    let existed = tier.validValue(key) != nil
    tier.remove(key)
    changes.note(key)
    return existed
  }

  func removeAll() {
    writes.noteAll()
    clearMemory()
  }

  func sync() {}

  /// Inserts a value if `mayInsert`, called under the lock of the key's shard, returns `true`.
  private func insert(
    _ value: Value, _ key: Key, _ expires: Expiration, if mayInsert: () -> Bool
  ) -> Bool {
    var isInserted = false
    tier.insert(
      value, forKey: key, from: .memory, expires: expires.deadline(now: tier.now),
      cost: EntryHeader.size + MemoryLayout<Value>.size
    ) {
      isInserted = mayInsert()
      return isInserted
    }
    if isInserted { changes.note(key) }
    return isInserted
  }
}
