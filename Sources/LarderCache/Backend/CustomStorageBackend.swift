// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The backend of a cache over a ``CacheStorage``: reads and writes go through to the storage, by
/// the protocol of ``CustomStorageCoordinator``.
final class CustomStorageBackend<Key: CacheKey, Value: Codable & Sendable>: LocalBackend,
  CustomStorageClient
{
  let context: CacheContext<Key, Value>
  let changes = LocalChangeNotifier<Key>()
  private let coordinator: CustomStorageCoordinator
  private let onError: (@Sendable (any Error) -> Void)?

  init(
    _ storage: any CacheStorage, _ context: CacheContext<Key, Value>,
    onError: (@Sendable (any Error) -> Void)?
  ) {
    self.context = context
    self.onError = onError
    coordinator = CustomStorageCoordinator.of(storage)
    coordinator.add(self)
  }

  var flights: SingleFlightGroup { coordinator.flights }
  var identity: ObjectIdentifier { ObjectIdentifier(coordinator) }
  var customStorage: (any CacheStorage)? { storage }
  var namespace: String { context.namespace }
  private var storage: any CacheStorage { coordinator.storage }

  func report(_ error: any Error) { onError?(error) }

  func sync() { storage.sync() }

  func keys(_ decode: ([UInt8]) -> Key?) throws -> [Key] {
    throw StoreError.unsupported("keys", "Keep a list of the keys in the program.")
  }

  // MARK: Reading

  func find(_ key: Key, _ way: KeyRead) throws -> KeyState<LoadedValue<Value>> {
    let found = try read(key) ?? (way.includesKept ? tier.loaded(key) : nil)
    return found.map { .value($0) } ?? .unknown
  }

  private func read(_ key: Key) throws -> LoadedValue<Value>? {
    if let cached = cached(key) { return cached }
    let text = text(of: key)
    let call = coordinator.calls.begin(text)
    let (value, entry): (Value, CustomStorageEntry)
    if let data = storage[text] {
      guard let stored = CustomStorageEntry(data, forKey: text) else {
        throw context.unreadable("the custom storage returns other bytes than were set", key)
      }
      guard stored.expires > tier.now else { return nil }
      entry = stored
      value = try context.decode(entry.payload, codec: entry.codec, of: key)
    } else {
      guard let old = try oldItem(key), old.entry.expires > tier.now else { return nil }
      (value, entry) = old
    }
    insert(value, key, entry) { call.isUndisturbed }
    return LoadedValue(value: value, expires: entry.expires)
  }

  func contains(_ key: Key) throws -> Bool {
    let text = text(of: key)
    let expires: Int64? =
      if let data = storage[text] {
        CustomStorageEntry(data, forKey: text)?.expires
      } else {
        try oldItem(key)?.entry.expires
      }
    return expires.map { $0 > tier.now } ?? false
  }

  private func insert(
    _ value: Value, _ key: Key, _ entry: CustomStorageEntry, computeTime: UInt32 = 0,
    if mayInsert: () -> Bool
  ) {
    var origin = TierOrigin.memory
    origin.computeTime = computeTime
    tier.insert(
      value, forKey: key, from: origin, expires: entry.expires,
      cost: context.cost(of: value, bytes: entry.payload.count), if: mayInsert)
  }

  private func text(of key: Key) -> String {
    CustomStorageKey.text(EncodedKey(key), in: namespace)
  }

  /// Returns the text under which PersistentCacheKit stored a key, if its entries are to be read.
  private func oldText(of key: Key) -> String? {
    context.options.readsPersistentCacheKitEntries ? namespace + String(describing: key) : nil
  }

  /// Returns the value that PersistentCacheKit stored under a key.
  private func oldItem(_ key: Key) throws -> (value: Value, entry: CustomStorageEntry)? {
    guard let text = oldText(of: key), let data = storage[text] else { return nil }
    let item = try PropertyListCodec().decode(itemOf: Value.self, from: Array(data))
    let expires = try (item.expiration.map(Expiration.at) ?? .never).deadline(now: tier.now)
    return (item.value, CustomStorageEntry(codec: 0, expires: expires, payload: Array(data)))
  }

  // MARK: Writing

  func begin(_ key: Key) -> CallTracker<String>.Call { coordinator.calls.begin(text(of: key)) }

  func fill(
    _ value: Value, for key: Key, _ attributes: EntryAttributes,
    since call: CallTracker<String>.Call
  ) throws -> Bool {
    try write(value, for: key, attributes, since: call)
  }

  func renew(
    _ old: LoadedValue<Value>, of key: Key, _ attributes: EntryAttributes?,
    since call: CallTracker<String>.Call
  ) throws {
    _ = try write(
      attributes == nil ? nil : old.value, for: key, attributes ?? EntryAttributes(), since: call)
  }

  func write(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> Bool {
    try write(value, for: key, attributes, since: nil)
  }

  /// Writes a key; with a `call`, only if the key was not written since that began.
  private func write(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes,
    since earlier: CallTracker<String>.Call?
  ) throws -> Bool {
    if let earlier, !earlier.isUndisturbed { return false }
    let expires = attributes.expiration
    if !attributes.tags.isEmpty || attributes.isPinned || attributes.isAbsent {
      throw StoreError.unsupported(
        "set", "It has no tags, no pinned and no negative entries. Create the cache with a store.")
    }
    if expires.slidingLifetime != 0 {
      throw StoreError.unsupported(
        "set", "A read of it does not record a use. Pass a lifetime after the write.")
    }
    let new = try value.map { value in
      let (codec, payload) = try StandardCoding.encode(value, codec: context.options.codec)
      return CustomStorageEntry(
        codec: codec.rawValue, expires: try expires.deadline(now: tier.now), payload: payload)
    }
    let isChange = try new != nil || contains(key)
    let text = text(of: key)
    let oldText = oldText(of: key)
    return coordinator.calls.writing(text) { call in
      // The encoding of the value, and the storage, may have run for long.
      if let earlier, !call.isFirstWrite(since: earlier) { return false }
      // The old entry is removed last if there is a new one, and first if there is none: a reader
      // finds the previous value or the new state.
      if new == nil, let oldText { storage[oldText] = nil }
      storage[text] = new?.data(forKey: text)
      if new != nil, let oldText { storage[oldText] = nil }
      coordinator.forget(key, exceptIn: self)
      var isInserted = false
      if let new, let value {
        insert(value, key, new, computeTime: attributes.computeTime) {
          isInserted = call.isUndisturbed
          return isInserted
        }
      }
      if !isInserted { tier.remove(key) }
      changes.note(key)
      return isChange
    }
  }

  func versionedValue(_ key: Key) throws -> VersionedValue<Value> { throw unsupportedChange }

  func write(_ write: ConditionalWrite<Value>, _ key: Key) throws -> Bool {
    throw unsupportedChange
  }

  func change(_ change: KeyChange<Value>, _ key: Key) throws -> KeyChange<Value>.Outcome {
    throw unsupportedChange
  }

  private var unsupportedChange: StoreError {
    .unsupported(
      "change", "It has no versions and no transactions. Create the cache with a store.")
  }

  func removeAll(tagged tag: String) throws {
    throw StoreError.unsupported("removeAll", "It has no tags. Create the cache with a store.")
  }

  func removeAll() throws {
    if context.options.readsPersistentCacheKitEntries {
      throw StoreError.unsupported(
        "removeAll",
        "Entries of PersistentCacheKit have no prefix of their namespace. Remove keys, or turn "
          + "readsPersistentCacheKitEntries off.")
    }
    try coordinator.calls.clearing {
      defer {
        coordinator.forget(nil, exceptIn: self)
        clearMemory()
      }
      try storage.removeAll(withPrefix: CustomStorageKey.prefix(namespace))
    }
  }

  func forget(_ key: (any CacheKey)?) {
    // Keys of different types can have one text: 7 as Int and as UInt8.
    guard let key = key as? Key else { return clearMemory() }
    tier.remove(key)
    changes.note(key)
  }
}
