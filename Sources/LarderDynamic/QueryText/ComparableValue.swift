// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding

// COMPARISONS OF STORED VALUES
//
// Values compare like the values that a program decodes: numbers by their value, independent of
// their width, decimals by their digits; a floating-point number is to a decimal what its shortest
// digits are. Constants are converted to the type of their field before (`TypedConstants.swift`); strings like in Swift (canonically equivalent strings are equal, the order is that
// of the scalars); a UUID with its text; a date with a date, and with the number of its seconds
// since
// 1970. A missing field, `null` and `undefined` are the same value, "nothing". Nothing equals
// nothing, and is neither less nor greater than any value, as in typed queries. Values of different
// kinds differ, and neither is less than the other.
//
// A sort needs a total order: nothing, Booleans, numbers and dates, strings, UUIDs, bytes, all
// others; NaN is last among numbers. This is the order of index keys.

/// A stored value in the form that comparisons use.
enum ComparableValue: Sendable, Hashable {
  case nothing
  case boolean(Bool)
  case integer(Int128)
  case real(Double)
  case decimal(Decimal)
  /// Seconds since 2001, like in `Date`: seconds since 1970 do not distinguish all dates.
  case date(Double)
  case text(String)
  case uuid([UInt8])
  case bytes([UInt8])
  case array([CBORValue])
  case map([CBORValue.Pair])
  case other

  init(_ value: CBORValue?) {
    switch value {
    case nil, .null, .undefined: self = .nothing
    case .unsigned(let number): self = .integer(Int128(number))
    case .negative(let number): self = .integer(-1 - Int128(number))
    case .bytes(let bytes): self = .bytes(bytes)
    case .text(let text): self = .text(text)
    case .array(let values): self = .array(values)
    case .map(let pairs): self = .map(pairs)
    case .boolean(let value): self = .boolean(value)
    case .float(let number): self = .real(number)
    case .simple: self = .other
    case .tagged(let tag, let content): self = Self.tagged(tag, content)
    }
  }

  private static func tagged(_ tag: UInt64, _ content: CBORValue) -> ComparableValue {
    switch (tag, content) {
    case (0, .text(let text)):
      return CalendarDate.seconds(text).map(ComparableValue.date) ?? .text(text)
    case (1, _): return number(content).map { date($0, 0) } ?? ComparableValue(content)
    case (2, .bytes(let bytes)) where bytes.count < 16: return .integer(magnitude(bytes))
    case (3, .bytes(let bytes)) where bytes.count < 16: return .integer(-1 - magnitude(bytes))
    case (2, .bytes), (3, .bytes):
      return decimal(.tagged(tag, content)) ?? ComparableValue(content)
    case (4, .array(let parts)) where parts.count == 2:
      if let decimal = decimal(.tagged(tag, content)) { return decimal }
      guard case .integer(let exponent) = ComparableValue(parts[0]),
        case .integer(let digits) = ComparableValue(parts[1])
      else { return .other }
      return Double("\(digits)e\(exponent)").map(ComparableValue.real) ?? .other
    case (37, .bytes(let bytes)) where bytes.count == 16: return .uuid(bytes)
    case (1001, .map(let pairs)):
      // Like the decoder, the last of several.
      guard let base = pairs.last(where: { $0.key == .unsigned(1) }),
        let seconds = number(base.value)
      else { return .other }
      let residual = pairs.last { $0.key == .text(CBORDate.residualKey) }.map { number($0.value) }
      return residual == .some(nil) ? .other : date(seconds, (residual ?? 0) ?? 0)
    default: return ComparableValue(content)
    }
  }

  private static func decimal(_ value: CBORValue) -> ComparableValue? {
    (try? CBORDecoder().decode(Decimal.self, from: value.encoded)).map(ComparableValue.decimal)
  }

  private static func number(_ value: CBORValue) -> Double? {
    switch value {
    case .float(let number): number
    case .unsigned(let number): Double(number)
    case .negative(let number): -1 - Double(number)
    default: nil
    }
  }

  private static func date(_ seconds: Double, _ residual: Double) -> ComparableValue {
    .date(
      CBORDate.date(epochSeconds: seconds, residual: residual).timeIntervalSinceReferenceDate)
  }

  private static func magnitude(_ bytes: [UInt8]) -> Int128 {
    bytes.reduce(0) { $0 << 8 | Int128($1) }
  }

  /// Returns the bytes of a UUID's text, or `nil` if the text is not a UUID.
  static func uuid(_ text: String) -> [UInt8]? {
    text.utf8.count == 36 ? UUID(uuidString: text)?.keyBytes : nil
  }

  // MARK: Comparing

