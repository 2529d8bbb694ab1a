// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A value that queries read from its field alone, exactly as the decoder reads it.
///
/// Numbers, strings, dates and the like conform, and so do optionals and arrays of them, and
/// enumerations with `@StorableValue`. Do not conform other types.
public protocol StoredScalar: Codable, Equatable, Sendable {
  /// Returns the value of a field, or `nil` if the field has another form or is not plain.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  static func read(_ field: RawSpan) -> Self?

  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  static func read(_ object: StoredObjectFields, at place: Range<Int>) -> Self?

  /// The value of a missing field, or `nil` if the object cannot be decoded without it.
  static var absent: Self? { get }

  /// Writes the value into an object.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Whether `nil` is written, because a missing field means a default.
  func write(to object: StoredObjectWriter, keepsNil: Bool)

  /// Writes the value under a name into a map.
  ///
  /// - Parameters:
  ///   - fields: The fields of an object.
  ///   - key: The name.
  ///   - keepsNil: Whether `nil` is written, because a missing field means a default.
  /// - Throws: What the encoding of the value throws.
  func encode<Key: CodingKey>(
    to fields: inout KeyedEncodingContainer<Key>, forKey key: Key, keepsNil: Bool
  ) throws
}

extension StoredScalar {
  /// No value: the object cannot be decoded without the field.
  public static var absent: Self? { nil }

  /// Returns the decoded value of a field, or `nil` if it cannot be decoded.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> Self? {
    try? CBORDecoder().decode(Self.self, from: field.copied())
  }
}

extension StoredScalar {
  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ object: StoredObjectFields, at place: Range<Int>) -> Self? {
    object.read(place) { read($0) }
  }
}

extension StoredScalar {
  /// Writes the value into an object.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Without effect, because the value is not optional.
  public func write(to object: StoredObjectWriter, keepsNil: Bool) {
    guard let item = try? CBOREncoder().encode(self) else { return object.fail() }
    object.write(item: item)
  }

  /// Writes the value under a name into a map.
  ///
  /// - Parameters:
  ///   - fields: The fields of an object.
  ///   - key: The name.
  ///   - keepsNil: Without effect, because the value is not optional.
  /// - Throws: What the encoding of the value throws.
  public func encode<Key: CodingKey>(
    to fields: inout KeyedEncodingContainer<Key>, forKey key: Key, keepsNil: Bool
  ) throws {
    try fields.encode(self, forKey: key)
  }
}

extension StoredScalar where Self: FixedWidthInteger {
  /// Returns the value of a field, or `nil` if the field has another form.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> Self? {
    guard let head = StoredField.head(field, 0) else { return nil }
    switch head.major {
    case 0: return Self(exactly: head.argument)
    case 1: return Int64(exactly: head.argument).flatMap { Self(exactly: ~$0) }
    default: return nil
    }
  }
}

extension Int: StoredScalar {
  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ object: StoredObjectFields, at place: Range<Int>) -> Int? {
    object.read(place) { read($0) }
  }

  /// Writes the value into an object.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Without effect, because the value is not optional.
  public func write(to object: StoredObjectWriter, keepsNil: Bool) {
    object.write { $0.write(self) }
  }
}
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
  /// Returns the value of a field, or `nil` if the field has another form.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> Double? {
    guard let head = StoredField.head(field, 0), head.major == 7 else { return nil }
    switch head.info {
    case 25: return HalfFloat.value(bits: UInt16(truncatingIfNeeded: head.argument))
    case 26: return Double(Float(bitPattern: UInt32(truncatingIfNeeded: head.argument)))
    case 27: return Double(bitPattern: head.argument)
    default: return nil
    }
  }

  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ object: StoredObjectFields, at place: Range<Int>) -> Double? {
    object.read(place) { read($0) }
  }

  /// Writes the value into an object.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Without effect, because the value is not optional.
  public func write(to object: StoredObjectWriter, keepsNil: Bool) {
    object.write { $0.write(self) }
  }
}

