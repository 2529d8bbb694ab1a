// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A clock that stands still until it is told otherwise: milliseconds since 1970.
///
/// Inject it where the product would read the time, and no test ever sleeps.
///
///     let clock = ManualClock()
///     let store = try Store(at: path, clock: { clock.now })
///     clock.advance(by: .seconds(3600))
public final class ManualClock: Sendable {
  private let milliseconds: Atomic<Int64>

  /// Starts at a moment in November 2023 unless told otherwise.
  public init(milliseconds: Int64 = 1_700_000_000_000) {
    self.milliseconds = Atomic(milliseconds)
  }

  /// The time it shows.
  public var now: Int64 { milliseconds.load(ordering: .sequentiallyConsistent) }

  /// Moves it, also backwards, and returns the new time. What is finer than a millisecond is cut.
  @discardableResult
  public func advance(by duration: Duration) -> Int64 {
    let (seconds, attoseconds) = duration.components
    let amount = seconds * 1000 + attoseconds / 1_000_000_000_000_000
    return milliseconds.wrappingAdd(amount, ordering: .sequentiallyConsistent).newValue
  }

  /// Sets it to a time of its own, as somebody with a settings panel would.
  public func set(to milliseconds: Int64) {
    self.milliseconds.store(milliseconds, ordering: .sequentiallyConsistent)
  }
}
