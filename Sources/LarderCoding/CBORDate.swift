// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// DATES IN CBOR
//
// `Date` counts seconds from 2001; other formats count from 1970. Moving a date between the two
// rounds: near the present, a number of seconds from 2001 has one fraction bit more than the
// same moment from 1970 has, so every second date with a fraction would decode to its neighbour
// and no longer equal the date that was stored.
//
//   1(seconds)                                  if decoding yields the same date from the seconds
//                                               since 1970: all whole seconds, and half of the rest
//   1001({1: seconds, "residual": residual})    otherwise
//
// 1001 is the extended time of RFC 9581: key 1 is the time as in tag 1, other keys refine it. The
// residual is the exact error of the rounding, so a reader that ignores it is right to within
// a microsecond, and one that adds it has the very date.

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

package enum CBORDate {
  /// The key 1 is its own encoding.
  static let baseTimeKey: UInt8 = 1
  package static let residualKey = "residual"

  private static let offset = Date.timeIntervalBetween1970AndReferenceDate

  static func write(_ date: Date, to writer: inout CBORWriter) {
    let reference = date.timeIntervalSinceReferenceDate
    let (seconds, residual) = epochSeconds(of: reference)
    if seconds - offset == reference || !seconds.isFinite {
      writer.write(tag: CBORTag.epochTime)
      writer.write(seconds)
      return
    }
    writer.write(tag: CBORTag.extendedTime)
    writer.beginMap(count: 2)
    writer.write(UInt64(baseTimeKey))
    writer.write(seconds)
    writer.write(text: residualKey)
    writer.write(residual)
  }

  /// Seconds since 1970 of seconds since 2001, and what they lack.
  package static func epochSeconds(of reference: Double) -> (seconds: Double, residual: Double) {
    let seconds = reference + offset
    // Knuth's two-sum: sum and error together are the exact sum.
    let part = seconds - reference
    let residual = (reference - (seconds - part)) + (offset - part)
    return (seconds, residual)
  }

  package static func date(epochSeconds seconds: Double, residual: Double) -> Date {
    var reference = seconds - offset
    if residual != 0 {
      // The difference as an exact pair again, so that nothing is lost before the residual.
      let part = reference - seconds
      let error = (seconds - (reference - part)) + (-offset - part)
      reference += error + residual
    }
    return Date(timeIntervalSinceReferenceDate: reference)
  }
}