  /// Compares two values.
  ///
  /// - Returns: A negative number, zero or a positive number, or `nil` if the values have no order.
  func compared(to other: ComparableValue) -> Int? {
    switch (self, other) {
    case (.integer(let left), .integer(let right)): return Self.order(left, right)
    case (.integer, .real), (.integer, .date), (.real, .integer), (.real, .real), (.real, .date),
      (.date, .integer), (.date, .real), (.date, .date):
      return Self.compare(self, other)
    case (.decimal(let left), _): return Self.compare(left, other)
    case (_, .decimal(let right)): return Self.compare(right, self).map { -$0 }
    case (.text(let left), .text(let right)):
      return textIsBelow(left, right) ? -1 : textIsBelow(right, left) ? 1 : 0
    default: return nil
    }
  }

  private static func order<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
    left < right ? -1 : right < left ? 1 : 0
  }

  private var double: Double? {
    switch self {
    case .real(let number), .date(let number): number
    default: nil
    }
  }

  /// The seconds between 1970 and 2001.
  private static let epoch = Int(Date.timeIntervalBetween1970AndReferenceDate)

  /// Compares numbers of which at least one is a floating-point number or a date, exactly.
  private static func compare(_ left: ComparableValue, _ right: ComparableValue) -> Int? {
    switch (left, right) {
    case (.integer(let integer), .date(let date)):
      let (whole, overflow) = integer.subtractingReportingOverflow(Int128(epoch))
      return compare(overflow ? .min : whole, date)
    case (.integer(let integer), _): return right.double.flatMap { compare(integer, $0) }
    case (_, .integer): return compare(right, left).map { -$0 }
    case (.real(let real), .date(let date)):
      let (seconds, residual) = CBORDate.epochSeconds(of: date)
      if real.isNaN || seconds.isNaN { return nil }
      let order = order(real, seconds)
      return order != 0 || !seconds.isFinite ? order : Self.order(0, residual)
    case (.date, .real): return compare(right, left).map { -$0 }
    default:
      guard let left = left.double, let right = right.double, !left.isNaN, !right.isNaN else {
        return nil
      }
      return order(left, right)
    }
  }

  private static func compare(_ decimal: Decimal, _ other: ComparableValue) -> Int? {
    switch other {
    case .decimal(let other): return order(decimal, other)
    case .integer(let integer):
      return Decimal(string: "\(integer)").map { order(decimal, $0) }
    case .real(let real):
      if real.isNaN { return nil }
      guard real.isFinite, let exact = Decimal(string: real.description), !exact.isNaN else {
        return Double(decimal.description).flatMap { compare(.real($0), .real(real)) }
      }
      return order(decimal, exact)
    case .date:
      return Double(decimal.description).flatMap { compare(.real($0), other) }
    default: return nil
    }
  }

  private static func compare(_ integer: Int128, _ real: Double) -> Int? {
    if real.isNaN { return nil }
    if real >= 0x1p126 { return -1 }
    if real <= -0x1p126 { return 1 }
    let whole = Int128(real.rounded(.down))
    if integer != whole { return integer < whole ? -1 : 1 }
    return real.rounded(.down) < real ? -1 : 0
  }

  func equals(_ other: ComparableValue) -> Bool {
    switch (self, other) {
    case (.nothing, .nothing): return true
    case (.boolean(let left), .boolean(let right)): return left == right
    case (.uuid(let left), .uuid(let right)): return left == right
    case (.uuid(let bytes), .text(let text)), (.text(let text), .uuid(let bytes)):
      return Self.uuid(text) == bytes
    case (.bytes(let left), .bytes(let right)): return left == right
    case (.array(let left), .array(let right)):
      return left.count == right.count
        && zip(left, right).allSatisfy { ComparableValue($0).equals(ComparableValue($1)) }
    case (.map(let left), .map(let right)): return CBORValue.map(left) == .map(right)
    default: return compared(to: other) == 0
    }
  }

  // MARK: Sorting

  private var rank: Int {
    switch self {
    case .nothing: 0
    case .boolean: 1
    case .integer, .real, .decimal, .date: 2
    case .text: 3
    case .uuid: 4
    case .bytes: 5
    default: 6
    }
  }

  /// Compares two values in the total order of sorts; zero for values that the order does not
  /// distinguish.
  func sorts(before other: ComparableValue) -> Int {
    if rank != other.rank { return rank < other.rank ? -1 : 1 }
    switch (self, other) {
    case (.boolean(let left), .boolean(let right)):
      return left == right ? 0 : right ? -1 : 1
    case (.uuid(let left), .uuid(let right)), (.bytes(let left), .bytes(let right)):
      return left.lexicographicallyPrecedes(right)
        ? -1 : right.lexicographicallyPrecedes(left) ? 1 : 0
    default:
      if let order = compared(to: other) { return order }
      return (double?.isNaN ?? false ? 1 : 0) - (other.double?.isNaN ?? false ? 1 : 0)
    }
  }
}
