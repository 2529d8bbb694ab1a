// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A key that says of which type its value is, for a ``MixedPersistentCache``.
///
/// ```swift
/// extension Key where Value == Date {
///   static var lastLaunch: Key { Key("lastLaunch") }
/// }
/// cache[.lastLaunch] = Date()
/// ```
public struct Key<Value: Codable & Sendable>: Hashable, RawRepresentable, Sendable {
  public var rawValue: String

  public init(rawValue: String) { self.rawValue = rawValue }
  /// Creates a key of a name.
  public init(_ rawValue: String) { self.rawValue = rawValue }
}
