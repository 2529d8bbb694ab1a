// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension StandardCoding {
  /// The value of an entry that stores a plain value; `nil` if the type is not plain, or if a codec
  /// wrote the entry. Decoding a plain type from an entry of another plain type is an error.
  @inlinable
  static func decodePlain<Value>(
    _ type: Value.Type, identifier: CodecIdentifier, bytes: [UInt8]
  ) throws(CodecError) -> Value? {
    switch identifier {
    case .plainBytes:
      if Value.self == [UInt8].self { return (bytes as! Value) }
      if Value.self == Data.self { return (Data(bytes) as! Value) }
    case .plainText:
      if Value.self == String.self {
        guard let text = String(validating: bytes, as: UTF8.self) else {
          throw malformed(type, identifier, count: bytes.count)
        }
        return (text as! Value)
      }
    case .plainInteger:
      return try decodeInteger(type, bytes: bytes)
    case .plainDouble:
      if Value.self == Double.self { return (try double(type, identifier, bytes) as! Value) }
    case .plainFloat:
      if Value.self == Float.self {
        guard bytes.count == 4 else { throw malformed(type, identifier, count: bytes.count) }
        let bits = UInt32(truncatingIfNeeded: ScalarCoding.word(bytes, count: 4))
        return (Float(bitPattern: bits) as! Value)
      }
    case .plainBoolean:
      if Value.self == Bool.self {
        guard bytes.count == 1, bytes[0] <= 1 else {
          throw malformed(type, identifier, count: bytes.count)
        }
        return ((bytes[0] == 1) as! Value)
      }
    case .plainUUID:
      if Value.self == UUID.self {
        guard bytes.count == 16, let uuid = ScalarCoding.uuid(bytes) else {
          throw malformed(type, identifier, count: bytes.count)
        }
        return (uuid as! Value)
      }
    case .plainDate:
      if Value.self == Date.self {
        let seconds = try double(type, identifier, bytes)
        return (Date(timeIntervalSinceReferenceDate: seconds) as! Value)
      }
    default:
      return nil
    }
    throw mismatch(type, identifier)
  }

  @inlinable
  static func double<Value>(
    _ type: Value.Type, _ identifier: CodecIdentifier, _ bytes: [UInt8]
  ) throws(CodecError) -> Double {
    guard bytes.count == 8 else { throw malformed(type, identifier, count: bytes.count) }
    return Double(bitPattern: ScalarCoding.word(bytes))
  }

  @inlinable
  static func decodeInteger<Value>(
    _ type: Value.Type, bytes: [UInt8]
  ) throws(CodecError) -> Value {
    if Value.self == Int.self { return try integer(Int.self, bytes) as! Value }
    if Value.self == Int8.self { return try integer(Int8.self, bytes) as! Value }
    if Value.self == Int16.self { return try integer(Int16.self, bytes) as! Value }
    if Value.self == Int32.self { return try integer(Int32.self, bytes) as! Value }
    if Value.self == Int64.self { return try integer(Int64.self, bytes) as! Value }
    if Value.self == Int128.self { return try integer(Int128.self, bytes) as! Value }
    if Value.self == UInt.self { return try integer(UInt.self, bytes) as! Value }
    if Value.self == UInt8.self { return try integer(UInt8.self, bytes) as! Value }
    if Value.self == UInt16.self { return try integer(UInt16.self, bytes) as! Value }
    if Value.self == UInt32.self { return try integer(UInt32.self, bytes) as! Value }
    if Value.self == UInt64.self { return try integer(UInt64.self, bytes) as! Value }
    if Value.self == UInt128.self { return try integer(UInt128.self, bytes) as! Value }
    throw mismatch(type, .plainInteger)
  }

  @inlinable
  static func integer<Integer: FixedWidthInteger>(
    _ type: Integer.Type, _ bytes: [UInt8]
  ) throws(CodecError) -> Integer {
    switch ScalarCoding.integer(type, from: bytes) {
    case .value(let integer): return integer
    case .outOfRange: throw outOfRange(type)
    case .malformed: throw malformed(type, .plainInteger, count: bytes.count)
    }
  }
}
