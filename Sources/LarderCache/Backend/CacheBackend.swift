// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine

/// The data behind a ``PersistentCache``: a store, a custom storage, or this process's memory alone.
///
/// The cache serves memory hits itself, from the tier of ``context``. A backend does everything else,
/// and keeps the tier coherent with its data. The types are ``StoreBackend``, ``MemoryBackend`` and
/// ``CustomStorageBackend``; the cache does not distinguish them.
protocol CacheBackend<Key, Value>: AnyObject, Sendable {
  associatedtype Key: CacheKey
  associatedtype Value: Codable & Sendable

  var context: CacheContext<Key, Value> { get }
  /// The computations that callers share.
  var flights: SingleFlightGroup { get }
  /// The identity of the data: equal for caches that must order their writes among each other.
  var identity: ObjectIdentifier { get }
  /// The custom storage behind the cache, if there is one.
  var customStorage: (any CacheStorage)? { get }
  /// The backend as one that has transactions among processes, if it is one.
  var transactional: StoreBackend<Key, Value>? { get }
  /// The store behind the cache, if there is one.
  var sharedStore: SharedStore? { get }
  /// The monitors of the store, if there is one that has monitors.
  var monitors: StoreMonitors? { get }
  /// Returns a key as monitors get it.
  func monitored(_ key: Key) -> MonitoredKey

  /// Reports an error that has no caller.
  func report(_ error: any Error)
  /// Reads what is known of a key that is not a valid memory hit, and inserts a value into the tier.
  ///
  /// - Parameter includesKept: Whether an expired value that is kept for a refresh is found as well.
  func find(_ key: Key, _ read: KeyRead) throws -> KeyState<LoadedValue<Value>>
  /// Reads what is known of a key that is not a valid memory hit, in the remote server as well.
  func state(_ key: Key) throws -> KeyState<LoadedValue<Value>>
  func stateAsync(_ key: Key) async throws -> KeyState<LoadedValue<Value>>
  /// Whether an error means that the remote server of the values could not be asked.
  func isServerLoss(_ error: any Error) -> Bool
  /// Reads the newest value that is acknowledged anywhere.
  func newest(_ key: Key) async throws -> Value?
  func values(for keys: some Sequence<Key>) throws -> [Key: Value]
  func valuesAsync(for keys: some Sequence<Key>) async throws -> [Key: Value]
  /// Returns whether a key that is not a valid memory hit has a value.
  func contains(_ key: Key) throws -> Bool
  func containsAsync(_ key: Key) async throws -> Bool
  /// Returns all keys.
  ///
  /// - Parameter decode: Decodes the bytes of a key whose tag is the one of `Key`.
  func keys(_ decode: ([UInt8]) -> Key?) throws -> [Key]

