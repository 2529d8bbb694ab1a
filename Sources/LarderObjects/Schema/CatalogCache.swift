// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// A deletion needs the delete rules in the records of all types. They rarely change, and reading
// them takes longer than the deletion, in proportion to the number of types. So this process caches
// them while the stamp of the catalog proves that no process has changed any.

/// The records of all types as of the last read by a write transaction of this process.
final class CatalogCache: Sendable {
  private struct State {
    let types: [ObjectTypeRecord]
    let generation: UInt64
    /// The last commit version at which the records were valid.
    let commitVersion: UInt64
  }

  private let state = Mutex<State?>(nil)

  /// Returns the records, or `nil` if they must be read. Call it under the writer lock, before the
  /// transaction changes a record.
  func types(in generation: Generation) -> [ObjectTypeRecord]? {
    guard let state = state.withLock({ $0 }), state.generation == generation.incarnation,
      generation.isCurrent(.catalog(in: generation), since: state.commitVersion)
    else { return nil }
    return state.types
  }

  /// Caches the records of all types.
  ///
  /// - Parameter label: The commit version of the transaction that read the records, before its own
  ///   changes.
  func remember(
    _ types: [ObjectTypeRecord], before commitVersion: UInt64, in generation: Generation
  ) {
    let state = State(
      types: types, generation: generation.incarnation, commitVersion: commitVersion &- 1)
    self.state.withLock { $0 = state }
  }
}
