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
    result.update = update?.pullback { StorageUpdate(key: try transform($0.key), body: $0.body) }
    result.fill = fill?.pullback(transform)
    if let back { result.keys = keys?.map { try $0.compactMap(back) } }
    result.keepsExpiry = keepsExpiry
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
    result.remove = remove
    result.removeAll = removeAll
    result.keys = keys
    result.contains = contains
    result.entry = entry?.map { entry in
      guard let entry else { return nil }
      return StorageEntry(try transformOut(entry.value), expires: entry.expires)
    }
    result.update = update.map { update in
      update.pullback { (change: StorageUpdate<Key, Other>) in
        StorageUpdate(key: change.key) { value in
          var other = try value.map(transformOut)
          try change.body(&other)
          value = try other.map(transformIn)
        }
      }.map { try $0.map(transformOut) }
    }
    result.fill = fill?.map { filling in
      StorageFilling(
        commit: filling.commit.pullback {
          StorageEntry(try transformIn($0.value), expires: $0.expires)
        })
    }
    result.keepsExpiry = keepsExpiry
    return result
  }

  /// The operations with the reading replaced: the same for everything else.
  func reading(_ transform: (StorageCall<Key, Value?>) -> StorageCall<Key, Value?>)
    -> StorageOperations
  {
    var result = self
    result.read = transform(read)
    result.entry = nil
    result.contains = nil
    return result
  }

  /// The operations with asynchronous conversions of keys.
  func asyncMapKeys<Other: Sendable>(
    _ transform: @escaping @Sendable (Other) async throws -> Key
  ) -> StorageOperations<Other, Value> {
    let (read, write, remove, contains) = (read, write, remove, contains)
    let (entry, update) = (entry, update)
    var result = StorageOperations<Other, Value>(
      read: .later { try await read(transform($0)) },
      write: .later {
        try await write(
          StorageWrite(key: transform($0.key), value: $0.value, expires: $0.expires))
      })
    result.remove = remove.map { remove in .later { try await remove(transform($0)) } }
    result.removeAll = removeAll
    result.contains = contains.map { contains in .later { try await contains(transform($0)) } }
    result.entry = entry.map { entry in .later { try await entry(transform($0)) } }
    result.update = update.map { update in
      .later { try await update(StorageUpdate(key: transform($0.key), body: $0.body)) }
    }
    result.keepsExpiry = keepsExpiry
    return result
  }

  /// The operations with asynchronous conversions of values. `update` is made anew of reading and
  /// writing: nothing asynchronous can happen inside the one below.
  func asyncMapValues<Other: Sendable>(
    in transformIn: @escaping @Sendable (Other) async throws -> Value,
    out transformOut: @escaping @Sendable (Value) async throws -> Other
  ) -> StorageOperations<Key, Other> {
    let (read, write, entry) = (read, write, entry)
    var result = StorageOperations<Key, Other>(
      read: .later { key in
        guard let value = try await read(key) else { return nil }
        return try await transformOut(value)
      },
      write: .later {
        try await write(
          StorageWrite(key: $0.key, value: transformIn($0.value), expires: $0.expires))
      })
    result.remove = remove
    result.removeAll = removeAll
    result.keys = keys
    result.contains = contains
    result.entry = entry.map { entry in
      .later { key in
        guard let known = try await entry(key) else { return nil }
        return StorageEntry(try await transformOut(known.value), expires: known.expires)
      }
    }
    result.keepsExpiry = keepsExpiry
    return result
  }
}
