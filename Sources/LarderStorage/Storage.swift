// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A type-erased storage of keys and values.
///
/// ```swift
/// let images: Storage<String, Data> = MemoryStorage<Filename, Data>(countLimit: 200)
///   .combined(with: DiskStorage.main.folder("images", in: .cachesDirectory))
///   .usingStringKeys()
/// try await images.set(data, forKey: "https://example.com/a.png")
/// ```
public struct Storage<Key: Sendable, Value: Sendable>: StorageProtocol {
  public let storageName: String
  public let operations: StorageOperations<Key, Value>

  /// A storage of operations.
  ///
  /// If they lack an `update` or conditional pull-ups, they are completed: both then hold for what
  /// goes through this storage and its copies.
  public init(storageName: String, operations: StorageOperations<Key, Value>) {
    self.storageName = storageName
    self.operations = operations.guarded()
  }

  /// A storage whose operations are complete, as those of the module's own are.
  @usableFromInline
  init(complete operations: StorageOperations<Key, Value>, named name: String) {
    self.storageName = name
    self.operations = operations
  }

  /// The storage without its type.
  @inlinable
  public init(_ storage: some StorageProtocol<Key, Value>) {
    if let same = storage as? Storage<Key, Value> {
      self = same
    } else {
      let operations = storage.operations.orderedIfNot(as: storage)
      if operations.update != nil, operations.fill != nil {
        self.init(complete: operations, named: storage.storageName)
      } else {
        // All type-erased forms of an object are one storage.
        self.init(
          complete: type(of: storage) is AnyObject.Type
            ? Self.guarded(operations, storage) : Self.guarded(operations),
          named: storage.storageName)
      }
    }
  }

  @usableFromInline
  static func guarded(
    _ operations: StorageOperations<Key, Value>, _ object: (any Sendable)? = nil
  ) -> StorageOperations<Key, Value> {
    operations.guarded(
      by: object.map { SharedStripedLocks.of(ObjectIdentifier($0 as AnyObject)) })
  }

  /// A storage of two storages, one for reading and one for writing.
  public init(
    read: some ReadableStorageProtocol<Key, Value>, write: some WritableStorageProtocol<Key, Value>
  ) {
    let (read, write) = (read.asReadOnlyStorage(), write.asWriteOnlyStorage())
    self.init(storageName: read.storageName, read: read, write: write)
  }

  /// A storage of two storages, one for reading and one for writing.
  public init(
    storageName: String, read: ReadOnlyStorage<Key, Value>, write: WriteOnlyStorage<Key, Value>
  ) {
    var operations = write.operations
    operations.read = read.operations.read
    operations.keys = read.operations.keys
    operations.contains = read.operations.contains
    operations.entry = read.operations.entry
    operations.hasUnreportedExpiration = !read.operations.reportsExpiration
    operations.lanes = read.operations.lanes(and: write.operations)
    operations.missing = read.operations.missing
    operations.update = nil
    operations.fill = nil
    self.init(storageName: storageName, operations: operations)
  }

  /// A storage of two closures that call back when they are done.
  ///
  /// `retrieve` fails with ``StorageError/Code/noValue`` (or ``MemoryStorageError/noValue``, the same)
  /// if there is no value. The first call of a completion counts; a completion that is released without a
  /// call is ``StorageError/Code/completionNotCalled``.
  @preconcurrency
  public init(
    storageName: String,
    retrieve:
      @escaping @Sendable (
        Key, @escaping @Sendable (Result<Value, any Error>) -> Void
      ) -> Void,
    set:
      @escaping @Sendable (
        Value, Key, @escaping @Sendable (Result<Void, any Error>) -> Void
      ) -> Void
  ) {
    self.init(
      storageName: storageName,
      operations: StorageOperations(
        read: .retrieving(retrieve), write: .setting(set)))
  }

  /// A storage that never has a value: reading is a miss, for which `retrieve(forKey:)` throws
  /// ``EmptyStorageError``, and writing throws that error. In a composition the other layers decide.
  public static func empty() -> Storage<Key, Value> {
    Storage(storageName: "empty", operations: .empty)
  }

  @inlinable
  public func value(forKey key: Key) async throws -> Value? { try await operations.read(key) }

  @inlinable
  public func set(_ value: Value, forKey key: Key) async throws {
    try await operations.write(StorageWrite(key: key, value: value))
  }

  /// Returns this storage.
  @inlinable
  public func asStorage() -> Storage<Key, Value> { self }
}

/// A type-erased storage that can be read.
public struct ReadOnlyStorage<Key: Sendable, Value: Sendable>: ReadOnlyStorageProtocol {
  public let storageName: String
  @usableFromInline let operations: StorageOperations<Key, Value>

