// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCache
internal import LarderCoding
internal import LarderEngine
internal import LarderSystem

/// The store of a suite, accessed by keys and bytes.
final class DefaultsStore: Sendable {
  let store: SharedStore
  let space: NamespaceHandle

  init(at path: String, _ access: Access = .writing) throws {
    var options = StoreOptions(durability: .durable)
    options.isSmall = true
    options.readsOnly = access != .writing
    options.awaitsOthers = access == .following
    store = try SharedStore(at: path, options)
    space = try NamespaceHandle(name: DefaultsSuite.namespace)
  }

  /// The use of a handle.
  enum Access { case writing, reading, following }

  func lookup(_ key: String) throws -> Lookup {
    try store.openCore("get").lookup(EncodedKey(key), in: space)
  }

  /// Returns the stored value of a key, or `nil` if the key has none.
  func entry(_ key: String) throws -> StoredValue? {
    switch try lookup(key).outcome {
    case .found(let stored): return stored
    case .unreadable(let text): throw Self.unreadable(text, key)
    case .absent, .knownAbsent, .unchanged: return nil
    }
  }

  static func unreadable(_ text: String, _ key: String) -> DefaultsError {
    DefaultsError(
      .unreadable, key: key, "The value cannot be read: \(text). Set it again, or remove it.")
  }

  func contains(_ key: String) throws -> Bool {
    try store.openCore("contains").contains(EncodedKey(key), in: space)
  }

  // MARK: Writing

  /// Stores a value, or removes it if it is `nil`. It is encoded only if the store is open: a forked
  /// child runs no code of its type.
  func set(_ key: String, encoding encode: () throws -> DefaultsContent?) throws {
    _ = try store.openCore("set")
    if let content = try encode() {
      try put(content, key)
    } else {
      _ = try remove(key)
    }
  }

  /// Stores a value, or removes it if it is `nil`, without blocking the calling thread.
  func set(_ key: String, encoding encode: () throws -> DefaultsContent?) async throws {
    _ = try store.openCore("set")
    if let content = try encode() {
      try await put(content, key)
    } else {
      _ = try await remove(key)
    }
  }

  func put(_ content: DefaultsContent, _ key: String) throws {
    let core = try writable("set")
    let record = record(of: content, key, core)
    if Mutant.defaultsSetBehind.isActive { return try core.enqueueWriteBehind(record) }
    try core.submit(record)
  }

  func put(_ content: DefaultsContent, _ key: String) async throws {
    let core = try writable("set")
    let record = record(of: content, key, core)
    _ = try await core.submitAsync(record.kind, space: space, key: record.key)
  }

  func remove(_ key: String) throws -> Bool {
    let core = try writable("remove")
    let record = WriteRequest(.remove, space: space, key: noted(key, nil, core))
    guard case .done(_, let changed) = try core.submit(record) else { return false }
    return changed
  }

  func remove(_ key: String) async throws -> Bool {
    let core = try writable("remove")
    let encoded = noted(key, nil, core)
    let result = try await core.submitAsync(.remove, space: space, key: encoded)
    guard case .done(_, let changed) = result else { return false }
    return changed
  }

  func removeAll() throws { try writable("removeAll").clear(space) }

  func write<R: Sendable>(
    _ body: @escaping @Sendable (inout DefaultsTransaction) throws -> R
  ) throws -> R {
    _ = try writable("write")
    return try store.write { [self] in try DefaultsTransaction.run(body, in: &$0, of: self) }
  }

  func write<R: Sendable>(
    _ body: @escaping @Sendable (inout DefaultsTransaction) throws -> R
  ) async throws -> R {
    _ = try writable("write")
    return try await store.write { [self] in try DefaultsTransaction.run(body, in: &$0, of: self) }
  }

  /// Returns the store, if the calling thread may write.
  ///
  /// - Throws: ``DefaultsError/Code/nestedWrite`` inside a transaction of the suite: this thread
  ///   holds the writer lock already and would wait for itself.
  private func writable(_ operation: String) throws -> StoreCore {
    let core = try store.openCore(operation)
    guard !core.isInsideTransaction else {
      throw DefaultsError(
        .nestedWrite,
        "A write of a suite inside a closure of its `update` or `write` would wait for itself. "
          + "Use the argument of the closure. Nothing was stored.")
    }
    return core
  }

  private func record(
    of content: DefaultsContent, _ key: String, _ core: StoreCore
  ) -> WriteRequest {
    let key = noted(key, content, core)
    return WriteRequest(.put(Self.content(content, key, core.now)), space: space, key: key)
  }

  /// Records a write with the handlers that run on this thread, and returns the encoded key.
  func noted(_ key: String, _ content: DefaultsContent?, _ core: StoreCore) -> EncodedKey {
    let key = EncodedKey(key)
    ActiveHandlers.note(HandlerWrite(place: SuiteKey(core, key), content: content))
    return key
  }

  func keys() throws -> [String] {
    let core = try store.openCore("keys")
    var result: [String] = []
    var position: UInt64? = 0
    while let start = position {
      let page = try core.page(of: space, from: start, limit: 1000)
      for entry in page.entries where entry.key.tag == KeyTag.text.rawValue {
        if let key = String(keyBytes: entry.key.bytes) { result.append(key) }
      }
      position = page.next
    }
    return result.sorted()
  }

  static func content(_ content: DefaultsContent, _ key: EncodedKey, _ now: Int64) -> EntryContent {
    EntryContent(
      key: key, codec: content.codec, payload: content.payload,
      expires: EntryHeader.never)
  }

  // MARK: Observing a key

  /// An observed value of a key, and the snapshot after which to wait for the next one.
  struct ObservedVersion: Sendable {
    let entry: Result<StoredValue?, any Error>
    let place: SuiteKey
    let slot: StampSlot
    let snapshot: ObservedSnapshot

    /// Returns whether both contain the same value.
    func isSame(as other: ObservedVersion) -> Bool {
      guard case .success(let one) = entry, case .success(let two) = other.entry else {
        return false
      }
      if Mutant.defaultsWatchDeaf.isActive { return one?.codec == two?.codec }
      return one?.codec == two?.codec && one?.payload == two?.payload
    }

    /// The write that a handler would have made to store this value, or `nil` if the value cannot be
    /// read.
    var write: HandlerWrite? {
      guard case .success(let stored) = entry else { return nil }
      return HandlerWrite(
        place: place,
        content: stored.map { DefaultsContent(codec: $0.codec, payload: $0.payload) })
    }
  }

  func look(at key: String) throws -> ObservedVersion {
    let core = try store.openCore("values")
    // The snapshot is taken before the value, so the value can only be newer.
    let mark = try core.observationMark()
    let encoded = EncodedKey(key)
    let (snapshot, slot) = try core.withSnapshot("values") { snapshot in
      (
        core.observed(snapshot.generation, commitVersion: snapshot.commitVersion, mark: mark),
        StampSlot(hash: space.hash(of: encoded, in: snapshot.generation))
      )
    }
    return ObservedVersion(
      entry: Result { try entry(key) }, place: SuiteKey(core, encoded), slot: slot,
      snapshot: snapshot)
  }

  /// Returns when something may have changed, the store was closed, or the task cancelled.
  func change(since seen: ObservedVersion) async {
    guard let core = try? store.openCore("values") else { return }
    await core.change(
      of: [seen.slot], after: seen.snapshot, ObserverConditions { [store] in store.hasClosed })
  }
}
