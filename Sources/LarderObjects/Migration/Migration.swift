// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine

/// A migration that converts every stored object of one type to another type: of the same name in a
/// newer version, or of another name.
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
/// An object keeps its position in the order of insertion.
public struct Migration<Old: Storable, New: Storable>: Sendable {
  /// The name under which the store records that the migration was applied.
  public let name: String
  let dropsNil: Bool
  let convert: @Sendable (Old) throws -> New?

  /// Creates a migration that converts each object.
  ///
  /// - Parameters:
  ///   - name: A name that no other migration of the store uses. The default names the old and the
  ///     new type and version.
  ///   - convert: A closure that returns the new object. It runs once per object, and again for
  ///     objects that other processes change during the migration, under the store's writer lock.
  ///     An error ends the migration and discards its result.
  public init(_ name: String? = nil, _ convert: @escaping @Sendable (Old) throws -> New) {
    self.name = name ?? Self.defaultName
    dropsNil = false
    self.convert = { try convert($0) }
  }

  /// Creates a migration that drops the objects for which the closure returns `nil`.
  ///
  /// - Parameters:
  ///   - name: A name that no other migration of the store uses. The default names the old and the
  ///     new type and version.
  ///   - convert: A closure that returns the new object, or `nil` to drop it.
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

  /// The migration as a step of a list of migrations.
  public var step: ObjectMigration {
    ObjectMigration(name: name, work: .copy(ObjectCopyMigration(self)))
  }
}

/// One step in the history of a store: named, applied in order, once for all processes.
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
/// Add new steps only at the end of the list, and do not reuse a name.
public struct ObjectMigration: Sendable {
  enum Work: Sendable {
    case copy(ObjectCopyMigration)
    case rename(from: String, to: String)
    case rebuild(IndexRebuildMigration)
    case deleteAll(String)
  }

  /// The name under which the store records that the migration was applied.
  public let name: String
  let work: Work

  /// Returns a step that converts every object to another type; see ``Migration``.
  ///
  /// - Parameters:
  ///   - name: A name that no other migration of the store uses.
  ///   - convert: A closure that returns the new object. An error ends the migration and discards
  ///     its result.
  /// - Returns: The step.
  public static func objects<Old: Storable, New: Storable>(
    _ name: String, _ convert: @escaping @Sendable (Old) throws -> New
  ) -> ObjectMigration {
    Migration(name, convert).step
  }

  /// Returns a step that renames a stored type in one transaction. Programs that declare the old
  /// name then get ``ObjectError/Code/newerSchema``.
  ///
  /// - Parameters:
  ///   - old: The stored name of the type.
  ///   - new: The new name, under which no objects may be stored.
  ///   - name: The name of the migration, or `nil` for a default.
  /// - Returns: The step.
  public static func rename(
    type old: String, to new: String, named name: String? = nil
  ) -> ObjectMigration {
    ObjectMigration(name: name ?? "rename \(old) to \(new)", work: .rename(from: old, to: new))
  }

  /// Returns a step that deletes all objects of a type and its record, without its Swift type.
  ///
  /// - Parameters:
  ///   - type: The stored name of the type.
  ///   - name: The name of the migration, or `nil` for a default.
  /// - Returns: The step.
  public static func deleteAll(named type: String, named name: String? = nil) -> ObjectMigration {
    ObjectMigration(name: name ?? "delete all \(type)", work: .deleteAll(type))
  }

  /// Returns a step that rebuilds all indexes of a type in several transactions. Until it is
  /// complete, queries use table scans.
  ///
  /// - Parameters:
  ///   - type: The object type.
  ///   - name: The name of the migration, or `nil` for a default.
  /// - Returns: The step.
  public static func reindex<Object: Storable>(
    _ type: Object.Type, named name: String? = nil
  ) -> ObjectMigration {
    ObjectMigration(
      name: name ?? "reindex \(Object.storedName) \(Object.schemaVersion)",
      work: .rebuild(IndexRebuildMigration(type)))
  }

  // MARK: Fields

