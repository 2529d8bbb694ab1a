// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// What the compiler says of a property that cannot be stored. A macro sees the names of types and not their
// conformances, so the generated code calls these functions where no other fits, and they do not compile.
// Index.swift has the same for a value without a key.

extension ObjectSchema.Field {
  /// Not available: the property cannot be stored.
  @available(
    *, unavailable,
    message: "A stored property must be Codable and Sendable: use @StorableValue or @Transient."
  )
  @_disfavoredOverload
  public static func field<Value>(_ name: String, _ path: Path<Object, Value>) -> Self {
    .opaque(name)
  }

  /// Not available: the property cannot be stored.
  @available(
    *, unavailable,
    message: "A stored property must be Codable and Sendable: use @StorableValue or @Transient."
  )
  @_disfavoredOverload
  public static func computed<Value>(_ name: String, _ path: Path<Object, Value>) -> Self {
    .opaque(name)
  }
}

extension StoredFieldsDecoder {
  /// Not available: the property cannot be stored.
  @available(
    *, unavailable,
    message: "A stored property must be Codable and Sendable: use @StorableValue or @Transient."
  )
  @_disfavoredOverload
  public func value<Value>(_ key: Key) throws -> Value { throw unstorable(key) }

  /// Not available: the property cannot be stored.
  @available(
    *, unavailable,
    message: "A stored property must be Codable and Sendable: use @StorableValue or @Transient."
  )
  @_disfavoredOverload
  public func value<Value>(_ key: Key, default value: @autoclosure () -> Value) throws -> Value {
    throw unstorable(key)
  }

  private func unstorable(_ key: Key) -> DecodingError {
    .dataCorrupted(
      DecodingError.Context(codingPath: [key], debugDescription: "The property is not Codable."))
  }
}

extension StoredFieldsEncoder {
  /// Not available: the property cannot be stored.
  @available(
    *, unavailable,
    message: "A stored property must be Codable and Sendable: use @StorableValue or @Transient."
  )
  @_disfavoredOverload
  public mutating func set<Value>(_ key: Key, _ value: Value, keepsNil: Bool = false) throws {
    throw EncodingError.invalidValue(
      value,
      EncodingError.Context(codingPath: [key], debugDescription: "The property is not Codable."))
  }
}
