// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Dispatch
public import LarderCoding
public import LarderEngine

/// A typed cache that the processes of a machine share, with a tier in memory that is never stale.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp", .init(budget: .megabytes(256)))
/// let cache = PersistentCache<String, [Int]>(storage: store, namespace: "scores")
/// cache["ada"] = [3, 1, 4]
/// let scores = try await cache.value(forKey: "grace") { [2, 7] }   // once per machine
/// ```
///
/// A value read from memory is never older than the last commit that any process was told about:
/// each hit is checked against a table all processes map, which costs a few nanoseconds and no
/// system call.
///
/// Without a store it is a cache of this process, in memory; over a ``CacheStorage`` it keeps values
/// wherever one likes.
///
/// Caches of one namespace agree, in one process and in many. Keys of different types never meet
/// (`1` and `"1"` are two keys); values of another type than asked for are misses of the subscript
/// and errors of `value(forKey:)`.
public final class PersistentCache<Key: CacheKey, Value: Codable & Sendable>: Sendable {
  /// The store behind the cache; `nil`: memory only, or ``customStorage``.
  public let storage: SharedStore?
  /// The namespace of the cache's keys in the store.
  public let namespace: String

  @usableFromInline let tier: MemoryTier<Key, Value>
  let options: CacheOptions
  let backing: CacheBacking?
  let foreign: CustomStorageBacking?
  let flights: SingleFlightGroup
  let memoryWrites = LocalWriteTracker<Key>()
  let memoryWatch = LocalChangeNotifier<Key>()

  /// Creates a cache.
  ///
  /// - Parameters:
  ///   - storage: Where values are kept; `nil`: only in this process's memory. Without the
  ///     argument it is ``/LarderEngine/SharedStore/shared``.
  ///   - namespace: Caches of different namespaces never see each other's keys. At most 400 bytes;
  ///     every operation on a cache with a longer one fails with
  ///     ``/LarderEngine/StoreError/Code/invalidNamespace``.
  ///   - options: Bounds of the tier in memory, and the codec.
  public init(
    storage: SharedStore? = SharedStore.shared, namespace: String? = nil,
    options: CacheOptions = CacheOptions()
  ) {
    self.storage = storage
    self.namespace = namespace ?? ""
    self.options = options
    foreign = nil
    if let storage {
      let name = self.namespace
      let space: Result<NamespaceHandle, StoreError>
      do throws(StoreError) { space = .success(try NamespaceHandle(name: name)) } catch {
        space = .failure(error)
      }
      backing = CacheBacking(store: storage, space: space)
      tier = MemoryTier(core: storage.core, options: options)
      flights = storage.core.flights
      storage.core.watchFiles()
    } else {
      backing = nil
      tier = MemoryTier(core: nil, options: options)
      flights = SingleFlightGroup()
    }
  }

  /// Creates a cache over a storage of one's own; see ``CacheStorage`` for what holds then.
  ///
  /// Reads that miss in memory, writes and removals call the storage before they return. Values
  /// expire as in a store, by the system's clock; what has expired stays in the storage until its key
  /// is written again or removed. Keys cannot be listed, and a batch is stored one by one.
  ///
  /// - Parameters:
  ///   - storage: Where values are kept.
  ///   - namespace: Caches of different namespaces never see each other's keys.
  ///   - options: Bounds of the tier in memory, and the codec.
  ///   - onError: Called with errors that have no caller to go to, those of subscripts.
  public init(
    storage: some CacheStorage, namespace: String? = nil, options: CacheOptions = CacheOptions(),
    onError: (@Sendable (any Error) -> Void)? = nil
  ) {
    self.storage = nil
    self.namespace = namespace ?? ""
    self.options = options
    let store = CustomStorageCoordinator.of(storage)
    foreign = CustomStorageBacking(store: store, onError: onError)
    backing = nil
    tier = MemoryTier(core: nil, options: options)
    flights = store.flights
    store.add(self)
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

  /// The storage of one's own behind the cache, if it was made with one.
  public var customStorage: (any CacheStorage)? { foreign?.store.storage }

  /// The open engine and the namespace, or why there is none.
  func engine(_ operation: String) throws -> (core: StoreCore, space: NamespaceHandle)? {
    guard let backing else { return nil }
    return (try backing.store.openCore(operation), try backing.space.get())
  }

  package func report(_ error: any Error) {
    if let foreign { foreign.onError?(error) } else { storage?.core.report(error) }
  }

  // MARK: Subscripts

  /// The value of a key; `nil` is a miss.
  ///
  /// Setting returns at once: this process sees the value now, others with the commit a few
  /// milliseconds later; after a `kill -9` it is lost if it was not committed yet. Setting `nil`
  /// removes. Setting waits only while 8 MiB or 65,536 writes are queued.
  ///
  /// Errors go to the store's `onError`; `value(forKey:)` and `setValue(_:forKey:expires:)`
  /// throw them instead. A value that cannot be encoded leaves the old one in place.
  @inlinable
  public subscript(key: Key) -> Value? {
    get { tier.validValue(key) ?? loadReporting(key) }
    set { setWriteBehind(newValue, forKey: key) }
  }

  /// The value of a key with its expiration.
  ///
  /// An item read here has not expired: what has is gone, for this subscript as for the other.
  public subscript(item key: Key) -> Item<Value>? {
    get {
      do {
        guard let found = try load(key) else { return nil }
        return Item(found.value, expiration: Self.date(found.expires))
      } catch {
        report(error)
        return nil
      }
    }
    set { setWriteBehind(newValue?.value, forKey: key, expires: newValue?.expires ?? .never) }
  }

  @usableFromInline func loadReporting(_ key: Key) -> Value? {
    do {
      return try load(key)?.value
    } catch {
      report(error)
      return nil
    }
  }

  @inlinable func setWriteBehind(_ value: Value?, forKey key: Key) {
    guard let queued = queueBehind(value, forKey: key, expires: .never), let value else { return }
    tier.insert(
      waiting: value, forKey: key, expires: queued.expires, cost: queued.cost,
      record: queued.record)
  }

  // MARK: Memory

  /// Forgets what this process holds in memory. The store is not touched.
  ///
  /// In a cache without one that is everything.
  ///
  /// - Parameter completion: Called afterwards, on a thread of Dispatch's global queue. When the call
  ///   itself returns it is done as well.
  @preconcurrency
  public func clearMemoryCache(completion: (@Sendable () -> Void)? = nil) {
    tier.removeAll()
    if backing == nil { memoryWatch.note(nil) }
    if let completion { DispatchQueue.global().async(execute: completion) }
  }

  /// Waits until everything set so far by this process is committed.
  public func sync() throws {
    guard let (core, _) = try engine("sync") else {
      foreign?.store.storage.sync()
      return
    }
    try core.flush()
  }
}

/// The store's side of a cache. Outside it, so that it is one type and not one for each cache's.
struct CacheBacking: Sendable {
  let store: SharedStore
  let space: Result<NamespaceHandle, StoreError>
}
