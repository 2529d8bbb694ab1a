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
/// extension AccountID: RestorableKey {
///   init?(keyBytes: [UInt8]) { /* undo encodeKey(into:) */ }
/// }
/// ```
public protocol RestorableKey: CacheKey {
  /// The key with these bytes; `nil` when there is none.
  init?(keyBytes: [UInt8])
}

extension String: RestorableKey {
  public init?(keyBytes: [UInt8]) { self.init(validating: keyBytes, as: UTF8.self) }
}

extension Array: RestorableKey where Element == UInt8 {
  public init?(keyBytes: [UInt8]) { self = keyBytes }
}

extension Data: RestorableKey {
  public init?(keyBytes: [UInt8]) { self.init(keyBytes) }
}

extension UUID: RestorableKey {
  public init?(keyBytes: [UInt8]) {
    guard keyBytes.count == 16, let uuid = PlainBytes.uuid(keyBytes) else { return nil }
    self = uuid
  }
}

extension Double: RestorableKey {
  public init?(keyBytes: [UInt8]) {
    guard keyBytes.count == 8 else { return nil }
    self.init(bitPattern: PlainBytes.word(keyBytes))
  }
}

extension Date: RestorableKey {
  public init?(keyBytes: [UInt8]) {
    guard let seconds = Double(keyBytes: keyBytes) else { return nil }
    self.init(timeIntervalSinceReferenceDate: seconds)
  }
}

extension Bool: RestorableKey {
  public init?(keyBytes: [UInt8]) {
    guard keyBytes.count == 1, keyBytes[0] < 2 else { return nil }
    self = keyBytes[0] == 1
  }
}

extension URL: RestorableKey {
  public init?(keyBytes: [UInt8]) {
    guard let text = String(keyBytes: keyBytes) else { return nil }
    self.init(string: text)
  }
}

extension FixedWidthInteger where Self: CacheKey {
  /// The integer with these key bytes, if it fits this type.
  public init?(keyBytes: [UInt8]) {
    guard case .value(let value) = PlainBytes.integer(Self.self, from: keyBytes) else {
      return nil
    }
    self = value
  }
}

extension Int: RestorableKey {}
extension Int8: RestorableKey {}
extension Int16: RestorableKey {}
extension Int32: RestorableKey {}
extension Int64: RestorableKey {}
extension UInt: RestorableKey {}
extension UInt8: RestorableKey {}
extension UInt16: RestorableKey {}
extension UInt32: RestorableKey {}
extension UInt64: RestorableKey {}
