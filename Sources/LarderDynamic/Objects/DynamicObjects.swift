// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderCoding
package import LarderEngine
package import LarderObjectEngine

/// A stored object without its Swift type.
package struct DynamicObject: Sendable {
  /// The sequence number.
  package let sequence: UInt64
  package let id: String
  /// The schema version of the program that wrote the object.
  package let version: UInt32
  /// The stored fields.
  package let value: CBORValue
}

/// The objects of a store, without their Swift types.
package struct DynamicObjects: Sendable {
  package let store: SharedStore
  /// Receives a description of each object that is omitted because it cannot be read.
  package let report: @Sendable (String) -> Void

  /// Creates the dynamic access to a store.
  ///
  /// - Parameters:
  ///   - store: The store.
  ///   - report: Receives a description of each object that is omitted because it cannot be read.
  package init(_ store: SharedStore, report: @escaping @Sendable (String) -> Void = { _ in }) {
    self.store = store
    self.report = report
  }

  /// A type and its counters.
  package struct Summary: Sendable {
    package let record: ObjectTypeRecord
    package let books: ObjectTypeCounters
  }

  /// Returns the types of the store in the order of their names, and the unfinished migrations, in
  /// one snapshot.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
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

  /// A migration and the counters of its source type.
  package struct MigrationSummary: Sendable {
    package let record: ObjectMigrationRecord
    /// The name of the source type, or `nil` if the type no longer exists.
    package let sourceName: String?
    package let source: ObjectTypeCounters
  }

  // MARK: Names

  /// Returns the type with a stored name, or with the only stored name that ends with a point and
  /// this name.
  ///
  /// - Parameter name: The name or its last part.
  /// - Returns: The record of the type.
  /// - Throws: ``DynamicObjectError`` if no type or several types have the name, or if a migration
  ///   renamed the type.
  package func type(named name: String) throws -> ObjectTypeRecord {
    let all = try summary().types.map(\.record)
    if let exact = all.first(where: { $0.name == name }) { return try Self.unmoved(exact) }
    let ending = all.filter { $0.name.hasSuffix("." + name) }
    let there = ending.filter { $0.movedTo == nil }
    if there.count == 1 { return there[0] }
    if there.count > 1 {
      throw DynamicObjectError(
        .ambiguousType,
        "Several types have the name \(name). Write "
          + there.map(\.name).joined(separator: " or ") + ".")
    }
    if let moved = ending.first { return try Self.unmoved(moved) }
    let known = all.filter { $0.movedTo == nil }.map(\.name)
    throw DynamicObjectError(
      .unknownType,
      "The store has no objects of a type \(name). "
        + (known.isEmpty
          ? "It has no types: programs create them with LarderObjects."
          : "There are " + known.prefix(10).joined(separator: ", ")
            + (known.count > 10 ? " and \(known.count - 10) more." : ".")))
  }

  private static func unmoved(_ record: ObjectTypeRecord) throws -> ObjectTypeRecord {
    if let name = record.movedTo {
      throw DynamicObjectError(
        .movedType,
        "\(record.name) was migrated: the type of its objects is \(name). Use that name.")
    }
    return record
  }

  // MARK: Reading

  /// Reads in one snapshot, and again in a new one if a page seems damaged, unless the caller
  /// already has part of the result.
  func reading<R>(
    _ operation: String, hasAnswered: () -> Bool,
    _ body: (borrowing Snapshot) throws -> R
  ) throws -> R {
    let core = try store.openCore(operation)
    do {
      return try core.withSnapshot(operation, canRepeat: { !hasAnswered() }, body)
    } catch let error as StoreError where error.code == .damaged && hasAnswered() {
      throw DynamicObjectError(
        .interrupted,
        "A page seems damaged (\(error)), and part of the result was already printed. Retry, or run "
          + "`larder verify` to check the store.")
    }
  }

  /// Returns an object, or `nil` after reporting why it cannot be read.
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
      report("The object \"\(id)\" cannot be parsed: \(error.message)")
      return nil
    }
  }

  func tell(_ damage: DamagedObject) {
    report("Object \(damage.sequence) is damaged and was omitted. Run `larder verify`.")
  }
}
