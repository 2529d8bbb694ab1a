// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

/// Writes that depend on what is stored. No other write of any process comes between the read and the
/// write.
///
/// In a cache in memory only, the same holds among the callers of this process. Over a ``CacheStorage``
/// each of these methods throws ``/LarderEngine/StoreError`` with the code `unsupportedByStorage`.
extension PersistentCache {
  // MARK: By version

  /// Returns the value of a key with its version, for ``compareAndSet(_:forKey:ifVersion:expires:)``.
  ///
  /// It is at least as new as the last commit that any process acknowledged before the call. Pending
  /// writes of this process are committed first. The call reads the store, not memory.
  ///
  /// - Throws: ``/LarderEngine/StoreError``, as `value(forKey:)`.
  public func versionedValue(forKey key: Key) throws -> VersionedValue<Value> {
    try backend.versionedValue(key)
  }

  /// Returns the value of a key with its version, without blocking a thread of Swift's pool; see the
  /// synchronous form.
  public func versionedValue(forKey key: Key) async throws -> VersionedValue<Value> {
    try await backend.versionedValueAsync(key)
  }

  /// Stores a value if the value of the key still has a version.
  ///
  /// ```swift
  /// let old = try cache.versionedValue(forKey: "page")
  /// let isStored = try cache.compareAndSet("new", forKey: "page", ifVersion: old.version)
  /// ```
  ///
  /// - Parameters:
  ///   - value: The value, or `nil` to remove the key.
  ///   - key: The key.
  ///   - version: The version that a read has returned; ``/LarderEngine/EntryVersion/absent`` for a key
  ///     without a value.
  ///   - expires: The time from which the new value is a miss.
  /// - Returns: Whether the key had the version and was written. The write is committed then. As with
  ///   `setValue`, the new value has no tags and is not pinned.
  /// - Throws: ``/LarderEngine/StoreError``, or the error of the value's `encode(to:)`.
  public func compareAndSet(
    _ value: Value?, forKey key: Key, ifVersion version: EntryVersion, expires: Expiration = .never
  ) throws -> Bool {
    try backend.write(.comparing(value, version, expires), key)
  }

  /// Stores a value if the value of the key still has a version, without blocking a thread of Swift's
  /// pool; see the synchronous form.
  public func compareAndSet(
    _ value: Value?, forKey key: Key, ifVersion version: EntryVersion, expires: Expiration = .never
  ) async throws -> Bool {
    try await backend.writeAsync(.comparing(value, version, expires), key)
  }

  /// Stores a value if the key has none. A key that is known to be absent has none.
  ///
  /// ```swift
  /// if try sessions.setIfAbsent(session, forKey: id, expires: .after(.seconds(1800))) { welcome() }
  /// ```
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - key: The key.
  ///   - expires: The time from which the value is a miss.
  ///   - tags: The tags of the value.
  ///   - pinned: Whether the value is never evicted.
  /// - Returns: Whether the value was stored. Of several callers on the machine, one stores its value.
  /// - Throws: ``/LarderEngine/StoreError``, or the error of the value's `encode(to:)`.
  public func setIfAbsent(
    _ value: Value, forKey key: Key, expires: Expiration = .never, tags: [String] = [],
    pinned: Bool = false
  ) throws -> Bool {
    let attributes = EntryAttributes(expires, tags: tags, isPinned: pinned)
    return try backend.write(.set(value, attributes, ifVersion: .absent), key)
  }

  /// Stores a value if the key has none, without blocking a thread of Swift's pool; see the synchronous
  /// form.
  public func setIfAbsent(
    _ value: Value, forKey key: Key, expires: Expiration = .never, tags: [String] = [],
    pinned: Bool = false
  ) async throws -> Bool {
    let attributes = EntryAttributes(expires, tags: tags, isPinned: pinned)
    return try await backend.writeAsync(.set(value, attributes, ifVersion: .absent), key)
  }

  /// Gives the value of a key another expiration. Value, tags and pin stay; the version is a new one.
  ///
  /// - Returns: Whether the key has a value.
  /// - Throws: ``/LarderEngine/StoreError``, with the code
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a lifetime of zero or less.
  @discardableResult
  public func touch(forKey key: Key, expires: Expiration) throws -> Bool {
    try backend.write(.renew(expires), key)
  }

  /// Gives the value of a key another expiration, without blocking a thread of Swift's pool; see the
  /// synchronous form.
  @discardableResult
  public func touch(forKey key: Key, expires: Expiration) async throws -> Bool {
    try await backend.writeAsync(.renew(expires), key)
  }