  /// Sets a value, or removes it if it is `nil`. With the attribute of a negative entry, `nil` also
  /// records that the key has no value.
  ///
  /// - Returns: Whether the write changed the data: `false` for a removal without a value.
  func write(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> Bool
  func writeAsync(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) async throws -> Bool
  /// Writes without waiting for the commit.
  ///
  /// - Returns: The pending write that the caller inserts into the tier together with `value`, if
  ///   there is one. The caller does so because only its code is specialised for the types.
  func enqueue(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> QueuedWrite?
  func setAll(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) throws
  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) async throws
  /// Reads a key with the version of its value.
  func versionedValue(_ key: Key) throws -> VersionedValue<Value>
  func versionedValueAsync(_ key: Key) async throws -> VersionedValue<Value>
  /// Writes a key if it has a version.
  ///
  /// - Returns: Whether it had.
  func write(_ write: ConditionalWrite<Value>, _ key: Key) throws -> Bool
  func writeAsync(_ write: ConditionalWrite<Value>, _ key: Key) async throws -> Bool
  /// Changes a key by its value.
  func change(_ change: KeyChange<Value>, _ key: Key) throws -> KeyChange<Value>.Outcome
  func changeAsync(_ change: KeyChange<Value>, _ key: Key) async throws -> KeyChange<Value>.Outcome
  /// Adds a number to the value of a key; `nil` if the values are in no store.
  func increment(_ increment: CounterIncrement, _ key: Key) throws -> CounterIncrement.Outcome?
  func incrementAsync(
    _ increment: CounterIncrement, _ key: Key
  ) async throws -> CounterIncrement.Outcome?
  /// Removes keys, and returns the number of those that had a value.
  func remove(_ keys: some Sequence<Key>) throws -> Int
  func removeAsync(_ keys: some Sequence<Key>) async throws -> Int
  func removeAll() throws
  func removeAllAsync() async throws
  func removeAll(tagged tag: String) throws
  func removeAllAsync(tagged tag: String) async throws
  /// Drops the values in memory.
  func clearMemory()
  /// Waits until this process's writes are stored.
  func sync() throws

  /// Computes a result as the leader of a flight, stores it, and returns it.
  func compute(
    _ key: Key, _ computation: Computation<Value>, _ flight: Flight<Value?>
  ) async throws -> Value?
  /// Reads a key, and returns a closure that stores a value if the key had none and was not written
  /// since. The closure returns whether it stored the value.
  func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool
  /// Reads a key for an observer.
  func observe(_ key: Key) throws -> ObservedValue<Value>
}

extension CacheBackend {
  var tier: MemoryTier<Key, Value> { context.tier }
  var customStorage: (any CacheStorage)? { nil }
  var transactional: StoreBackend<Key, Value>? { nil }
  var sharedStore: SharedStore? { transactional?.store }
  var monitors: StoreMonitors? { nil }
  func isServerLoss(_ error: any Error) -> Bool { false }

  func state(_ key: Key) throws -> KeyState<LoadedValue<Value>> { try find(key, KeyRead()) }

  func stateAsync(_ key: Key) async throws -> KeyState<LoadedValue<Value>> {
    try find(key, KeyRead())
  }

  // Reads wait for a remote server only.

  func valuesAsync(for keys: some Sequence<Key>) async throws -> [Key: Value] {
    try values(for: keys)
  }

  func containsAsync(_ key: Key) async throws -> Bool { try contains(key) }

  func versionedValueAsync(_ key: Key) async throws -> VersionedValue<Value> {
    try await BlockingWork.run { try self.versionedValue(key) }
  }

  func removeAllAsync() async throws {
    try await BlockingWork.run { try self.removeAll() }
  }

  func removeAllAsync(tagged tag: String) async throws {
    try await BlockingWork.run { try self.removeAll(tagged: tag) }
  }

  func newest(_ key: Key) async throws -> Value? {
    try tier.validValue(key) ?? find(key).value?.value
  }

  func monitored(_ key: Key) -> MonitoredKey {
    MonitoredKey(namespace: context.namespace, hash: nil, text: { String(describing: key) })
  }

  func find(_ key: Key) throws -> KeyState<LoadedValue<Value>> {
    try find(key, KeyRead())
  }

  /// Reads a value that is not a valid memory hit, and inserts it into the tier.
  func load(_ key: Key) throws -> LoadedValue<Value>? { try state(key).value }

  /// Reads a key before it is computed: the computed value replaces an unreadable entry.
  func readable(_ key: Key, _ read: KeyRead) throws -> KeyState<LoadedValue<Value>> {
    do {
      return try find(key, read)
    } catch let error as StoreError where error.code == .unreadableEntry {
      report(error)
      return .unknown
    }
  }

  /// Returns the result that is stored for a key, unless it is the one that is to be replaced.
  func result(_ computation: Computation<Value>, of key: Key) throws -> Value?? {
    let state = try readable(key, KeyRead(isRepeated: true))
    if let loaded = state.value, let old = computation.replacing,
      loaded.version == old.version, loaded.expires == old.expires
    {
      return nil
    }
    return computation.stored(state.map(\.value))
  }

  /// Returns the expired value of a key, if the computation is interested in it.
  func oldValue(_ computation: Computation<Value>, of key: Key) throws -> LoadedValue<Value>? {
    guard computation.usesOldValue else { return nil }
    return try readable(key, KeyRead(includesKept: true, isRepeated: true)).value
  }
}

/// The way in which a key is read.
struct KeyRead {
  /// Whether an expired value that is kept for a refresh is found as well.
  var includesKept = false
  /// Whether the read repeats one that was counted, as those of a call that waits for a computation do.
  var isRepeated = false
}

/// The parts that a cache and its backend share.
struct CacheContext<Key: CacheKey, Value: Codable & Sendable>: Sendable {
  let namespace: String
  let options: CacheOptions
  let tier: MemoryTier<Key, Value>

