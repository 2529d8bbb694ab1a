// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// When an entry stops being visible, for every process at the same millisecond of the store's
/// clock.
public struct Expiration: Sendable, Hashable {
  private enum Kind: Sendable, Hashable {
    case never
    case after(milliseconds: Int64)
    case at(milliseconds: Int64)
  }

  private let kind: Kind

  /// It stays until it is removed, replaced or evicted.
  public static let never = Expiration(kind: .never)

  /// It expires this long after it was written. Zero and less: at once.
  public static func after(_ duration: Duration) -> Expiration {
    Expiration(kind: .after(milliseconds: duration.milliseconds))
  }

  /// It expires at a point of wall time, in milliseconds since 1970.
  public static func at(millisecondsSince1970 milliseconds: Int64) -> Expiration {
    Expiration(kind: .at(milliseconds: max(milliseconds, 0)))
  }

  /// The deadline in milliseconds since 1970, for an entry written `now`.
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
