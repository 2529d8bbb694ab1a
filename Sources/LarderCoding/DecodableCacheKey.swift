// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A key that can be made again from what the store keeps of it, so that a cache can list its keys.
///
/// ```swift
/// extension AccountID: DecodableCacheKey {
///   init?(keyBytes: [UInt8]) { /* undo encodeKey(into:) */ }
/// }
/// ```
public protocol DecodableCacheKey: CacheKey {
  /// Creates the key with these bytes, or returns `nil` if they are not a valid key.
  init?(keyBytes: [UInt8])
}

extension String: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) { self.init(validating: keyBytes, as: UTF8.self) }
}

extension Array: DecodableCacheKey where Element == UInt8 {
  public init?(keyBytes: [UInt8]) { self = keyBytes }
}

extension Data: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) { self.init(keyBytes) }
}

extension UUID: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) {
    guard keyBytes.count == 16, let uuid = ScalarCoding.uuid(keyBytes) else { return nil }
    self = uuid
  }
}

extension Double: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) {
    guard keyBytes.count == 8 else { return nil }
    self.init(bitPattern: ScalarCoding.word(keyBytes))
  }
}

extension Date: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) {
    guard let seconds = Double(keyBytes: keyBytes) else { return nil }
    self.init(timeIntervalSinceReferenceDate: seconds)
  }
}

extension Bool: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) {
    guard keyBytes.count == 1, keyBytes[0] < 2 else { return nil }
    self = keyBytes[0] == 1
  }
}

extension URL: DecodableCacheKey {
  public init?(keyBytes: [UInt8]) {
    guard let text = String(keyBytes: keyBytes) else { return nil }
    self.init(string: text)
  }
}

extension FixedWidthInteger where Self: CacheKey {
  /// The integer with these key bytes, if it fits this type.
  public init?(keyBytes: [UInt8]) {
    guard case .value(let value) = ScalarCoding.integer(Self.self, from: keyBytes) else {
      return nil
    }
    self = value
  }
}

extension Int: DecodableCacheKey {}
extension Int8: DecodableCacheKey {}
extension Int16: DecodableCacheKey {}
extension Int32: DecodableCacheKey {}
extension Int64: DecodableCacheKey {}
extension UInt: DecodableCacheKey {}
extension UInt8: DecodableCacheKey {}
extension UInt16: DecodableCacheKey {}
extension UInt32: DecodableCacheKey {}
extension UInt64: DecodableCacheKey {}
