// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
public import LarderEngine
public import LarderStorage

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

extension PersistentCache {
  /// Returns the cache as a storage, for compositions.
  ///
  /// ```swift
  /// let images = cache.asStorage().combined(with: Remote())
  /// ```
  ///
  /// A write or removal is committed when the call returns. An update is a transaction among all
  /// processes. A value from the back tier of a composition is stored only if no process wrote or
  /// removed its key since the read began. Values may expire.
  public func asStorage() -> Storage<Key, Value> {
    Storage(storageName: namespace.isEmpty ? "cache" : namespace, operations: algebra)
  }

  private var algebra: StorageOperations<Key, Value> {
    let turns = SharedStripedLocks.of(dataIdentity)
    var result = StorageOperations<Key, Value>(
      read: StorageOperation { try self.value(forKey: $0) },
      write: .blocking { item in
        try self.inOrder(turns) {
          try self.setValue(
            item.value, forKey: item.key, expires: item.expires.map { .at($0) } ?? .never)
        }
      })
    result.remove = .blocking { key in
      _ = try self.inOrder(turns) { try self.removeValue(forKey: key) }
    }
    result.removeAll = .blocking { _ in
      try self.inOrder(turns) { try self.removeAll() }
    }
    result.contains = StorageOperation { try self.contains($0) }
    result.entry = StorageOperation { key in
      try self.item(forKey: key).map { StorageEntry($0.value, expires: $0.expiration) }
    }
    result.supportsExpiration = true
    result.fill = StorageOperation { key in
      let fill = try self.beginConditionalFill(key)
      return ConditionalFill(
        commit: .blocking { entry in
          try self.inOrder(turns) {
            try fill(entry.value, entry.expires.map { .at($0) } ?? .never)
          }
        })
    }
    // Without a store, only callers of this process update: the stripes order them.
    guard let storage else { return result.guarded(by: turns) }
    result.update = .blocking { update in
      _ = try storage.openCore("update")
      return try turns.take(0) {
        try self.refuseInsideTransaction()
        return try self.change(update.key) { read in
          try update.applied {
            try read().map { StorageEntry($0.value, expires: $0.expiration) }
          }.map { Item($0.value, expiration: $0.expires) }
        }
      }.map { StorageEntry($0.value, expires: $0.expiration) }
    }
    return result.ordered(by: turns)
  }

  /// Calls `body`, which writes. Inside another storage's update, it acquires a stripe first, so that
  /// the wait-for graph contains the write. Elsewhere the caller holds no stripe that others wait for.
  private func inOrder<Result>(_ turns: StripedLock, _ body: () throws -> Result) throws -> Result {
    guard storage != nil, StripedLock.isInsideAny else {
      try refuseInsideTransaction()
      return try body()
    }
    return try turns.take(0) {
      try refuseInsideTransaction()
      return try body()
    }
  }

  /// Throws inside the closure of an update: it runs under the store's writer lock, and would wait for
  /// that lock.
  private func refuseInsideTransaction() throws {
    if storage?.core.isInsideTransaction == true { throw StorageError.recursiveUpdate }
  }
}

extension PersistentCache where Key: DecodableCacheKey {
  /// Returns the cache as a storage that can list its keys; see the general form.
  public func asStorage() -> Storage<Key, Value> {
    var operations = algebra
    operations.keys = .blocking { _ in try self.keys() }
    return Storage(
      storageName: namespace.isEmpty ? "cache" : namespace, operations: operations)
  }
}

extension SharedStore {
  /// Returns the values of a namespace as a storage that all processes share.
  ///
  /// ```swift
  /// let scores = store.storage("scores", keys: String.self, values: [Int].self)
  /// try await scores.update(forKey: "ada") { $0.append(7) }    // atomic among all processes
  /// ```
  ///
  /// Reads are served from memory if the value there is valid, and are never stale. The storage reads
  /// and writes the values of the caches of the same namespace.
  public func storage<Key: DecodableCacheKey, Value: Codable & Sendable>(
    _ namespace: String = "", keys: Key.Type = Key.self, values: Value.Type = Value.self,
    options: CacheOptions = CacheOptions()
  ) -> Storage<Key, Value> {
    PersistentCache<Key, Value>(storage: self, namespace: namespace, options: options).asStorage()
  }
}
