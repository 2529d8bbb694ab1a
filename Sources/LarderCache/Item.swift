// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

#if canImport(FoundationEssentials)
  public import FoundationEssentials
#else
  public import Foundation
#endif

/// A value with the moment it expires.
///
/// ```swift
/// cache[item: room] = Item(messages, expiresIn: 3600)
/// ```
public struct Item<Value: Sendable>: Sendable {
  /// The value.
  public var value: Value
  /// When the item expires; `nil`: never.
  public var expiration: Date?

  /// Creates an item that expires at a date, or never.
  public init(_ value: Value, expiration: Date? = nil) {
    self.value = value
    self.expiration = expiration
  }

  /// An item that expires so many seconds from now.
  public init(_ value: Value, expiresIn seconds: TimeInterval) {
    self.init(value, expiration: Date(timeIntervalSinceNow: seconds))
  }

  /// An item that expires so long from now.
  public init(_ value: Value, expiresIn duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(value, expiresIn: Double(seconds) + Double(attoseconds) / 1e18)
  }

  /// Whether the item has not expired yet, by the system's clock.
  public var isValid: Bool { expiration.map { $0 > Date() } ?? true }

  var expires: Expiration { expiration.map(Expiration.at) ?? .never }
}

extension Item: Equatable where Value: Equatable {}
extension Item: Hashable where Value: Hashable {}
extension Item: Encodable where Value: Encodable {}
extension Item: Decodable where Value: Decodable {}

extension Expiration {
  /// It expires at a point of wall time.
  public static func at(_ date: Date) -> Expiration {
    let milliseconds = date.timeIntervalSince1970 * 1000
    guard milliseconds < 9e15 else { return .never }
    return .at(millisecondsSince1970: Int64(max(milliseconds, 0).rounded()))
  }
}
