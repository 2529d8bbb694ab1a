// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderObjectEngine

/// A stored type whose stored form is declared: the macro `@Storable` of the product `LarderSchema`
/// generates the conformance.
///
/// The declaration promises that `init(from:)` sets each property to the value of its field, and to
/// its default without one, independent of the other fields, and that `encode(to:)` writes it
/// accordingly. Queries rely on it and read single fields of stored objects. So do not conform by
/// hand.
public protocol DeclaresSchema: Storable {
  /// The stored fields of the type and the indexes over single properties.
  static var schema: ObjectSchema<Self> { get }
}

/// A value inside objects whose stored form is declared: the macro `@StorableValue` generates the
/// conformance.
public protocol StorableValue: Codable, Sendable {
  /// The stored properties; none of an enumeration.
  static var storedFields: [StorableValueField] { get }
}

extension StorableValue {
  /// No stored properties.
  public static var storedFields: [StorableValueField] { [] }
}

/// A stored property of a value inside objects, for generated code.
public struct StorableValueField: Sendable {
  /// The name under which the property is stored.
  let name: String
  /// The name of the property.
  let property: String
  let type: any Sendable.Type
  /// The literal that is the default, or `nil` without one.
  let fallback: String?
  /// Whether the default is no literal.
  let isComputed: Bool

  /// Returns the stored fields of a declared value, or `nil` of another type.
  static func all(of type: Any.Type) -> [(name: String, type: Any.Type)]? {
    (type as? any StorableValue.Type)?.storedFields.map { ($0.name, $0.type) }
  }

  /// Creates the description of a property.
  ///
  /// - Parameters:
  ///   - name: The name under which it is stored.
  ///   - property: The name of the property.
  ///   - path: The property.
  ///   - fallback: The literal that is its default, as it is written.
  ///   - isComputed: Whether it has another default.
  public init<Root, Value: Sendable>(
    _ name: String, _ property: String, _ path: Path<Root, Value>, default fallback: String? = nil,
    isComputed: Bool = false
  ) {
    self.name = name
    self.property = property
    type = Value.self
    self.fallback = fallback
    self.isComputed = isComputed
  }
}

/// An enumeration that is stored as its raw value, and has the index key of its raw value: the macro
/// `@StorableValue` generates the conformance.
public protocol StorableRawValue: StorableValue, StoredScalar, IndexValue, RawRepresentable
where RawValue: StoredScalar & IndexValue {}

/// The declared fields of a stored type.
///
/// ```swift
/// for field in Car.schema.fields { print(field.name) }
/// ```
public struct ObjectSchema<Object: Storable>: Sendable {
  /// One stored field.
  public struct Field: Sendable {
    /// The name under which the field is stored.
    public let name: String
    /// The property, or `nil` if its field cannot be read without decoding the object.
    let path: AnyPath?
    /// The value of a property whose field is missing, or `nil` if the object must be decoded.
    let fallback: (any Sendable)?
    /// The reference that the property is, or `nil`.
    var reference: ReferenceField<Object>?
    /// Whether programs of other declarations may omit the field.
    var hasDefault: Bool { fallback != nil }
  }

  /// The fields, in the order of the declaration.
  public let fields: [Field]
  /// The indexes that attributes of properties declare.
  public let indexes: [Index<Object>]
  /// Whether code runs when a property is set, so that a field is not changed without its object.
  let hasObservers: Bool

  /// Creates a schema.
  ///
  /// - Parameters:
  ///   - fields: The fields of all stored properties.
  ///   - indexes: The indexes over single properties.
  ///   - hasObservers: Whether a property has the observer `willSet` or `didSet`.
  public init(_ fields: [Field], indexes: [Index<Object>], hasObservers: Bool = false) {
    self.fields = fields
    self.indexes = indexes
    self.hasObservers = hasObservers
  }

  /// The fields that queries read in place, by property.
  var readable: [AnyPath: DeclaredField] {
    var readable: [AnyPath: DeclaredField] = [:]
    for field in fields {
      guard let path = field.path else { continue }
      readable[path] = DeclaredField(
        key: CBORValue.text(field.name).encoded, fallback: field.fallback)
    }
    return readable
  }
}

extension ObjectSchema.Field {
  /// Returns the field of a property without a default.
  ///
  /// - Parameters:
  ///   - name: The stored name.
  ///   - path: The property.
  /// - Returns: The field.
  public static func field<Value: Codable & Sendable>(
    _ name: String, _ path: Path<Object, Value>
  ) -> Self { Self(name: name, path: AnyPath(path: path), fallback: nil) }

  /// Returns the field of a property with a constant default.
  ///
  /// - Parameters:
  ///   - name: The stored name.
  ///   - path: The property.
  ///   - value: The value of the property in objects without the field.
  /// - Returns: The field.
  public static func field<Value: Codable & Sendable>(
    _ name: String, _ path: Path<Object, Value>, default value: Value
  ) -> Self { Self(name: name, path: AnyPath(path: path), fallback: value) }

  /// Returns the field of a property whose default is computed for each object: an object without
  /// the field must be decoded.
  ///
  /// - Parameters:
  ///   - name: The stored name.
  ///   - path: The property.
  /// - Returns: The field.
  public static func computed<Value: Codable & Sendable>(
    _ name: String, _ path: Path<Object, Value>
  ) -> Self { Self(name: name, path: AnyPath(path: path), fallback: ComputedFallback()) }

