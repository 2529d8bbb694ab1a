// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A value with its expiration time.
///
/// ```swift
/// cache[item: room] = Item(messages, expiresIn: 3600)
/// ```
public struct Item<Value: Sendable>: Sendable {
  /// The value.
  public var value: Value
  /// The time from which the item is expired, or `nil` if it never expires.
  public var expiration: Date? { didSet { rejectedLifetime = nil } }
  /// The lifetime of zero or less that the item was created with. Storing the item is an error.
  private var rejectedLifetime: Duration?

  private enum CodingKeys: String, CodingKey { case value, expiration }

  /// Creates an item that expires at a date, or never if it is `nil`.
  public init(_ value: Value, expiration: Date? = nil) {
    self.value = value
    self.expiration = expiration
  }

  /// Creates an item that expires a number of seconds from now. With zero or less, it has expired
  /// already, and with infinity it never expires. An item whose time is not a number cannot be stored:
  /// ``PersistentCache/subscript(item:)`` passes ``/LarderEngine/StoreError`` to `onError`.
  public init(_ value: Value, expiresIn seconds: TimeInterval) {
    self.init(value, expiration: Date(timeIntervalSinceNow: seconds))
  }

  /// Creates an item that expires a duration from now.
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - duration: The lifetime. An item with a lifetime of zero or less cannot be stored:
  ///     ``PersistentCache/subscript(item:)`` passes ``/LarderEngine/StoreError`` to `onError`.
  public init(_ value: Value, expiresIn duration: Duration) {
    let (seconds, attoseconds) = duration.components
    self.init(value, expiresIn: Double(seconds) + Double(attoseconds) / 1e18)
    if duration <= .zero { rejectedLifetime = duration }
  }

  /// A Boolean value that indicates whether the item has not expired, by the system's clock.
  public var isValid: Bool { expiration.map { $0 > Date() } ?? true }

  /// Creates an item of a stored expiration time.
  init(_ value: Value, millisecondsSince1970: Int64) {
    self.init(
      value,
      expiration: millisecondsSince1970 == EntryHeader.never
        ? nil : Date(timeIntervalSince1970: Double(millisecondsSince1970) / 1000))
  }

  var expires: Expiration {
    if let rejectedLifetime { return .after(rejectedLifetime) }
    return expiration.map(Expiration.at) ?? .never
  }

  /// Returns an item of another value that expires as this one does.
  func replacing<Other: Sendable>(_ value: Other) -> Item<Other> {
    var item = Item<Other>(value, expiration: expiration)
    item.rejectedLifetime = rejectedLifetime
    return item
  }
}

extension Item: Equatable where Value: Equatable {}
extension Item: Hashable where Value: Hashable {}
extension Item: Encodable where Value: Encodable {}
extension Item: Decodable where Value: Decodable {}

extension Expiration {
  /// Returns the expiration at a date of the system's clock.
  ///
  /// - Parameter date: The date. From 285,000 years on, and with infinity, the entry never expires. If it is
  ///   not a number, the write throws ``/LarderEngine/StoreError``.
  public static func at(_ date: Date) -> Expiration {
    let milliseconds = date.timeIntervalSince1970 * 1000
    if milliseconds.isNaN { return .notANumber }
    guard milliseconds < 9e15 else { return .never }
    return .at(millisecondsSince1970: Int64(max(milliseconds, 0).rounded()))
  }
}
