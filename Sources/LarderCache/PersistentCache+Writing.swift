// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

extension PersistentCache {
  /// Stores a value. The value is committed when the call returns, and survives a `kill -9` from then
  /// on; other processes read it from their next read on.
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - key: The key.
  ///   - expires: The time from which the value is a miss.
  ///   - tags: The tags by which ``removeAll(tagged:)`` removes the value: at most 64, each of 1 to 250
  ///     bytes of UTF-8.
  ///   - pinned: Whether the value is never evicted from the store. It can expire and be removed.
  ///     Pinned entries have at most half of each budget.
  /// - Throws: ``/LarderEngine/StoreError``, with the code
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a lifetime of zero or less or invalid tags,
  ///   ``/LarderEngine/StoreError/Code/pinLimitReached``, or the error of the value's `encode(to:)`.
  public func setValue(
    _ value: Value, forKey key: Key, expires: Expiration = .never, tags: [String] = [],
    pinned: Bool = false
  ) throws {
    _ = try backend.write(
      value, for: key, EntryAttributes(expires, tags: tags, isPinned: pinned))
  }

  /// Stores a value. The value is committed when the call returns.
  ///
  /// A thread of the store commits it, without blocking a thread of Swift's pool. Throws as the
  /// synchronous form.
  public func setValue(
    _ value: Value, forKey key: Key, expires: Expiration = .never, tags: [String] = [],
    pinned: Bool = false
  ) async throws {
    _ = try await backend.writeAsync(
      value, for: key, EntryAttributes(expires, tags: tags, isPinned: pinned))
  }

  /// Stores several values in one transaction: other processes read all of them or none.
  ///
  /// They are committed when the call returns.
  ///
  /// - Throws: ``/LarderEngine/StoreError``, or the error of a value's `encode(to:)`; then none is
  ///   stored.
  public func setValues(
    _ values: some Sequence<(key: Key, value: Value)>, expires: Expiration = .never,
    tags: [String] = [], pinned: Bool = false
  ) throws {
    try backend.setAll(values, EntryAttributes(expires, tags: tags, isPinned: pinned))
  }

  /// Stores several values in one transaction: other processes read all of them or none.
  ///
  /// A thread of the store commits them, without blocking a thread of Swift's pool. Throws as the
  /// synchronous form.
  public func setValues(
    _ values: some Sequence<(key: Key, value: Value)>, expires: Expiration = .never,
    tags: [String] = [], pinned: Bool = false
  ) async throws {
    try await backend.setAllAsync(values, EntryAttributes(expires, tags: tags, isPinned: pinned))
  }

  /// Removes a key for all processes. The removal is committed when the call returns.
  ///
  /// - Returns: Whether there was a value.
  /// - Throws: ``/LarderEngine/StoreError``.
  @discardableResult
  public func removeValue(forKey key: Key) throws -> Bool {
    try backend.write(nil, for: key, EntryAttributes())
  }

  /// Removes a key for all processes, without blocking a thread of Swift's pool. The removal is
  /// committed when the call returns.
  ///
  /// - Returns: Whether there was a value.
  /// - Throws: ``/LarderEngine/StoreError``.
  @discardableResult
  public func removeValue(forKey key: Key) async throws -> Bool {
    try await backend.writeAsync(nil, for: key, EntryAttributes())
  }

  /// Removes every value of the cache's namespace for all processes, which read none from the end of
  /// the call on. The store deletes the data later.
  ///
  /// - Throws: ``/LarderEngine/StoreError``; over a ``CacheStorage``, the error of its
  ///   ``CacheStorage/removeAll(withPrefix:)``.
  public func removeAll() throws { try backend.removeAll() }

  /// Removes every value of the cache's namespace for all processes, without blocking a thread of
  /// Swift's pool. Throws as the synchronous form.
  public func removeAll() async throws {
    try await backend.removeAllAsync()
  }
}
