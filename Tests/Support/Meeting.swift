// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderTesting
internal import Synchronization

/// A place where a number of threads meet, in one round after the other.
package final class Meeting: Sendable {
  private let parties: Int
  private let arrived = Atomic<Int>(0)

  package init(of parties: Int) { self.parties = parties }

  /// Returns when all have arrived in the round of the caller.
  ///
  /// - Throws: `ConditionTimedOut` if one of them never does, so that a test that has failed ends.
  package func meet() throws {
    let earlier = arrived.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
    let wanted = (earlier / parties + 1) * parties
    try eventually("\(parties) threads meet") { arrived.load(ordering: .acquiring) >= wanted }
  }
}