  // MARK: By value

  /// Replaces the value of a key by one that a closure makes of it.
  ///
  /// ```swift
  /// try scores.update(forKey: "ada") { old in (old ?? []) + [42] }
  /// ```
  ///
  /// The closure runs on one thread under the writer lock of the store, so it should be short. It may
  /// run again from the beginning if the first run cannot be kept. A write to the store inside it fails
  /// with ``/LarderEngine/StoreError/Code/insideTransaction``. The new value keeps the tags of the old
  /// one and whether it is pinned.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - expires: The time from which the new value is a miss, or `nil` to keep the expiration of the
  ///     old value.
  ///   - body: A closure that receives the value, or `nil` if the key has none, and returns the new one,
  ///     or `nil` to remove the key.
  /// - Returns: The value that the closure returned. It is committed.
  /// - Throws: The error of `body`, which leaves the old value; ``/LarderEngine/StoreError``, as
  ///   `value(forKey:)` and `setValue(_:forKey:expires:tags:pinned:)`.
  @discardableResult
  public func update(
    forKey key: Key, expires: Expiration? = nil,
    _ body: @escaping @Sendable (_ old: Value?) throws -> Value?
  ) throws -> Value? {
    try backend.change(.updating(expires, body), key).value
  }

  /// Replaces the value of a key by one that a closure makes of it, on a thread of the store; see the
  /// synchronous form.
  @discardableResult
  public func update(
    forKey key: Key, expires: Expiration? = nil,
    _ body: @escaping @Sendable (_ old: Value?) throws -> Value?
  ) async throws -> Value? {
    try await backend.changeAsync(.updating(expires, body), key).value
  }

  /// Stores a value and returns the one that it replaces, or `nil` if there was none.
  ///
  /// - Parameters:
  ///   - value: The new value, which has no tags and is not pinned if the key had no value.
  ///   - key: The key.
  ///   - expires: The time from which the new value is a miss.
  /// - Throws: ``/LarderEngine/StoreError``, as ``update(forKey:expires:_:)``; an old value that cannot be
  ///   read stays.
  public func swapValue(
    _ value: Value, forKey key: Key, expires: Expiration = .never
  ) throws -> Value? {
    let old = OldValue<Value>()
    _ = try backend.change(old.swapping(value, expires), key)
    return old.value
  }

  /// Stores a value and returns the one that it replaces, without blocking a thread of Swift's pool; see
  /// the synchronous form.
  public func swapValue(
    _ value: Value, forKey key: Key, expires: Expiration = .never
  ) async throws -> Value? {
    let old = OldValue<Value>()
    _ = try await backend.changeAsync(old.swapping(value, expires), key)
    return old.value
  }

  /// Removes a key and returns the value that it had. Of several callers on the machine, one receives it.
  ///
  /// - Throws: ``/LarderEngine/StoreError``, as `value(forKey:)`; a value that cannot be read stays.
  public func takeValue(forKey key: Key) throws -> Value? {
    let old = OldValue<Value>()
    _ = try backend.change(old.taking(), key)
    return old.value
  }

  /// Removes a key and returns the value that it had, without blocking a thread of Swift's pool; see the
  /// synchronous form.
  public func takeValue(forKey key: Key) async throws -> Value? {
    let old = OldValue<Value>()
    _ = try await backend.changeAsync(old.taking(), key)
    return old.value
  }

  // MARK: Several keys

  /// Removes keys in one transaction: other processes read all of them or none.
  ///
  /// - Returns: The number of keys that had a value.
  /// - Throws: ``/LarderEngine/StoreError``; then none is removed. Over a ``CacheStorage`` and in a cache
  ///   in memory only, the keys are removed one at a time.
  @discardableResult
  public func removeValues(forKeys keys: some Sequence<Key>) throws -> Int {
    try backend.remove(keys)
  }

  /// Removes keys in one transaction, without blocking a thread of Swift's pool; see the synchronous
  /// form.
  @discardableResult
  public func removeValues(forKeys keys: some Sequence<Key>) async throws -> Int {
    try await backend.removeAsync(keys)
  }
}

extension ConditionalWrite {
  fileprivate static func comparing(
    _ value: Value?, _ version: EntryVersion, _ expires: Expiration
  ) -> Self {
    value.map { .set($0, EntryAttributes(expires), ifVersion: version) }
      ?? .remove(ifVersion: version)
  }
}
