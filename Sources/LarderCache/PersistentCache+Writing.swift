// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine

extension PersistentCache {
  /// Stores a value; it is committed when the call returns, and survives a `kill -9` from then on.
  ///
  /// Every other process sees it with its next read.
  ///
  /// - Throws: ``LarderEngine/StoreError``, or the error of the value's own encoding.
  public func setValue(_ value: Value, forKey key: Key, expires: Expiration = .never) throws {
    guard let (core, space) = try engine("set") else { return try setLocal(value, key, expires) }
    let encoded = EncodedKey(key)
    let content = try content(value, encoded, expires, core)
    let record = WriteRequest(.put(content), space: space, key: encoded)
    try core.submit(record)
    insertCommitted(record, value, key, encoded, content, core, space)
  }

  /// Stores a value; it is committed when the call returns.
  ///
  /// The store's own thread does the work; no thread of Swift's pool is blocked.
  public func setValue(
    _ value: Value, forKey key: Key, expires: Expiration = .never
  ) async throws {
    guard let (core, space) = try engine("set") else { return try setLocal(value, key, expires) }
    let encoded = EncodedKey(key)
    let content = try content(value, encoded, expires, core)
    _ = try await core.submitAsync(.put(content), space: space, key: encoded)
  }

  /// Removes a key for everybody; the removal is committed when the call returns.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue(forKey key: Key) throws -> Bool {
    guard let (core, space) = try engine("remove") else { return try removeLocal(key) }
    let result = try core.submit(WriteRequest(.remove, space: space, key: EncodedKey(key)))
    return removed(result, key)
  }

  /// Removes a key for everybody; the removal is committed when the call returns.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue(forKey key: Key) async throws -> Bool {
    guard let (core, space) = try engine("remove") else { return try removeLocal(key) }
    return removed(
      try await core.submitAsync(.remove, space: space, key: EncodedKey(key)), key)
  }

  /// Removes every value of the cache's namespace, for every process: gone at once.
  public func removeAll() throws {
    if let foreign { return try removeAllForeign(foreign.store) }
    defer { clearMemoryCache() }
    guard let (core, space) = try engine("removeAll") else { return memoryWrites.noteAll() }
    try core.clear(space)
  }

  /// Removes every value of the cache's namespace, for every process, without blocking a thread of
  /// Swift's pool.
  public func removeAll() async throws {
    try await BlockingWork.run { try self.removeAll() }
  }

  // MARK: Parts

  func content(
    _ value: Value, _ key: EncodedKey, _ expires: Expiration, _ core: StoreCore
  ) throws -> EntryContent {
    let (codec, payload) = try StandardCoding.encode(value, codec: options.codec)
    return EntryContent(
      key: key, codec: codec.rawValue, payload: payload,
      expires: expires.deadline(now: core.now))
  }

  private func removed(_ result: WriteRequest.Result, _ key: Key) -> Bool {
    guard case .done(_, let changed) = result else { return false }
    return changed
  }

  /// Sets in memory, or in a storage that is not ours.
  func setLocal(_ value: Value, _ key: Key, _ expires: Expiration) throws {
    if let foreign { return try setForeign(value, key, expires, foreign.store) }
    memoryWrites.note(key)
    _ = fileLocal(value, key, expires) { true }
  }

  /// Sets in memory if it may be, which is asked where no other writer can come in between.
  ///
  /// - Returns: Whether it was.
  func fileLocal(
    _ value: Value, _ key: Key, _ expires: Expiration, if mayFile: () -> Bool
  ) -> Bool {
    var isFiled = false
    tier.file(
      value, forKey: key, seal: 0, label: 0, expires: expires.deadline(now: systemMilliseconds()),
      cost: EntryHeader.size + MemoryLayout<Value>.size, storeHash: 0, table: nil
    ) {
      isFiled = mayFile()
      return isFiled
    }
    if isFiled { memoryWatch.note(key) }
    return isFiled
  }

  private func removeLocal(_ key: Key) throws -> Bool {
    if let foreign { return try removeForeign(key, foreign.store) }
    memoryWrites.note(key)
    let existed = tier.hit(key) != nil
    tier.remove(key)
    memoryWatch.note(key)
    return existed
  }

  /// W5: the value under its commit's label, if it is the key's final state of its transaction.
  func insertCommitted(
    _ record: WriteRequest, _ value: Value, _ key: Key, _ encoded: EncodedKey,
    _ content: EntryContent,
    _ core: StoreCore, _ space: NamespaceHandle
  ) {
    guard case .committed(let label) = record.phase, let generation = try? core.generation(),
      record.isOf(generation)
    else { return }
    let hash = space.hash(of: encoded, in: generation)
    tier.file(
      value, forKey: key, seal: ~label, label: label, expires: content.expires,
      cost: content.payload.count + EntryHeader.size, storeHash: hash, table: generation.table
    ) {
      !core.pending.mayHavePendingWrite(slot: Int(hash & 0xFFFF))
        || core.pendingWrite(of: encoded, in: space) == nil
    }
  }

  /// Sets or removes without waiting for the commit.
  func setWriteBehind(_ value: Value?, forKey key: Key, expires: Expiration) {
    guard let queued = queueBehind(value, forKey: key, expires: expires), let value else { return }
    tier.file(
      waiting: value, forKey: key, expires: queued.expires, cost: queued.cost,
      record: queued.record)
  }

  /// Queues a value or a removal; what is to be filed in memory then, `nil`: nothing.
  ///
  /// Apart from filing, which is compiled for the caller's types.
  @usableFromInline
  func queueBehind(_ value: Value?, forKey key: Key, expires: Expiration) -> QueuedWrite? {
    do {
      guard let (core, space) = try engine("set") else {
        if let value { try setLocal(value, key, expires) } else { _ = try removeLocal(key) }
        return nil
      }
      let encoded = EncodedKey(key)
      guard let value else {
        let record = WriteRequest(.remove, space: space, key: encoded, isWriteBehind: true)
        try core.enqueueWriteBehind(record)
        tier.remove(key)
        return nil
      }
      let content = try content(value, encoded, expires, core)
      let record = WriteRequest(.put(content), space: space, key: encoded, isWriteBehind: true)
      try core.enqueueWriteBehind(record)
      return QueuedWrite(
        record: record, expires: content.expires,
        cost: content.payload.count + EntryHeader.size)
    } catch {
      report(error)
      return nil
    }
  }
}

/// A write that waits, as the memory tier files it.
@usableFromInline
struct QueuedWrite {
  @usableFromInline let record: WriteRequest
  @usableFromInline let expires: Int64
  @usableFromInline let cost: Int
}
