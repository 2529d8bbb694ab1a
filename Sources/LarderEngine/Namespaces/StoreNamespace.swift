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
/// `PersistentCache` adds typed values and a memory tier. Reads of this type always read the
/// store's file, so they see the newest commit of any process, but not changes that other programs
/// make to the file.
public struct StoreNamespace: Sendable {
  package let store: SharedStore
  package let space: NamespaceHandle

  init(store: SharedStore, name: String) throws(StoreError) {
    self.store = store
    self.space = try NamespaceHandle(name: name)
  }

  /// The name of the namespace.
  public var name: String { space.name }

  /// Returns the bytes that are stored for a key.
  ///
  /// - Parameter key: The key.
  /// - Returns: The bytes, or `nil` if the key has no visible entry.
  /// - Throws: ``StoreError``; ``StoreError/Code/unreadableEntry`` if the entry is damaged.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  @inlinable
  public func bytes(forKey key: some CacheKey) throws -> [UInt8]? {
    // The compiler resolves this test in a client that is specialized for a key type.
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

  /// Stores bytes for a key and waits for the commit. Every process sees them with its next read.
  ///
  /// - Parameters:
  ///   - bytes: The bytes to store.
  ///   - key: The key.
  ///   - expires: The time at which the entry becomes invisible.
  ///   - tags: The tags by which ``removeAll(tagged:)`` removes the entry: at most 64, each of 1 to 250
  ///     bytes of UTF-8.
  ///   - pinned: Whether the entry is never evicted. It can expire and be removed. Pinned entries have
  ///     at most half of each budget.
  /// - Throws: ``StoreError``; ``StoreError/Code/valueTooLarge``, ``StoreError/Code/storageFull``,
  ///   ``StoreError/Code/invalidOption`` for a lifetime of zero or less or invalid tags,
  ///   ``StoreError/Code/pinLimitReached``, or
  ///   ``StoreError/Code/writerStalled`` after ``StoreOptions/writeTimeout``.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  public func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, expires: Expiration = .never,
    tags: [String] = [], pinned: Bool = false
  ) throws {
    let core = try store.openCore("set")
    try core.submit(
      put(bytes, EncodedKey(key), EntryAttributes(expires, tags: tags, isPinned: pinned), core))
  }

  /// Returns the request that stores bytes.
  func put(
    _ bytes: [UInt8], _ key: EncodedKey, _ attributes: EntryAttributes, _ core: StoreCore
  ) throws(StoreError) -> WriteRequest {
    let content = try EntryContent(
      key: key, codec: CodecIdentifier.plainBytes.rawValue, payload: bytes, attributes,
      now: core.now)
    return WriteRequest(.put(content), space: space, key: key)
  }

  /// Removes the entry of a key for every process and waits for the commit.
  ///
  /// - Parameter key: The key.
  /// - Returns: Whether a visible entry was removed.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(log *n*).
  @discardableResult
  public func remove(forKey key: some CacheKey) throws -> Bool {
    let core = try store.openCore("remove")
    let record = WriteRequest(.remove, space: space, key: EncodedKey(key))
    if case .done(_, let changed) = try core.submit(record) { return changed }
    return false
  }

  /// Returns whether a key has a visible entry, without copying its bytes or changing its recency.
  ///
  /// - Parameter key: The key.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(log *n*).
  public func contains(_ key: some CacheKey) throws -> Bool {
    try store.openCore("contains").contains(EncodedKey(key), in: space)
  }

  /// Returns the number of visible entries: those that have expired do not count. Entries that are
  /// written or removed during the call may or may not count.
  ///
  /// ``StoreStatistics/Namespace/entries`` is the number of stored ones, which a read of one record gives.
  ///
  /// - Throws: ``StoreError``.
  /// - Complexity: O(log *n*), or O(*n*) in the entries of the store if it contains some that expire, that
  ///   were removed by tag or with their namespace and are not deleted yet, or negative ones.
  public func count() throws -> Int {
    let core = try store.openCore("count")
    try core.flush()
    return try core.count(of: space)
  }

