// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The backend of a cache over a store.
final class StoreBackend<Key: CacheKey, Value: Codable & Sendable>: CacheBackend {
  let context: CacheContext<Key, Value>
  let store: SharedStore
  private let space: Result<NamespaceHandle, StoreError>

  init(_ store: SharedStore, _ context: CacheContext<Key, Value>) {
    self.context = context
    self.store = store
    space = Result { () throws(StoreError) in try NamespaceHandle(name: context.namespace) }
    store.core.watchFiles()
  }

  var flights: SingleFlightGroup { store.core.flights }
  var identity: ObjectIdentifier { ObjectIdentifier(store.core) }
  var transactional: StoreBackend? { self }
  var monitors: StoreMonitors? { store.core.monitors }

  /// Returns a key as monitors get it.
  func monitored(_ key: Key) -> MonitoredKey {
    let place = try? open("compute", key)
    let generation = try? place?.core.generation()
    return MonitoredKey(
      namespace: context.namespace, hash: generation.flatMap { place?.hash(in: $0) },
      text: { String(describing: key) })
  }

  func report(_ error: any Error) { store.core.report(error) }

  /// Returns the open engine and the namespace.
  ///
  /// - Throws: ``StoreError``, if the store is closed or the name of the namespace is invalid.
  func open(_ operation: String) throws -> (core: StoreCore, space: NamespaceHandle) {
    (try store.openCore(operation), try space.get())
  }

  /// Returns the stored form of a key. Throws as the general form.
  func open(_ operation: String, _ key: Key) throws -> StoreKey {
    let (core, space) = try open(operation)
    return StoreKey(core: core, space: space, encoded: EncodedKey(key))
  }

  func content(
    _ value: Value, _ key: EncodedKey, _ attributes: EntryAttributes, _ core: StoreCore
  ) throws -> EntryContent {
    let (codec, payload) = try StandardCoding.encode(value, codec: context.options.codec)
    return try EntryContent(
      key: key, codec: codec.rawValue, payload: payload, attributes, now: core.now)
  }

  /// Returns the content of a negative entry.
  func absence(
    _ key: EncodedKey, _ attributes: EntryAttributes, _ core: StoreCore
  ) throws -> EntryContent {
    try EntryContent(
      key: key, codec: CodecIdentifier.plainBytes.rawValue, payload: [], attributes, now: core.now)
  }

  // MARK: Writing

  func write(_ value: Value?, for key: Key, _ attributes: EntryAttributes) throws -> Bool {
    let (place, kind) = try prepare(value, key, attributes)
    let request = WriteRequest(kind, space: place.space, key: place.encoded)
    let result = try place.core.submit(request)
    // W5: the value with its commit version, if it is the key's final state in its transaction.
    if let value, case .put(let content) = kind, case .committed(let commitVersion) = request.phase,
      let generation = try? place.core.generation(), request.matches(generation)
    {
      var origin = TierOrigin(
        readVersion: ~commitVersion, commitVersion: commitVersion,
        storeHash: place.hash(in: generation), table: generation.table)
      origin.lifetime = content.lifetime
      origin.tags = content.tagHashes(in: generation)
      origin.computeTime = content.computeTime
      insert(value, key, place, origin, (content.expires, content.payload.count))
    }
    return isChange(result)
  }

  func writeAsync(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) async throws -> Bool {
    let (place, kind) = try prepare(value, key, attributes)
    return isChange(
      try await place.core.submitAsync(kind, space: place.space, key: place.encoded))
  }

  func enqueue(
    _ value: Value?, for key: Key, _ attributes: EntryAttributes
  ) throws -> QueuedWrite? {
    let (place, kind) = try prepare(value, key, attributes)
    let request = WriteRequest(kind, space: place.space, key: place.encoded, isWriteBehind: true)
    try place.core.enqueueWriteBehind(request)
    guard case .put(let content) = kind, let value else {
      tier.remove(key)
      return nil
    }
    return QueuedWrite(
      record: request, expires: content.expires, lifetime: content.lifetime,
      cost: context.cost(of: value, bytes: content.payload.count))
  }

  /// Encodes a key, and a value or the removal of one.
  private func prepare(
    _ value: Value?, _ key: Key, _ attributes: EntryAttributes
  ) throws -> (StoreKey, WriteRequest.Kind) {
    let place = try open(value == nil && !attributes.isAbsent ? "remove" : "set", key)
    guard let value else {
      guard attributes.isAbsent else { return (place, .remove) }
      return (place, .put(try absence(place.encoded, attributes, place.core)))
    }
    return (place, .put(try content(value, place.encoded, attributes, place.core)))
  }

  func isChange(_ result: WriteRequest.Result) -> Bool {
    if case .done(_, let changed) = result { changed } else { false }
  }

  func removeAll() throws {
    defer { clearMemory() }
    let (core, space) = try open("removeAll")
    try core.clear(space)
  }

  func removeAll(tagged tag: String) throws {
    let (core, space) = try open("removeAll")
    try core.removeAll(tagged: tag, in: space)
  }

  func clearMemory() { tier.removeAll() }

  func sync() throws { try open("sync").core.flush() }

  // MARK: Several keys

  func setAll(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) throws {
    try store.write(batch(values, attributes))
  }

  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) async throws {
    try await store.write(batch(values, attributes))
  }

  /// Encodes values, and returns a closure that stores them in a transaction.
  private func batch(
    _ values: some Sequence<(key: Key, value: Value)>, _ attributes: EntryAttributes
  ) throws -> @Sendable (inout StoreTransaction) throws -> Void {
    let (core, space) = try open("set")
    let contents = try values.map { key, value in
      let encoded = EncodedKey(key)
      return (encoded, try content(value, encoded, attributes, core))
    }
    return { transaction in
      for (key, content) in contents { try transaction.set(content, forKey: key, in: space) }
    }
  }

  func keys(_ decode: ([UInt8]) -> Key?) throws -> [Key] {
    let (core, space) = try open("keys")
    try core.flush()
    var result: [Key] = []
    var position: UInt64? = 0
    while let start = position {
      let page = try core.page(of: space, from: start, limit: 1000)
      for entry in page.entries where entry.key.tag == Key.keyTag.rawValue {
        if let key = decode(entry.key.bytes) { result.append(key) }
      }
      position = page.next
    }
    return result
  }
}

/// The stored form of a key, and the engine that one operation on the key uses.
struct StoreKey {
  let core: StoreCore
  let space: NamespaceHandle
  let encoded: EncodedKey

  /// The newest pending write of the key.
  var pendingWrite: WriteRequest? { core.pendingWrite(of: encoded, in: space) }

  func hash(in generation: Generation) -> UInt64 { space.hash(of: encoded, in: generation) }

  /// Returns whether this process has no pending write of the key, whose hash is `hash`.
  func isSettled(hash: UInt64) -> Bool {
    !core.pending.mayHavePendingWrite(slot: StampSlot(hash: hash)) || pendingWrite == nil
  }
}
