// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The three families have the same combinators, each with results of the same family.

extension StorageProtocol {
  /// The storage with other keys.
  ///
  /// ```swift
  /// let byURL = names.mapKeys(to: URL.self) { $0.absoluteString }
  /// ```
  ///
  /// It cannot list its keys; ``mapKeys(to:_:back:)`` can.
  @inlinable
  public func mapKeys<Other: Sendable>(
    to type: Other.Type = Other.self, _ transform: @escaping @Sendable (Other) throws -> Key
  ) -> Storage<Other, Value> {
    asStorage().mapped { $0.mapKeys(transform) }
  }

  /// The storage with other keys, and with the inverse by which they are listed. A key without an
  /// inverse is left out.
  @inlinable
  public func mapKeys<Other: Sendable>(
    to type: Other.Type = Other.self, _ transform: @escaping @Sendable (Other) throws -> Key,
    back: @escaping @Sendable (Key) throws -> Other?
  ) -> Storage<Other, Value> {
    asStorage().mapped { $0.mapKeys(transform, back: back) }
  }

  /// The storage with keys whose raw values are the keys of this storage.
  public func mapKeys<Other: RawRepresentable & Sendable>(
    toRawRepresentableType type: Other.Type
  ) -> Storage<Other, Value> where Other.RawValue == Key {
    mapKeys(to: type, { $0.rawValue }, back: { Other(rawValue: $0) })
  }

  /// The storage with other values.
  @inlinable
  public func mapValues<Other: Sendable>(
    to type: Other.Type = Other.self,
    transformIn: @escaping @Sendable (Value) throws -> Other,
    transformOut: @escaping @Sendable (Other) throws -> Value
  ) -> Storage<Key, Other> {
    asStorage().mapped { $0.mapValues(in: transformOut, out: transformIn) }
  }

  /// The storage with values whose raw values are the values of this storage. Other stored values are
  /// ``StorageError/Code/undecodable``.
  public func mapValues<Other: RawRepresentable & Sendable>(
    toRawRepresentableType type: Other.Type
  ) -> Storage<Key, Other> where Other.RawValue == Value {
    mapValues(to: type, transformIn: { try raw($0) }, transformOut: { $0.rawValue })
  }

  /// The storage with values that are converted asynchronously.
  public func asyncMapValues<Other: Sendable>(
    to type: Other.Type = Other.self,
    transformIn: @escaping @Sendable (Value) async throws -> Other,
    transformOut: @escaping @Sendable (Other) async throws -> Value
  ) -> Storage<Key, Other> {
    Storage(
      storageName: storageName,
      operations: asStorage().operations.asyncMapValues(in: transformOut, out: transformIn))
  }

  /// The storage with keys that are converted asynchronously.
  public func asyncMapKeys<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Other) async throws -> Key
  ) -> Storage<Other, Value> {
    Storage(
      storageName: storageName, operations: asStorage().operations.asyncMapKeys(transform))
  }

  /// The storage with values that are validated before a write and after a read.
  ///
  /// - Throws: ``ValueValidationError`` for a rejected value, which is not written, or stays stored.
  public func validate(
    _ isValid: @escaping @Sendable (Value) async throws -> Bool
  ) -> Storage<Key, Value> {
    asyncMapValues(
      transformIn: { try await validated($0, isValid) },
      transformOut: { try await validated($0, isValid) })
  }

  /// The value of one key as a storage.
  public func singleKey(_ key: Key) -> Storage<Void, Value> {
    mapKeys(to: Void.self) { key }.withoutRemoveAll(remove: asStorage().operations.remove, key)
  }

  /// The storage under another name.
  public func renaming(to name: String) -> Storage<Key, Value> {
    Storage(complete: asStorage().operations, named: name)
  }
}

extension Storage {
  @inlinable
  func mapped<K, V>(
    _ transform: (StorageOperations<Key, Value>) -> StorageOperations<K, V>
  ) -> Storage<K, V> {
    Storage<K, V>(complete: transform(operations), named: storageName)
  }

  /// Removing everything must not remove more than the visible keys.
  func withoutRemoveAll<K>(remove: StorageOperation<K, Void>?, _ key: K) -> Storage {
    mapped { operations in
      var operations = operations
      operations.removeAll = remove?.pullback { _ in key }
      operations.keys = nil
      return operations
    }
  }
}

extension ReadOnlyStorageProtocol {
  /// The storage with other keys.
  public func mapKeys<Other: Sendable>(
    to type: Other.Type = Other.self, _ transform: @escaping @Sendable (Other) throws -> Key
  ) -> ReadOnlyStorage<Other, Value> {
    asReadOnlyStorage().mapped { $0.mapKeys(transform) }
  }

  /// The storage with keys whose raw values are the keys of this storage.
  public func mapKeys<Other: RawRepresentable & Sendable>(
    toRawRepresentableType type: Other.Type
  ) -> ReadOnlyStorage<Other, Value> where Other.RawValue == Key {
    asReadOnlyStorage().mapped {
      $0.mapKeys({ $0.rawValue }, back: { Other(rawValue: $0) })
    }
  }

