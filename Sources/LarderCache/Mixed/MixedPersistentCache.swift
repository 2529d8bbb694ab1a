// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine

/// A cache of values of different types: each key declares the type of its value.
///
/// ```swift
/// let settings = MixedPersistentCache(storage: store, namespace: "settings")
/// let name = Key<String>("name"), launches = Key<Int>("launches")
/// settings[name] = "Ada"
/// settings[launches] = 1 + (settings[launches] ?? 0)
/// ```
///
/// It is a view of a ``PersistentCache`` of string keys, with the same guarantees: shared by processes,
/// never stale, with a memory tier.
///
/// A key has one value, which is stored with the name of its type. A key of the same name and another
/// type never decodes it: the subscript returns `nil` and reports an error, `value(forKey:)` throws, and
/// setting replaces the value. Renaming a type makes it another type.
public final class MixedPersistentCache: Sendable {
  package let cache: PersistentCache<String, MixedValue>
  private let codec: any ValueCodec

  /// Creates a cache over a store, or in memory only. The parameters are those of
  /// ``PersistentCache/init(storage:namespace:options:cost:)``.
  public init(
    storage: SharedStore? = SharedStore.shared, namespace: String? = nil,
    options: CacheOptions = CacheOptions()
  ) {
    codec = options.codec
    cache = PersistentCache(
      storage: storage, namespace: namespace, options: Self.envelope(options))
  }

  /// Creates a cache over a custom storage, or in memory only. The parameters are those of
  /// ``PersistentCache/init(storage:namespace:options:onError:cost:)``.
  @_disfavoredOverload
  public init(
    storage: (any CacheStorage)?, namespace: String? = nil, options: CacheOptions = CacheOptions(),
    onError: (@Sendable (any Error) -> Void)? = nil
  ) {
    codec = options.codec
    cache = PersistentCache(
      storage: storage, namespace: namespace, options: Self.envelope(options), onError: onError)
  }

  /// Returns the options of the underlying cache: `codec` encodes values, CBOR their envelope.
  private static func envelope(_ options: CacheOptions) -> CacheOptions {
    var options = options
    options.codec = .cbor
    return options
  }

  /// The store behind the cache, or `nil` if the cache is in memory only or has a ``customStorage``.
  public var storage: SharedStore? { cache.storage }
  /// The custom storage behind the cache, if it was created with one.
  public var customStorage: (any CacheStorage)? { cache.customStorage }
  /// The namespace of the cache's keys in the store.
  public var namespace: String { cache.namespace }

  // MARK: Subscripts

  /// The value of a key, or `nil` if it has none. As ``PersistentCache/subscript(_:)``.
  public subscript<Value>(key: Key<Value>) -> Value? {
    get { cache[key.rawValue].flatMap { mixed in cache.reporting { try unwrap(mixed, key) } } }
    set {
      guard let newValue else { return cache[key.rawValue] = nil }
      if let mixed = cache.reporting({ try wrap(newValue) }) { cache[key.rawValue] = mixed }
    }
  }

  /// The value of a key with its expiration time. As ``PersistentCache/subscript(item:)``.
  public subscript<Value>(item key: Key<Value>) -> Item<Value>? {
    get {
      cache[item: key.rawValue].flatMap { item in
        cache.reporting { Item(try unwrap(item.value, key), expiration: item.expiration) }
      }
    }
    set {
      guard let newValue else { return cache[key.rawValue] = nil }
      if let mixed = cache.reporting({ try wrap(newValue.value) }) {
        cache[item: key.rawValue] = newValue.replacing(mixed)
      }
    }
  }

  // MARK: Reading

  /// Returns the value of a key. As `PersistentCache.value(forKey:)`.
  ///
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError``; with the code `unreadableEntry` also if the value is of
  ///   another type.
  public func value<Value>(forKey key: Key<Value>) throws -> Value? {
    try cache.value(forKey: key.rawValue).map { try unwrap($0, key) }
  }

  /// Returns the value of a key, in an asynchronous context. Throws as the synchronous form.
  public func value<Value>(forKey key: Key<Value>) async throws -> Value? {
    try await cache.value(forKey: key.rawValue).map { try unwrap($0, key) }
  }

  /// Returns the value of a key. If there is none, one caller on the machine computes it. As
  /// ``PersistentCache/value(forKey:expires:refresh:tags:_:)``.
  ///
  /// A computed value replaces a value of another type.
  public func value<Value>(
    forKey key: Key<Value>, expires: Expiration = .never,
    _ compute: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let mixed = try await cache.value(forKey: key.rawValue, expires: expires) { [self] in
      try wrap(try await compute())
    }
    if let value = cache.reporting({ try unwrap(mixed, key) }) { return value }
    let value = try await compute()
    try await setValue(value, forKey: key, expires: expires)
    return value
  }

  /// Returns whether a key has a value, of any type.
  public func contains<Value>(_ key: Key<Value>) throws -> Bool {
    try cache.contains(key.rawValue)
  }

  // MARK: Writing

  /// Stores a value. The value is committed when the call returns.
  ///
  /// - Throws: As `PersistentCache.setValue(_:forKey:expires:tags:pinned:)`.
  public func setValue<Value>(
    _ value: Value, forKey key: Key<Value>, expires: Expiration = .never
  ) throws {
    try cache.setValue(wrap(value), forKey: key.rawValue, expires: expires)
  }

  /// Stores a value, without blocking a thread of Swift's pool. The value is committed when the call
  /// returns. Throws as the synchronous form.
  public func setValue<Value>(
    _ value: Value, forKey key: Key<Value>, expires: Expiration = .never
  ) async throws {
    try await cache.setValue(wrap(value), forKey: key.rawValue, expires: expires)
  }

  /// Removes a key for all processes, of any type.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue<Value>(forKey key: Key<Value>) throws -> Bool {
    try cache.removeValue(forKey: key.rawValue)
  }

  /// Removes a key for all processes, of any type, without blocking a thread of Swift's pool.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue<Value>(forKey key: Key<Value>) async throws -> Bool {
    try await cache.removeValue(forKey: key.rawValue)
  }

  /// Removes every value of the cache's namespace for all processes. As `PersistentCache.removeAll()`.
  public func removeAll() throws { try cache.removeAll() }

  /// Removes every value of the cache's namespace for all processes, without blocking a thread of
  /// Swift's pool.
  public func removeAll() async throws { try await cache.removeAll() }

  /// Drops the values that this process holds in memory. The store is unchanged.
  public func clearMemoryCache(completion: (@Sendable () -> Void)? = nil) {
    cache.clearMemoryCache(completion: completion)
  }

  /// Waits until every value that this process has set is committed.
  public func sync() throws { try cache.sync() }

  // MARK: Parts

  func unwrap<Value>(_ mixed: MixedValue, _ key: Key<Value>) throws -> Value {
    try mixed.value(as: Value.self, forKey: key, codec: codec, in: namespace)
  }

  private func wrap<Value: Codable & Sendable>(_ value: Value) throws -> MixedValue {
    try MixedValue(value, codec: codec)
  }
}
