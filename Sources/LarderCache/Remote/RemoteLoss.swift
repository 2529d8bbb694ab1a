// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

/// The loss of a server, as reads of this process have noticed it.
///
/// A read that has a copy does not wait then, but one in a second does, to notice the return.
final class RemoteLoss: Sendable {
  /// The time until which no read waits; zero while the server answers.
  private let until = Atomic<UInt64>(0)
  /// The time at which the newest request that was answered had begun.
  private let answered = Atomic<UInt64>(0)
  private static let pause: UInt64 = 1_000_000_000

  private static var end: UInt64 { RemoteRecord.now + pause }

  /// Notes that a request was answered.
  func noteAnswer(begun: UInt64) {
    answered.max(begun, ordering: .relaxed)
    if until.load(ordering: .relaxed) != 0 { until.store(0, ordering: .relaxed) }
  }

  /// Notes that a request had no answer, unless a later one had.
  func noteLoss(begun: UInt64) {
    if answered.load(ordering: .relaxed) < begun { until.store(Self.end, ordering: .relaxed) }
  }

  /// Returns whether a read should use a copy without a request.
  func avoidsRequest() -> Bool {
    let end = until.load(ordering: .relaxed)
    if end == 0 { return false }
    if RemoteRecord.now < end { return true }
    return !until.compareExchange(expected: end, desired: Self.end, ordering: .relaxed).exchanged
  }
}
