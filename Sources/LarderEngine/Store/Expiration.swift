// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The time at which an entry becomes invisible.
///
/// All processes stop seeing the entry at the same millisecond of the store's clock.
///
/// A lifetime is longer than zero. A write with a lifetime of zero or less throws
/// ``StoreError/Code/invalidOption`` and stores nothing. A time in the past is allowed: the entry
/// is expired from the beginning.
///
/// An expiration is stored as a time of the wall clock, and compared with the clock of the store:
///
/// * If the clock jumps forward, the entries whose time has passed by the new clock are expired at
///   once, and may be removed.
/// * If the clock jumps back, an expired entry that was not removed is visible again, until the clock
///   reaches its time once more. An entry that was removed stays removed, in memory too. A lifetime
///   that began before the jump ends later by the length of the jump.
///
/// Expired entries are removed within seconds while a process that has written to the store has it
/// open, so after a correction of a clock that was ahead, most of them are gone.
public struct Expiration: Sendable, Hashable {
  private enum Kind: Sendable, Hashable {
    case never
    /// A lifetime in milliseconds, and the largest part of it that is left out at random. A lifetime
    /// of zero or less and a part outside of 0 to 1 are errors of the write.
    case after(milliseconds: Int64, jitter: Double)
    case at(milliseconds: Int64)
    /// A lifetime in milliseconds after the last use. Zero or less is an error of the write.
    case afterAccess(milliseconds: Int64)
    /// A time that is not a number: an error of the write.
    case notANumber
  }

  private let kind: Kind

  /// No expiration: the entry remains until it is removed, replaced or evicted.
  public static let never = Expiration(kind: .never)

  /// Returns an expiration a duration after the write.
  ///
  /// - Parameter duration: The lifetime of the entry. Fractions of a millisecond are truncated, but
  ///   an entry lives for at least a millisecond. With zero or less, the write throws
  ///   ``StoreError/Code/invalidOption``.
  public static func after(_ duration: Duration) -> Expiration {
    Expiration(kind: .after(milliseconds: lifetime(duration), jitter: 0))
  }

  /// Returns an expiration a duration after the write, less a random part of the duration.
  ///
  /// Entries that are written together then expire at different times, and are not all computed
  /// again at the same time. Each write chooses a different part, with a random generator that each process
  /// seeds for itself.
  ///
  /// ```swift
  /// let expires = Expiration.after(.seconds(3600), jitter: 0.1)   // 54 to 60 minutes
  /// ```
  ///
  /// - Parameters:
  ///   - duration: The longest lifetime of an entry, as in ``after(_:)``. No entry lives longer.
  ///   - jitter: The largest part of the duration that is left out, from 0 to 1. With another value,
  ///     the write throws ``StoreError/Code/invalidOption``.
  public static func after(_ duration: Duration, jitter: Double) -> Expiration {
    Expiration(kind: .after(milliseconds: lifetime(duration), jitter: jitter))
  }

  /// Returns a sliding expiration: a duration after the entry was last read or written by any process.
  ///
  /// A read does not write to the database. It records the time in the shared memory of the store, in
  /// steps of 1.024 seconds that are rounded up: an entry expires up to 1.1 seconds late, and never
  /// early. The shared memory has room for a limited number of keys, and a system crash or an attacker
  /// may delete it. An entry whose last use is lost expires a duration after it was written, or after
  /// the last time that the store's thread found it in use. So does one whose uses were recorded while
  /// the clock was more than a minute ahead, once it is corrected.
  ///
  /// Caches over a `CacheStorage` reject it.
  ///
  /// - Parameter duration: The lifetime without a use. With zero or less, the write throws
  ///   ``StoreError/Code/invalidOption``.
  public static func afterAccess(_ duration: Duration) -> Expiration {
    Expiration(kind: .afterAccess(milliseconds: lifetime(duration)))
  }

  /// Returns an expiration at a wall-clock time.
  ///
  /// - Parameter milliseconds: The time in milliseconds since 1970; negative values mean zero.
  public static func at(millisecondsSince1970 milliseconds: Int64) -> Expiration {
    Expiration(kind: .at(milliseconds: max(milliseconds, 0)))
  }

  /// The expiration at a time that is not a number, an error of each write.
  package static let notANumber = Expiration(kind: .notANumber)

  /// Returns a duration in milliseconds, at least one if the duration is positive.
  private static func lifetime(_ duration: Duration) -> Int64 {
    duration > .zero ? max(duration.milliseconds, 1) : min(duration.milliseconds, 0)
  }

  /// Returns the expiration time in milliseconds since 1970 for an entry that is written at `now`.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` if a write cannot have this expiration.
  package func deadline(now: Int64) throws(StoreError) -> Int64 {
    try validate()
    switch kind {
    case .never, .notANumber: return EntryHeader.never
    case .after(let milliseconds, let jitter):
      let lifetime =
        jitter == 0 ? milliseconds : shortened(milliseconds, byAtMost: jitter)
      return EntryHeader.deadline(of: lifetime, from: now)
    case .at(let milliseconds): return milliseconds
    case .afterAccess(let milliseconds):
      return EntryHeader.deadline(of: milliseconds, from: now)
    }
  }

  /// Returns a lifetime less a random part of it, at least one millisecond.
  private func shortened(_ milliseconds: Int64, byAtMost part: Double) -> Int64 {
    max(1, milliseconds - Int64(Double(milliseconds) * part * RandomSource.share()))
  }

  /// The lifetime of a sliding expiration in milliseconds; zero for any other.
  package var slidingLifetime: Int64 {
    if case .afterAccess(let milliseconds) = kind { return milliseconds }
    return 0
  }

  /// Checks the expiration before work whose result would be written with it.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` if a write cannot have this expiration.
  package func validate() throws(StoreError) {
    let milliseconds: Int64
    var jitter = 0.0
    switch kind {
    case .after(let lifetime, let part): (milliseconds, jitter) = (lifetime, part)
    case .afterAccess(let lifetime): milliseconds = lifetime
    case .never, .at: return
    case .notANumber:
      throw StoreError(
        .invalidOption, during: "set",
        "Invalid expiration: the time is not a number (NaN), and nothing was stored. Pass a date, a "
          + "lifetime, or .never.")
    }
    guard milliseconds > 0 else {
      throw StoreError(
        .invalidOption, during: "set",
        "Invalid expiration: the lifetime is \(milliseconds) ms, and nothing was stored. Pass a "
          + "duration longer than zero, or remove the key.")
    }
    // Not a number is outside of the range as well.
    guard jitter >= 0, jitter <= 1 else {
      throw StoreError(
        .invalidOption, during: "set",
        "Invalid expiration: the jitter is \(jitter), and nothing was stored; the range is 0 to 1. "
          + "Pass a fraction of the lifetime, such as 0.1.")
    }
  }
}
