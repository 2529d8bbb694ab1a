// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

// Values that have a special CBOR form, or that are so common that their own `init(from:)`
// would cost more than they do. The type comparisons are pointer comparisons.
extension CBORDocument {
  /// The item as a value of any type.
  @inline(__always)
  func decode<Value: Decodable>(_ type: Value.Type, at offset: Int) throws -> Value {
    // None of the types below is stored as a map without a tag.
    if bytes[offset] >> 5 == 5 {
      return try Value(from: CBORItemDecoder(document: self, offset: offset))
    }
    return try decodeKnown(type, at: offset)
  }

  private func decodeKnown<Value: Decodable>(_ type: Value.Type, at offset: Int) throws -> Value {
    if Value.self == String.self { return try text(at: offset) as! Value }
    if Value.self == Int.self { return try integer(Int.self, at: offset) as! Value }
    if Value.self == Double.self { return try double(at: offset) as! Value }
    if Value.self == UUID.self { return try uuid(at: offset) as! Value }
    if Value.self == Date.self { return try date(at: offset) as! Value }
    if Value.self == Data.self { return Data(try byteString(at: offset)) as! Value }
    if let value = try list(type, at: offset) { return value }
    if Value.self == URL.self, let url = try url(at: offset) { return url as! Value }
    if Value.self == Decimal.self { return try decimal(at: offset) as! Value }
    return try Value(from: CBORItemDecoder(document: self, offset: offset))
  }

  private func list<Value>(_ type: Value.Type, at offset: Int) throws -> Value? {
    if Value.self == [String].self {
      return try elements(at: offset, String.self) { try text(at: $0) } as! Value?
    }
    if Value.self == [Int].self {
      return try elements(at: offset, Int.self) { try integer(Int.self, at: $0) } as! Value?
    }
    if Value.self == [Double].self {
      return try elements(at: offset, Double.self) { try double(at: $0) } as! Value?
    }
    if Value.self == [UInt8].self, bytes[untagged(offset)] >> 5 == 2 {
      return (Array(try byteString(at: offset)) as! Value)
    }
    return nil
  }

  @inline(__always)
  private func elements<Element>(
    at offset: Int, _ type: Element.Type, _ read: (Int) throws -> Element
  ) throws -> [Element] {
    let array = untagged(offset)
    guard bytes[array] >> 5 == 4 else { throw mismatch([Element].self, at: offset) }
    let end = end(of: array)
    var elements: [Element] = []
    elements.reserveCapacity(count(of: array))
    var child = inside(array)
    while child < end {
      elements.append(try read(child))
      child = next(after: child)
    }
    return elements
  }

  /// The number of elements of an array.
  func count(of array: Int) -> Int {
    if bytes[array] & 0x1f != 31 { return Int(argument(at: array)) }
    var count = 0
    var child = inside(array)
    let end = end(of: array)
    while child < end {
      count += 1
      child = next(after: child)
    }
    return count
  }

  private func uuid(at offset: Int) throws -> UUID {
    let item = untagged(offset)
    switch bytes[item] {
    case 0x50:
      if let uuid = ScalarCoding.uuid(bytes, at: item + 1) { return uuid }
    case 0x60...0x7f:
      if let uuid = UUID(uuidString: try text(at: item)) { return uuid }
    default:
      throw mismatch(UUID.self, at: offset)
    }
    throw corrupted("This text is not a UUID.", at: offset)
  }

  /// Tag 1 or a number: seconds since 1970. Tag 0 or a text: RFC 3339. Tag 1001: see ``CBORDate``.
  private func date(at offset: Int) throws -> Date {
    let item = untagged(offset)
    switch bytes[item] >> 5 {
    case 3:
      guard let date = try? Date(try text(at: item), strategy: .iso8601) else {
        throw corrupted("This text is not a date such as 2026-01-31T12:00:00Z.", at: offset)
      }
      return date
    case 5:
      return try extendedTime(at: item)
    default:
      let seconds = try double(at: item)
      // Only tag 1 contains a date that is not finite: that is how one is written.
      guard seconds.isFinite || item != offset else {
        throw corrupted("The number is not finite, so it is not a date.", at: offset)
      }
      return CBORDate.date(epochSeconds: seconds, residual: 0)
    }
  }

