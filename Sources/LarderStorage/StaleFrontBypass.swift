// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Synchronization

// What a front holds of a key may be older than what the back holds, when the back was changed and the
// front could neither take the new value nor forget the old one. Reading then goes around the front,
// until a write or removal of the key succeeds there. If there are many such keys, or keys that are not
// hashable, or everything was to be removed, the whole front is gone around until everything in it could be removed.

/// The keys of which a front has something outdated.
@usableFromInline
final class StaleFrontBypass: Sendable {
  // Keys are hashed and compared only, and are Sendable themselves.
  private struct State: @unchecked Sendable {
    var keys: Set<AnyHashable> = []
    var isWhole = false
  }

  private static let most = 4096
  /// The number of items in the state, usually 0; then no other state is read.
  @usableFromInline let count = Atomic<Int>(0)
  private let state = Mutex(State())

  init() {}

  @inlinable
  func contains<Key: Sendable>(_ key: Key) -> Bool {
    count.load(ordering: .acquiring) != 0 && coversSlowly(key)
  }

  @usableFromInline
  func coversSlowly<Key: Sendable>(_ key: Key) -> Bool {
    let known = Self.known(key)
    return state.withLock { state in state.isWhole || known.map(state.keys.contains) ?? false }
  }

  /// The key in a hashable form, or `nil` if keys of its type cannot be compared.
  private static func known<Key: Sendable>(_ key: Key) -> AnyHashable? {
    Key.self == Void.self ? AnyHashable(0) : key as? AnyHashable
  }

  func add<Key: Sendable>(_ key: Key) {
    let known = Self.known(key)
    change { state in
      guard let known, state.keys.count < Self.most else { return state.isWhole = true }
      state.keys.insert(known)
    }
  }

  func addAll() { change { $0.isWhole = true } }

  /// The front has of a key what the back has, or nothing.
  func remove<Key: Sendable>(_ key: Key) {
    guard count.load(ordering: .acquiring) != 0, let known = Self.known(key) else { return }
    change { _ = $0.keys.remove(known) }
  }

  func removeAll() {
    guard count.load(ordering: .acquiring) != 0 else { return }
    change { $0 = State() }
  }

  private func change(_ body: (inout State) -> Void) {
    state.withLock { state in
      body(&state)
      count.store(state.keys.count + (state.isWhole ? 1 : 0), ordering: .releasing)
    }
  }
}