  /// A change of the fields of a stored type, applied without its Swift type.
  public enum FieldChange: Sendable {
    /// Adds a field with a value to objects that lack it.
    case add(String, default: CBORValue)
    /// Renames a field; replaces an existing field of the new name.
    case rename(String, to: String)
    /// Removes a field, and the indexes over it or with a condition on it.
    case remove(String)
    /// Drops an index.
    case dropIndex(String)
    /// Changes the fields of each object with a closure.
    case change(@Sendable (inout [String: CBORValue]) throws -> Void)
  }

  /// Returns a step that changes the fields of every object of a type.
  ///
  /// - Parameters:
  ///   - name: The name of the migration.
  ///   - type: The stored name of the type.
  ///   - version: The schema version that is reached.
  ///   - changes: The changes, applied in order to each object.
  public static func fields(
    _ name: String, of type: String, toVersion version: Int, _ changes: [FieldChange]
  ) -> ObjectMigration {
    ObjectMigration(
      name: name, work: .copy(ObjectCopyMigration(type, UInt32(clamping: version), changes)))
  }

  /// Returns a step that adds a field with a value to objects that lack it.
  ///
  /// - Parameters:
  ///   - field: The name of the field.
  ///   - value: The value.
  ///   - type: The stored name of the type.
  ///   - version: The schema version after the migration.
  ///   - name: The name of the migration, or `nil` for a default.
  /// - Returns: The step.
  public static func addField(
    _ field: String, default value: some Encodable, in type: String, toVersion version: Int,
    named name: String? = nil
  ) -> ObjectMigration {
    let value = Result { try CBORValue(parsing: CBOREncoder().encode(value)) }
    return fields(
      name ?? "add \(field) to \(type) \(version)", of: type, toVersion: version,
      [.change { fields in if fields[field] == nil { fields[field] = try value.get() } }])
  }

  /// Returns a step that renames a field.
  ///
  /// - Parameters:
  ///   - field: The name of the field.
  ///   - new: The new name.
  ///   - type: The stored name of the type.
  ///   - version: The schema version after the migration.
  ///   - name: The name of the migration, or `nil` for a default.
  /// - Returns: The step.
  public static func renameField(
    _ field: String, to new: String, in type: String, toVersion version: Int,
    named name: String? = nil
  ) -> ObjectMigration {
    fields(
      name ?? "rename \(field) of \(type) \(version) to \(new)", of: type, toVersion: version,
      [.rename(field, to: new)])
  }

  /// Returns a step that removes a field, and the indexes over it or with a condition on it.
  ///
  /// - Parameters:
  ///   - field: The name of the field.
  ///   - type: The stored name of the type.
  ///   - version: The schema version after the migration.
  ///   - name: The name of the migration, or `nil` for a default.
  /// - Returns: The step.
  public static func removeField(
    _ field: String, in type: String, toVersion version: Int, named name: String? = nil
  ) -> ObjectMigration {
    fields(
      name ?? "remove \(field) of \(type) \(version)", of: type, toVersion: version,
      [.remove(field)])
  }
}

/// The result of a migration or of its dry run.
public struct MigrationReport: Sendable, Hashable {
  /// The state of a migration after the call.
  public enum Outcome: Sendable, Hashable {
    /// The migration had been applied earlier.
    case applied
    /// The migration was applied during the call, by this process or together with others.
    case done
    /// The migration would be applied: the call was a dry run.
    case pending
  }

  /// The name of the migration.
  public let name: String
  /// The state of the migration.
  public internal(set) var outcome: Outcome
  /// The number of processed objects.
  public internal(set) var objects = 0
  /// The number of objects that a dry run would change.
  public internal(set) var changed = 0
  /// The number of objects that the migration drops.
  public internal(set) var dropped = 0
  /// The number of damaged objects that the migration omits.
  public internal(set) var damaged = 0
  /// The number of objects that would fail the migration in a dry run.
  public internal(set) var failed = 0
  /// The first errors of a dry run.
  public internal(set) var failures: [ObjectError] = []

  init(name: String, outcome: Outcome) {
    self.name = name
    self.outcome = outcome
  }
}

extension ObjectMigration {
  /// The type whose objects the migration moves to another one, or `nil`.
  var movedType: String? {
    switch work {
    case .copy(let copy): copy.source == copy.target ? nil : copy.source
    case .rename(let old, _): old
    case .rebuild, .deleteAll: nil
    }
  }
}
