// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

extension StoredField {
  /// Reads the value of a name in an object.
  ///
  /// - Parameters:
  ///   - type: The type of the value.
  ///   - name: The name of the field.
  ///   - object: The stored object.
  /// - Returns: `nil` if the object is not plain; an inner `nil` if the field is missing.
  package static func read<Value>(
    _ type: Value.Type, _ name: String, in object: [UInt8]
  ) -> Value?? {
    func read<Scalar: StoredScalar>(_ type: Scalar.Type) -> Value?? {
      object.withRawSpan { object in
        switch StoredField.find(CBORValue.text(name).encoded, in: object) {
        case .found(let range):
          (Scalar?.read(object.slice(range)!) as Scalar??).map { $0 as! Value? }
        case .missing: .some(nil)
        case .unclear: nil
        }
      }
    }
    return (type as? any StoredScalar.Type).flatMap { read($0) }
  }
}

/// A function of values of one type. Unlike a closure, it can be cast once instead of its values.
private final class TypedTest<Value>: Sendable {
  let holds: @Sendable (Value) -> Bool
  init(_ holds: @escaping @Sendable (Value) -> Bool) { self.holds = holds }
}

/// A condition of a property that is evaluated on the stored bytes, if the type declares its field.
struct StoredProperty: Sendable {
  let path: AnyPath
  /// Evaluates the property's field; `nil` if it is not plain.
  let holds: @Sendable (RawSpan) -> Bool?
  /// Evaluates the absence of the field.
  let holdsWithout: @Sendable (DeclaredField) -> Bool?

  /// Creates the stored form of a condition.
  ///
  /// - Parameter test: The same comparison by the bytes of the field, where they decide it.
  /// - Returns: The condition, or `nil` if values of the type cannot be read without decoding the
  ///   object.
  init?<Object, Value>(
    _ path: PropertyPath<Object, Value>, _ test: StoredFieldTest?,
    _ holds: @escaping @Sendable (Value) -> Bool
  ) {
    guard let scalar = Value.self as? any StoredScalar.Type else { return nil }
    self.init(opening: scalar, path.erased, test, TypedTest(holds))
  }

  private init?<Scalar: StoredScalar, Value>(
    opening type: Scalar.Type, _ path: AnyPath, _ test: StoredFieldTest?, _ typed: TypedTest<Value>
  ) {
    guard let typed = typed as? TypedTest<Scalar> else { return nil }
    self.path = path
    holdsWithout = { field in
      let value: Scalar? = field.valueWithoutField()
      return value.map(typed.holds)
    }
    holds = Self.evaluating(test, Self.reading(typed))
  }

  /// Returns a comparison that falls back to one of the decoded value, without generic code.
  private static func evaluating(
    _ test: StoredFieldTest?, _ decoded: @escaping @Sendable (RawSpan) -> Bool?
  ) -> @Sendable (RawSpan) -> Bool? {
    guard let test else { return decoded }
    return { test.holds($0) ?? decoded($0) }
  }

  /// Returns the evaluation of a field; without generic code for the most frequent types.
  private static func reading<Scalar: StoredScalar>(
    _ typed: TypedTest<Scalar>
  ) -> @Sendable (RawSpan) -> Bool? {
    if let typed = typed as? TypedTest<Int> { return { Int.read($0).map(typed.holds) } }
    if let typed = typed as? TypedTest<Double> { return { Double.read($0).map(typed.holds) } }
    if let typed = typed as? TypedTest<String> { return { String.read($0).map(typed.holds) } }
    return { Scalar.read($0).map(typed.holds) }
  }
}
