// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The namespace in which a program declares its keys, for the spelling `defaults[.theme]`.
///
/// ```swift
/// extension DefaultsKeys {
///   static let theme = DefaultsKey<String>("theme", default: "light")
///   static let lastUser = DefaultsKey<UUID?>("lastUser")
/// }
/// ```
// Sendable: it has one constant, and its only subclass has constants too. Other modules cannot
// inherit.
public class DefaultsKeys: @unchecked Sendable {
  /// The name of the key in the suite.
  public let name: String

  init(name: String) { self.name = name }
}

/// A key with the type of its value and its default.
///
/// The default of a key of an optional type is `nil` if none is given, and setting `nil` removes the
/// value.
// Sendable: it has constants only.
public final class DefaultsKey<Value: Codable & Sendable>: DefaultsKeys, @unchecked Sendable {
  /// The value of the key while none is stored. A read never stores it.
  public let defaultValue: Value

  /// Whether the value is optional, so that it is read through `read`; a direct read costs less.
  @usableFromInline let isOptional: Bool
  @usableFromInline let read: @Sendable (Defaults, String) throws -> Value?
  let encode: @Sendable (Value, String) throws -> DefaultsContent?
  let decode: @Sendable (DefaultsEntry) throws -> Value

  /// Creates a key.
  ///
  /// - Parameters:
  ///   - name: The name of the key in the suite.
  ///   - value: The default.
  @inlinable
  public convenience init(_ name: String, default value: Value) {
    self.init(
      name, value, isOptional: false, read: { try $0.value(Value.self, forKey: $1) },
      encode: { try Defaults.content(of: $0, $1) }, decode: { try $0.value(Value.self) })
  }

  /// Creates a key with an optional value.
  @inlinable
  public convenience init<Wrapped: Codable & Sendable>(
    _ name: String, default value: Wrapped? = nil
  ) where Value == Wrapped? {
    // The stored value is never optional, so a key of `Wrapped` is the same key.
    self.init(
      name, value, isOptional: true,
      read: { try $0.value(Wrapped.self, forKey: $1).map { .some($0) } },
      encode: { value, key in try value.flatMap { try Defaults.content(of: $0, key) } },
      decode: { try $0.value(Wrapped.self) })
  }

  @usableFromInline
  init(
    _ name: String, _ value: Value, isOptional: Bool,
    read: @escaping @Sendable (Defaults, String) throws -> Value?,
    encode: @escaping @Sendable (Value, String) throws -> DefaultsContent?,
    decode: @escaping @Sendable (DefaultsEntry) throws -> Value
  ) {
    defaultValue = value
    self.isOptional = isOptional
    self.read = read
    self.encode = encode
    self.decode = decode
    super.init(name: name)
  }
}

extension Defaults {
  /// The value of a key, or its default. Each assignment is one commit.
  ///
  /// If the stored value cannot be read, the error is reported to ``onError(_:)`` and the result is
  /// the default.
  ///
  /// Changing a value in place (`defaults[.count] += 1`) is a read followed by a write: a write of
  /// another thread or process in between is lost. `update(_:_:)` loses none.
  @inlinable
  public subscript<Value: Codable & Sendable>(key: DefaultsKey<Value>) -> Value {
    get {
      do {
        let value =
          try key.isOptional
          ? key.read(self, key.name) : self.value(Value.self, forKey: key.name)
        return value ?? key.defaultValue
      } catch {
        report(error)
        return key.defaultValue
      }
    }
    set {
      do { try set(newValue, for: key) } catch { report(error) }
    }
  }

  /// Returns the value of a key, or its default.
  ///
  /// - Throws: The errors of ``value(_:forKey:)``.
  public func value<Value: Codable & Sendable>(of key: DefaultsKey<Value>) throws -> Value {
    try key.read(self, key.name) ?? key.defaultValue
  }

  /// Stores the value of a key.
  ///
  /// - Throws: The errors of `setValue(_:forKey:)`.
  public func set<Value: Codable & Sendable>(_ value: Value, for key: DefaultsKey<Value>) throws {
    try state.get().set(key.name) { try key.encode(value, key.name) }
  }

  /// Removes the value of a key, so that the key has its default.
  ///
  /// - Returns: Whether the key had a value.
  /// - Throws: `StoreError`.
  @discardableResult
  public func reset<Value>(_ key: DefaultsKey<Value>) throws -> Bool {
    try removeValue(forKey: key.name)
  }
}

/// A property whose value is stored in defaults.
///
/// ```swift
/// struct Player {
///   @Default(.volume) var volume: Double
/// }
/// ```
///
/// The projected value (`$volume`) is the sequence of ``Defaults/values(of:)``.
@propertyWrapper
public struct Default<Value: Codable & Sendable>: Sendable {
  private let key: DefaultsKey<Value>
  private let suite: Defaults?

  /// Creates a property.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - suite: The suite, or `nil` for ``Defaults/shared``, which is opened at the first use.
  public init(_ key: DefaultsKey<Value>, in suite: Defaults? = nil) {
    self.key = key
    self.suite = suite
  }

  private var defaults: Defaults { suite ?? .shared }

  /// The value; see ``Defaults/subscript(_:)``.
  public var wrappedValue: Value {
    get { defaults[key] }
    nonmutating set { defaults[key] = newValue }
  }

  /// The value and its later values.
  public var projectedValue: DefaultsValues<Value> { defaults.values(of: key) }
}
