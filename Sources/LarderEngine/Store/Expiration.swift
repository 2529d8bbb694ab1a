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
public struct Expiration: Sendable, Hashable {
  private enum Kind: Sendable, Hashable {
    case never
    /// A lifetime in milliseconds. Zero or less is an error of the write.
    case after(milliseconds: Int64)
    case at(milliseconds: Int64)
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
    Expiration(kind: .after(milliseconds: lifetime(duration)))
  }

  /// Returns an expiration at a wall-clock time.
  ///
  /// - Parameter milliseconds: The time in milliseconds since 1970; negative values mean zero.
  public static func at(millisecondsSince1970 milliseconds: Int64) -> Expiration {
    Expiration(kind: .at(milliseconds: max(milliseconds, 0)))
  }

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
    case .never: return EntryHeader.never
    case .after(let milliseconds):
      let (sum, overflow) = now.addingReportingOverflow(milliseconds)
      return overflow ? EntryHeader.never : sum
    case .at(let milliseconds): return milliseconds
    }
  }

  /// Checks the expiration before work whose result would be written with it.
  ///
  /// - Throws: ``StoreError/Code/invalidOption`` if a write cannot have this expiration.
  package func validate() throws(StoreError) {
    guard case .after(let milliseconds) = kind, milliseconds <= 0 else { return }
    throw StoreError(
      .invalidOption, during: "set",
      "Invalid expiration: the lifetime is \(milliseconds) ms, and nothing was stored. Pass a "
        + "duration longer than zero, or remove the key.")
  }
}
