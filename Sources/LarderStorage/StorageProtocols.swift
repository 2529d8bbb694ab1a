// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A storage with a name, for messages and logs.
public protocol StorageDesign: Sendable {
  /// The storage's name.
  var storageName: String { get }
}

extension StorageDesign {
  public var storageName: String { String(describing: Self.self) }
}

/// A storage that can be read.
public protocol ReadableStorageProtocol<Key, Value>: StorageDesign {
  /// The type of the keys.
  associatedtype Key: Sendable
  /// The type of the values.
  associatedtype Value: Sendable

  /// Returns the value of a key, or `nil` if it has none. Throws if that cannot be determined.
  func value(forKey key: Key) async throws -> Value?

  /// The storage as one that can be read only.
  func asReadOnlyStorage() -> ReadOnlyStorage<Key, Value>
}

/// A storage that can be written.
public protocol WritableStorageProtocol<Key, Value>: StorageDesign {
  /// The type of the keys.
  associatedtype Key: Sendable
  /// The type of the values.
  associatedtype Value: Sendable

  /// Stores a value. When it returns, reading gives it.
  func set(_ value: Value, forKey key: Key) async throws

  /// The storage as one that can be written only.
  func asWriteOnlyStorage() -> WriteOnlyStorage<Key, Value>
}

/// A storage that can be read and not written, and has the combinators of such.
public protocol ReadOnlyStorageProtocol<Key, Value>: ReadableStorageProtocol {}

/// A storage that can be written and not read, and has the combinators of such.
public protocol WriteOnlyStorageProtocol<Key, Value>: WritableStorageProtocol {}

/// A storage: values by key.
///
/// A custom storage needs two methods:
///
/// ```swift
/// struct Remote: StorageProtocol {
///   func value(forKey path: String) async throws -> Data? {
///     let (data, response) = try await URLSession.shared.data(from: url(path))
///     return (response as? HTTPURLResponse)?.statusCode == 404 ? nil : data
///   }
///   func set(_ data: Data, forKey path: String) async throws { … }
/// }
/// let images = MemoryStorage<String, Data>().combined(with: Remote())
/// ```
///
/// One that never waits for asynchronous work declares ``SynchronousStorage``: then what is composed
/// over it does not either. One that can remove, list or change in place gives ``operations``.
public protocol StorageProtocol<Key, Value>: ReadableStorageProtocol, WritableStorageProtocol {
  /// All the storage can do; by default reading and writing.
  var operations: StorageOperations<Key, Value> { get }
}

/// A storage whose two methods return without waiting for asynchronous work.
public protocol SynchronousStorage<Key, Value>: StorageProtocol {
  /// Returns the value of a key, or `nil` if the storage has none.
  func value(forKey key: Key) throws -> Value?
  /// Stores a value under a key, in place of an earlier one.
  func set(_ value: Value, forKey key: Key) throws
}

extension ReadableStorageProtocol {
  /// Returns the storage without its write operations.
  public func asReadOnlyStorage() -> ReadOnlyStorage<Key, Value> {
    ReadOnlyStorage(
      storageName, StorageOperation<Key, Value?>.asynchronous({ try await self.value(forKey: $0) }),
      orderedAs: self)
  }
}

extension WritableStorageProtocol {
  public func asWriteOnlyStorage() -> WriteOnlyStorage<Key, Value> {
    WriteOnlyStorage(
      storageName,
      StorageOperation<StorageWrite<Key, Value>, Void>.asynchronous({
        try await self.set($0.value, forKey: $0.key)
      }), orderedAs: self)
  }
}

extension StorageProtocol {
  public var operations: StorageOperations<Key, Value> {
    StorageOperations(
      read: .asynchronous({ try await self.value(forKey: $0) }),
      write: .asynchronous({ try await self.set($0.value, forKey: $0.key) }))
  }

  /// Returns the storage without its write operations.
  @inlinable
  public func asReadOnlyStorage() -> ReadOnlyStorage<Key, Value> {
    ReadOnlyStorage(storageName: storageName, operations: asStorage().operations)
  }

  @inlinable
  public func asWriteOnlyStorage() -> WriteOnlyStorage<Key, Value> {
    WriteOnlyStorage(storageName: storageName, operations: asStorage().operations)
  }

  /// The storage without its type.
  @inlinable
  public func asStorage() -> Storage<Key, Value> { Storage(self) }
}

extension SynchronousStorage {
  public var operations: StorageOperations<Key, Value> {
    StorageOperations(
      read: StorageOperation { try self.value(forKey: $0) },
      write: StorageOperation { try self.set($0.value, forKey: $0.key) })
  }
}

// For asynchronous callers: every storage is called the same way there.
extension SynchronousStorage {
  /// Returns the value of a key, or `nil`. Blocking work runs outside Swift's cooperative pool.
  public func value(forKey key: Key) async throws -> Value? { try await operations.read(key) }

  /// Stores a value. Blocking work runs outside Swift's cooperative pool.
  public func set(_ value: Value, forKey key: Key) async throws {
    try await operations.write(StorageWrite(key: key, value: value))
  }
}
