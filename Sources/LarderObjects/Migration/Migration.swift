// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine

/// Makes every stored object of one type into one of another: of the same name in a newer version,
/// or of another name.
///
/// ```swift
/// struct CarV1: Storable { let id: String; var year: String; static let storedName = "Car" }
/// struct Car: Storable {
///   let id: String; var year: Int
///   static let storedName = "Car"
///   static let schemaVersion = 2
/// }
/// let years = Migration<CarV1, Car>("years are numbers") { old in
///   Car(id: old.id, year: Int(old.year) ?? 0)
/// }
/// let objects = try ObjectStore(at: path, migrations: [years.step])
/// ```
///
/// An object keeps its place in the order of insertion.
public struct Migration<Old: Storable, New: Storable>: Sendable {
  /// The name under which the store remembers that it was applied.
  public let name: String
  let dropsNil: Bool
  let convert: @Sendable (Old) throws -> New?

  /// A migration that makes a new object of each old one.
  ///
  /// - Parameters:
  ///   - name: One of its own in the store, never used for anything else. By default what it leads
  ///     from and to.
  ///   - convert: Runs once for each object, and again for those that other processes change
  ///     meanwhile; under the store's writer lock. An error ends the migration and undoes it.
  public init(_ name: String? = nil, _ convert: @escaping @Sendable (Old) throws -> New) {
    self.name = name ?? Self.defaultName
    dropsNil = false
    self.convert = { try convert($0) }
  }

  /// A migration that drops the objects for which `convert` returns `nil`.
  public init(
    _ name: String? = nil, droppingNil convert: @escaping @Sendable (Old) throws -> New?
  ) {
    self.name = name ?? Self.defaultName
    dropsNil = true
    self.convert = convert
  }

  private static var defaultName: String {
    "\(Old.storedName) \(Old.schemaVersion) to \(New.storedName) \(New.schemaVersion)"
  }

  /// The migration as a step in a list of several.
  public var step: ObjectMigration {
    ObjectMigration(name: name, work: .copy(ObjectCopyMigration(self)))
  }
}

/// One step in the history of a store: named, applied in its order, once among all processes.
///
/// ```swift
/// try objects.migrate([
///   .renameField("name", to: "model", in: "Car", toVersion: 2),
///   .addField("wheels", default: 4, in: "Car", toVersion: 3),
///   .objects("cars have makers") { (old: CarV3) in Car(old) },
///   .rename(type: "Garage", to: "Workshop"),
///   .deleteAll(named: "Horse"),
/// ])
/// ```
///
/// The list only grows: new steps stand at its end, and no name is used again.
public struct ObjectMigration: Sendable {
  enum Work: Sendable {
    case copy(ObjectCopyMigration)
    case rename(from: String, to: String)
    case rebuild(IndexRebuildMigration)
    case deleteAll(String)
  }

  /// The name under which the store remembers that it was applied.
  public let name: String
  let work: Work

  /// Makes every object into one of another type; see ``Migration``.
  public static func objects<Old: Storable, New: Storable>(
    _ name: String, _ convert: @escaping @Sendable (Old) throws -> New
  ) -> ObjectMigration {
    Migration(name, convert).step
  }

  /// Gives a stored type another name, at once. Programs that know it by the old one are refused.
  public static func rename(
    type old: String, to new: String, named name: String? = nil
  ) -> ObjectMigration {
    ObjectMigration(name: name ?? "rename \(old) to \(new)", work: .rename(from: old, to: new))
  }

  /// Deletes everything of a type, and its name, without knowing the Swift type.
  public static func deleteAll(named type: String, named name: String? = nil) -> ObjectMigration {
    ObjectMigration(name: name ?? "delete all \(type)", work: .deleteAll(type))
  }

  /// Builds all indexes of a type anew, in steps; queries do without them until then.
  public static func reindex<Object: Storable>(
    _ type: Object.Type, named name: String? = nil
  ) -> ObjectMigration {
    ObjectMigration(
      name: name ?? "reindex \(Object.storedName) \(Object.schemaVersion)",
      work: .rebuild(IndexRebuildMigration(type)))
  }

  // MARK: Fields

  /// A change of the fields of a stored type, made without its Swift type.
  public enum FieldChange: Sendable {
    /// Objects without the field get it.
    case add(String, default: CBORValue)
    /// Objects with the field have it under another name; what was there is replaced.
    case rename(String, to: String)
    /// The field goes, and indexes over it or under a condition on it.
    case remove(String)
    /// An index is not kept any more.
    case dropIndex(String)
    /// Any change of the object's fields.
    case change(@Sendable (inout [String: CBORValue]) throws -> Void)
  }

  /// Changes the fields of every object of a type, all in one step.
  ///
  /// - Parameters:
  ///   - name: The name to remember it by.
  ///   - type: The stored name of the type.
  ///   - version: The schema version that is reached.
  ///   - changes: The changes, applied in order to each object.
  public static func fields(
    _ name: String, of type: String, toVersion version: Int, _ changes: [FieldChange]
  ) -> ObjectMigration {
    ObjectMigration(
      name: name, work: .copy(ObjectCopyMigration(type, UInt32(clamping: version), changes)))
  }

  /// Gives objects without a field a value of it.
  public static func addField(
    _ field: String, default value: some Encodable, in type: String, toVersion version: Int,
    named name: String? = nil
  ) -> ObjectMigration {
    let value = Result { try CBORValue(parsing: CBOREncoder().encode(value)) }
    return fields(
      name ?? "add \(field) to \(type) \(version)", of: type, toVersion: version,
      [.change { fields in if fields[field] == nil { fields[field] = try value.get() } }])
  }

  /// Gives a field another name.
  public static func renameField(
    _ field: String, to new: String, in type: String, toVersion version: Int,
    named name: String? = nil
  ) -> ObjectMigration {
    fields(
      name ?? "rename \(field) of \(type) \(version) to \(new)", of: type, toVersion: version,
      [.rename(field, to: new)])
  }

  /// Removes a field, and the indexes over it or under a condition on it.
  public static func removeField(
    _ field: String, in type: String, toVersion version: Int, named name: String? = nil
  ) -> ObjectMigration {
    fields(
      name ?? "remove \(field) of \(type) \(version)", of: type, toVersion: version,
      [.remove(field)])
  }
}

/// What a migration did, or what it would do.
public struct MigrationReport: Sendable, Hashable {
  /// What can become of a migration.
  public enum Outcome: Sendable, Hashable {
    /// It had been applied before.
    case applied
    /// It was applied now, by this process or together with others.
    case done
    /// It would be applied: this was a dry run.
    case pending
  }

  /// The migration's name.
  public let name: String
  /// What became of it.
  public internal(set) var outcome: Outcome
  /// How many objects were looked at.
  public internal(set) var objects = 0
  /// In a dry run: how many would be stored otherwise than they are.
  public internal(set) var changed = 0
  /// How many are not taken over, as the migration says.
  public internal(set) var dropped = 0
  /// How many are damaged, and left behind.
  public internal(set) var damaged = 0
  /// In a dry run: how many would end the migration with an error,
  public internal(set) var failed = 0
  /// and the first of them.
  public internal(set) var failures: [ObjectError] = []

  init(name: String, outcome: Outcome) {
    self.name = name
    self.outcome = outcome
  }
}
