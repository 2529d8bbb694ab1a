// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

// MARK: Reading

extension ReadableStorageProtocol {
  /// The value of a key, which is expected to be there.
  ///
  /// - Throws: ``StorageError/Code/noValue`` when it is not; other errors when it is not known.
  @inlinable
  public func retrieve(forKey key: Key) async throws -> Value {
    guard let value = try await value(forKey: key) else {
      throw await asReadOnlyStorage().operations.miss(of: key, in: storageName)
    }
    return value
  }

  /// Retrieves a value and calls back.
  ///
  /// Calls with completions take effect in the order in which they are made: a `retrieve` gives what the
  /// `set` before it stores. That is the order of the calls of a key of a storage, in whatever form the
  /// storage is used: mapped, as a front or as a back. The forms with `await` and the
  /// synchronous ones take effect when they return, after calls whose completion has run. The order of
  /// a storage that is a value type of a program's own is that of all values of the type.
  ///
  /// Storages that never wait call back before this returns, on the calling thread, unless an earlier
  /// call is pending; others later, on another thread. The completion may use any storage in any form.
  /// It fails with ``StorageError/Code/lockTimeout`` when 65,536 calls of the process are pending.
  @preconcurrency
  public func retrieve(
    forKey key: Key, completion: @escaping @Sendable (Result<Value, any Error>) -> Void
  ) {
    let (name, operations) = (storageName, asReadOnlyStorage().operations)
    operations.retrieving(in: name).call(
      key, in: operations.lanes?(key) ?? [], isWrite: false, completion)
  }

  /// Whether there is a value for a key.
  public func contains(_ key: Key) async throws -> Bool {
    try await asReadOnlyStorage().operations.containing(key)
  }

  /// The keys there are, in no particular order.
  ///
  /// - Throws: ``StorageError/Code/unsupported`` if the storage cannot list its keys.
  public func keys() async throws -> [Key] {
    guard let keys = asReadOnlyStorage().operations.keys else {
      throw StorageError.unsupported("keys", by: storageName)
    }
    return try await keys(())
  }
}

extension ReadableStorageProtocol where Key == Void {
  /// The value, or `nil`.
  public func value() async throws -> Value? { try await value(forKey: ()) }

  /// The value, which is expected to be there.
  public func retrieve() async throws -> Value { try await retrieve(forKey: ()) }

  /// Retrieves the value and calls back.
  @preconcurrency
  public func retrieve(completion: @escaping @Sendable (Result<Value, any Error>) -> Void) {
    retrieve(forKey: (), completion: completion)
  }
}

// MARK: Writing

extension WritableStorageProtocol {
  /// Stores a value and calls back, in order with other calls: see
  /// ``ReadableStorageProtocol/retrieve(forKey:completion:)``.
  @preconcurrency
  public func set(
    _ value: Value, forKey key: Key,
    completion: @escaping @Sendable (Result<Void, any Error>) -> Void
  ) {
    let operations = asWriteOnlyStorage().operations
    operations.write.call(
      StorageWrite(key: key, value: value), in: operations.lanes?(key) ?? [], completion)
  }

  /// Stores a value that expires at a time.
  ///
  /// - Throws: ``StorageError/Code/unsupported`` when the storage's values do not expire, or if the time is
  ///   not a number.
  public func set(_ value: Value, forKey key: Key, expires: Date) async throws {
    if expires.timeIntervalSinceReferenceDate.isNaN {
      throw StorageError(
        .unsupported, during: "set",
        "The expiration time is not a number (NaN). Nothing was stored. Pass a date that is one.")
    }
    let operations = asWriteOnlyStorage().operations
    guard operations.supportsExpiration else {
      throw StorageError.unsupported("set with an expiration", by: storageName)
    }
    try await operations.write(StorageWrite(key: key, value: value, expires: expires))
  }

  /// Stores a value that expires after a duration, from now by the system's clock. For a storage with
  /// another clock, use ``set(_:forKey:expires:)``.
  public func set(_ value: Value, forKey key: Key, expiresIn time: Duration) async throws {
    let (seconds, attoseconds) = time.components
    try await set(
      value, forKey: key,
      expires: Date(timeIntervalSinceNow: Double(seconds) + Double(attoseconds) / 1e18))
  }

  /// Removes a key. It has no effect if the key has no value.
  ///
  /// - Throws: ``StorageError/Code/unsupported`` when the storage cannot remove.
  public func remove(forKey key: Key) async throws {
    guard let remove = asWriteOnlyStorage().operations.remove else {
      throw StorageError.unsupported("remove", by: storageName)
    }
    try await remove(key)
  }

