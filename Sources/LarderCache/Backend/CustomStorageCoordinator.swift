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
  private struct Traffic {
    var users = 0
    var writers = 0
    var writes = 0
  }

  private struct Peer {
    weak var cache: (any CustomStorageClient)?
  }

  private struct State {
    var traffic: [String: Traffic] = [:]
    var clearing = 0
    var clearings = 0
    var peers: [Peer] = []
  }

  /// A call about a key that is in progress.
  struct Call: Sendable {
    fileprivate let text: String
    fileprivate let isWrite: Bool
    /// Whether no write was in progress when it began.
    fileprivate let isAlone: Bool
    fileprivate let writes: Int
    fileprivate let clearings: Int
  }

  let storage: any CacheStorage
  let flights = SingleFlightGroup()
  private let state = Mutex(State())

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

  // MARK: Calls

  func begin(_ text: String, isWrite: Bool) -> Call {
    state.withLock { state in
      var traffic = state.traffic[text] ?? Traffic()
      let isAlone = traffic.writers == 0 && state.clearing == 0
      traffic.users += 1
      if isWrite {
        traffic.writers += 1
        traffic.writes += 1
      }
      state.traffic[text] = traffic
      return Call(
        text: text, isWrite: isWrite, isAlone: isAlone, writes: traffic.writes,
        clearings: state.clearings)
    }
  }

  /// Returns whether no other write of the key has been in progress since the call began.
  func isUndisturbed(_ call: Call) -> Bool {
    state.withLock { state in
      call.isAlone && state.traffic[call.text]?.writes == call.writes
        && state.clearings == call.clearings
    }
  }

  func end(_ call: Call) {
    state.withLock { state in
      guard var traffic = state.traffic[call.text] else { return }
      traffic.users -= 1
      if call.isWrite { traffic.writers -= 1 }
      state.traffic[call.text] = traffic.users == 0 ? nil : traffic
    }
  }

  /// Calls `body`, which removes many keys. Calls that overlap insert no value.
  func clearing(_ body: () throws -> Void) rethrows {
    state.withLock { state in
      state.clearing += 1
      state.clearings += 1
    }
    defer { state.withLock { $0.clearing -= 1 } }
    try body()
  }

  // MARK: Peers

  func add(_ peer: any CustomStorageClient) {
    state.withLock { state in
      state.peers.removeAll { $0.cache == nil }
      state.peers.append(Peer(cache: peer))
    }
  }

  /// Removes a key, or all if it is `nil`, from the memory of the namespace's other caches.
  func forget(_ key: (any CacheKey)?, exceptIn writer: any CustomStorageClient) {
    let peers = state.withLock { state in state.peers.compactMap(\.cache) }
    for peer in peers where peer !== writer && peer.namespace == writer.namespace {
      peer.forget(key)
    }
  }
}
