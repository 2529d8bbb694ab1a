// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A key of a ``MixedPersistentCache``, with the type of its value.
///
/// ```swift
/// extension Key where Value == Date {
///   static var lastLaunch: Key { Key("lastLaunch") }
/// }
/// cache[.lastLaunch] = Date()
/// ```
public struct Key<Value: Codable & Sendable>: Hashable, RawRepresentable, Sendable {
  /// The name of the key.
  public var rawValue: String

  /// Creates a key of a name.
  public init(rawValue: String) { self.rawValue = rawValue }
  /// Creates a key of a name.
  public init(_ rawValue: String) { self.rawValue = rawValue }
}
