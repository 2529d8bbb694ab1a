// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderSystem

// THE ASYNCHRONOUS FORMS
//
// A commit, a sync and a compaction wait for other processes or for the disk. In a task, these forms are
// called, and no thread of Swift's pool is blocked: the store's thread commits a write, and threads outside
// of the pool run what takes longer. What holds across processes, the errors and the complexity are those
// of the synchronous forms. Reads have no asynchronous form: they wait for nothing but a switch to new files.

extension SharedStore {
  /// Waits until every earlier `cache[key] = value` of this process is committed, and, for a `.relaxed`
  /// store, until every earlier commit of any process is on the disk.
  ///
  /// - Throws: ``StoreError``.
  public func sync() async throws {
    try await BackgroundExecutor.shared.run { try self.sync() }
  }

  /// Stores bytes for a key, and suspends the task until the commit; see the synchronous form.
  ///
  /// ```swift
  /// let session: [UInt8] = [1, 2, 3]
  /// try await store.setBytes(session, forKey: "7f3a", in: "sessions", expires: .after(.seconds(3600)))
  /// ```
  ///
  /// - Throws: ``StoreError``.
  public func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, in namespace: String = "",
    expires: Expiration = .never, tags: [String] = [], pinned: Bool = false
  ) async throws {
    try await StoreNamespace(store: self, name: namespace).setBytes(
      bytes, forKey: key, expires: expires, tags: tags, pinned: pinned)
  }

  /// Removes the entry of a key for every process, and suspends the task until the commit.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Returns: Whether a visible entry was removed.
  /// - Throws: ``StoreError``.
  @discardableResult
  public func remove(
    forKey key: some CacheKey, in namespace: String = ""
  ) async throws -> Bool {
    try await StoreNamespace(store: self, name: namespace).remove(forKey: key)
  }

  /// Removes every entry of every namespace, for every process, without blocking a thread of
  /// Swift's pool.
  ///
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func removeAll() async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll() }
  }

  /// Removes every entry of a namespace, for every process, without blocking a thread of Swift's
  /// pool.
  ///
  /// - Parameter namespace: The name of the namespace, at most 400 bytes of UTF-8.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func removeAll(in namespace: String) async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll(in: namespace) }
  }

  /// Removes every entry with a tag, in all namespaces, for every process, without blocking a thread of
  /// Swift's pool; see the synchronous form.
  ///
  /// - Parameter tag: The tag, 1 to 250 bytes of UTF-8.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a tag of another length.
  public func removeAll(tagged tag: String) async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll(tagged: tag) }
  }

  /// Removes expired entries, without blocking a thread of Swift's pool.
  ///
  /// - Returns: The number of removed entries.
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*m* log *n*) for *m* expired entries.
  @discardableResult
  public func removeExpired() async throws -> Int {
    try await BackgroundExecutor.shared.run { try self.removeExpired() }
  }

  /// Returns the token of the newest commit, which contains every write that this process began before
  /// the call. Suspends the task until its pending writes are committed.
  ///
  /// - Throws: ``StoreError``.
  public func commitToken() async throws -> CommitToken {
    try await BackgroundExecutor.shared.run { try self.commitToken() }
  }

  /// Copies the stored data into new files without free pages, without blocking a thread of Swift's
  /// pool; see the synchronous form.
  ///
  /// - Throws: ``StoreError``; ``StoreError/Code/storageFull`` if the disk has no space for the
  ///   copy. Then nothing has changed.
  /// - Complexity: Reads and writes all stored data.
  public func compact() async throws {
    try await BackgroundExecutor.shared.run { try self.compact() }
  }
}

extension StoreNamespace {
  /// Stores bytes for a key, and suspends the task until the commit; see the synchronous form.
  ///
  /// - Throws: ``StoreError``.
  public func setBytes(
    _ bytes: [UInt8], forKey key: some CacheKey, expires: Expiration = .never,
    tags: [String] = [], pinned: Bool = false
  ) async throws {
    try await write(bytes, EncodedKey(key), EntryAttributes(expires, tags: tags, isPinned: pinned))
  }

  private func write(
    _ bytes: [UInt8], _ key: EncodedKey, _ attributes: EntryAttributes
  ) async throws {
    let core = try store.openCore("set")
    let record = try put(bytes, key, attributes, core)
    _ = try await core.submitAsync(record.kind, space: space, key: record.key)
  }

  /// Records that a key is known to have no value, for every process, and suspends the task until the
  /// commit; see the synchronous form.
  ///
  /// - Throws: ``StoreError``.
  public func setAbsent(
    forKey key: some CacheKey, expires: Expiration, tags: [String] = []
  ) async throws {
    try await write([], EncodedKey(key), EntryAttributes(expires, tags: tags, isAbsent: true))
  }

  /// Removes the entry of a key for every process, and suspends the task until the commit.
  ///
  /// - Parameter key: The key.
  /// - Returns: Whether a visible entry was removed.
  /// - Throws: ``StoreError``.
  @discardableResult
  public func remove(forKey key: some CacheKey) async throws -> Bool {
    let core = try store.openCore("remove")
    let result = try await core.submitAsync(.remove, space: space, key: EncodedKey(key))
    if case .done(_, let changed) = result { return changed }
    return false
  }

  /// Removes every entry of the namespace with a tag, for every process, without blocking a thread of
  /// Swift's pool.
  ///
  /// - Parameter tag: The tag, 1 to 250 bytes of UTF-8.
  /// - Throws: ``StoreError``; ``StoreError/Code/invalidOption`` for a tag of another length.
  public func removeAll(tagged tag: String) async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll(tagged: tag) }
  }

  /// Removes every entry of the namespace, for every process, without blocking a thread of Swift's pool.
  ///
  /// - Throws: ``StoreError``.
  /// - Complexity: O(*n*) in the entries of the store.
  public func removeAll() async throws {
    try await BackgroundExecutor.shared.run { try self.removeAll() }
  }
}
