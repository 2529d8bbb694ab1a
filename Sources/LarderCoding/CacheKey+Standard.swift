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
