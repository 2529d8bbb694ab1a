// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Dispatch
public import LarderCoding
public import LarderEngine

/// A typed cache that the processes of a machine share, with a memory tier that is never stale.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp", .init(budget: .megabytes(256)))
/// let cache = PersistentCache<String, [Int]>(storage: store, namespace: "scores")
/// cache["ada"] = [3, 1, 4]
/// let scores = try await cache.value(forKey: "grace") { [2, 7] }   // once per machine
/// ```
///
/// A value read from memory is never older than the last acknowledged commit of any process: each hit
/// is validated against a table that all processes map, which costs a few nanoseconds and no system
/// call.
///
/// Without a store the values are in the memory of this process only. Over a ``CacheStorage`` they are
/// where that storage keeps them.
///
/// Caches of one namespace agree, in one process and in many. Keys of different types are different
/// keys (`1` and `"1"`). A stored value of another type than `Value` is a miss of the subscript and an
/// error of `value(forKey:)`.
public final class PersistentCache<Key: CacheKey, Value: Codable & Sendable>: Sendable {
  /// The namespace of the cache's keys in the store.
  public let namespace: String

  @usableFromInline let tier: MemoryTier<Key, Value>
  let options: CacheOptions
  let backend: any CacheBackend<Key, Value>

  init(_ backend: any CacheBackend<Key, Value>) {
    self.backend = backend
    let context = backend.context
    namespace = context.namespace
    tier = context.tier
    options = context.options
  }

  /// Creates a cache over a store, or in memory only.
  ///
  /// - Parameters:
  ///   - storage: The store that keeps the values, or `nil` to keep them in this process's memory
  ///     only. The default is ``/LarderEngine/SharedStore/shared``.
  ///   - namespace: The key space: caches of different namespaces have different keys. At most 400
  ///     bytes; every operation on a cache with a longer one fails with
  ///     ``/LarderEngine/StoreError/Code/invalidNamespace``.
  ///   - options: The bounds of the memory tier, and the codec.
  ///   - cost: A closure that returns what a value counts against ``CacheOptions/memoryCostLimit``, in
  ///     any unit, at least zero. The default is the size of its encoded form plus 64 bytes, or in a
  ///     cache in memory only its size without what it refers to.
  public convenience init(
    storage: SharedStore? = SharedStore.shared, namespace: String? = nil,
    options: CacheOptions = CacheOptions(), cost: (@Sendable (Value) -> Int)? = nil
  ) {
    let context = CacheContext<Key, Value>(namespace, options, core: storage?.core, cost: cost)
    if let storage {
      self.init(StoreBackend(storage, context))
    } else {
      self.init(MemoryBackend(context))
    }
  }

  /// Creates a cache over a custom storage, or in memory only; see ``CacheStorage`` for its guarantees.
  ///
  /// Reads that miss in memory, writes and removals call the storage before they return. Values expire
  /// as in a store, by the system's clock; the storage keeps an expired value until its key is written
  /// again or removed. Keys cannot be listed, and a batch is stored one key at a time.
  ///
  /// - Parameters:
  ///   - storage: The storage that keeps the values, or `nil` to keep them in this process's memory
  ///     only.
  ///   - namespace: The key space: caches of different namespaces have different keys.
  ///   - options: The bounds of the memory tier, and the codec.
  ///   - onError: A closure that receives the errors of subscripts, which have no caller to throw to.
  ///   - cost: A closure that returns what a value counts against ``CacheOptions/memoryCostLimit``.
  @_disfavoredOverload
  public convenience init(
    storage: (any CacheStorage)?, namespace: String? = nil, options: CacheOptions = CacheOptions(),
    onError: (@Sendable (any Error) -> Void)? = nil, cost: (@Sendable (Value) -> Int)? = nil
  ) {
    let context = CacheContext<Key, Value>(namespace, options, cost: cost)
    if let storage {
      self.init(CustomStorageBackend(storage, context, onError: onError))
    } else {
      self.init(MemoryBackend(context))
    }
  }

  /// The store behind the cache, or `nil` if the cache is in memory only or has a ``customStorage``.
  public var storage: SharedStore? { backend.sharedStore }

  /// The custom storage behind the cache, if it was created with one.
  public var customStorage: (any CacheStorage)? { backend.customStorage }

  package func report(_ error: any Error) { backend.report(error) }

  /// Returns the result of `body`, or reports its error and returns `nil`.
  func reporting<R>(_ body: () throws -> R?) -> R? {
    do {
      return try body()
    } catch {
      report(error)
      return nil
    }
  }

  // MARK: Subscripts

  /// The value of a key, or `nil` if it has none.
  ///
  /// Setting returns at once: this process reads the new value from then on, other processes from its
  /// commit, a few milliseconds later. A `kill -9` before the commit loses it. Setting `nil` removes the
  /// key. Setting waits only while 8 MiB or 65,536 writes are pending.
  ///
  /// The store's `onError` receives errors; `value(forKey:)` and `setValue(_:forKey:expires:tags:pinned:)` throw
  /// them instead. If a value cannot be encoded, the stored value is unchanged.
  @inlinable
  public subscript(key: Key) -> Value? {
    get { tier.validValue(key) ?? loadReporting(key) }
    set { setWriteBehind(newValue, forKey: key, expires: .never) }
  }

  /// The value of a key with its expiration time, or `nil` if it has none.
  ///
  /// As with the other subscript, an expired value is a miss. An item with a lifetime of zero or less is
  /// not stored, and the store's `onError` receives the error.
  public subscript(item key: Key) -> Item<Value>? {
    get { reporting { try item(forKey: key) } }
    set { setWriteBehind(newValue?.value, forKey: key, expires: newValue?.expires ?? .never) }
  }

  // The result is a plain value: a larger one would cost instructions on a memory hit as well.
  @usableFromInline func loadReporting(_ key: Key) -> Value? {
    reporting { try backend.load(key)?.value }
  }

  /// Sets or removes without waiting for the commit. The insertion into memory is inlinable, so that it
  /// is specialised for the caller's types.
  @inlinable func setWriteBehind(_ value: Value?, forKey key: Key, expires: Expiration) {
    guard let queued = enqueue(value, forKey: key, expires: expires), let value else { return }
    tier.insert(
      waiting: value, forKey: key, expires: queued.expires, lifetime: queued.lifetime,
      cost: queued.cost, record: queued.record)
  }

  @usableFromInline
  func enqueue(_ value: Value?, forKey key: Key, expires: Expiration) -> QueuedWrite? {
    reporting { try backend.enqueue(value, for: key, EntryAttributes(expires)) }
  }

  // MARK: Memory

  /// Drops the values that this process holds in memory. The store is unchanged.
  ///
  /// A cache without a store loses all its values.
  ///
  /// - Parameter completion: A closure that a thread of Dispatch's global queue calls afterwards. The
  ///   values are dropped when the call itself returns.
  @preconcurrency
  public func clearMemoryCache(completion: (@Sendable () -> Void)? = nil) {
    backend.clearMemory()
    if let completion { DispatchQueue.global().async(execute: completion) }
  }

  /// Waits until every value that this process has set is committed.
  ///
  /// - Throws: ``/LarderEngine/StoreError`` of a write that failed, or if the store is closed.
  public func sync() throws { try backend.sync() }
}
