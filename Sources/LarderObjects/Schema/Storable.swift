// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding

/// A type whose values are stored as objects, found by id and by queries.
///
/// ```swift
/// struct Car: Storable {
///   let id: String
///   var model: String
///   var year: Int
///   static let indexes = [Index("model", \Car.model), Index("year", \Car.year)]
/// }
/// ```
///
/// An object is stored under its id in the encoding of its `Codable` conformance.
///
/// An id is a cache key: `String`, an integer, `UUID`, `Data`, `[UInt8]`, `Date`, `Double`, `Bool`,
/// `URL`, a type with one of these as its raw value, a type that declares `CacheKey`, and a
/// composite such as `KeyPair`. A string may be empty, may contain slashes and may have any length.
/// Equal ids identify one object and different ids identify two: the store uses the text of the
/// key's bytes (`KeyTextFormat.display(tag:bytes:)`) in Unicode's normalization form C. So both
/// forms of `"é"` are one id, and so are 0.0 and -0.0; a date is its exact number of seconds; all
/// NaN values of `Double` are one id, although Swift compares them as unequal. A URL is its
/// absolute string. The command-line tool prints and accepts the same text.
public protocol Storable: ReferenceTarget, Identifiable
where ID: CacheKey, LinkedObject == Self {
  /// The name under which the type is stored.
  ///
  /// The default consists of module and type, so that types with the same name in different modules
  /// are separate. Declare it to be able to rename or move the type. A private or local type must declare
  /// it: another file, or another build of the program, may have one of the same name, and they would
  /// replace each other's objects. Without it every operation throws
  /// ``ObjectError/Code/invalidSchema``.
  static var storedName: String { get }

  /// The version of the stored form, at least 1. Raise it together with a migration when the
  /// meaning of stored objects changes.
  static var schemaVersion: Int { get }

  /// The oldest version of the program that can read objects that this version writes. Older
  /// programs get ``ObjectError/Code/newerSchema``, and no older program can write. The default is
  /// ``schemaVersion``.
  static var minimumReaderVersion: Int { get }

  /// The indexes of the type, updated in the same transaction as every change.
  static var indexes: [Index<Self>] { get }

  /// A Boolean value that indicates whether fetches may return the same instance of a class more
  /// than once.
  ///
  /// With `false`, the default, each fetch decodes a separate instance, so other callers see a
  /// change only after a save. With `true`, callers share instances in memory, which is faster;
  /// treat shared instances as constants. Structures and enumerations are always copied.
  static var sharesInstances: Bool { get }

  /// The names of computed properties that indexes, sorts and conditions use; see
  /// ``ComputedProperty``.
  static var computedProperties: [ComputedProperty<Self>] { get }

  /// The budget of the type, or `nil` to use the budget of ``ObjectStore/setBudget(_:for:)``, which
  /// is unlimited by default.
  static var budget: ObjectBudget? { get }

  /// The delete rules of the type's references; see ``Relationship``.
  static var relationships: [Relationship<Self>] { get }
}

extension Storable {
  /// The module and the name of the type, which a private or local type cannot use.
  public static var storedName: String { DefaultTypeName.of(Self.self) }
  /// Version 1.
  public static var schemaVersion: Int { 1 }
  /// The current schema version.
  public static var minimumReaderVersion: Int { schemaVersion }
  /// No indexes.
  public static var indexes: [Index<Self>] { [] }
  /// Separate instances for each fetch.
  public static var sharesInstances: Bool { false }
  /// No computed properties.
  public static var computedProperties: [ComputedProperty<Self>] { [] }
  /// No declared budget.
  public static var budget: ObjectBudget? { nil }
  /// No declared delete rules.
  public static var relationships: [Relationship<Self>] { [] }
}
