// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
package import NIOCore

// RESP3
//
// A value begins with a byte for its type and ends with CR LF (specification: redis.io, "Redis serialization
// protocol"):
//
//   +text  -error  :integer  ,double  #t #f  (big number  _ null
//   $length CR LF bytes     a string; !  an error, = a string after three letters and a colon
//   *count                  an array of the values that follow; ~ a set, > a push
//   %count                  as many pairs of values; | attributes of the value that follows
//
// `$-1` and `*-1` are null in RESP2. Lengths that are not known at the beginning (`$?`) are not sent by any
// server, and are refused.
//
// Bytes come in parts of any size. The decoder keeps the aggregates that are not complete on a stack, so no
// byte is decoded twice, and an array costs memory only for elements that have come. All limits are checked
// before memory is used for what a server announces.

/// Decodes the bytes of a connection into values.
package struct RESPDecoder {
  /// The most that one reply of a server may use.
  package struct Limits: Sendable, Hashable {
    /// Aggregates within aggregates.
    package var depth = 16
    /// The elements of one aggregate.
    package var elements = 1 << 20
    /// The bytes of one string.
    package var string = 512 << 20
    /// The bytes of a reply: those of its strings, and 32 for each value.
    package var reply = 1 << 30
    /// The bytes of a line: of a simple string, an error or a number.
    package var line = 64 << 10

    package init() {}
  }

  /// A complete value, and whether it answers a request.
  package enum Message: Sendable, Hashable {
    case reply(RedisValue)
    /// A message that answers no command.
    case push([RedisValue])
  }

  /// The description of bytes that are not RESP3, or more than the limits.
  package struct Violation: Error, Hashable { package let reason: String }

  private enum Kind { case array, set, push, map, attributes }

  private struct Aggregate {
    let kind: Kind
    var missing: Int
    var values: [RedisValue]
  }

  private enum StringKind { case string, error, verbatim }

  let limits: Limits
  private var open: [Aggregate] = []
  private var announced: (kind: StringKind, length: Int)?
  /// The bytes of the present line that were searched for its end.
  private var searched = 0
  private var used = 0

  package init(limits: Limits = Limits()) { self.limits = limits }

  /// Reads the next complete value.
  ///
  /// - Returns: `nil` if more bytes are needed.
  /// - Throws: The violation; the decoder must not be used then.
  package mutating func next(_ buffer: inout ByteBuffer) throws(Violation) -> Message? {
    while true {
      let value: RedisValue?
      if let (kind, length) = announced {
        guard buffer.readableBytes >= length + 2, let bytes = buffer.readBytes(length: length)
        else { return nil }
        guard buffer.readInteger(as: UInt16.self) == Self.lineEnd else {
          throw Violation(reason: "a string does not end with CR LF")
        }
        announced = nil
        value = try string(kind, bytes)
      } else {
        guard let length = try lineLength(buffer) else { return nil }
        value = try begin(&buffer, length: length)
      }
      guard let value, let message = deliver(value) else { continue }
      used = 0
      return message
    }
  }

  // MARK: Lines

  private static let lineEnd: UInt16 = 0x0D0A

  /// Finds the end of the next line.
  ///
  /// - Returns: The number of its bytes with their end; `nil` if it has not come.
  private mutating func lineLength(_ buffer: ByteBuffer) throws(Violation) -> Int? {
    let bytes = buffer.readableBytesUInt8Span
    var end = searched
    while end < bytes.count, bytes[end] != 0x0A { end += 1 }
    guard end < bytes.count else {
      searched = end
      if searched > limits.line {
        throw Violation(reason: "a line has more than \(limits.line) bytes")
      }
      return nil
    }
    searched = 0
    guard end >= 2, end < limits.line, bytes[end - 1] == 0x0D else {
      throw Violation(reason: "a line is empty, too long, or does not end with CR LF")
    }
    return end + 1
  }

  /// Decodes a line.
  ///
  /// - Returns: The value, or `nil` if it has parts that follow.
  private mutating func begin(
    _ buffer: inout ByteBuffer, length: Int
  ) throws(Violation) -> RedisValue? {
    try use(32)
    let kind = buffer.readableBytesUInt8Span[0]
    // Most lines are numbers, and are read where they are.
    let number = Self.integer(buffer.readableBytesUInt8Span.extracting(1..<(length - 2)))
    buffer.moveReaderIndex(forwardBy: 1)
    switch kind {
    case UInt8(ascii: ":"), UInt8(ascii: "$"), UInt8(ascii: "!"), UInt8(ascii: "="),
      UInt8(ascii: "*"), UInt8(ascii: "~"), UInt8(ascii: ">"), UInt8(ascii: "%"),
      UInt8(ascii: "|"):
      guard let number else { throw Violation(reason: "an integer is no number of 64 bits") }
      buffer.moveReaderIndex(forwardBy: length - 1)
      return try begin(kind, number)
    default:
      let rest = buffer.readBytes(length: length - 3) ?? []
      buffer.moveReaderIndex(forwardBy: 2)
      return try scalar(kind, rest)
    }
  }

  private mutating func begin(_ kind: UInt8, _ number: Int) throws(Violation) -> RedisValue? {
    switch kind {
    case UInt8(ascii: ":"): .integer(number)
    case UInt8(ascii: "$"): try announce(.string, number)
    case UInt8(ascii: "!"): try announce(.error, number)
    case UInt8(ascii: "="): try announce(.verbatim, number)
    case UInt8(ascii: "*"): try begin(.array, number)
    case UInt8(ascii: "~"): try begin(.set, number)
    case UInt8(ascii: ">"): try begin(.push, number)
    case UInt8(ascii: "%"): try begin(.map, number)
    default: try begin(.attributes, number)
    }
  }

  private func scalar(_ kind: UInt8, _ rest: [UInt8]) throws(Violation) -> RedisValue {
    switch kind {
    case UInt8(ascii: "+"): return .bytes(rest)
    case UInt8(ascii: "-"): return .error(RedisReplyError(String(decoding: rest, as: UTF8.self)))
    case UInt8(ascii: ","): return .double(try double(rest))
    case UInt8(ascii: "("): return .bigNumber(try bigNumber(rest))
    case UInt8(ascii: "#"):
      guard rest == [UInt8(ascii: "t")] || rest == [UInt8(ascii: "f")] else {
        throw Violation(reason: "a boolean is neither t nor f")
      }
      return .boolean(rest == [UInt8(ascii: "t")])
    case UInt8(ascii: "_"):
      guard rest.isEmpty else { throw Violation(reason: "a null has a value") }
      return .null
    default: throw Violation(reason: "no value begins with byte \(kind)")
    }
  }

  private mutating func use(_ bytes: Int) throws(Violation) {
    used += bytes
    if used > limits.reply {
      throw Violation(reason: "a reply has more than \(limits.reply) bytes")
    }
  }

  // MARK: Scalars

  /// Reads a decimal number; `nil` if the bytes are none of 64 bits.
  private static func integer(_ digits: Span<UInt8>) -> Int? {
    let isNegative = digits.count > 1 && digits[0] == UInt8(ascii: "-")
    var index = isNegative ? 1 : 0
    if index == digits.count { return nil }
    var value = 0
    while index < digits.count {
      let digit = Int(digits[index]) - 0x30
      guard (0...9).contains(digit) else { return nil }
      // Downwards, because the smallest number has no positive counterpart.
      let (product, isTooSmall) = value.multipliedReportingOverflow(by: 10)
      let (difference, isSmaller) = product.subtractingReportingOverflow(digit)
      if isTooSmall || isSmaller { return nil }
      value = difference
      index += 1
    }
    if isNegative { return value }
    return value == .min ? nil : -value
  }

  private func double(_ digits: [UInt8]) throws(Violation) -> Double {
    let text = String(decoding: digits, as: UTF8.self)
    switch text {
    case "inf": return .infinity
    case "-inf": return -.infinity
    case "nan", "-nan": return .nan
    default:
      // Swift also reads hexadecimal digits and other names of infinity.
      let isDecimal = digits.allSatisfy { "0123456789+-.eE".utf8.contains($0) }
      guard isDecimal, let value = Double(text) else {
        throw Violation(reason: "a double is no number")
      }
      return value
    }
  }

  private func bigNumber(_ digits: [UInt8]) throws(Violation) -> String {
    let number = digits.first == UInt8(ascii: "-") ? digits.dropFirst() : digits[...]
    guard !number.isEmpty, number.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw Violation(reason: "a big number has other characters than digits")
    }
    return String(decoding: digits, as: UTF8.self)
  }

  // MARK: Strings

  private mutating func announce(
    _ kind: StringKind, _ length: Int
  ) throws(Violation) -> RedisValue? {
    if length == -1, kind == .string { return .null }
    guard (0...limits.string).contains(length) else {
      throw Violation(reason: "a string has \(length) bytes; at most \(limits.string) are read")
    }
    try use(length)
    announced = (kind, length)
    return nil
  }

  private func string(_ kind: StringKind, _ bytes: [UInt8]) throws(Violation) -> RedisValue {
    switch kind {
    case .string: return .bytes(bytes)
    case .error: return .error(RedisReplyError(String(decoding: bytes, as: UTF8.self)))
    case .verbatim:
      guard bytes.count >= 4, bytes[3] == UInt8(ascii: ":") else {
        throw Violation(reason: "a verbatim string has no format")
      }
      return .bytes(Array(bytes[4...]))
    }
  }

  // MARK: Aggregates

  private mutating func begin(
    _ kind: Kind, _ count: Int
  ) throws(Violation) -> RedisValue? {
    if count == -1, kind == .array { return .null }
    guard (0...limits.elements).contains(count) else {
      throw Violation(
        reason: "an aggregate has \(count) elements; at most \(limits.elements) are read")
    }
    if kind == .push, !open.isEmpty || count == 0 {
      throw Violation(reason: "a push is empty or a part of another value")
    }
    let parts = kind == .map || kind == .attributes ? 2 * count : count
    if parts == 0 { return kind == .attributes ? nil : complete(kind, []) }
    guard open.count < limits.depth else {
      throw Violation(reason: "aggregates are nested more than \(limits.depth) deep")
    }
    var aggregate = Aggregate(kind: kind, missing: parts, values: [])
    aggregate.values.reserveCapacity(min(parts, 128))
    open.append(aggregate)
    return nil
  }

  /// Adds a value to the aggregate that it is a part of, and completes those that have all their parts.
  private mutating func deliver(_ value: RedisValue) -> Message? {
    var value = value
    while var last = open.popLast() {
      last.values.append(value)
      last.missing -= 1
      if last.missing > 0 {
        open.append(last)
        return nil
      }
      switch last.kind {
      case .attributes: return nil
      case .push: return .push(last.values)
      case .array, .set, .map: value = complete(last.kind, last.values)
      }
    }
    return .reply(value)
  }

  private func complete(_ kind: Kind, _ values: [RedisValue]) -> RedisValue {
    switch kind {
    case .set: .set(values)
    case .map:
      .map(
        stride(from: 0, to: values.count, by: 2).map {
          RedisValue.Pair(key: values[$0], value: values[$0 + 1])
        })
    default: .array(values)
    }
  }
}
#endif
