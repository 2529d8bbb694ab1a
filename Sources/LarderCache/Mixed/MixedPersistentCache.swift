// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine

/// One cache for values of different types, each under a key that says its type.
///
/// ```swift
/// let settings = MixedPersistentCache(storage: store, namespace: "settings")
/// let name = Key<String>("name"), launches = Key<Int>("launches")
/// settings[name] = "Ada"
/// settings[launches] = 1 + (settings[launches] ?? 0)
/// ```
///
/// It is a ``PersistentCache`` of text keys in all else: shared by processes, never stale, with the
/// same tier in memory.
///
/// A key has one value. What is stored with it is the name of the value's type, so a key of the same
/// name and another type never gets it decoded as something else: the subscript misses and reports,
/// `value(forKey:)` throws, and setting replaces. A type that is renamed is another type.
public final class MixedPersistentCache: Sendable {
  package let cache: PersistentCache<String, MixedValue>
  private let codec: any ValueCodec

  /// Creates a cache; see ``PersistentCache/init(storage:namespace:options:)``.
  public init(
    storage: SharedStore? = SharedStore.shared, namespace: String? = nil,
    options: CacheOptions = CacheOptions()
  ) {
    codec = options.codec
    cache = PersistentCache(
      storage: storage, namespace: namespace, options: Self.envelope(options))
  }

  /// Creates a cache over a storage of one's own; see ``CacheStorage``.
  public init(
    storage: some CacheStorage, namespace: String? = nil, options: CacheOptions = CacheOptions(),
    onError: (@Sendable (any Error) -> Void)? = nil
  ) {
    codec = options.codec
    cache = PersistentCache(
      storage: storage, namespace: namespace, options: Self.envelope(options), onError: onError)
  }

  /// Creates a cache over a storage of a program's own, or in memory only if there is none.
  ///
  /// - Parameters:
  ///   - storage: Where values are kept; `nil`: only in this process's memory.
  ///   - namespace: Caches of different namespaces never see each other's keys.
  ///   - options: Bounds of the tier in memory, and the codec.
  ///   - onError: Called with errors that have no caller to go to, those of subscripts.
  @_disfavoredOverload
  public convenience init(
    storage: (any CacheStorage)?, namespace: String? = nil, options: CacheOptions = CacheOptions(),
    onError: (@Sendable (any Error) -> Void)? = nil
  ) {
    if let storage {
      self.init(storage: storage, namespace: namespace, options: options, onError: onError)
    } else {
      self.init(storage: nil as SharedStore?, namespace: namespace, options: options)
    }
  }

  private static func envelope(_ options: CacheOptions) -> CacheOptions {
    var options = options
    options.codec = .cbor
    return options
  }

  /// The store behind the cache; `nil`: memory only, or ``customStorage``.
  public var storage: SharedStore? { cache.storage }
  /// The storage of one's own behind the cache, if it was made with one.
  public var customStorage: (any CacheStorage)? { cache.customStorage }
  /// The namespace of the cache's keys in the store.
  public var namespace: String { cache.namespace }

  // MARK: Subscripts

  /// The value of a key; `nil` is a miss. As ``PersistentCache/subscript(_:)``.
  public subscript<Value>(key: Key<Value>) -> Value? {
    get { cache[key.rawValue].flatMap { reporting($0, key) } }
    set {
      guard let newValue else { return cache[key.rawValue] = nil }
      if let mixed = reporting(newValue) { cache[key.rawValue] = mixed }
    }
  }

  /// The value of a key with its expiration. As ``PersistentCache/subscript(item:)``.
  public subscript<Value>(item key: Key<Value>) -> Item<Value>? {
    get {
      cache[item: key.rawValue].flatMap { item in
        reporting(item.value, key).map { Item($0, expiration: item.expiration) }
      }
    }
    set {
      guard let newValue else { return cache[key.rawValue] = nil }
      if let mixed = reporting(newValue.value) {
        cache[item: key.rawValue] = Item(mixed, expiration: newValue.expiration)
      }
    }
  }

  // MARK: Reading

  /// The value of a key, or `nil` when there is none.
  ///
  /// - Throws: As `value(forKey:)`; with the code `unreadableEntry` also when the
  ///   value is of another type.
  public func value<Value>(forKey key: Key<Value>) throws -> Value? {
    try cache.value(forKey: key.rawValue).map { try unwrap($0, key) }
  }

  /// The value of a key, or `nil` when there is none; for asynchronous callers.
  public func value<Value>(forKey key: Key<Value>) async throws -> Value? {
    try await cache.value(forKey: key.rawValue).map { try unwrap($0, key) }
  }

  /// The value of a key, computed by one caller of the whole machine if there is none. As
  /// ``PersistentCache/value(forKey:expires:_:)``.
  ///
  /// A value of another type is computed anew and replaced.
  public func value<Value>(
    forKey key: Key<Value>, expires: Expiration = .never,
    _ compute: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let codec = codec
    let mixed = try await cache.value(forKey: key.rawValue, expires: expires) {
      try MixedValue(try await compute(), codec: codec)
    }
    do {
      return try unwrap(mixed, key)
    } catch {
      cache.report(error)
    }
    let value = try await compute()
    try await setValue(value, forKey: key, expires: expires)
    return value
  }

  /// Whether a key has a value, of whichever type.
  public func contains<Value>(_ key: Key<Value>) throws -> Bool {
    try cache.contains(key.rawValue)
  }

  // MARK: Writing

  /// Stores a value; it is committed when the call returns.
  public func setValue<Value>(
    _ value: Value, forKey key: Key<Value>, expires: Expiration = .never
  ) throws {
    try cache.setValue(
      MixedValue(value, codec: codec), forKey: key.rawValue, expires: expires)
  }

  /// Stores a value; it is committed when the call returns. The store's own thread does the work.
  public func setValue<Value>(
    _ value: Value, forKey key: Key<Value>, expires: Expiration = .never
  ) async throws {
    try await cache.setValue(
      MixedValue(value, codec: codec), forKey: key.rawValue, expires: expires)
  }

  /// Removes a key for everybody, of whichever type its value is.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue<Value>(forKey key: Key<Value>) throws -> Bool {
    try cache.removeValue(forKey: key.rawValue)
  }

  /// Removes a key for everybody, of whichever type its value is.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue<Value>(forKey key: Key<Value>) async throws -> Bool {
    try await cache.removeValue(forKey: key.rawValue)
  }

  /// Removes every value of the cache's namespace, for every process: gone at once.
  public func removeAll() throws { try cache.removeAll() }

  /// Removes every value of the cache's namespace, for every process, without blocking a thread of
  /// Swift's pool.
  public func removeAll() async throws { try await cache.removeAll() }

  /// Forgets what this process holds in memory. The store is not touched.
  public func clearMemoryCache(completion: (@Sendable () -> Void)? = nil) {
    cache.clearMemoryCache(completion: completion)
  }

  /// Waits until everything set so far by this process is committed.
  public func sync() throws { try cache.sync() }

  // MARK: Parts

  func unwrap<Value>(_ mixed: MixedValue, _ key: Key<Value>) throws -> Value {
    try mixed.value(as: Value.self, forKey: key, codec: codec, in: namespace)
  }

  private func reporting<Value>(_ mixed: MixedValue, _ key: Key<Value>) -> Value? {
    do { return try unwrap(mixed, key) } catch {
      cache.report(error)
      return nil
    }
  }

  private func reporting<Value: Codable & Sendable>(_ value: Value) -> MixedValue? {
    do { return try MixedValue(value, codec: codec) } catch {
      cache.report(error)
      return nil
    }
  }
}