  /// Removes a key and calls back, in order with other calls: see
  /// ``ReadableStorageProtocol/retrieve(forKey:completion:)``.
  @preconcurrency
  public func remove(
    forKey key: Key, completion: @escaping @Sendable (Result<Void, any Error>) -> Void
  ) {
    let operations = asWriteOnlyStorage().operations
    guard let remove = operations.remove else {
      return completion(.failure(StorageError.unsupported("remove", by: storageName)))
    }
    remove.call(key, in: operations.lanes?(key) ?? [], completion)
  }

  /// Removes every key.
  ///
  /// - Throws: ``StorageError/Code/unsupported`` when the storage cannot.
  public func removeAll() async throws {
    guard let removeAll = asWriteOnlyStorage().operations.removeAll else {
      throw StorageError.unsupported("removeAll", by: storageName)
    }
    try await removeAll(())
  }
}

extension WritableStorageProtocol where Key == Void {
  /// Stores the value.
  public func set(_ value: Value) async throws { try await set(value, forKey: ()) }

  /// Stores the value and calls back.
  @preconcurrency
  public func set(
    _ value: Value, completion: @escaping @Sendable (Result<Void, any Error>) -> Void
  ) {
    set(value, forKey: (), completion: completion)
  }

  /// Removes the value.
  public func remove() async throws { try await remove(forKey: ()) }
}

// MARK: Changing

extension StorageProtocol {
  /// Changes the value of a key that has one, and gives the new one.
  ///
  /// No other write occurs between the read and the write: among processes for files and shared stores;
  /// in this process for storages in memory; for a custom storage, among the users of one
  /// ``Storage`` of it and its copies. The closure may be called again after a concurrent change. A
  /// write to the same storage in it throws ``StorageError/Code/recursiveUpdate``.
  ///
  /// - Throws: ``StorageError/Code/noValue`` if the key has no value; nothing is written then.
  @discardableResult
  public func update(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value) throws -> Void
  ) async throws -> Value {
    try await updating(key, modify)
  }

  /// Changes a value and calls back with the new one, in order with other calls: see
  /// ``ReadableStorageProtocol/retrieve(forKey:completion:)``.
  @preconcurrency
  public func update(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value) -> Void,
    completion: @escaping @Sendable (Result<Value, any Error>) -> Void
  ) {
    let (operations, name) = (asStorage().operations, storageName)
    operations.update!.map { entry -> Value in
      guard let entry else { throw StorageError.noValue(in: name) }
      return entry.value
    }.call(
      .existing(key, in: name, modify), in: operations.lanes?(key) ?? [], completion)
  }

  /// Changes the value of a key, which may be none before and after: `nil` removes.
  ///
  /// As ``update(forKey:_:)`` otherwise.
  @discardableResult
  public func updateOrInsert(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value?) throws -> Void
  ) async throws -> Value? {
    try await asStorage().operations.update!(StorageUpdate(key: key, body: modify))?.value
  }

  private func updating(
    _ key: Key, _ modify: @escaping @Sendable (inout Value) throws -> Void
  ) async throws -> Value {
    let storage = asStorage()
    let entry = try await storage.operations.update!(.existing(key, in: storageName, modify))
    guard let entry else { throw StorageError.noValue(in: storageName) }
    return entry.value
  }
}

extension SynchronousStorage {
  /// Changes the value of a key that has one, in synchronous code; as
  /// ``StorageProtocol/update(forKey:_:)`` otherwise.
  ///
  /// - Throws: ``StorageError/Code/noValue`` if the key has no value; nothing is written then.
  @discardableResult
  public func update(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value) throws -> Void
  ) throws -> Value {
    try makeSyncStorage().update(forKey: key, modify)
  }

  /// Changes the value of a key, which may be none before and after, in synchronous code: `nil` removes.
  @discardableResult
  public func updateOrInsert(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value?) throws -> Void
  ) throws -> Value? {
    try makeSyncStorage().updateOrInsert(forKey: key, modify)
  }
}

extension StorageProtocol where Key == Void {
  /// Changes the value and gives the new one; see ``StorageProtocol/update(forKey:_:)``.
  @discardableResult
  public func update(
    _ modify: @escaping @Sendable (inout Value) throws -> Void
  ) async throws -> Value {
    try await update(forKey: (), modify)
  }

  /// Changes the value and calls back with the new one.
  @preconcurrency
  public func update(
    _ modify: @escaping @Sendable (inout Value) -> Void,
    completion: @escaping @Sendable (Result<Value, any Error>) -> Void
  ) {
    update(forKey: (), modify, completion: completion)
  }
}

extension StorageUpdate {
  /// A change of what must be there.
  static func existing(
    _ key: Key, in name: String, _ modify: @escaping @Sendable (inout Value) throws -> Void
  ) -> StorageUpdate {
    StorageUpdate(key: key) { value in
      guard var known = value else { throw StorageError.noValue(in: name) }
      try modify(&known)
      value = known
    }
  }
}
