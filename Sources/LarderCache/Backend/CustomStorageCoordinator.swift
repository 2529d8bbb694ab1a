// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

// COHERENCE OVER A CUSTOM STORAGE
//
// A custom storage has no snapshots and no stamps, and it may call the cache, so no lock of the cache
// is held during a call of the storage. Therefore a cache keeps a value in memory only if no other call
// about its key overlapped:
//
//  1. Every call is counted for its duration: its key's users, and its writers if it is a write.
//  2. A read inserts the value it found if no write was in progress when the read began, and none has
//     begun since.
//  3. A write inserts its value under the same conditions, and removes the key from memory otherwise:
//     of two writes that overlap, the cache cannot determine which value the storage kept.
//  4. The conditions are checked under the lock of the memory tier's shard, so a write that begins
//     afterwards finds the inserted value, and replaces it.
//
// Caches over one object share the counts, and a write removes its key from the memory of the other
// caches before it decrements its counts.

/// A cache over a custom storage, as its coordinator refers to it.
protocol CustomStorageClient: AnyObject, Sendable {
  var namespace: String { get }
  /// Removes a key from memory, or all keys if it is `nil` or of another type.
  func forget(_ key: (any CacheKey)?)
}

/// The state that the caches of this process over one custom storage share.
final class CustomStorageCoordinator: Sendable {
  private struct Peer {
    weak var cache: (any CustomStorageClient)?
  }

  let storage: any CacheStorage
  let flights = SingleFlightGroup()
  /// The calls in progress, by the keys' text in the storage.
  let calls = CallTracker<String>()
  private let peers = Mutex<[Peer]>([])

  private init(_ storage: any CacheStorage) { self.storage = storage }

  private struct Known {
    weak var store: CustomStorageCoordinator?
  }

  private static let known = Mutex<[ObjectIdentifier: Known]>([:])

  /// Returns the coordinator of a storage. It lives as long as a cache over the storage.
  static func of(_ storage: any CacheStorage) -> CustomStorageCoordinator {
    known.withLock { known in
      if let store = known[ObjectIdentifier(storage)]?.store { return store }
      let store = CustomStorageCoordinator(storage)
      known = known.filter { $0.value.store != nil }
      known[ObjectIdentifier(storage)] = Known(store: store)
      return store
    }
  }

  /// Adds a cache over the storage.
  func add(_ peer: any CustomStorageClient) {
    peers.withLock { peers in
      peers.removeAll { $0.cache == nil }
      peers.append(Peer(cache: peer))
    }
  }

  /// Removes a key, or all if it is `nil`, from the memory of the namespace's other caches.
  func forget(_ key: (any CacheKey)?, exceptIn writer: any CustomStorageClient) {
    let peers = peers.withLock { $0.compactMap(\.cache) }
    for peer in peers where peer !== writer && peer.namespace == writer.namespace {
      peer.forget(key)
    }
  }
}
