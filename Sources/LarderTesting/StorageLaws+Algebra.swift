// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Foundation
public import LarderStorage

extension StorageLaws {
  /// Creates the laws of a storage of the algebra: a custom one or a composition.
  ///
  /// ```swift
  /// let mine = MyStorage().mapKeys(to: String.self) { MyKey($0) }
  /// #expect(await StorageLaws(mine).violations() == [])
  /// ```
  ///
  /// The storage must support removal. Support for listing keys and for updates is detected; laws of
  /// unsupported operations are skipped. A storage over a Swift dictionary of `String` violates
  /// ``Law/canonicallyEqualKeysAreTwo``.
  public init(_ storage: some StorageProtocol<String, Data>) {
    let storage: Storage<String, Data> = storage.asStorage()
    let list: @Sendable () async throws -> [String] = { try await storage.keys() }
    self.init(
      get: { try await storage.value(forKey: $0).map { Array($0) } },
      set: { try await storage.set(Data($1), forKey: $0) },
      remove: { try await storage.remove(forKey: $0) },
      removeAll: { try await storage.removeAll() },
      keys: storage.operations.keys == nil ? nil : list,
      contains: { try await storage.contains($0) })
    update = { key, change in
      _ = try await storage.updateOrInsert(forKey: key) { value in
        var bytes = value.map { Array($0) }
        try change(&bytes)
        value = bytes.map { Data($0) }
      }
    }
  }

  /// Creates the laws of a synchronous storage.
  public init(_ storage: SyncStorage<String, Data>) {
    self.init(
      get: { try storage.value(forKey: $0).map { Array($0) } },
      set: { try storage.set(Data($1), forKey: $0) },
      remove: { try storage.remove(forKey: $0) }, removeAll: { try storage.removeAll() },
      contains: { try storage.contains($0) })
    update = { key, change in
      _ = try storage.updateOrInsert(forKey: key) { value in
        var bytes = value.map { Array($0) }
        try change(&bytes)
        value = bytes.map { Data($0) }
      }
    }
  }
}
