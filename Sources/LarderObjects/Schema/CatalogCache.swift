// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

// A deletion asks the records of all types for the rules of relationships. They rarely change, and
// reading them takes longer than the deletion, the longer the more types there are. So they are kept as
// long as the stamp of the catalog says that no process has changed any.

/// The records of all types, as a write transaction of this process last read them.
final class CatalogCache: Sendable {
  private struct State {
    let types: [ObjectTypeRecord]
    let generation: UInt64
    /// The last label they were right under.
    let label: UInt64
  }

  private let state = Mutex<State?>(nil)

  /// The types, for the holder of the writer lock who has changed none; `nil`: they have to be read.
  func types(in generation: Generation) -> [ObjectTypeRecord]? {
    guard let state = state.withLock({ $0 }), state.generation == generation.incarnation,
      generation.isCurrent(.catalog(in: generation), since: state.label)
    else { return nil }
    return state.types
  }

  /// - Parameter label: That of the transaction they were read in, before it changed any.
  func remember(
    _ types: [ObjectTypeRecord], before label: UInt64, in generation: Generation
  ) {
    let state = State(types: types, generation: generation.incarnation, label: label &- 1)
    self.state.withLock { $0 = state }
  }
}