  /// The storage with other values.
  public func mapValues<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Value) throws -> Other
  ) -> ReadOnlyStorage<Key, Other> {
    let name = storageName
    return asReadOnlyStorage().mapped {
      $0.mapValues(in: { _ in throw StorageError.unsupported("set", by: name) }, out: transform)
    }
  }

  /// The storage with values whose raw values are the values of this storage.
  public func mapValues<Other: RawRepresentable & Sendable>(
    toRawRepresentableType type: Other.Type
  ) -> ReadOnlyStorage<Key, Other> where Other.RawValue == Value {
    mapValues(to: type) { try raw($0) }
  }

  /// The storage with values that are converted asynchronously.
  public func asyncMapValues<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Value) async throws -> Other
  ) -> ReadOnlyStorage<Key, Other> {
    let name = storageName
    return asReadOnlyStorage().mapped {
      $0.asyncMapValues(
        in: { _ in throw StorageError.unsupported("set", by: name) }, out: transform)
    }
  }

  /// The storage with keys that are converted asynchronously.
  public func asyncMapKeys<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Other) async throws -> Key
  ) -> ReadOnlyStorage<Other, Value> {
    asReadOnlyStorage().mapped { $0.asyncMapKeys(transform) }
  }

  /// The storage with values that are validated after a read.
  public func validate(
    _ isValid: @escaping @Sendable (Value) async throws -> Bool
  ) -> ReadOnlyStorage<Key, Value> {
    asyncMapValues { try await validated($0, isValid) }
  }

  /// The value of one key as a storage.
  public func singleKey(_ key: Key) -> ReadOnlyStorage<Void, Value> {
    mapKeys(to: Void.self) { key }
  }

  /// The storage under another name.
  public func renaming(to name: String) -> ReadOnlyStorage<Key, Value> {
    ReadOnlyStorage(storageName: name, operations: asReadOnlyStorage().operations)
  }
}

extension ReadOnlyStorage {
  func mapped<K, V>(
    _ transform: (StorageOperations<Key, Value>) -> StorageOperations<K, V>
  ) -> ReadOnlyStorage<K, V> {
    ReadOnlyStorage<K, V>(storageName: storageName, operations: transform(operations))
  }
}

extension WriteOnlyStorageProtocol {
  /// The storage with other keys.
  public func mapKeys<Other: Sendable>(
    to type: Other.Type = Other.self, _ transform: @escaping @Sendable (Other) throws -> Key
  ) -> WriteOnlyStorage<Other, Value> {
    asWriteOnlyStorage().mapped { $0.mapKeys(transform) }
  }

  /// The storage with keys whose raw values are the keys of this storage.
  public func mapKeys<Other: RawRepresentable & Sendable>(
    toRawRepresentableType type: Other.Type
  ) -> WriteOnlyStorage<Other, Value> where Other.RawValue == Key {
    mapKeys(to: type) { $0.rawValue }
  }

  /// The storage with other values.
  public func mapValues<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Other) throws -> Value
  ) -> WriteOnlyStorage<Key, Other> {
    let name = storageName
    return asWriteOnlyStorage().mapped {
      $0.mapValues(in: transform, out: { _ in throw StorageError.unsupported("value", by: name) })
    }
  }

  /// The storage with values whose raw values are the values of this storage.
  public func mapValues<Other: RawRepresentable & Sendable>(
    toRawRepresentableType type: Other.Type
  ) -> WriteOnlyStorage<Key, Other> where Other.RawValue == Value {
    mapValues(to: type) { $0.rawValue }
  }

  /// The storage with values that are converted asynchronously.
  public func asyncMapValues<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Other) async throws -> Value
  ) -> WriteOnlyStorage<Key, Other> {
    let name = storageName
    return asWriteOnlyStorage().mapped {
      $0.asyncMapValues(
        in: transform, out: { _ in throw StorageError.unsupported("value", by: name) })
    }
  }

  /// The storage with keys that are converted asynchronously.
  public func asyncMapKeys<Other: Sendable>(
    to type: Other.Type = Other.self,
    _ transform: @escaping @Sendable (Other) async throws -> Key
  ) -> WriteOnlyStorage<Other, Value> {
    asWriteOnlyStorage().mapped { $0.asyncMapKeys(transform) }
  }

  /// The storage with values that are validated before a write.
  public func validate(
    _ isValid: @escaping @Sendable (Value) async throws -> Bool
  ) -> WriteOnlyStorage<Key, Value> {
    asyncMapValues { try await validated($0, isValid) }
  }

  /// The value of one key as a storage.
  public func singleKey(_ key: Key) -> WriteOnlyStorage<Void, Value> {
    let remove = asWriteOnlyStorage().operations.remove
    return mapKeys(to: Void.self) { key }.mapped { operations in
      var operations = operations
      operations.removeAll = remove?.pullback { _ in key }
      return operations
    }
  }

  /// The storage under another name.
  public func renaming(to name: String) -> WriteOnlyStorage<Key, Value> {
    WriteOnlyStorage(storageName: name, operations: asWriteOnlyStorage().operations)
  }
}

extension WriteOnlyStorage {
  func mapped<K, V>(
    _ transform: (StorageOperations<Key, Value>) -> StorageOperations<K, V>
  ) -> WriteOnlyStorage<K, V> {
    WriteOnlyStorage<K, V>(storageName: storageName, operations: transform(operations))
  }
}

private func raw<Other: RawRepresentable>(_ value: Other.RawValue) throws -> Other {
  if let other = Other(rawValue: value) { return other }
  throw StorageError(
    .undecodable, during: "value",
    "What is stored is the raw value of no \(Other.self): \(value). Set the key again.")
}

private func validated<Value>(
  _ value: Value, _ isValid: (Value) async throws -> Bool
) async throws -> Value {
  guard try await isValid(value) else { throw ValueValidationError() }
  return value
}