  /// Removes every entry of the namespace, for every process.
  ///
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func removeAll() throws { try store.openCore("removeAll").clear(space) }
}

extension SharedStore {
  /// Returns a namespace of this store. Equal keys of different namespaces are independent.
  ///
  /// - Parameter name: The name, at most 400 bytes of UTF-8.
  /// - Throws: ``StoreError/Code/invalidNamespace`` if the name is longer.
  public func namespace(_ name: String) throws -> StoreNamespace {
    try StoreNamespace(store: self, name: name)
  }
}

extension EncodedKey {
  /// Encodes a cache key.
  package init<Key: CacheKey>(_ key: Key) {
    self.init(tag: Key.keyTag.rawValue, bytes: key.keyBytes)
  }
}

extension StoreError {
  /// Returns the error for an entry that cannot be read.
  package static func unreadable(_ text: String, in namespace: String) -> StoreError {
    StoreError(
      .unreadableEntry, during: "get",
      "The entry in namespace \"\(namespace)\" cannot be read: \(text). Write it again or "
        + "remove it.")
  }
}

extension StoreTransaction {
  /// Returns the bytes of a key in this transaction, including its uncommitted changes.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Returns: The bytes, or `nil` if the key has no visible entry.
  /// - Throws: ``StoreError/Code/unreadableEntry`` if the entry is damaged; other errors if LMDB
  ///   fails.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  public func bytes(forKey key: some CacheKey, in namespace: String = "") throws -> [UInt8]? {
    let space = try NamespaceHandle(name: namespace)
    return try value(forKey: EncodedKey(key), in: space)?.payload
  }

  /// Stores bytes for a key. Other processes and threads see them after the commit.
  ///
  /// - Parameters:
  ///   - bytes: The bytes to store.
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  ///   - expires: The time at which the entry becomes invisible.
  ///   - tags: The tags by which ``removeAll(tagged:in:)`` removes the entry: at most 64, each of 1 to
  ///     250 bytes of UTF-8.
  ///   - pinned: Whether the entry is never evicted.
  /// - Throws: ``StoreError/Code/valueTooLarge``, ``StoreError/Code/invalidNamespace``,
  ///   ``StoreError/Code/pinLimitReached``, or ``StoreError/Code/invalidOption`` for a lifetime of zero
  ///   or less or invalid tags; other errors if LMDB fails.
  /// - Complexity: O(log *n*), and a copy of the bytes.
  public mutating func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, in namespace: String = "",
    expires: Expiration = .never, tags: [String] = [], pinned: Bool = false
  ) throws {
    let encoded = EncodedKey(key)
    let content = try EntryContent(
      key: encoded, codec: CodecIdentifier.plainBytes.rawValue, payload: bytes,
      EntryAttributes(expires, tags: tags, isPinned: pinned), now: now)
    try set(content, forKey: encoded, in: space(named: namespace))
  }

  /// Removes the entry of a key. Other processes and threads see the removal after the commit.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Returns: Whether a visible entry was removed.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(log *n*).
  @discardableResult
  public mutating func remove(
    forKey key: some CacheKey, in namespace: String = ""
  ) throws -> Bool {
    try unset(EncodedKey(key), in: space(named: namespace))
  }

  /// Removes every entry of a namespace. Other processes and threads see the removal after the
  /// commit.
  ///
  /// - Parameter namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Throws: ``StoreError``.
  public mutating func removeAll(in namespace: String) throws {
    try clear(NamespaceHandle(name: namespace))
  }

  // MARK: For facades

  /// Stores an entry in this transaction, and cancels the computation leases of its key.
  package mutating func set(
    _ content: EntryContent, forKey key: EncodedKey, in space: NamespaceHandle
  ) throws {
    try StoreCore.check(
      keyLength: key.bytes.count, content: content, budget: budget)
    let hash = space.hash(of: key, in: generation)
    generation.table.cancelLeases(hash: hash)
    try requireNoFailure()
    let before = totals
    do {
      try put(content, forKey: key, hash: hash, in: space)
    } catch {
      // Only the end of the transaction can undo what was evicted or removed for the entry.
      if totals != before { fail(error) }
      throw error
    }
  }

  /// Removes the entry of a key in this transaction, and cancels the computation leases of the key.
  ///
  /// - Returns: Whether a visible entry was removed.
  package mutating func unset(_ key: EncodedKey, in space: NamespaceHandle) throws -> Bool {
    let hash = space.hash(of: key, in: generation)
    generation.table.cancelLeases(hash: hash)
    return try remove(key, hash: hash, in: space)
  }

  /// Returns the versions of the entry of a key in this transaction, visible or not: that of the commit, and
  /// the one that a remote server has for it, or zero.
  package mutating func versions(
    of key: EncodedKey, in space: NamespaceHandle
  ) throws -> (commit: UInt64, remote: UInt64)? {
    let hash = space.hash(of: key, in: generation)
    guard let item = try soundItem(of: key, hash: hash, in: space),
      let record = try transaction.value(forKey: hash, in: generation.entries)
    else { return nil }
    return (
      item.header.commitVersion, item.header.remoteVersion(in: record, at: item.offset) ?? 0
    )
  }

  /// Returns whether the visible entry of a key has a version in this transaction. Its value is read only
  /// if the number of the commit is the same.
  ///
  /// - Throws: ``StoreError/Code/unreadableEntry`` if the entry is damaged.
  package mutating func hasVersion(
    _ version: EntryVersion, of key: EncodedKey, in space: NamespaceHandle
  ) throws -> Bool {
    let hash = space.hash(of: key, in: generation)
    guard let item = try soundItem(of: key, hash: hash, in: space), !item.header.isAbsent,
      try isVisible(item.header, at: item.offset, hash: hash)
    else { return version == .absent }
    guard item.header.commitVersion == version.commitVersion else { return false }
    guard let payload = try payload(of: item, hash: hash) else {
      throw StoreError.unreadable("it is damaged", in: space.name)
    }
    return version == EntryVersion(commitVersion: version.commitVersion, payload: payload)
  }

  /// Returns the entry of a key, visible or not.
  private mutating func soundItem(
    of key: EncodedKey, hash: UInt64, in space: NamespaceHandle
  ) throws -> RecordEntry? {
    let number = try number(of: space)
    return try soundItems(hash: hash, space).first {
      try $0.header.namespace == number && hasKey($0, hash: hash, key)
    }
  }

  /// Returns the entries that are stored under a hash.
  ///
  /// - Throws: ``StoreError/Code/unreadableEntry`` if the record is damaged.
  private func soundItems(hash: UInt64, _ space: NamespaceHandle) throws -> [RecordEntry] {
    do {
      return try items(hash: hash)
    } catch is EntryHeader.Defect {
      throw StoreError.unreadable("it is damaged", in: space.name)
    }
  }

  /// Returns the verified value of a key in this transaction, or `nil` if it has no visible entry.
  ///
  /// - Throws: ``StoreError/Code/unreadableEntry`` if the entry is damaged.
  package func value(forKey key: EncodedKey, in space: NamespaceHandle) throws -> StoredValue? {
    let hash = space.hash(of: key, in: generation)
    guard
      let bytes = try transaction.value(
        forKey: NamespaceRecord.nameKey(space.nameBytes), in: .main)
    else { return nil }
    guard let number = NamespaceRecord.number(in: bytes, name: space.nameBytes) else {
      throw LMDBError(.corrupted, during: "a namespace's name")
    }
    for item in try soundItems(hash: hash, space) where item.header.namespace == number {
      guard try hasKey(item, hash: hash, key) else { continue }
      guard !item.header.isAbsent, try isVisible(item.header, at: item.offset, hash: hash) else {
        return nil
      }
      guard let payload = try payload(of: item, hash: hash) else {
        throw StoreError.unreadable("it is damaged", in: space.name)
      }
      if item.header.lifetime != 0 { generation.table.touch(hash: hash, at: now) }
      guard let tags = try tags(of: item, hash: hash) else {
        throw StoreError.unreadable("its tags are damaged", in: space.name)
      }
      return StoredValue(payload, item.header, tags: tags)
    }
    return nil
  }
}