  /// Returns the field of a reference to other objects.
  ///
  /// - Parameters:
  ///   - name: The stored name.
  ///   - path: The property: `\.boss`.
  ///   - reference: The reference itself: `\.$boss`.
  /// - Returns: The field.
  public static func reference<Value, Property: Reference>(
    _ name: String, _ path: Path<Object, Value>, _ reference: Path<Object, Property>
  ) -> Self {
    let property = PropertyPath(reference)
    return Self(
      name: name, path: nil, fallback: nil,
      reference: ReferenceField(
        name: name, path: AnyPath(path: path), projected: property.erased,
        ids: { property.value(of: $0).ids }))
  }

  /// Returns the field of a property with a wrapper, which only the decoder reads.
  ///
  /// - Parameter name: The stored name.
  /// - Returns: The field.
  public static func opaque(_ name: String) -> Self { Self(name: name, path: nil, fallback: nil) }
}

/// A property that refers to other objects.
struct ReferenceField<Object: Storable>: Sendable {
  /// The stored name.
  let name: String
  /// The property with the objects.
  let path: AnyPath
  /// The reference itself.
  let projected: AnyPath
  /// Returns the ids referred to.
  let ids: @Sendable (Object) -> [String]
}

/// The default of a property that is computed for each object.
struct ComputedFallback: Sendable {}

/// A field that queries read in place.
struct DeclaredField: Sendable {
  /// The name, encoded as a key in CBOR.
  let key: [UInt8]
  /// The value of a property whose field is missing, or `nil` for that of the property's type.
  let fallback: (any Sendable)?

  /// Returns the value of a property whose field is missing, or `nil` if the object must be
  /// decoded.
  func valueWithoutField<Value: StoredScalar>() -> Value? {
    fallback == nil ? Value.absent : fallback as? Value
  }
}

extension Storable {
  /// The declared fields by property, or none if the type declares no schema.
  static var declaredFields: [AnyPath: DeclaredField] {
    func fields<Object: DeclaresSchema>(of type: Object.Type) -> Any { Object.schema.readable }
    guard let type = Self.self as? any DeclaresSchema.Type else { return [:] }
    return fields(of: type) as? [AnyPath: DeclaredField] ?? [:]
  }

  /// The layout of the declared fields, or `nil` if the type declares no schema.
  static var declaredLayout: ObjectLayout? {
    func layout<Object: DeclaresSchema>(of type: Object.Type) -> ObjectLayout {
      ObjectLayout(Object.schema.fields.map(\.name))
    }
    return (Self.self as? any DeclaresSchema.Type).map { layout(of: $0) }
  }

  /// Whether code may run when a property is set.
  static var hasObservers: Bool {
    func observers<Object: DeclaresSchema>(of type: Object.Type) -> Bool {
      Object.schema.hasObservers
    }
    return (Self.self as? any DeclaresSchema.Type).map { observers(of: $0) } ?? true
  }

  /// The declared references.
  static var declaredReferences: [ReferenceField<Self>] {
    func references<Object: DeclaresSchema>(of type: Object.Type) -> Any {
      Object.schema.fields.compactMap(\.reference)
    }
    guard let type = Self.self as? any DeclaresSchema.Type else { return [] }
    return references(of: type) as? [ReferenceField<Self>] ?? []
  }

  /// Returns the function that reads the ids of a declared reference, or `nil` if the property is
  /// not one.
  static func reference(at path: AnyPath) -> (@Sendable (Self) -> [String])? {
    declaredReferences.first { $0.path == path || $0.projected == path }?.ids
  }

  /// The names of the declared fields that have a default: no program requires them.
  static var fieldsWithDefault: [String] {
    func names<Object: DeclaresSchema>(of type: Object.Type) -> [String] {
      Object.schema.fields.filter(\.hasDefault).map(\.name)
    }
    return (Self.self as? any DeclaresSchema.Type).map { names(of: $0) } ?? []
  }

  /// All declared indexes: those of the type and those of its properties. Their definitions have the
  /// stored names of the properties.
  static var allIndexes: [Index<Self>] {
    func indexes<Object: DeclaresSchema>(of type: Object.Type) -> Any {
      let schema = Object.schema
      return (Object.indexes + schema.indexes).map { $0.defined(by: schema) }
    }
    guard let type = Self.self as? any DeclaresSchema.Type else {
      return Self.indexes.map { $0.defined(by: nil) }
    }
    return indexes(of: type) as? [Index<Self>] ?? []
  }
}

extension ObjectSchema {
  /// Returns a path of properties with the stored name of its first one.
  func storedName(of path: AnyPath) -> String {
    // Describing a key path takes a tenth of the first query of a process.
    if let field = fields.first(where: { $0.path == path }) { return "\\.\(field.name)" }
    let path = path.name(in: Object.self)
    let parts = path.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count > 1 else { return path }
    let property = "\\.\(parts[1])"
    let field = fields.first { $0.path?.name(in: Object.self) == property }
    guard let field else { return path }
    return (["\\", field.name] + parts.dropFirst(2).map(String.init)).joined(separator: ".")
  }
}
