// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding

// The kind of a field decides what a number of JSON means: the digits 19.99 are one `Decimal`, and
// another `Double` and `Float`. So a parsed number keeps its digits until its field is known, as an
// item with a tag that no encoder writes.

/// A number of JSON whose field is not known yet.
enum ExactNumber {
  /// "digits" in ASCII.
  private static let tag: UInt64 = 0x6469_6769_7473

  static func item(_ digits: String) -> CBORValue { .tagged(tag, .text(digits)) }

  /// Returns the digits of such an item, or `nil` for any other item.
  static func digits(_ value: CBORValue) -> String? {
    guard case .tagged(tag, .text(let digits)) = value else { return nil }
    return digits
  }

  /// Returns a value in which each such number is a floating-point number, or `nil` if one is too large.
  static func resolved(_ value: CBORValue) -> CBORValue? {
    if let digits = digits(value) {
      return Double(digits).flatMap { $0.isFinite ? .float($0) : nil }
    }
    switch value {
    case .array(let values):
      var result: [CBORValue] = []
      for value in values {
        guard let value = resolved(value) else { return nil }
        result.append(value)
      }
      return .array(result)
    case .map(let pairs):
      var result: [CBORValue.Pair] = []
      for pair in pairs {
        guard let value = resolved(pair.value) else { return nil }
        result.append(CBORValue.Pair(pair.key, value))
      }
      return .map(result)
    default: return value
    }
  }

  /// Returns the stored form of the `Decimal` with exactly these digits, or `nil` if there is none.
  static func decimal(_ digits: String) -> CBORValue? {
    guard let decimal = Decimal(string: digits), !decimal.isNaN,
      significant(decimal.description) == significant(digits)
    else { return nil }
    return stored(decimal)
  }

  /// Returns the stored form of a decimal, or `nil` if it is not a number.
  static func stored(_ decimal: Decimal) -> CBORValue? {
    (try? CBOREncoder().encode(decimal)).flatMap { try? CBORValue(parsing: $0) }
  }

  /// Returns the digits of a number without its sign, its point and zeros at either end.
  private static func significant(_ text: String) -> Substring {
    let mantissa = text.prefix { $0 != "e" && $0 != "E" }
    let digits = mantissa.filter { $0 != "." && $0 != "-" && $0 != "+" }.drop { $0 == "0" }
    let end = digits.lastIndex { $0 != "0" }
    return end.map { digits[...$0] } ?? ""
  }

  /// Returns the stored form of a whole number, or `nil` if the digits are none.
  static func integer(_ digits: String) -> CBORValue? {
    let bytes: [UInt8]?
    if let number = Int128(digits) {
      bytes = try? CBOREncoder().encode(number)
    } else {
      bytes = UInt128(digits).flatMap { try? CBOREncoder().encode($0) }
    }
    return bytes.flatMap { try? CBORValue(parsing: $0) }
  }
}
