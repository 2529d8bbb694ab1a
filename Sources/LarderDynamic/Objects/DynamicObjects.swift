// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding
package import LarderEngine
internal import LarderLMDB

/// An object as it is stored, without its Swift type.
package struct DynamicObject: Sendable {
  package let sequence: UInt64
  package let id: String
  package let version: UInt32
  package let value: CBORValue
}

/// The objects of a store, without their Swift types.
package struct DynamicObjects: Sendable {
  package let store: SharedStore
  /// What is skipped because it is damaged is told here.
  package let report: @Sendable (String) -> Void

  package init(_ store: SharedStore, report: @escaping @Sendable (String) -> Void = { _ in }) {
    self.store = store
    self.report = report
  }

  /// A type, and what is counted about it.
  package struct Summary: Sendable {
    package let record: ObjectTypeRecord
    package let books: ObjectTypeCounters
  }

  /// Every type of the store, in the order of the names, and its migrations, in one snapshot.
  package func summary() throws -> (types: [Summary], migrations: [MigrationSummary]) {
    try store.openCore("objects").withSnapshot("objects") { snapshot in
      let types = try ObjectReading.types(snapshot).sorted { $0.name < $1.name }.map { record in
        Summary(record: record, books: try ObjectReading.books(record.number, snapshot))
      }
      let migrations = try ObjectReading.migrations(snapshot).map { record in
        MigrationSummary(
          record: record,
          sourceName: types.first { $0.record.number == record.source }?.record.name,
          source: try ObjectReading.books(record.source, snapshot))
      }
      return (types, migrations)
    }
  }

  /// A migration, and the books of what it copies.
  package struct MigrationSummary: Sendable {
    package let record: ObjectMigrationRecord
    /// The name of the type that is copied, as long as it is.
    package let sourceName: String?
    package let source: ObjectTypeCounters
  }

  // MARK: Names

  /// The type of a stored name, or of the only stored name that ends in this one behind a point.
  ///
  /// - Throws: ``DynamicObjectError``.
  package func type(named name: String) throws -> ObjectTypeRecord {
    let all = try summary().types.map(\.record)
    if let exact = all.first(where: { $0.name == name }) { return try Self.unmoved(exact) }
    let ending = all.filter { $0.name.hasSuffix("." + name) }
    let there = ending.filter { $0.movedTo == nil }
    if there.count == 1 { return there[0] }
    if there.count > 1 {
      throw DynamicObjectError(
        .ambiguousType,
        "Several types are called \(name). Write "
          + there.map(\.name).joined(separator: " or ") + ".")
    }
    if let moved = ending.first { return try Self.unmoved(moved) }
    let known = all.filter { $0.movedTo == nil }.map(\.name)
    throw DynamicObjectError(
      .unknownType,
      "No objects of a type \(name) are stored. "
        + (known.isEmpty
          ? "No type is: programs create them with LarderObjects."
          : "There are " + known.prefix(10).joined(separator: ", ")
            + (known.count > 10 ? " and \(known.count - 10) more." : ".")))
  }

  private static func unmoved(_ record: ObjectTypeRecord) throws -> ObjectTypeRecord {
    if let name = record.movedTo {
      throw DynamicObjectError(
        .movedType, "\(record.name) was migrated; its objects are of \(name) now.")
    }
    return record
  }

  // MARK: Reading

  /// Reads in one snapshot, and again in a fresh one when a page seems damaged, unless part of the
  /// answer has been given.
  func reading<R>(
    _ operation: String, hasAnswered: () -> Bool,
    _ body: (borrowing Snapshot) throws -> R
  ) throws -> R {
    let core = try store.openCore(operation)
    return try core.withSnapshot(operation) { snapshot in
      do {
        return try body(snapshot)
      } catch let error as LMDBError where hasAnswered() {
        throw DynamicObjectError(
          .interrupted,
          "A page seems damaged (\(error)), and part of the answer was given already. Try again; "
            + "`larder verify` tells whether it is.")
      }
    }
  }

  /// An object's value; `nil`: it cannot be read, which is reported.
  func object(_ stored: StoredObject) -> DynamicObject? {
    let id = String(decoding: stored.id, as: UTF8.self)
    guard CodecIdentifier(rawValue: stored.codec) == .cbor else {
      report("The object \"\(id)\" is stored by codec \(stored.codec), which is not CBOR.")
      return nil
    }
    do {
      return DynamicObject(
        sequence: stored.sequence, id: id, version: stored.version,
        value: try CBORValue(parsing: stored.bytes))
    } catch {
      report("The object \"\(id)\" is not readable: \(error.message)")
      return nil
    }
  }

  func tell(_ damage: DamagedObject) {
    report("Object number \(damage.sequence) is damaged and left out. Run `larder verify`.")
  }
}