extension Float: StoredScalar {
  /// Returns the value of a field, or `nil` if the field has another form.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> Float? {
    Double.read(field).flatMap { Float(exactly: $0) }
  }
}

extension Bool: StoredScalar {
  /// Returns the value of a field, or `nil` if the field has another form.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> Bool? {
    guard field.byteCount == 1, let byte: UInt8 = field.integer(at: 0) else { return nil }
    return byte == 0xf5 ? true : byte == 0xf4 ? false : nil
  }

  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ object: StoredObjectFields, at place: Range<Int>) -> Bool? {
    object.read(place) { read($0) }
  }

  /// Writes the value into an object.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Without effect, because the value is not optional.
  public func write(to object: StoredObjectWriter, keepsNil: Bool) {
    object.write { $0.write(self) }
  }
}

extension String: StoredScalar {
  /// Returns the value of a field, or `nil` if the field has another form.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> String? {
    guard let head = StoredField.head(field, 0), head.major == 3 else { return nil }
    return field.slice(head.end..<field.byteCount)?.text()
  }

  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ object: StoredObjectFields, at place: Range<Int>) -> String? {
    object.read(place) { read($0) }
  }

  /// Writes the value into an object.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Without effect, because the value is not optional.
  public func write(to object: StoredObjectWriter, keepsNil: Bool) {
    object.write { $0.write(text: self) }
  }
}

extension UUID: StoredScalar {}

extension Date: StoredScalar {}

extension Optional: StoredScalar where Wrapped: StoredScalar {
  /// Returns the value of a field, or `nil` if the field has another form.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The value.
  public static func read(_ field: RawSpan) -> Wrapped?? {
    if field.byteCount == 1, let byte: UInt8 = field.integer(at: 0), byte & 0xfe == 0xf6 {
      return .some(nil)
    }
    return Wrapped.read(field).map { .some($0) }
  }

  /// Returns the value at a place of an object, or `nil` if the value there has another form.
  ///
  /// - Parameters:
  ///   - object: The fields of an object.
  ///   - place: The place of the stored bytes of the field.
  /// - Returns: The value.
  @inlinable
  public static func read(_ object: StoredObjectFields, at place: Range<Int>) -> Wrapped?? {
    if object.isNull(place) { return .some(nil) }
    return Wrapped.read(object, at: place).map { .some($0) }
  }

  /// Writes the value into an object; nothing for `nil`.
  ///
  /// - Parameters:
  ///   - object: The object, in which a field has begun.
  ///   - keepsNil: Whether `nil` is written, because a missing field means a default.
  @inlinable
  public func write(to object: StoredObjectWriter, keepsNil: Bool) {
    if let self {
      self.write(to: object, keepsNil: false)
    } else if keepsNil {
      object.writeNull()
    }
  }

  /// Writes the value under a name into a map; nothing for `nil`.
  ///
  /// - Parameters:
  ///   - fields: The fields of an object.
  ///   - key: The name.
  ///   - keepsNil: Whether `nil` is written, because a missing field means a default.
  /// - Throws: What the encoding of the value throws.
  @inlinable
  public func encode<Key: CodingKey>(
    to fields: inout KeyedEncodingContainer<Key>, forKey key: Key, keepsNil: Bool
  ) throws {
    if keepsNil {
      try fields.encode(self, forKey: key)
    } else {
      try fields.encodeIfPresent(self, forKey: key)
    }
  }

  /// The value `nil`.
  @inlinable
  public static var absent: Wrapped?? { .some(nil) }
}

extension Array: StoredScalar where Element: StoredScalar {}

extension StorableRawValue {
  /// Returns the case whose raw value is stored in a field, or `nil` if there is none.
  ///
  /// - Parameter field: The stored bytes of the field.
  /// - Returns: The case.
  public static func read(_ field: RawSpan) -> Self? {
    RawValue.read(field).flatMap { Self(rawValue: $0) }
  }
}
