// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Synchronization

// What a front holds of a key may be older than what the back holds, when the back was changed and the
// front could neither take the new value nor forget the old one. Reading then goes around the front,
// until a write or removal of the key succeeds there. If there are many such keys, or everything was to
// be removed, the whole front is gone around until everything in it could be removed.

/// The keys of which a front has something outdated.
@usableFromInline
final class FrontBypass: Sendable {
  private struct State: Sendable {
    var hashes: Set<Int> = []
    var isWhole = false
  }

  private static let most = 4096
  /// How much is in the state: 0 nearly always, and then nothing else is looked at.
  @usableFromInline let count = Atomic<Int>(0)
  private let state = Mutex(State())

  init() {}

  @inlinable
  func covers<Key>(_ key: Key) -> Bool {
    count.load(ordering: .acquiring) != 0 && coversSlowly(key)
  }

  // By hash: of two keys with one hash, the other is gone around without need.
  @usableFromInline
  func coversSlowly<Key>(_ key: Key) -> Bool {
    let hash = Turns.hash(key)
    return state.withLock { $0.isWhole || $0.hashes.contains(hash) }
  }

  var isWhole: Bool { state.withLock { $0.isWhole } }

  func add<Key>(_ key: Key) {
    let hash = Turns.hash(key)
    change { state in
      state.hashes.insert(hash)
      if state.hashes.count > Self.most { state.isWhole = true }
    }
  }

  func addAll() { change { $0.isWhole = true } }

  /// The front has of a key what the back has, or nothing.
  func remove<Key>(_ key: Key) {
    guard count.load(ordering: .acquiring) != 0 else { return }
    let hash = Turns.hash(key)
    change { _ = $0.hashes.remove(hash) }
  }

  func removeAll() {
    guard count.load(ordering: .acquiring) != 0 else { return }
    change { $0 = State() }
  }

  private func change(_ body: (inout State) -> Void) {
    state.withLock { state in
      body(&state)
      count.store(state.hashes.count + (state.isWhole ? 1 : 0), ordering: .releasing)
    }
  }
}
