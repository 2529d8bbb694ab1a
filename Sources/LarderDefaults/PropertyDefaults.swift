// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A group of properties that ``Defaults`` store.
///
/// ```swift
/// extension Defaults: PropertyDefaults {
///   var theme: String? { get { get() } set { set(newValue) } }
///   var fontSize: Int { get { get(or: 12) } set { set(newValue) } }
/// }
///
/// Defaults.shared.theme = "dark"
/// ```
///
/// The key of a property is its name, so the compiler rejects duplicate keys. A protocol that refines
/// this one declares properties of a part of a program; `private` and `fileprivate` properties are
/// visible only there.
///
/// Larder does not declare `extension Defaults: PropertyDefaults`. The program declares it, once.
public protocol PropertyDefaults {}

extension Defaults {
  /// Returns the value of the calling property, or of `key`, or `nil` if it has none.
  ///
  /// Errors are reported to ``onError(_:)``. A stored value of another type reads as `nil` and is
  /// unchanged.
  @inlinable
  public func get<Value: Codable & Sendable>(key: String = #function) -> Value? {
    do { return try value(Value.self, forKey: key) } catch {
      report(error)
      return nil
    }
  }

  /// Returns the value of the calling property, or of `key`. If it has none, stores and returns the
  /// default.
  ///
  /// A stored value of another type, or one that cannot be read, is unchanged: the result is the
  /// default, and the error is reported to ``onError(_:)``.
  @inlinable
  public func get<Value: Codable & Sendable>(
    or initial: Value, key: String = #function
  ) -> Value {
    do {
      if let value = try value(Value.self, forKey: key) { return value }
      return try value(forKey: key, storing: initial)
    } catch {
      report(error)
      return initial
    }
  }

  /// Returns the value of the calling property, or of `key`. If it has none, stores and returns the
  /// default, unless that is `nil`.
  @inlinable
  public func get<Value: Codable & Sendable>(
    or initial: Value?, key: String = #function
  ) -> Value? {
    guard let initial else { return get(key: key) }
    return .some(get(or: initial, key: key))
  }

  /// Stores the value of the calling property, or of `key`. A `nil` value removes the key.
  ///
  /// Each call is one commit, as with `setValue(_:forKey:)`. Errors are reported to ``onError(_:)``.
  public func set<Value: Codable & Sendable>(_ newValue: Value?, key: String = #function) {
    do {
      if let newValue {
        try setValue(newValue, forKey: key)
      } else {
        try removeValue(forKey: key)
      }
    } catch { report(error) }
  }

  /// Stores the value of the calling property, or of `key`. A `nil` value stores the default.
  public func set<Value: Codable & Sendable>(
    _ newValue: Value?, or initial: Value, key: String = #function
  ) {
    set(newValue ?? initial, key: key)
  }
}
