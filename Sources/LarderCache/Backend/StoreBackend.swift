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
    do throws(StoreError) { space = .success(try NamespaceHandle(name: context.namespace)) } catch {
      space = .failure(error)
    }
    store.core.watchFiles()
  }

  var tier: MemoryTier<Key, Value> { context.tier }
  var flights: SingleFlightGroup { store.core.flights }
  var identity: ObjectIdentifier { ObjectIdentifier(store.core) }
  var transactional: StoreBackend? { self }

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
    _ value: Value, _ key: EncodedKey, _ expires: Expiration, _ core: StoreCore
  ) throws -> EntryContent {
    let (codec, payload) = try StandardCoding.encode(value, codec: context.options.codec)
    return EntryContent(
      key: key, codec: codec.rawValue, payload: payload,
      expires: expires.deadline(now: core.now))
  }

  // MARK: Writing

  func set(_ value: Value, for key: Key, _ expires: Expiration) throws {
    let place = try open("set", key)
    let content = try content(value, place.encoded, expires, place.core)
    let request = WriteRequest(.put(content), space: place.space, key: place.encoded)
    try place.core.submit(request)
    // W5: the value with its commit version, if it is the key's final state in its transaction.
    guard case .committed(let commitVersion) = request.phase,
      let generation = try? place.core.generation(), request.matches(generation)
    else { return }
    let origin = TierOrigin(
      readVersion: ~commitVersion, commitVersion: commitVersion,
      storeHash: place.hash(in: generation), table: generation.table)
    insert(value, key, place, origin, (content.expires, content.payload.count))
  }

  func setAsync(_ value: Value, for key: Key, _ expires: Expiration) async throws {
    let place = try open("set", key)
    let content = try content(value, place.encoded, expires, place.core)
    _ = try await place.core.submitAsync(.put(content), space: place.space, key: place.encoded)
  }

  func enqueue(_ value: Value?, for key: Key, _ expires: Expiration) throws -> QueuedWrite? {
    let place = try open("set", key)
    guard let value else {
      let request = WriteRequest(
        .remove, space: place.space, key: place.encoded, isWriteBehind: true)
      try place.core.enqueueWriteBehind(request)
      tier.remove(key)
      return nil
    }
    let content = try content(value, place.encoded, expires, place.core)
    let request = WriteRequest(
      .put(content), space: place.space, key: place.encoded, isWriteBehind: true)
    try place.core.enqueueWriteBehind(request)
    return QueuedWrite(
      record: request, expires: content.expires, cost: content.payload.count + EntryHeader.size)
  }

  func remove(_ key: Key) throws -> Bool {
    let place = try open("remove", key)
    return isChange(
      try place.core.submit(WriteRequest(.remove, space: place.space, key: place.encoded)))
  }

  func removeAsync(_ key: Key) async throws -> Bool {
    let place = try open("remove", key)
    return isChange(
      try await place.core.submitAsync(.remove, space: place.space, key: place.encoded))
  }

  private func isChange(_ result: WriteRequest.Result) -> Bool {
    if case .done(_, let changed) = result { changed } else { false }
  }

  func removeAll() throws {
    defer { clearMemory() }
    let (core, space) = try open("removeAll")
    try core.clear(space)
  }

  func clearMemory() { tier.removeAll() }

  func sync() throws { try open("sync").core.flush() }

  // MARK: Several keys

  func setAll(_ values: some Sequence<(key: Key, value: Value)>, _ expires: Expiration) throws {
    let (core, space) = try open("set")
    let contents = try contents(values, expires, core)
    try core.write { transaction in
      for (key, content) in contents { try transaction.set(content, forKey: key, in: space) }
    }
  }

  func setAllAsync(
    _ values: some Sequence<(key: Key, value: Value)>, _ expires: Expiration
  ) async throws {
    let (core, space) = try open("set")
    let contents = try contents(values, expires, core)
    try await store.write { transaction in
      for (key, content) in contents { try transaction.set(content, forKey: key, in: space) }
    }
  }

  private func contents(
    _ values: some Sequence<(key: Key, value: Value)>, _ expires: Expiration, _ core: StoreCore
  ) throws -> [(EncodedKey, EntryContent)] {
    try values.map { key, value in
      let encoded = EncodedKey(key)
      return (encoded, try content(value, encoded, expires, core))
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
    !core.pending.mayHavePendingWrite(slot: Int(hash & 0xFFFF)) || pendingWrite == nil
  }
}