  /// The cost of a value in memory, if the caller has stated it.
  private let statedCost: (@Sendable (Value) -> Int)?

  init(
    _ namespace: String?, _ options: CacheOptions, core: StoreCore? = nil,
    cost: (@Sendable (Value) -> Int)? = nil,
    remote: (name: RemoteName, limit: StalenessLimit)? = nil
  ) {
    self.namespace = namespace ?? ""
    self.options = options
    statedCost = cost
    tier = MemoryTier(core: core, options: options, remote: remote)
  }

  /// Returns the cost of a value in memory: the stated one, or by default one for its bytes.
  func cost(of value: Value, bytes: Int) -> Int {
    guard let statedCost else { return bytes + EntryHeader.size }
    return max(statedCost(value), 0)
  }

  func decode(_ payload: [UInt8], codec: UInt16, of key: Key) throws -> Value {
    do {
      return try StandardCoding.decode(
        Value.self, identifier: CodecIdentifier(rawValue: codec), bytes: payload,
        codec: options.codec)
    } catch {
      throw unreadable("\(error)", key)
    }
  }

  /// Returns the time limit of a computation, with its error.
  func limit(of key: Key) -> ComputeLimit? {
    options.computeLimit.map { ComputeLimit(duration: $0, text: text(of: key)) }
  }

  /// Returns a closure that names a key in error messages.
  func text(of key: Key) -> @Sendable () -> String {
    { [namespace] in
      "key \(String(describing: key).prefix(200))"
        + (namespace.isEmpty ? "" : " of namespace \(namespace)")
    }
  }

  /// Creates the error for an entry that cannot be read as the cache's type.
  func unreadable(_ cause: String, _ key: Key) -> StoreError {
    StoreError.unreadable("the key \"\(key)\" as \(Value.self): \(cause)", in: namespace)
  }
}

/// A value with its expiration time, in milliseconds since 1970.
struct LoadedValue<Value: Sendable>: Sendable {
  let value: Value
  let expires: Int64
  /// The hashes of the tags.
  var tags: [UInt64] = []
  /// The commit version of the value, or zero if it is not known.
  var version: UInt64 = 0
  /// The time in milliseconds that the computation of the value took, or zero.
  var computeTime: UInt32 = 0

  init(value: Value, expires: Int64) {
    self.value = value
    self.expires = expires
  }

  init<Key>(_ entry: TierEntry<Key, Value>) {
    self.init(value: entry.value, expires: entry.expires)
    version = entry.commitVersion
    computeTime = entry.computeTime
    tags = entry.tags
  }

  /// Creates a value that is used now: with a sliding expiration it begins a new lifetime.
  init(value: Value, expires: Int64, lifetime: Int64, now: @autoclosure () -> Int64) {
    self.value = value
    self.expires =
      lifetime == 0 ? expires : max(expires, EntryHeader.deadline(of: lifetime, from: now()))
  }

  var item: Item<Value> { Item(value, millisecondsSince1970: expires) }
}

extension MemoryTier where Value: Sendable {
  /// Returns the value of a key as it is in memory, even if it has expired or is not the newest.
  func loaded(_ key: Key) -> LoadedValue<Value>? {
    withEntry(key) { entry, _ in LoadedValue(entry) }
  }
}

/// A value that an observer read.
struct ObservedValue<Value: Sendable>: Sendable {
  let value: Value?
  /// Suspends until the value may have changed or has expired, until the task is cancelled, or until
  /// the store is closed.
  let change: @Sendable () async -> Void
}

/// A pending write, as the memory tier keeps it.
@usableFromInline
struct QueuedWrite {
  @usableFromInline let record: WriteRequest
  @usableFromInline let expires: Int64
  @usableFromInline let lifetime: Int64
  @usableFromInline let cost: Int
}
