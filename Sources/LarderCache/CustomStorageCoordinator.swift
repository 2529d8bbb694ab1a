// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

// A STORAGE THAT IS NOT OURS
//
// It gives no snapshot and no stamp, and none of its calls may be made under a lock of the cache: it
// may call back. So a cache keeps a value in memory only if it can tell that no other call about the
// key came in between. Every call is counted in for its duration. A read files what it found if no
// write was under way when it began, and none has begun since; a write files its value on the same
// terms, and takes the key out of memory otherwise: of two that overlap nobody knows which one the
// storage kept. What this is decided by is looked at under the lock of the memory's shard, so a write
// that begins afterwards finds what was filed, and replaces it.
//
// Caches over one object share the counts, and a write takes its key out of the others' memory before
// it counts itself out.

/// A cache that must forget what another one writes.
protocol CustomStorageClient: AnyObject, Sendable {
  var namespace: String { get }
  /// Forgets a key, whatever its type; all of them if `nil`.
  func forget(_ key: (any CacheKey)?)
}

/// What the caches of this process share that lie over one object.
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

  /// A call about a key, while it lasts.
  struct Call: Sendable {
    fileprivate let text: String
    fileprivate let isWrite: Bool
    /// Whether no write was under way when it began.
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

  /// The one of an object, for as long as a cache lies over it.
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

  /// Whether no write of the key but this one has been under way since the call began.
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

  /// Runs what removes many keys: nothing is filed that was read meanwhile.
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

  /// Takes a key out of the memory of the namespace's other caches.
  func forget(_ key: (any CacheKey)?, besides writer: any CustomStorageClient) {
    let peers = state.withLock { state in state.peers.compactMap(\.cache) }
    for peer in peers where peer !== writer && peer.namespace == writer.namespace {
      peer.forget(key)
    }
  }
}
