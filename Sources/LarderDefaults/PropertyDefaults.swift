// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// What groups properties that ``Defaults`` keep.
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
/// The key of a property is its name, so the compiler sees to it that a suite has no key twice. A
/// protocol of one's own that refines this one gives properties to a part of a program: `private` or
/// `fileprivate` ones are nobody else's.
///
/// Larder itself does not declare `extension Defaults: PropertyDefaults`: that is the program's to
/// say, once.
public protocol PropertyDefaults {}

extension Defaults {
  /// The value of the property this is called in, or of `key`; `nil` when there is none.
  ///
  /// Errors go to ``onError(_:)``. What is stored as another type reads as `nil` and stays.
  @inlinable
  public func get<Value: Codable & Sendable>(key: String = #function) -> Value? {
    do { return try value(Value.self, forKey: key) } catch {
      report(error)
      return nil
    }
  }

  /// The value of the property, or of `key`; where there is none, the default, which is stored.
  ///
  /// What is stored as another type, or cannot be read, stays as it is: the default is returned
  /// and the error goes to ``onError(_:)``.
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

  /// The value of the property, or of `key`; where there is none, the default (if it is one), which
  /// is stored.
  @inlinable
  public func get<Value: Codable & Sendable>(
    or initial: Value?, key: String = #function
  ) -> Value? {
    guard let initial else { return get(key: key) }
    return .some(get(or: initial, key: key))
  }

  /// Stores the value of the property this is called in, or of `key`; `nil` removes it.
  ///
  /// One commit, as `setValue(_:forKey:)`. Errors go to ``onError(_:)``.
  public func set<Value: Codable & Sendable>(_ newValue: Value?, key: String = #function) {
    do {
      if let newValue {
        try setValue(newValue, forKey: key)
      } else {
        try removeValue(forKey: key)
      }
    } catch { report(error) }
  }

  /// Stores the value of the property, or of `key`; instead of `nil`, the default.
  public func set<Value: Codable & Sendable>(
    _ newValue: Value?, or initial: Value, key: String = #function
  ) {
    set(newValue ?? initial, key: key)
  }
}
