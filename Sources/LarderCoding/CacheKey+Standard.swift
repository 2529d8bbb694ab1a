// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension String: CacheKey {
  /// `.text`.
  @inlinable
  public static var keyTag: KeyTag { .text }

  /// Appends the UTF-8 bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(text: self)
  }
}

extension Substring: CacheKey {
  /// `.text`: a substring is the same key as the string of the same characters.
  @inlinable
  public static var keyTag: KeyTag { .text }

  /// Appends the UTF-8 bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(text: self)
  }
}

extension UUID: CacheKey {
  /// `.uuid`.
  @inlinable
  public static var keyTag: KeyTag { .uuid }

  /// Appends the 16 bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(uuid: self)
  }
}

extension [UInt8]: CacheKey {
  /// `.bytes`.
  @inlinable
  public static var keyTag: KeyTag { .bytes }

  /// Appends the bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(bytes: self)
  }
}

extension Data: CacheKey {
  /// `.bytes`: the same key as an array of the same bytes.
  @inlinable
  public static var keyTag: KeyTag { .bytes }

  /// Appends the bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(bytes: self)
  }
}

extension CacheKey where Self: FixedWidthInteger {
  /// `.integer`: equal numbers of different integer types are the same key.
  @inlinable
  public static var keyTag: KeyTag { .integer }

  /// Appends the integer.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(integer: self)
  }
}

extension Int: CacheKey {}
extension Int8: CacheKey {}
extension Int16: CacheKey {}
extension Int32: CacheKey {}
extension Int64: CacheKey {}
extension Int128: CacheKey {}
extension UInt: CacheKey {}
extension UInt8: CacheKey {}
extension UInt16: CacheKey {}
extension UInt32: CacheKey {}
extension UInt64: CacheKey {}
extension UInt128: CacheKey {}

extension Double: CacheKey {
  /// `.real`.
  @inlinable
  public static var keyTag: KeyTag { .real }

  /// Appends the number. 0 and -0 are one key, and all numbers that are not a number (NaN) are one.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(real: self)
  }
}

extension Date: CacheKey {
  /// `.date`.
  @inlinable
  public static var keyTag: KeyTag { .date }

  /// Appends the seconds since 2001, exactly as the date contains them.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(real: timeIntervalSinceReferenceDate)
  }
}

extension Bool: CacheKey {
  /// `.boolean`.
  @inlinable
  public static var keyTag: KeyTag { .boolean }

  /// Appends one byte, 0 or 1.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(bytes: CollectionOfOne(self ? 1 : 0))
  }
}

extension URL: CacheKey {
  /// `.text`: a URL is the same key as the text of its absolute form.
  @inlinable
  public static var keyTag: KeyTag { .text }

  /// Appends the UTF-8 of the absolute form, so that it does not matter what a URL is relative to.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(text: absoluteString)
  }
}