  private func extendedTime(at map: Int) throws -> Date {
    // Larder's form: the base time first, then only the residual.
    let first = inside(map)
    if bytes[map] == 0xa2, bytes[first] == CBORDate.baseTimeKey {
      let second = next(after: first + 1)
      if isText(CBORDate.residualKey, at: second) {
        return try date(double(at: first + 1), double(at: next(after: second)), at: map)
      }
    }
    var seconds: Double?
    var residual = 0.0
    let end = end(of: map)
    var key = inside(map)
    while key < end {
      let value = next(after: key)
      if bytes[key] == CBORDate.baseTimeKey {
        seconds = try double(at: value)
      } else if isText(CBORDate.residualKey, at: key) {
        residual = try double(at: value)
      }
      key = next(after: value)
    }
    guard let seconds else { throw corrupted("The extended time has no base time.", at: map) }
    return try date(seconds, residual, at: map)
  }

  private func date(_ seconds: Double, _ residual: Double, at map: Int) throws -> Date {
    guard seconds.isFinite, residual.isFinite else {
      throw corrupted("The extended time is not finite.", at: map)
    }
    return CBORDate.date(epochSeconds: seconds, residual: residual)
  }

  /// `nil` for the map that a URL with a base is written as.
  private func url(at offset: Int) throws -> URL? {
    let item = untagged(offset)
    if bytes[item] >> 5 == 5 { return nil }
    guard let url = URL(string: try text(at: item)) else {
      throw corrupted("This text is not a URL.", at: offset)
    }
    return url
  }

  private func decimal(at offset: Int) throws -> Decimal {
    var item = offset
    while bytes[item] >> 5 == 6 {
      let tag = argument(at: item)
      if tag == CBORTag.positiveBigInteger || tag == CBORTag.negativeBigInteger {
        return try wholeDecimal(at: item)
      }
      item = inside(item)
      if tag == CBORTag.decimalFraction { return try decimalFraction(at: item) }
    }
    switch bytes[item] {
    case 0x00...0x3f: return try wholeDecimal(at: item)
    case 0xf9, 0xfa, 0xfb: return try decimal(float(at: item), at: offset)
    default: throw mismatch(Decimal.self, at: offset)
    }
  }

  private func decimal(_ number: Double, at offset: Int) throws -> Decimal {
    // The initializer traps on infinity.
    if number.isNaN { return .nan }
    let value = number.isFinite ? Decimal(number) : .nan
    guard !value.isNaN else { throw corrupted("The number does not fit Decimal.", at: offset) }
    return value
  }

  private func decimalFraction(at item: Int) throws -> Decimal {
    let parts = bytes[item] >> 5 == 4 ? children(of: item) : []
    guard parts.count == 2 else { throw mismatch(Decimal.self, at: item) }
    let exponent = try integer(Int.self, at: parts[0])
    guard -128...127 ~= exponent else {
      throw corrupted("The number does not fit Decimal.", at: item)
    }
    let significand = try wholeDecimal(at: parts[1])
    let value = Decimal(
      sign: significand.isSignMinus ? .minus : .plus, exponent: exponent,
      significand: significand.magnitude)
    guard !value.isNaN else { throw corrupted("The number does not fit Decimal.", at: item) }
    return value
  }

  private func wholeDecimal(at item: Int) throws -> Decimal {
    var digits: String?
    if bytes[item] >> 5 == 6, let magnitude = try magnitude(at: item) {
      let isNegative = argument(at: item) == CBORTag.negativeBigInteger
      // -1 - magnitude; the largest magnitude is never negative in a Decimal.
      digits = isNegative && magnitude < .max ? "-\(magnitude + 1)" : "\(magnitude)"
    } else if bytes[item] >> 5 < 2 {
      digits = String(try integer(Int128.self, at: item))
    }
    guard let value = digits.flatMap({ Decimal(string: $0) }) else {
      throw mismatch(Decimal.self, at: item)
    }
    return value
  }
}
