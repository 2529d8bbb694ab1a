// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding

/// A type whose values are stored as objects of their own: found by id and by queries.
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
/// An object is stored whole, as its `Codable` conformance writes it, under its id.
///
/// An id is a cache key: `String`, an integer, `UUID`, `Data`, `[UInt8]`, `Date`, `Double`, `Bool`,
/// `URL`, a type with one of these as its raw value, a type that declares `CacheKey`, and a composite
/// such as `KeyPair`. A text may be empty, with slashes, of any length. Ids that are equal are one
/// object and ids that are not are two: what is stored is the text of the key's bytes
/// (`KeyTextFormat.display(tag:bytes:)`), in Unicode's normalization form C. So `"é"` in both its forms is
/// one id, and so are 0.0 and -0.0; a date is its exact number of seconds; all `Double` that are not
/// a number (NaN) are one id, although Swift calls them unequal. A URL is its absolute text. The tool
/// shows and accepts the same text.
public protocol Storable: ReferenceTarget, Identifiable
where ID: CacheKey, LinkedObject == Self {
  /// The name the type is stored under. By default module and type, so that types of one name in
  /// different modules never mix; give it yourself to be able to rename or move the type, and to a
  /// private one if another of its name is in the module.
  static var storedName: String { get }

  /// The version of the stored form, from 1. Raise it together with a migration when what is stored
  /// changes its meaning.
  static var schemaVersion: Int { get }

  /// The oldest version of the program that may still read what this one writes; older ones get an
  /// error, and none of them may write. By default ``schemaVersion``.
  static var minimumReaderVersion: Int { get }

  /// The indexes kept for the type, in the same transaction as every change.
  static var indexes: [Index<Self>] { get }

  /// Whether fetches may return the same instance of a class more than once. By default `false`: each
  /// fetch decodes an instance that no other caller has, so what a caller changes in it is seen by
  /// others only when it is saved. `true` shares instances in memory, which is faster: then treat
  /// them as constants. Structures and enumerations are always copied.
  static var sharesInstances: Bool { get }

  /// The names of computed properties that indexes, sorts and conditions use; see
  /// ``ComputedProperty``.
  static var computedProperties: [ComputedProperty<Self>] { get }

  /// The most that is kept of the type; `nil`: what was set with
  /// ``ObjectStore/setBudget(_:for:)``, or no limit.
  static var budget: ObjectBudget? { get }

  /// The rules for deleting what the type refers to, and what refers to it; see ``Relationship``.
  static var relationships: [Relationship<Self>] { get }
}

extension Storable {
  public static var storedName: String { stableTypeName(Self.self) }
  public static var schemaVersion: Int { 1 }
  public static var minimumReaderVersion: Int { schemaVersion }
  public static var indexes: [Index<Self>] { [] }
  public static var sharesInstances: Bool { false }
  public static var computedProperties: [ComputedProperty<Self>] { [] }
  public static var budget: ObjectBudget? { nil }
  public static var relationships: [Relationship<Self>] { [] }
}
