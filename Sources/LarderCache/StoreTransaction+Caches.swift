// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// The values of caches in a transaction of their store.
///
/// ```swift
/// try store.write { transaction in
///   let left = try transaction.value(forKey: "ada", in: balances) ?? 0
///   try transaction.setValue(left - 5, forKey: "ada", in: balances)
///   try transaction.setValue("5 from ada", forKey: 17, in: receipts)
/// }
/// ```
///
/// Other processes read all changes of a transaction or none.
extension StoreTransaction {
  /// Returns the value of a key, with the changes of this transaction.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - cache: A cache over the store of the transaction.
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError`` with the code
  ///   ``/LarderEngine/StoreError/Code/unreadableEntry``, or
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a cache of another store.
  public func value<Key: CacheKey, Value: Codable & Sendable>(
    forKey key: Key, in cache: PersistentCache<Key, Value>
  ) throws -> Value? {
    let (backend, place) = try place(of: key, in: cache, "get")
    guard let stored = try value(forKey: place.encoded, in: place.space) else { return nil }
    return try backend.context.decode(stored.payload, codec: stored.codec, of: key)
  }

  /// Stores a value of a cache.
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - key: The key.
  ///   - cache: A cache over the store of the transaction.
  ///   - expires: The time from which the value is a miss.
  ///   - tags: The tags of the value.
  ///   - pinned: Whether the value is never evicted.
  /// - Throws: ``/LarderEngine/StoreError``, as `setValue(_:forKey:expires:tags:pinned:)` of the cache;
  ///   with ``/LarderEngine/StoreError/Code/invalidOption`` for a cache of another store.
  public mutating func setValue<Key: CacheKey, Value: Codable & Sendable>(
    _ value: Value, forKey key: Key, in cache: PersistentCache<Key, Value>,
    expires: Expiration = .never, tags: [String] = [], pinned: Bool = false
  ) throws {
    let (backend, place) = try place(of: key, in: cache, "set")
    let content = try backend.content(
      value, place.encoded, EntryAttributes(expires, tags: tags, isPinned: pinned), place.core)
    try set(content, forKey: place.encoded, in: place.space)
  }

  /// Removes a key of a cache.
  ///
  /// - Returns: Whether the key had a value.
  /// - Throws: ``/LarderEngine/StoreError``, with ``/LarderEngine/StoreError/Code/invalidOption`` for a
  ///   cache of another store.
  @discardableResult
  public mutating func removeValue<Key: CacheKey, Value: Codable & Sendable>(
    forKey key: Key, in cache: PersistentCache<Key, Value>
  ) throws -> Bool {
    let (_, place) = try place(of: key, in: cache, "remove")
    return try unset(place.encoded, in: place.space)
  }

  private func place<Key: CacheKey, Value: Codable & Sendable>(
    of key: Key, in cache: PersistentCache<Key, Value>, _ operation: String
  ) throws -> (StoreBackend<Key, Value>, StoreKey) {
    let (backend, place) = try cache.place(of: key, operation)
    guard try place.core.generation() === generation else {
      throw StoreError.ofAnotherStore(operation)
    }
    return (backend, place)
  }
}

/// The values of caches in a snapshot of their store.
extension StoreSnapshot {
  /// Returns the value of a key.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - cache: A cache over the store of the snapshot.
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError`` with the code
  ///   ``/LarderEngine/StoreError/Code/unreadableEntry``, or
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a cache of another store.
  public func value<Key: CacheKey, Value: Codable & Sendable>(
    forKey key: Key, in cache: PersistentCache<Key, Value>
  ) throws -> Value? {
    let (backend, place) = try cache.place(of: key, "get")
    guard place.core === core else { throw StoreError.ofAnotherStore("get") }
    guard let stored = try value(forKey: place.encoded, in: place.space) else { return nil }
    return try backend.context.decode(stored.payload, codec: stored.codec, of: key)
  }
}

extension PersistentCache {
  fileprivate func place(
    of key: Key, _ operation: String
  ) throws -> (StoreBackend<Key, Value>, StoreKey) {
    guard let backend = backend.transactional else { throw StoreError.ofAnotherStore(operation) }
    return (backend, try backend.open(operation, key))
  }
}

extension StoreError {
  static func ofAnotherStore(_ operation: String) -> StoreError {
    StoreError(
      .invalidOption, during: operation,
      "The cache or deque is not one over this store. Create it with the store.")
  }
}
