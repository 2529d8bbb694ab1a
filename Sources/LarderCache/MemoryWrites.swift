// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import Synchronization

/// In a cache without a store: which computations a write or removal has overtaken.
final class MemoryWrites<Key: CacheKey>: Sendable {
  /// The computations in flight by key, and how often the key was written since the first began.
  private let inFlight = Mutex<[Key: (computations: Int, writes: Int)]>([:])

  func begin(_ key: Key) -> Int {
    inFlight.withLock { inFlight in
      inFlight[key, default: (0, 0)].computations += 1
      return inFlight[key]!.writes
    }
  }

  /// Whether nobody wrote the key since `begin` gave `writes`.
  func end(_ key: Key, _ writes: Int) -> Bool {
    inFlight.withLock { inFlight in
      let isUntouched = inFlight[key]?.writes == writes
      inFlight[key]?.computations -= 1
      if inFlight[key]?.computations == 0 { inFlight[key] = nil }
      return isUntouched
    }
  }

  func note(_ key: Key) { inFlight.withLock { $0[key]?.writes += 1 } }

  func noteAll() {
    inFlight.withLock { inFlight in for key in inFlight.keys { inFlight[key]!.writes += 1 } }
  }
}
