// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

extension PersistentCache {
  /// Creates a cache whose values are on a server that many hosts share, with copies in a store.
  ///
  /// ```swift
  /// let store = try SharedStore(at: "/var/tmp/shop/cache")
  /// let link = try RedisLink(url: "redis://cache.internal", prefix: "shop")
  /// let profiles = PersistentCache<Int, String>(storage: store, namespace: "profiles", remote: link)
  /// ```
  ///
  /// A read returns a value that was current on the server at most ``RemoteOptions/maxStaleness`` ago; one
  /// that the host has does not wait for the network. A write goes to the server first. A synchronous call
  /// that needs the server blocks its thread, at most for the time limit of the link, also the setter of a
  /// subscript. All processes that use the namespace must use the same server.
  ///
  /// Values are neither pinned nor do they slide; the keys cannot be listed, and the cache is no part of
  /// transactions of the store.
  ///
  /// - Parameters:
  ///   - storage: The store that has the copies. It must not be one for defaults.
  ///   - namespace: The key space on the server and in the store.
  ///   - remote: The server.
  ///   - remoteOptions: The rules for reads and writes. Invalid ones are an error of each use.
  ///   - options: The bounds of the memory tier, and the codec.
  ///   - cost: A closure that returns what a value counts against ``CacheOptions/memoryCostLimit``.
  public convenience init(
    storage: SharedStore, namespace: String, remote: some RemoteLink,
    remoteOptions: RemoteOptions = RemoteOptions(), options: CacheOptions = CacheOptions(),
    cost: (@Sendable (Value) -> Int)? = nil
  ) {
    self.init(
      RemoteBackend(storage, namespace, remote.tier, remoteOptions, options, cost: cost))
  }

  /// Returns the value of a key with a demand for its freshness.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - freshness: ``Freshness/latest`` asks the server; the host then has its answer.
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError``, or the error of the server. A value of the host is not returned
  ///   in its place.
  public func value(forKey key: Key, freshness: Freshness) async throws -> Value? {
    switch freshness {
    case .bounded: try await value(forKey: key)
    case .latest: try await backend.newest(key)
    }
  }
}