  @usableFromInline
  init(storageName: String, operations: StorageOperations<Key, Value>) {
    self.storageName = storageName
    self.operations = operations
  }

  @usableFromInline
  init(_ storageName: String, _ read: StorageOperation<Key, Value?>) {
    self.init(
      storageName: storageName,
      operations: StorageOperations(
        read: read,
        write: StorageOperation { _ in throw StorageError.unsupported("set", by: storageName) }
      ).orderedIfNot(by: StripedLock()))
  }

  init(
    _ storageName: String, _ read: StorageOperation<Key, Value?>,
    orderedAs storage: some ReadableStorageProtocol
  ) {
    let operations = StorageOperations<Key, Value>(
      read: read,
      write: StorageOperation { _ in throw StorageError.unsupported("set", by: storageName) })
    self.init(storageName: storageName, operations: operations.orderedIfNot(as: storage))
  }

  /// A storage of a closure.
  public init(
    storageName: String, value: @escaping @Sendable (Key) async throws -> Value?
  ) {
    self.init(storageName, .asynchronous(value))
  }

  /// A storage of a closure that calls back when it is done.
  @preconcurrency
  public init(
    storageName: String,
    retrieve:
      @escaping @Sendable (
        Key, @escaping @Sendable (Result<Value, any Error>) -> Void
      ) -> Void
  ) {
    self.init(storageName, .retrieving(retrieve))
  }

  /// The storage without its type, and without its writing.
  public init(_ storage: some ReadableStorageProtocol<Key, Value>) {
    self = storage.asReadOnlyStorage()
  }

  /// A storage that never has a value; see ``Storage/empty()``.
  public static func empty() -> ReadOnlyStorage<Key, Value> {
    ReadOnlyStorage(storageName: "empty", operations: .empty.orderedIfNot(by: StripedLock()))
  }

  @inlinable
  public func value(forKey key: Key) async throws -> Value? { try await operations.read(key) }

  public func asReadOnlyStorage() -> ReadOnlyStorage<Key, Value> { self }
}

/// A type-erased storage that can be written.
public struct WriteOnlyStorage<Key: Sendable, Value: Sendable>: WriteOnlyStorageProtocol {
  public let storageName: String
  @usableFromInline let operations: StorageOperations<Key, Value>

  @usableFromInline
  init(storageName: String, operations: StorageOperations<Key, Value>) {
    self.storageName = storageName
    self.operations = operations
  }

  @usableFromInline
  init(_ storageName: String, _ write: StorageOperation<StorageWrite<Key, Value>, Void>) {
    self.init(
      storageName: storageName,
      operations: StorageOperations(
        read: StorageOperation { _ in throw StorageError.unsupported("value", by: storageName) },
        write: write
      ).orderedIfNot(by: StripedLock()))
  }

  init(
    _ storageName: String, _ write: StorageOperation<StorageWrite<Key, Value>, Void>,
    orderedAs storage: some WritableStorageProtocol
  ) {
    let operations = StorageOperations<Key, Value>(
      read: StorageOperation { _ in throw StorageError.unsupported("value", by: storageName) },
      write: write)
    self.init(storageName: storageName, operations: operations.orderedIfNot(as: storage))
  }

  /// A storage of a closure.
  public init(
    storageName: String, set: @escaping @Sendable (Value, Key) async throws -> Void
  ) {
    self.init(storageName, .asynchronous({ try await set($0.value, $0.key) }))
  }

  /// A storage of a closure that calls back when it is done.
  ///
  /// The first call of a completion counts; a completion that is released without a call is
  /// ``StorageError/Code/completionNotCalled``.
  @preconcurrency
  public init(
    storageName: String,
    set:
      @escaping @Sendable (
        Value, Key, @escaping @Sendable (Result<Void, any Error>) -> Void
      ) -> Void
  ) {
    self.init(storageName, .setting(set))
  }

  /// The storage without its type, and without its reading.
  public init(_ storage: some WritableStorageProtocol<Key, Value>) {
    self = storage.asWriteOnlyStorage()
  }

  /// A storage whose writes throw ``EmptyStorageError``.
  public static func empty() -> WriteOnlyStorage<Key, Value> {
    WriteOnlyStorage(storageName: "empty", operations: .empty.orderedIfNot(by: StripedLock()))
  }

  public func set(_ value: Value, forKey key: Key) async throws {
    try await operations.write(StorageWrite(key: key, value: value))
  }

  public func asWriteOnlyStorage() -> WriteOnlyStorage<Key, Value> { self }
}
