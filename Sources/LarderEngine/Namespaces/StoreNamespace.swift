// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderLMDB
internal import LarderSystem

/// A namespace of a store, for reading and writing bytes.
///
/// ```swift
/// let thumbnails = try store.namespace("thumbnails")
/// try thumbnails.setBytes(png, forKey: 42, expires: .after(.seconds(3600)))
/// ```
///
/// Typed values and a tier in memory are in `PersistentCache`. Reads here always go to the store's
/// file, so they see the newest commit of any process; not what other programs do to the file.
public struct StoreNamespace: Sendable {
  package let store: SharedStore
  package let space: NamespaceHandle

  init(store: SharedStore, name: String) throws(StoreError) {
    self.store = store
    self.space = try NamespaceHandle(name: name)
  }

  /// The name of the namespace.
  public var name: String { space.name }

  /// The bytes stored for a key, or `nil`.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/unreadableEntry`` when the entry is damaged.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  @inlinable
  public func bytes(forKey key: some CacheKey) throws -> [UInt8]? {
    // Known where a client is compiled for a type of keys.
    if let text = key as? String { return try bytes(ofText: text) }
    return try bytes(of: key)
  }

  @usableFromInline
  func bytes(ofText text: String) throws -> [UInt8]? {
    if store.hasClosed { throw StoreError.closed("get") }
    return try store.core.payload(ofText: text, in: space)
  }

  @usableFromInline
  func bytes(of key: some CacheKey) throws -> [UInt8]? {
    if store.hasClosed { throw StoreError.closed("get") }
    return try store.core.payload(of: EncodedKey(key), in: space)
  }

  /// Stores bytes; they are committed when the call returns.
  public func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, expires: Expiration = .never
  ) throws {
    let core = try store.openCore("set")
    let encoded = EncodedKey(key)
    let content = EntryContent(
      key: encoded, codec: CodecIdentifier.plainBytes.rawValue, payload: bytes,
      expires: expires.deadline(now: core.options.clock.now()))
    try core.submit(WriteRequest(.put(content), space: space, key: encoded))
  }

  /// Removes a key for everybody; the removal is committed when the call returns.
  ///
  /// - Returns: Whether there was an entry.
  @discardableResult
  public func remove(forKey key: some CacheKey) throws -> Bool {
    let core = try store.openCore("remove")
    let record = WriteRequest(.remove, space: space, key: EncodedKey(key))
    if case .done(_, let changed) = try core.submit(record) { return changed }
    return false
  }

  /// Whether a key has an entry.
  public func contains(_ key: some CacheKey) throws -> Bool {
    try store.openCore("contains").contains(EncodedKey(key), in: space)
  }

  /// Removes every entry of the namespace, for everybody.
  public func removeAll() throws { try store.openCore("removeAll").clear(space) }
}

extension SharedStore {
  /// A namespace of this store. Keys of different namespaces never meet.
  ///
  /// - Throws: ``StoreError/Code/invalidNamespace`` for a name of more than 400 bytes.
  public func namespace(_ name: String) throws -> StoreNamespace {
    try StoreNamespace(store: self, name: name)
  }
}

extension EncodedKey {
  package init<Key: CacheKey>(_ key: Key) {
    self.init(tag: Key.keyTag.rawValue, bytes: key.keyBytes)
  }
}

extension StoreError {
  package static func unreadable(_ text: String, in namespace: String) -> StoreError {
    StoreError(
      .unreadableEntry, during: "get",
      "The entry in namespace \"\(namespace)\" cannot be read: \(text). Write it again or remove it."
    )
  }
}

extension StoreTransaction {
  /// The bytes of a key as this transaction sees it: with its own writes.
  public func bytes(forKey key: some CacheKey, in namespace: String = "") throws -> [UInt8]? {
    let space = try NamespaceHandle(name: namespace)
    return try value(forKey: EncodedKey(key), in: space)?.payload
  }

  /// Stores bytes, visible to others when the transaction has been committed.
  public mutating func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, in namespace: String = "",
    expires: Expiration = .never
  ) throws {
    let encoded = EncodedKey(key)
    let content = EntryContent(
      key: encoded, codec: CodecIdentifier.plainBytes.rawValue, payload: bytes,
      expires: expires.deadline(now: now))
    try set(content, forKey: encoded, in: space(named: namespace))
  }

  /// Removes a key.
  ///
  /// - Returns: Whether there was an entry.
  @discardableResult
  public mutating func remove(
    forKey key: some CacheKey, in namespace: String = ""
  ) throws -> Bool {
    try unset(EncodedKey(key), in: space(named: namespace))
  }

  /// Removes every entry of a namespace.
  public mutating func removeAll(in namespace: String) throws {
    try clear(NamespaceHandle(name: namespace))
  }

  // MARK: For facades

  package mutating func set(
    _ content: EntryContent, forKey key: EncodedKey, in space: NamespaceHandle
  ) throws {
    try StoreCore.check(
      keyLength: key.bytes.count, payloadLength: content.payload.count, budget: budget)
    let hash = space.hash(of: key, in: generation)
    generation.table.cancelLeases(hash: hash)
    try put(content, forKey: key, hash: hash, in: space)
  }

  package mutating func unset(_ key: EncodedKey, in space: NamespaceHandle) throws -> Bool {
    let hash = space.hash(of: key, in: generation)
    generation.table.cancelLeases(hash: hash)
    return try remove(key, hash: hash, in: space)
  }

  package func value(forKey key: EncodedKey, in space: NamespaceHandle) throws -> StoredValue? {
    let hash = space.hash(of: key, in: generation)
    guard
      let bytes = try transaction.value(
        forKey: NamespaceRecord.nameKey(space.nameBytes), in: .main)
    else { return nil }
    guard let number = NamespaceRecord.number(in: bytes, name: space.nameBytes) else {
      throw LMDBError(.corrupted, during: "a namespace's name")
    }
    for item in try items(hash: hash) where item.header.namespace == number {
      guard try hasKey(item, hash: hash, key) else { continue }
      let epoch = try currentEpoch(number)
      guard !item.header.isExpired(at: now), item.header.epoch == epoch else { return nil }
      guard let payload = try payload(of: item, hash: hash, key: key) else {
        throw StoreError.unreadable("it is damaged", in: space.name)
      }
      return StoredValue(
        payload: payload, codec: item.header.codec, label: item.header.label,
        created: item.header.created, expires: item.header.expires)
    }
    return nil
  }
}
