// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// A deletion needs the delete rules in the records of all types, and a save the record of its type. They rarely
// change, and reading them takes longer than the deletion, in proportion to the number of types. So this process
// caches them while the stamp of the catalog proves that no process has changed any.

/// A part of the catalog as of the last read by a write transaction of this process.
final class CatalogCache<Value: Sendable>: Sendable {
  private struct State {
    let value: Value
    let generation: UInt64
    /// The last commit version at which the value was valid.
    let commitVersion: UInt64
  }

  private let state = Mutex<State?>(nil)

  /// Returns the value, or `nil` if it must be read. Call it under the writer lock, before the
  /// transaction changes a record.
  func value(in generation: Generation) -> Value? {
    guard let state = state.withLock({ $0 }), state.generation == generation.incarnation,
      generation.isCurrent(.catalog(in: generation), since: state.commitVersion)
    else { return nil }
    return state.value
  }

  /// Caches the value.
  ///
  /// - Parameter commitVersion: That of the transaction that read the value, before its own
  ///   changes of a record.
  func remember(_ value: Value, before commitVersion: UInt64, in generation: Generation) {
    let state = State(
      value: value, generation: generation.incarnation, commitVersion: commitVersion &- 1)
    self.state.withLock { $0 = state }
  }
}
