// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderSystem

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// A value that is read from its field alone, exactly as the decoder would.
protocol StoredScalar: Codable, Equatable, Sendable {
  /// The value of a field; `nil`: the field is something else, or not plain.
  static func read(_ field: RawSpan) -> Self?

  /// What a field stands for that is not there; `nil`: then the object does not decode.
  static var absent: Self? { get }

  /// Values to try what a type makes of them: the edges, and what programs like to treat apart.
  static var samples: [Self] { get }
}

extension StoredScalar {
  static var absent: Self? { nil }

  static func read(_ field: RawSpan) -> Self? {
    try? CBORDecoder().decode(Self.self, from: field.copied())
  }
}

extension StoredScalar where Self: FixedWidthInteger {
  static func read(_ field: RawSpan) -> Self? {
    guard let head = StoredField.head(field, 0) else { return nil }
    switch head.major {
    case 0: return Self(exactly: head.argument)
    case 1: return Int64(exactly: head.argument).flatMap { Self(exactly: ~$0) }
    default: return nil
    }
  }

  static var samples: [Self] {
    [0, 1, -1, 2, 7, 9, 12, 23, 24, 50, 99, 100, 127, 128, 255, 256, 999, 1000, 1899, 1900, 1970]
      .compactMap { Self(exactly: $0) }
      + [1999, 2000, 2026, -100, 65_535, 65_536, 1 << 31, -1 << 31, 1 << 40].compactMap {
        Self(exactly: $0)
      } + [.min, .max]
  }
}

extension Int: StoredScalar {}
extension Int8: StoredScalar {}
extension Int16: StoredScalar {}
extension Int32: StoredScalar {}
extension Int64: StoredScalar {}
extension UInt: StoredScalar {}
extension UInt8: StoredScalar {}
extension UInt16: StoredScalar {}
extension UInt32: StoredScalar {}
extension UInt64: StoredScalar {}

extension Double: StoredScalar {
  static func read(_ field: RawSpan) -> Double? {
    guard let head = StoredField.head(field, 0), head.major == 7 else { return nil }
    switch head.info {
    case 25: return HalfFloat.value(bits: UInt16(truncatingIfNeeded: head.argument))
    case 26: return Double(Float(bitPattern: UInt32(truncatingIfNeeded: head.argument)))
    case 27: return Double(bitPattern: head.argument)
    default: return nil
    }
  }

  static var samples: [Double] {
    [0, 1, -1, 0.5, -0.25, 1.1, 99.99, 100, 1000, 1e-300, -1e300, 1 / 3, .infinity]
  }
}

extension Float: StoredScalar {
  static func read(_ field: RawSpan) -> Float? {
    Double.read(field).flatMap { Float(exactly: $0) }
  }

  static var samples: [Float] { [0, 1, -1, 0.5, -0.25, 1.1, 99.99, 100, 1e-30, -1e30] }
}

extension Bool: StoredScalar {
  static func read(_ field: RawSpan) -> Bool? {
    guard field.byteCount == 1, let byte: UInt8 = field.integer(at: 0) else { return nil }
    return byte == 0xf5 ? true : byte == 0xf4 ? false : nil
  }

  static var samples: [Bool] { [true, false, true] }
}

extension String: StoredScalar {
  static func read(_ field: RawSpan) -> String? {
    guard let head = StoredField.head(field, 0), head.major == 3 else { return nil }
    return field.slice(head.end..<field.byteCount)?.text()
  }

  static var samples: [String] {
    [
      "", " ", "a", "A", " aB ", "0", "1", "-1", "1.50", "true", "null", "É", "e\u{301}", "\n",
      "a,b",
      "a/b", "\u{0}", "2026-01-31", "https://example.com/A", String(repeating: "long ", count: 60),
    ]
  }
}

extension UUID: StoredScalar {
  static var samples: [UUID] { [UUID(), UUID()] }
}

extension Date: StoredScalar {
  static var samples: [Date] {
    [0, 1, -1, 0.5, 1e9, 123_456_789.123, -1e10].map { Date(timeIntervalSince1970: $0) }
  }
}

extension Optional: StoredScalar where Wrapped: StoredScalar {
  static func read(_ field: RawSpan) -> Wrapped?? {
    if field.byteCount == 1, let byte: UInt8 = field.integer(at: 0), byte & 0xfe == 0xf6 {
      return .some(nil)
    }
    return Wrapped.read(field).map { .some($0) }
  }

  static var absent: Wrapped?? { .some(nil) }
  static var samples: [Wrapped?] { Wrapped.samples.map { $0 } + [nil] }
}

extension Array: StoredScalar where Element: StoredScalar {
  static var samples: [[Element]] {
    [[], Array(Element.samples.prefix(1)), Element.samples, Element.samples.reversed()]
  }
}
