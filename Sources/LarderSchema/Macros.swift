// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
@_exported public import LarderObjects

/// Makes a structure or a final class a stored type with a declared schema.
///
/// ```swift
/// import LarderSchema
///
/// @Storable struct Car {
///   let id: String
///   @Indexed var model: String
///   var year = 2020
///   var price: Double?
///   @Transient var isSelected = false
/// }
/// ```
///
/// The macro declares the conformance to ``/LarderObjects/Storable`` and generates the schema,
/// `init(from:)` and `encode(to:)`. So what is stored is known without running code of the type:
/// conditions, counts and `values(of:)` read single fields of the stored objects, and a missing
/// field has its declared default. A hand-written `init(from:)` or `encode(to:)` is an error.
///
/// A property is stored under its own name. It must be `Codable` and `Sendable`; its default is
/// used where a stored object lacks the field. Programs of one schema version may differ in
/// properties: what one does not declare survives its saves.
///
/// A type without the macro conforms to ``/LarderObjects/Storable`` by hand; all conditions that
/// no index covers are then evaluated on decoded objects.
@attached(
  extension, conformances: Storable, DeclaresSchema,
  names: named(init(from:)), named(encode(to:)), named(schema), named(CodingKeys))
@attached(member, names: named(init(from:)))
public macro Storable() =
  #externalMacro(module: "LarderSchemaMacros", type: "StorableMacro")

/// Makes a structure or an enumeration a value that objects can contain.
///
/// ```swift
/// @StorableValue enum Fuel: String { case petrol, diesel, electric }
/// @StorableValue struct Engine { var fuel = Fuel.petrol; var power: Int }
/// ```
///
/// The macro generates the `Codable` conformance, so the stored form is known. An enumeration with
/// raw values is stored as its raw value; conditions on it read the stored field, and `@Indexed` applies to it.
@attached(
  extension, conformances: StorableValue, StorableRawValue,
  names: named(init(from:)), named(encode(to:)), named(CodingKeys), named(storedFields))
public macro StorableValue() =
  #externalMacro(module: "LarderSchemaMacros", type: "StorableValueMacro")

/// Stores a property of a type with `@Storable` under another name.
///
/// ```swift
/// @Attribute(name: "colour") var color: String
/// ```
///
/// - Parameter name: The stored name, a string literal that is unique in the type.
@attached(peer)
public macro Attribute(name: String) =
  #externalMacro(module: "LarderSchemaMacros", type: "PropertyMarker")

/// Declares an index over a property of a type with `@Storable`.
///
/// The index has the stored name of the property. Declare compound, multi-key and partial indexes
/// in `static let indexes`; both lists apply.
@attached(peer)
public macro Indexed() = #externalMacro(module: "LarderSchemaMacros", type: "PropertyMarker")

/// Declares a unique index over a property of a type with `@Storable`.
///
/// Two objects must not have the same value; any number of objects may have `nil`.
@attached(peer)
public macro Unique() = #externalMacro(module: "LarderSchemaMacros", type: "PropertyMarker")

/// Excludes a property of a type with `@Storable` from the stored object.
///
/// A loaded object has the default of the property.
@attached(peer)
public macro Transient() = #externalMacro(module: "LarderSchemaMacros", type: "PropertyMarker")
#endif
