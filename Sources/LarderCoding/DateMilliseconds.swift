// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

extension Date {
  /// The last whole millisecond before the date, in milliseconds since 1970, or `nil` if the date is not a
  /// number. What is farther than 285,000 years away, or infinitely far, is that far.
  package var millisecondsSince1970: Int64? {
    let milliseconds = timeIntervalSince1970 * 1000
    if milliseconds.isNaN { return nil }
    return Int64(min(max(milliseconds, -9e15), 9e15).rounded(.down))
  }
}
