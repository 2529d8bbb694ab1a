// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding

// A `Date` is a binary number of seconds since 2001. The shortest decimal number that identifies it
// still identifies it after the whole seconds between 1970 and 2001 are added in decimal. So
// decimal seconds since 1970 identify every date.

/// The exact conversion between dates and decimal seconds since 1970.
enum ExactDate {
  private static let offset = Decimal(Int(Date.timeIntervalBetween1970AndReferenceDate))

  /// Returns the digits of a stored date, or `nil` if they do not convert back to the same bytes.
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

  /// Returns the date of decimal seconds since 1970 in the form that a program stores.
  static func stored(_ digits: String) -> CBORValue? {
    guard let decimal = Decimal(string: digits),
      let seconds = Double((decimal - offset).description)
    else { return nil }
    return stored(seconds)
  }

  /// Returns the stored form of a date in seconds since 1970.
  static func stored(seconds: Double) -> CBORValue? {
    stored(Date(timeIntervalSince1970: seconds))
  }

  /// Returns the stored form of a date in seconds since 2001.
  static func stored(_ seconds: Double) -> CBORValue? {
    stored(Date(timeIntervalSinceReferenceDate: seconds))
  }

  private static func stored(_ date: Date) -> CBORValue? {
    (try? CBOREncoder().encode(date)).flatMap { try? CBORValue(parsing: $0) }
  }
}
