// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding

// A `Date` is a number of seconds since 2001 in binary. The decimal number with the fewest digits that
// says which one it is stays that when the whole seconds between 1970 and 2001 are added in decimal, so
// seconds since 1970 can say it as well.

/// Dates as decimal seconds since 1970, exactly.
enum ExactDate {
  private static let offset = Decimal(Int(Date.timeIntervalBetween1970AndReferenceDate))

  /// The digits of a stored date; `nil`: they would not bring it back.
  static func digits(_ value: CBORValue) -> String? {
    let encoded = value.encoded
    guard let date = try? CBORDecoder().decode(Date.self, from: encoded) else { return nil }
    let seconds = date.timeIntervalSinceReferenceDate
    guard abs(seconds) < 1e15, seconds == 0 || abs(seconds) > 1e-15,
      let decimal = Decimal(string: seconds.description)
    else { return nil }
    let digits = (decimal + offset).description
    return stored(digits)?.encoded == encoded ? digits : nil
  }

  /// The date that digits say, as a program stores it.
  static func stored(_ digits: String) -> CBORValue? {
    guard let decimal = Decimal(string: digits),
      let seconds = Double((decimal - offset).description)
    else { return nil }
    return stored(seconds)
  }

  /// A date in seconds since 1970.
  static func stored(seconds: Double) -> CBORValue? {
    stored(Date(timeIntervalSince1970: seconds))
  }

  /// A date in seconds since 2001.
  static func stored(_ seconds: Double) -> CBORValue? {
    stored(Date(timeIntervalSinceReferenceDate: seconds))
  }

  private static func stored(_ date: Date) -> CBORValue? {
    (try? CBOREncoder().encode(date)).flatMap { try? CBORValue(parsing: $0) }
  }
}
