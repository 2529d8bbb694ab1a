// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine

extension PersistentCache {
  /// Returns the value of a key.
  ///
  /// It is at least as new as the last commit that any process acknowledged before the call.
  ///
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError`` with the code `unreadableEntry` if the entry is damaged, has
  ///   a newer format, or holds another type; other codes if the store fails.
  @inlinable
  public func value(forKey key: Key) throws -> Value? {
    if let value = tier.validValue(key) { return value }
    return try loadValue(key)
  }

  /// Returns the value of a key, in an asynchronous context.
  ///
  /// A read never waits for writers, so it suspends only for the answer of a remote server.
  ///
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError``, as the synchronous form.
  @inlinable
  public func value(forKey key: Key) async throws -> Value? {
    if let value = tier.validValue(key) { return value }
    return try await loadValueAsync(key)
  }

  @usableFromInline func loadValueAsync(_ key: Key) async throws -> Value? {
    try await backend.stateAsync(key).value?.value
  }

  @usableFromInline func loadValue(_ key: Key) throws -> Value? { try backend.load(key)?.value }

  /// Returns the values of several keys, all from one snapshot of the store.
  ///
  /// Pending writes of this process override the snapshot, as in every read.
  ///
  /// - Returns: The values of the keys that have one.
  /// - Throws: ``/LarderEngine/StoreError``, as `value(forKey:)`; with the code `invalidOption` if two of the keys
  ///   differ only in the form of Unicode of their texts, so that a dictionary cannot have both.
  /// - Complexity: One read transaction, whatever the number of keys.
  public func values(forKeys keys: some Sequence<Key>) throws -> [Key: Value] {
    try backend.values(for: distinct(keys))
  }

  /// Returns the values of several keys, in an asynchronous context; see the synchronous form. It suspends
  /// only for the answer of a remote server.
  public func values(forKeys keys: some Sequence<Key>) async throws -> [Key: Value] {
    try await backend.valuesAsync(for: distinct(keys))
  }

  /// Returns keys for a dictionary of their values.
  ///
  /// - Throws: ``/LarderEngine/StoreError/Code/invalidOption`` if two different keys are equal in Swift: a
  ///   dictionary would have the value of one for both.
  func distinct(_ keys: some Sequence<Key>) throws(StoreError) -> [Key] {
    let keys = Array(keys)
    if keys.count < 2 { return keys }
    switch Key.keyTag {
    case .integer, .uuid, .bytes: return keys
    default: break
    }
    // Texts of ASCII have one form. The array is cast once, which copies nothing.
    if let texts = keys as? [String], texts.allSatisfy({ $0.utf8.allSatisfy { $0 < 0x80 } }) {
      return keys
    }
    if keys.count <= Self.fewKeys {
      for (position, key) in keys.enumerated() {
        for other in keys[..<position] where other == key { try requireSame(other, key) }
      }
      return keys
    }
    var seen: [Key: Key] = [:]
    seen.reserveCapacity(keys.count)
    for key in keys {
      if let other = seen.updateValue(key, forKey: key) { try requireSame(other, key) }
    }
    return keys
  }

  /// The number of keys up to which each is compared with each, without an allocation.
  private static var fewKeys: Int { 16 }

  private func requireSame(_ other: Key, _ key: Key) throws(StoreError) {
    if isSameKey(other, key) { return }
    throw StoreError(
      .invalidOption, during: "get",
      "Two of the keys, \(key) and \(other), are equal in Swift, but they are different keys: their texts "
        + "have different forms of Unicode. A dictionary cannot have both. Read them one by one.")
  }

  /// Returns whether a key has a value.
  ///
  /// - Throws: ``/LarderEngine/StoreError`` if the store fails. A value that cannot be decoded counts.
  public func contains(_ key: Key) throws -> Bool {
    try tier.validValue(key) != nil || backend.contains(key)
  }

  /// Returns whether a key has a value, in an asynchronous context; see the synchronous form. It suspends
  /// only for the answer of a remote server.
  public func contains(_ key: Key) async throws -> Bool {
    if tier.validValue(key) != nil { return true }
    return try await backend.containsAsync(key)
  }

  /// Returns the value of a key with its expiration time, both of one write.
  ///
  /// Reads as ``value(forKey:)``, and throws the errors that ``subscript(item:)`` only reports.
  ///
  /// - Parameter key: The key.
  /// - Returns: The item, or `nil` if the key has no value.
  /// - Throws: ``/LarderEngine/StoreError``, as ``value(forKey:)``.
  public func item(forKey key: Key) throws -> Item<Value>? { try backend.load(key)?.item }

  /// Returns the value of a key with its expiration time, in an asynchronous context; see the synchronous
  /// form. It suspends only for the answer of a remote server.
  public func item(forKey key: Key) async throws -> Item<Value>? {
    try await backend.stateAsync(key).value?.item
  }
}

extension PersistentCache where Key: DecodableCacheKey {
  /// Returns the keys that have a value, in no particular order.
  ///
  /// The keys are read in pages, each from a new snapshot, so that no reader pins the file. A key that
  /// is written or removed during the call may or may not be among them.
  ///
  /// - Throws: ``/LarderEngine/StoreError``; with the code `unsupportedByStorage` over a
  ///   ``CacheStorage``.
  /// - Complexity: O(*n*) for *n* entries of the whole store.
  public func keys() throws -> [Key] { try backend.keys { Key(keyBytes: $0) } }

  /// Returns the keys that have a value, in no particular order, without blocking a thread of Swift's
  /// pool. Throws as the synchronous form.
  public func keys() async throws -> [Key] {
    try await BlockingWork.run { try self.keys() }
  }
}
