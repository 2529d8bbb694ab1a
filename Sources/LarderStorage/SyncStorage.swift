// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A storage whose calls return when they are done.
///
/// It may be used from any thread, also those of Swift's pool and from completions: what the storage
/// below does asynchronously, the calling thread does itself as far as it can. Do not wait on the main
/// thread for a storage that needs the main actor.
public struct SyncStorage<Key: Sendable, Value: Sendable>: Sendable {
  /// The storage's name.
  public let storageName: String
  @usableFromInline let operations: StorageOperations<Key, Value>

  @inlinable
  init(_ storage: Storage<Key, Value>) {
    storageName = storage.storageName + "-sync"
    operations = storage.operations
  }

  /// A storage of two closures.
  public init(
    storageName: String, retrieve: @escaping @Sendable (Key) throws -> Value?,
    set: @escaping @Sendable (Value, Key) throws -> Void
  ) {
    let operations = StorageOperations<Key, Value>(
      read: StorageOperation(retrieve), write: StorageOperation { try set($0.value, $0.key) })
    self.storageName = storageName
    self.operations = operations.guarded()
  }

  /// The value of a key, or `nil`.
  @inlinable
  public func value(forKey key: Key) throws -> Value? { try operations.read.wait(key) }

  /// The value of a key, which is expected to be there.
  @inlinable
  public func retrieve(forKey key: Key) throws -> Value {
    guard let value = try operations.read.wait(key) else {
      throw operations.missNow(of: key, in: storageName)
    }
    return value
  }

  /// Stores a value.
  @inlinable
  public func set(_ value: Value, forKey key: Key) throws {
    try operations.write.wait(StorageWrite(key: key, value: value))
  }

  /// Removes a key. It has no effect if the key has no value.
  public func remove(forKey key: Key) throws {
    guard let remove = operations.remove else {
      throw StorageError.unsupported("remove", by: storageName)
    }
    try remove.wait(key)
  }

  /// Removes every key.
  public func removeAll() throws {
    guard let removeAll = operations.removeAll else {
      throw StorageError.unsupported("removeAll", by: storageName)
    }
    try removeAll.wait(())
  }

  /// The keys there are.
  public func keys() throws -> [Key] {
    guard let keys = operations.keys else {
      throw StorageError.unsupported("keys", by: storageName)
    }
    return try keys.wait(())
  }

  /// Whether there is a value for a key.
  public func contains(_ key: Key) throws -> Bool { try operations.containing.wait(key) }

  /// Changes a value and gives the new one; see ``StorageProtocol/update(forKey:_:)``.
  @discardableResult
  public func update(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value) throws -> Void
  ) throws -> Value {
    guard
      let entry = try operations.update!.wait(.existing(key, in: storageName, modify))
    else { throw StorageError.noValue(in: storageName) }
    return entry.value
  }

  /// Changes a value, which may be none before and after.
  @discardableResult
  public func updateOrInsert(
    forKey key: Key, _ modify: @escaping @Sendable (inout Value?) throws -> Void
  ) throws -> Value? {
    try operations.update!.wait(StorageUpdate(key: key, body: modify))?.value
  }
}

extension SyncStorage where Key == Void {
  /// The value, which is expected to be there.
  public func retrieve() throws -> Value { try retrieve(forKey: ()) }
  /// Stores the value.
  public func set(_ value: Value) throws { try set(value, forKey: ()) }
}

/// A storage that can be read, whose calls return when they are done.
public struct ReadOnlySyncStorage<Key: Sendable, Value: Sendable>: Sendable {
  /// The storage's name.
  public let storageName: String
  let operations: StorageOperations<Key, Value>

  /// A storage of a closure.
  public init(storageName: String, retrieve: @escaping @Sendable (Key) throws -> Value?) {
    self.init(storageName, ReadOnlyStorage(storageName, StorageOperation(retrieve)).operations)
  }

  init(_ storageName: String, _ operations: StorageOperations<Key, Value>) {
    self.storageName = storageName
    self.operations = operations
  }

  /// The value of a key, or `nil`.
  public func value(forKey key: Key) throws -> Value? { try operations.read.wait(key) }

  /// The value of a key, which is expected to be there.
  public func retrieve(forKey key: Key) throws -> Value {
    guard let value = try operations.read.wait(key) else {
      throw operations.missNow(of: key, in: storageName)
    }
    return value
  }
}

extension ReadOnlySyncStorage where Key == Void {
  /// The value, which is expected to be there.
  public func retrieve() throws -> Value { try retrieve(forKey: ()) }
}

/// A storage that can be written, whose calls return when they are done.
public struct WriteOnlySyncStorage<Key: Sendable, Value: Sendable>: Sendable {
  /// The storage's name.
  public let storageName: String
  let write: StorageOperation<StorageWrite<Key, Value>, Void>

  /// A storage of a closure.
  public init(storageName: String, set: @escaping @Sendable (Value, Key) throws -> Void) {
    self.init(storageName, StorageOperation { try set($0.value, $0.key) })
  }

  init(_ storageName: String, _ write: StorageOperation<StorageWrite<Key, Value>, Void>) {
    self.storageName = storageName
    self.write = write
  }

  /// Stores a value.
  public func set(_ value: Value, forKey key: Key) throws {
    try write.wait(StorageWrite(key: key, value: value))
  }
}

extension WriteOnlySyncStorage where Key == Void {
  /// Stores the value.
  public func set(_ value: Value) throws { try set(value, forKey: ()) }
}

extension StorageProtocol {
  /// The storage with calls that return when they are done.
  @inlinable
  public func makeSyncStorage() -> SyncStorage<Key, Value> { SyncStorage(asStorage()) }
}

extension ReadOnlyStorageProtocol {
  /// The storage with calls that return when they are done.
  public func makeSyncStorage() -> ReadOnlySyncStorage<Key, Value> {
    ReadOnlySyncStorage(storageName + "-sync", asReadOnlyStorage().operations)
  }
}

extension WriteOnlyStorageProtocol {
  /// The storage with calls that return when they are done.
  public func makeSyncStorage() -> WriteOnlySyncStorage<Key, Value> {
    WriteOnlySyncStorage(storageName + "-sync", asWriteOnlyStorage().operations.write)
  }
}
