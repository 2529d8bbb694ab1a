// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension StandardCoding {
  /// The identifier and bytes of a plain value; `nil` if the value is not of a plain type.
  @inlinable
  static func encodePlain<Value>(
    _ value: Value
  ) -> (identifier: CodecIdentifier, bytes: [UInt8])? {
    if Value.self == [UInt8].self { return (.plainBytes, value as! [UInt8]) }
    if Value.self == Data.self { return (.plainBytes, Array(value as! Data)) }
    if Value.self == String.self { return (.plainText, Array((value as! String).utf8)) }
    if Value.self == Int.self { return integer(value as! Int) }
    if Value.self == Int8.self { return integer(value as! Int8) }
    if Value.self == Int16.self { return integer(value as! Int16) }
    if Value.self == Int32.self { return integer(value as! Int32) }
    if Value.self == Int64.self { return integer(value as! Int64) }
    if Value.self == Int128.self { return integer(value as! Int128) }
    if Value.self == UInt.self { return integer(value as! UInt) }
    if Value.self == UInt8.self { return integer(value as! UInt8) }
    if Value.self == UInt16.self { return integer(value as! UInt16) }
    if Value.self == UInt32.self { return integer(value as! UInt32) }
    if Value.self == UInt64.self { return integer(value as! UInt64) }
    if Value.self == UInt128.self { return integer(value as! UInt128) }
    if Value.self == Double.self { return (.plainDouble, word((value as! Double).bitPattern)) }
    if Value.self == Float.self { return float(value as! Float) }
    if Value.self == Bool.self { return (.plainBoolean, [(value as! Bool) ? 1 : 0]) }
    if Value.self == UUID.self { return uuid(value as! UUID) }
    if Value.self == Date.self {
      let seconds = (value as! Date).timeIntervalSinceReferenceDate
      return (.plainDate, word(seconds.bitPattern))
    }
    return nil
  }

  @inlinable
  static func word(_ word: UInt64) -> [UInt8] {
    var bytes: [UInt8] = []
    ScalarCoding.append(word: word, to: &bytes)
    return bytes
  }

  @inlinable
  static func integer<Integer: FixedWidthInteger>(
    _ value: Integer
  ) -> (identifier: CodecIdentifier, bytes: [UInt8]) {
    var bytes: [UInt8] = []
    ScalarCoding.append(integer: value, to: &bytes)
    return (.plainInteger, bytes)
  }

  @inlinable
  static func float(_ value: Float) -> (identifier: CodecIdentifier, bytes: [UInt8]) {
    let bits = value.bitPattern
    let bytes = (0..<4).map { UInt8(truncatingIfNeeded: bits >> (8 * UInt32($0))) }
    return (.plainFloat, bytes)
  }

  @inlinable
  static func uuid(_ value: UUID) -> (identifier: CodecIdentifier, bytes: [UInt8]) {
    var bytes: [UInt8] = []
    ScalarCoding.append(uuid: value, to: &bytes)
    return (.plainUUID, bytes)
  }
}
