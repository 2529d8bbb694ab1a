// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

extension StorageOperations {
  /// The operations with other keys. Without the way back, keys cannot be listed.
  @inlinable
  func mapKeys<Other: Sendable>(
    _ transform: @escaping @Sendable (Other) throws -> Key,
    back: (@Sendable (Key) throws -> Other?)? = nil
  ) -> StorageOperations<Other, Value> {
    var result = StorageOperations<Other, Value>(
      read: read.pullback(transform),
      write: write.pullback {
        StorageWrite(key: try transform($0.key), value: $0.value, expires: $0.expires)
      })
    result.remove = remove?.pullback(transform)
    result.removeAll = removeAll
    result.contains = contains?.pullback(transform)
    result.entry = entry?.pullback(transform)
    result.update = update?.pullback {
      StorageUpdate(key: try transform($0.key), changing: $0.change, recovering: $0.recover)
    }
    result.fill = fill?.pullback(transform)
    result.lanes = lanes.map { mapped($0, transform) }
    result.missing = missing?.pullback(transform)
    if let back { result.keys = keys?.map { try $0.compactMap(back) } }
    result.supportsExpiration = supportsExpiration
    result.hasUnreportedExpiration = hasUnreportedExpiration
    return result
  }

  /// The operations with other values.
  @inlinable
  func mapValues<Other: Sendable>(
    in transformIn: @escaping @Sendable (Other) throws -> Value,
    out transformOut: @escaping @Sendable (Value) throws -> Other
  ) -> StorageOperations<Key, Other> {
    var result = StorageOperations<Key, Other>(
      read: read.map { value in
        guard let value else { return nil }
        return try transformOut(value)
      },
      write: write.pullback {
        StorageWrite(key: $0.key, value: try transformIn($0.value), expires: $0.expires)
      })
    result.takeKeyOperations(of: self)
    result.entry = entry?.map { try $0?.map(transformOut) }
    result.update = update.map { update in
      update.pullback { (change: StorageUpdate<Key, Other>) in
        StorageUpdate(key: change.key) { entry in
          let stored = entry
          let other = try change.applied { try stored?.map(transformOut) }
          entry = try other?.map(transformIn)
        } recovering: { error in
          // The value that recovers a failed read is one of the other type: convert it back, so
          // that the storage below changes it.
          guard let recover = change.recover else { throw error }
          return try recover(error)?.map(transformIn)
        }
      }.map { try $0?.map(transformOut) }
    }
    result.fill = fill?.map { filling in
      ConditionalFill(
        commit: filling.commit.pullback {
          StorageEntry(try transformIn($0.value), expires: $0.expires)
        })
    }
    return result
  }

  /// Takes the operations and properties that concern keys only from a storage with other values.
  @usableFromInline
  mutating func takeKeyOperations<Other>(of other: StorageOperations<Key, Other>) {
    remove = other.remove
    removeAll = other.removeAll
    keys = other.keys
    contains = other.contains
    lanes = other.lanes
    missing = other.missing
    supportsExpiration = other.supportsExpiration
    hasUnreportedExpiration = other.hasUnreportedExpiration
  }

  /// The operations with asynchronous conversions of keys.
  func asyncMapKeys<Other: Sendable>(
    _ transform: @escaping @Sendable (Other) async throws -> Key
  ) -> StorageOperations<Other, Value> {
    let (read, write, remove, contains) = (read, write, remove, contains)
    let (entry, update) = (entry, update)
    var result = StorageOperations<Other, Value>(
      read: .asynchronous { try await read(transform($0)) },
      write: .asynchronous {
        try await write(
          StorageWrite(key: transform($0.key), value: $0.value, expires: $0.expires))
      })
    result.remove = remove.map { remove in .asynchronous { try await remove(transform($0)) } }
    result.removeAll = removeAll
    result.contains = contains.map { contains in .asynchronous { try await contains(transform($0)) }
    }
    result.entry = entry.map { entry in .asynchronous { try await entry(transform($0)) } }
    result.update = update.map { update in
      .asynchronous {
        try await update(
          StorageUpdate(
            key: transform($0.key), changing: $0.change, recovering: $0.recover))
      }
    }
    result.fill = fill.map { fill in .asynchronous { try await fill(transform($0)) } }
    result.missing = missing.map { missing in .asynchronous { try await missing(transform($0)) } }
    result.supportsExpiration = supportsExpiration
    result.hasUnreportedExpiration = hasUnreportedExpiration
    return result
  }
}

extension StorageEntry {
  /// The entry with another value.
  @inlinable
  func map<Other>(
    _ transform: (Value) throws -> Other
  ) rethrows -> StorageEntry<Other> {
    StorageEntry<Other>(try transform(value), expires: expires)
  }

  /// The entry with another value.
  func map<Other>(
    _ transform: @Sendable (Value) async throws -> Other
  ) async throws -> StorageEntry<Other> {
    StorageEntry<Other>(try await transform(value), expires: expires)
  }
}
