// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
package import FoundationEssentials
#else
package import Foundation
#endif

/// One element of an index key, read back from its bytes (`IndexKeyEncoder.swift`).
///
/// Elements compare like the bytes of keys do.
package enum IndexKeyElement: Sendable, Hashable {
  case nothing
  case bytes([UInt8])
  case text(String)
  case integer(Int128)
  case real(Double)
  case boolean(Bool)
  case uuid([UInt8])
  case date(Date)

  /// Returns the elements of a key, or `nil` if no encoder wrote these bytes. A truncated key is
  /// invalid.
  package static func elements(of key: [UInt8]) -> [IndexKeyElement]? {
    var elements: [IndexKeyElement] = []
    var rest = key[...]
    while let code = rest.popFirst() {
      switch code {
      case 0x00: elements.append(.nothing)
      case 0x01:
        guard let content = unescaped(&rest) else { return nil }
        elements.append(.bytes(content))
      case 0x02:
        guard let content = unescaped(&rest), let text = String(validating: content, as: UTF8.self),
          composed(text).utf8.elementsEqual(content)
        else { return nil }
        elements.append(.text(text))
      case 0x0C...0x1C:
        guard let number = integer(code, &rest) else { return nil }
        elements.append(.integer(number))
      case 0x21:
        guard let number = real(&rest) else { return nil }
        elements.append(.real(number))
      case 0x26, 0x27: elements.append(.boolean(code == 0x27))
      case 0x30:
        guard rest.count >= 16 else { return nil }
        elements.append(.uuid(Array(rest.prefix(16))))
        rest = rest.dropFirst(16)
      case 0x40:
        guard let number = real(&rest) else { return nil }
        elements.append(.date(Date(timeIntervalSinceReferenceDate: number)))
      default: return nil
      }
    }
    return elements
  }

  /// The content up to a zero that no 0xFF follows.
  private static func unescaped(_ rest: inout ArraySlice<UInt8>) -> [UInt8]? {
    var content: [UInt8] = []
    while let byte = rest.popFirst() {
      if byte == 0 {
        guard rest.first == 0xFF else { return content }
        rest = rest.dropFirst()
      }
      content.append(byte)
    }
    return nil
  }

  private static func integer(_ code: UInt8, _ rest: inout ArraySlice<UInt8>) -> Int128? {
    let isNegative = code < 0x14
    let count = isNegative ? Int(0x14 - code) : Int(code - 0x14)
    guard rest.count >= count else { return nil }
    var magnitude: UInt64 = 0
    for byte in rest.prefix(count) {
      magnitude = magnitude << 8 | UInt64(isNegative ? ~byte : byte)
    }
    // The encoder takes as few bytes as do, and no integer of Swift's is below Int64.min.
    guard count == 8 - magnitude.leadingZeroBitCount / 8, !isNegative || magnitude <= 1 << 63 else {
      return nil
    }
    rest = rest.dropFirst(count)
    return isNegative ? -Int128(magnitude) : Int128(magnitude)
  }

  private static func real(_ rest: inout ArraySlice<UInt8>) -> Double? {
    guard rest.count >= 8 else { return nil }
    var bits = rest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    rest = rest.dropFirst(8)
    bits = bits >> 63 == 1 ? bits & ~(1 << 63) : ~bits
    let number = Double(bitPattern: bits)
    // -0 and other not-a-numbers are never written.
    if number == 0, bits != 0 { return nil }
    if number.isNaN, bits != Double.nan.bitPattern { return nil }
    return number
  }

  /// Appends the element as the encoder writes it.
  package func append(to encoder: inout IndexKeyEncoder) {
    switch self {
    case .nothing: encoder.appendNothing()
    case .bytes(let content): encoder.append(bytes: content)
    case .text(let text): encoder.append(text)
    case .integer(let number):
      if let small = Int64(exactly: number) {
        encoder.append(small)
      } else {
        encoder.append(UInt64(clamping: number))
      }
    case .real(let number): encoder.append(number)
    case .boolean(let value): encoder.append(value)
    case .uuid(let bytes): encoder.append(ScalarCoding.uuid(bytes, at: 0)!)
    case .date(let date): encoder.append(date)
    }
  }
}

extension IndexKeyElement: Comparable {
  private var rank: Int {
    switch self {
    case .nothing: 0
    case .bytes: 1
    case .text: 2
    case .integer: 3
    case .real: 4
    case .boolean: 5
    case .uuid: 6
    case .date: 7
    }
  }

  package static func < (left: IndexKeyElement, right: IndexKeyElement) -> Bool {
    switch (left, right) {
    case (.bytes(let left), .bytes(let right)), (.uuid(let left), .uuid(let right)):
      left.lexicographicallyPrecedes(right)
    case (.text(let left), .text(let right)):
      left.unicodeScalars.lexicographicallyPrecedes(right.unicodeScalars)
    case (.integer(let left), .integer(let right)): left < right
    case (.real(let left), .real(let right)): precedes(left, right)
    case (.date(let left), .date(let right)):
      precedes(left.timeIntervalSinceReferenceDate, right.timeIntervalSinceReferenceDate)
    case (.boolean(let left), .boolean(let right)): !left && right
    default: left.rank < right.rank
    }
  }

  private static func precedes(_ left: Double, _ right: Double) -> Bool {
    right.isNaN ? !left.isNaN : left < right
  }
}

extension IndexKeyElement: CustomStringConvertible {
  package var description: String {
    switch self {
    case .nothing: "nil"
    case .bytes(let bytes): KeyTextFormat.display(tag: .bytes, bytes: bytes)
    case .text(let text): "\"\(text)\""
    case .integer(let number): "\(number)"
    case .real(let number): "\(number)"
    case .boolean(let value): "\(value)"
    case .uuid(let bytes): KeyTextFormat.display(tag: .uuid, bytes: bytes)
    case .date(let date): "\(date.timeIntervalSinceReferenceDate) s since 2001"
    }
  }
}
