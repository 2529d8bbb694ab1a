// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The operations of a backend that no other process shares: counts of calls replace stamps.
///
/// Every write is counted, so that no older computation or fill replaces its value, and then notes its
/// key in `changes`, for observers.
protocol LocalBackend<Key, Value>: CacheBackend {
  associatedtype Name: Hashable & Sendable

  var changes: LocalChangeNotifier<Key> { get }

  /// Begins a computation or fill of a key.
  func begin(_ key: Key) -> CallTracker<Name>.Call
  /// Stores a value if its key was not written since `call` began.
  ///
  /// - Returns: Whether it stored the value.
  func fill(
    _ value: Value, for key: Key, _ attributes: EntryAttributes,
    since call: CallTracker<Name>.Call
  ) throws -> Bool
}

extension LocalBackend {
  /// Returns the value in memory with its expiration time.
  func cached(_ key: Key) -> LoadedValue<Value>? {
    tier.withEntry(key) { entry, _ in
      guard entry.expires == EntryHeader.never || entry.expires > tier.now else { return nil }
      entry.wasUsed = true
      if entry.lifetime != 0 {
        entry.expires = EntryHeader.deadline(of: entry.lifetime, from: tier.now)
      }
      return LoadedValue(value: entry.value, expires: entry.expires)
    } ?? nil
  }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    var result: [Key: Value] = [:]
    for key in keys { result[key] = try load(key)?.value }
    return result
  }

  func writeAsync(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) async throws -> Bool {
    try write(value, for: key, attributes)
  }

  func enqueue(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) throws -> QueuedWrite? {
    _ = try write(value, for: key, attributes)
    return nil
  }

  func setAll(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) throws {
    for (key, value) in values { _ = try write(value, for: key, attributes) }
  }

  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) async throws {
    try setAll(values, attributes)
  }

  func clearMemory() {
    tier.removeAll()
    changes.note(nil)
  }

  func compute<R: Sendable>(
    _ key: Key, _ computation: Computation<Value, R>, _ flight: Flight<R>
  ) async throws -> R {
    if let result = try result(computation, of: key) { return result }
    let call = begin(key)
    flight.beginComputing()
    let result = try await computation.body()
    // A write or removal during the computation is newer than its result.
    if let value = computation.value(result) {
      do {
        _ = try fill(value, for: key, computation.attributes, since: call)
      } catch {
        report(error)
      }
    }
    return result
  }

  func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    // The call begins before the read, so that every later write is noticed.
    let call = begin(key)
    let isThere = try cached(key) != nil || contains(key)
    return { [self] value, expires in
      try !isThere && fill(value, for: key, EntryAttributes(expires), since: call)
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
  private let calls = CallTracker<Key>()
  let changes = LocalChangeNotifier<Key>()

  init(_ context: CacheContext<Key, Value>) { self.context = context }

  var identity: ObjectIdentifier { ObjectIdentifier(self) }

  func report(_ error: any Error) {}

  func find(_ key: Key) -> KeyState<LoadedValue<Value>> {
    cached(key).map { .value($0) } ?? .unknown
  }

  func contains(_ key: Key) -> Bool { false }

  func keys(_ decode: ([UInt8]) -> Key?) -> [Key] { tier.keys }

  func begin(_ key: Key) -> CallTracker<Key>.Call { calls.begin(key) }

  func fill(
    _ value: Value, for key: Key, _ attributes: EntryAttributes, since call: CallTracker<Key>.Call
  ) throws -> Bool {
    insert(value, key, try origin(of: attributes)) { call.isUndisturbed }
  }

  func write(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> Bool {
    // Checked first: a rejected write leaves the old value, and computations of the key continue.
    let origin = try origin(of: attributes)
    calls.note(key)
    if let value { return insert(value, key, origin) { true } }
    let existed = tier.validValue(key) != nil
    tier.remove(key)
    changes.note(key)
    return existed
  }

  func removeAll() { calls.clearing { clearMemory() } }

  func removeAll(tagged tag: String) throws {
    let hash = try Tag.memoryHash(of: tag, during: "removeAll")
    calls.clearing {
      tier.removeAll(tagged: hash)
      changes.note(nil)
    }
  }

  func sync() {}

  /// Returns the origin and the expiration time of a value with these attributes.
  private func origin(of attributes: EntryAttributes) throws -> (origin: TierOrigin, expires: Int64)
  {
    if attributes.isPinned || attributes.isAbsent {
      throw StoreError.unsupported(
        "set",
        "A cache in memory only has no pinned and no negative entries. Create it with a store.")
    }
    let expires = try attributes.expiration.deadline(now: tier.now)
    var origin = TierOrigin.memory
    origin.lifetime = expires == EntryHeader.never ? 0 : attributes.expiration.slidingLifetime
    origin.tags = try Tag.memoryHashes(of: attributes.tags)
    return (origin, expires)
  }

  /// Inserts a value if `mayInsert`, called under the lock of the key's shard, returns `true`.
  private func insert(
    _ value: Value, _ key: Key, _ place: (origin: TierOrigin, expires: Int64),
    if mayInsert: () -> Bool
  ) -> Bool {
    var isInserted = false
    tier.insert(
      value, forKey: key, from: place.origin, expires: place.expires,
      cost: context.cost(of: value, bytes: MemoryLayout<Value>.size)
    ) {
      isInserted = mayInsert()
      return isInserted
    }
    if isInserted { changes.note(key) }
    return isInserted
  }
}
