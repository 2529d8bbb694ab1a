// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The time at which an entry becomes invisible.
///
/// All processes stop seeing the entry at the same millisecond of the store's clock.
public struct Expiration: Sendable, Hashable {
  private enum Kind: Sendable, Hashable {
    case never
    case after(milliseconds: Int64)
    case at(milliseconds: Int64)
  }

  private let kind: Kind

  /// No expiration: the entry remains until it is removed, replaced or evicted.
  public static let never = Expiration(kind: .never)

  /// Returns an expiration a duration after the write.
  ///
  /// - Parameter duration: The lifetime of the entry. With zero or less, the entry expires at once.
  public static func after(_ duration: Duration) -> Expiration {
    Expiration(kind: .after(milliseconds: duration.milliseconds))
  }

  /// Returns an expiration at a wall-clock time.
  ///
  /// - Parameter milliseconds: The time in milliseconds since 1970; negative values mean zero.
  public static func at(millisecondsSince1970 milliseconds: Int64) -> Expiration {
    Expiration(kind: .at(milliseconds: max(milliseconds, 0)))
  }

  /// Returns the expiration time in milliseconds since 1970 for an entry that is written at `now`.
  package func deadline(now: Int64) -> Int64 {
    switch kind {
    case .never: return EntryHeader.never
    case .after(let milliseconds):
      let (sum, overflow) = now.addingReportingOverflow(milliseconds)
      return overflow ? EntryHeader.never : sum
    case .at(let milliseconds): return milliseconds
    }
  }
}
