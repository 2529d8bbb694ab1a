// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Where a program's keys are declared, so that `defaults[.theme]` finds them.
///
/// ```swift
/// extension DefaultsKeys {
///   static let theme = DefaultsKey<String>("theme", default: "light")
///   static let lastUser = DefaultsKey<UUID?>("lastUser")
/// }
/// ```
// Sendable: one constant, and its one subclass has constants too. Nobody else can inherit.
public class DefaultsKeys: @unchecked Sendable {
  /// The key in the suite.
  public let name: String

  init(name: String) { self.name = name }
}

/// A key with the type of its value, and the value it has while none is stored.
///
/// A key of an optional type has `nil` without more, and setting `nil` removes.
// Sendable: it has constants only.
public final class DefaultsKey<Value: Codable & Sendable>: DefaultsKeys, @unchecked Sendable {
  /// The value while none is stored. It is never written by reading.
  public let defaultValue: Value

  /// Whether `read` is there for more than a plain read, which costs less without it.
  @usableFromInline let isOptional: Bool
  @usableFromInline let read: @Sendable (Defaults, String) throws -> Value?
  let encode: @Sendable (Value, String) throws -> DefaultsContent?
  let decode: @Sendable (DefaultsEntry) throws -> Value

  /// Makes a key.
  @inlinable
  public convenience init(_ name: String, default value: Value) {
    self.init(
      name, value, isOptional: false, read: { try $0.value(Value.self, forKey: $1) },
      encode: { try Defaults.content(of: $0, $1) }, decode: { try $0.value(Value.self) })
  }

  /// Makes a key whose value may be missing.
  @inlinable
  public convenience init<Wrapped: Codable & Sendable>(
    _ name: String, default value: Wrapped? = nil
  ) where Value == Wrapped? {
    // What is stored is never optional, so that a key of `Wrapped` is the same key.
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
  /// The value of a key, or its default. Setting is one commit.
  ///
  /// What cannot be read is told to ``onError(_:)`` and reads as the default.
  ///
  /// Changing a value in place (`defaults[.count] += 1`) is a read and then a write: what another
  /// thread or process writes in between is lost. `update(_:_:)` loses nothing.
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

  /// The value of a key, or its default.
  ///
  /// - Throws: As ``value(_:forKey:)``.
  public func value<Value: Codable & Sendable>(of key: DefaultsKey<Value>) throws -> Value {
    try key.read(self, key.name) ?? key.defaultValue
  }

  /// Stores the value of a key.
  ///
  /// - Throws: As `setValue(_:forKey:)`.
  public func set<Value: Codable & Sendable>(_ value: Value, for key: DefaultsKey<Value>) throws {
    let suite = try state.get()
    if let content = try key.encode(value, key.name) {
      try suite.put(content, key.name)
    } else {
      _ = try suite.remove(key.name)
    }
  }

  /// Removes the value of a key, so that it has its default again.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func reset<Value>(_ key: DefaultsKey<Value>) throws -> Bool {
    try removeValue(forKey: key.name)
  }
}

/// A property that is kept in defaults.
///
/// ```swift
/// struct Player {
///   @Default(.volume) var volume: Double
/// }
/// ```
///
/// The projected value (`$volume`) is what ``Defaults/values(of:)`` gives.
@propertyWrapper
public struct Default<Value: Codable & Sendable>: Sendable {
  private let key: DefaultsKey<Value>
  private let suite: Defaults?

  /// Keeps the property under a key of a suite; without one, of ``Defaults/shared``, which is opened
  /// when the property is first used.
  public init(_ key: DefaultsKey<Value>, in suite: Defaults? = nil) {
    self.key = key
    self.suite = suite
  }

  private var defaults: Defaults { suite ?? .shared }

  /// The value, as ``Defaults/subscript(_:)``.
  public var wrappedValue: Value {
    get { defaults[key] }
    nonmutating set { defaults[key] = newValue }
  }

  /// The values, as they become.
  public var projectedValue: DefaultsValues<Value> { defaults.values(of: key) }
}
