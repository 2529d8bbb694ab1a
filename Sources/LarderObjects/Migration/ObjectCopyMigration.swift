// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

/// A migration that converts each record of a type.
struct ObjectCopyMigration: Sendable {
  /// The type records of the source and of the target.
  struct Types: Sendable {
    let source: ObjectTypeRecord
    let target: ObjectTypeRecord
  }

  let source: String
  let target: String
  /// The schema version after the migration.
  let version: UInt32
  /// The newest version of the source that the migration accepts.
  let accepts: UInt32
  /// Returns the record of the target with zero for all its identifiers.
  let plan: @Sendable (ObjectTypeRecord) -> ObjectTypeRecord
  /// Returns the write for the new object, or `nil` to drop the object.
  let convert: @Sendable (MigratingObject, Types, ObjectStore) throws -> ObjectWrite?

  /// Returns whether a source requires the migration.
  ///
  /// - Throws: ``ObjectError/Code/migrationOrder`` if the migration cannot be applied to the source
  ///   any more.
  func isNeeded(_ name: String, for record: ObjectTypeRecord?) throws -> Bool {
    guard let record, record.movedTo == nil else { return false }
    if source == target, record.born ?? record.version >= version { return false }
    if let raised = record.raised, source == target, raised >= version {
      throw order(
        name,
        "the stored type was raised to version \(raised) without it. Raise schemaVersion again and "
          + "migrate to that version.")
    }
    if record.version > accepts {
      throw order(
        name,
        "the stored type has version \(record.version) already; it begins with version \(accepts) "
          + "at most.")
    }
    if source == target, version < record.version || accepts > version {
      throw order(name, "it does not lead to a newer version. Raise schemaVersion.")
    }
    return true
  }

  private func order(_ name: String, _ reason: String) -> ObjectError {
    ObjectError(
      .migrationOrder, type: source, "The migration \"\(name)\" cannot be applied: \(reason)")
  }
}

// MARK: Between Swift types

extension ObjectCopyMigration {
  init<Old: Storable, New: Storable>(_ migration: Migration<Old, New>) {
    source = Old.storedName
    target = New.storedName
    version = UInt32(clamping: New.schemaVersion)
    accepts = UInt32(clamping: Old.schemaVersion)
    plan = { record in
      var target = ObjectTypeRecord(
        number: 0, name: New.storedName, version: UInt32(clamping: New.schemaVersion),
        fingerprint: 0, indexes: [], migrations: record.migrations)
      target.indexes = New.allIndexes.map { index in
        ObjectTypeRecord.Index(
          number: 0, name: index.name, fields: index.fields, isUnique: index.isUnique,
          definition: index.definition, defaults: index.shape.defaults.texts, builtTo: nil)
      }
      // Uses the older version: the first save or prepare records the rules of the new one. Whether
      // the new objects have references is known only after the copy; without references the
      // cutover drops the index (`MigrationStepExecutor.cutOver`).
      target.indexes.append(
        ObjectTypeRecord.Index(
          number: 0, name: ReferenceIndex.name, fields: [], isUnique: false,
          definition: ReferenceIndex.definition(version: record.version), builtTo: nil))
      target.relations = record.relations
      target.layouts = New.declaredLayout.map { ObjectLayouts($0.names) }
      target.minimumReaderVersion = ObjectTypeDescriptor<New>.minimumReaderVersion
      return target
    }
    convert = { moving, types, store in
      let old = try store.kind(Old.self).decode(moving.stored)
      guard let new = try migration.convert(old) else {
        if migration.dropsNil { return nil }
        throw ObjectError(.migrationFailed, type: New.storedName, "There is no new object.")
      }
      return try store.kind(New.self).writeMigrated(new, types.target)
    }
  }
}

// MARK: Without Swift types

extension ObjectCopyMigration {
  init(_ type: String, _ version: UInt32, _ changes: [ObjectMigration.FieldChange]) {
    source = type
    target = type
    self.version = version
    // Several migrations may have the same target version.
    accepts = version
    plan = { Self.plan($0, version, changes) }
    convert = { moving, types, _ in
      guard moving.stored.codec == CodecIdentifier.cbor.rawValue,
        case .map(let pairs) = try CBORValue(parsing: moving.stored.bytes)
      else {
        throw ObjectError(.unreadable, type: type, "The object has no fields.")
      }
      let value = try Self.changed(pairs, changes)
      return ObjectWrite(
        id: moving.stored.id, bytes: value.encoded, codec: moving.stored.codec,
        version: types.target.version,
        // The keys are the same as before, so unique keys remain unique.
        keys: Self.keys(moving, types) + Self.references(moving, types, value, changes),
        uniqueIndexes: [])
    }
  }

  private static func plan(
    _ record: ObjectTypeRecord, _ version: UInt32, _ changes: [ObjectMigration.FieldChange]
  ) -> ObjectTypeRecord {
    var target = record
    target.number = 0
    target.version = version
    target.schema = nil
    target.fingerprint = 0
    target.minimumReaderVersion = nil
    target.raised = nil
    target.migration = nil
    if version > record.version { target.indexedIn = record.indexedIn ?? record.version }
    for change in changes {
      switch change {
      case .remove(let field):
        target.indexes.removeAll { index in
          index.fields.contains { Self.tail(of: $0, behind: field) != nil }
            || Self.isConditional(index, on: field)
        }
      case .dropIndex(let name): target.indexes.removeAll { $0.name == name }
      case .rename(let old, let new):
        for position in target.indexes.indices {
          target.indexes[position].fields = target.indexes[position].fields.map { path in
            Self.tail(of: path, behind: old).map { "\\.\(new)\($0)" } ?? path
          }
          target.indexes[position].defaults = target.indexes[position].defaults.map { defaults in
            let renamed = defaults.map { path, text in
              (Self.tail(of: path, behind: old).map { "\\.\(new)\($0)" } ?? path, text)
            }
            return Dictionary(renamed) { first, _ in first }
          }
        }
      case .add, .change: break
      }
    }
    target.relations = record.relations?.compactMap { relation in
      var relation = relation
      relation.path = renamed(relation.path, changes)
      let isGone = changes.contains { change in
        if case .remove(let field) = change { relation.path.first == field } else { false }
      }
      return isGone ? nil : relation
    }
    for position in target.indexes.indices {
      target.indexes[position].number = 0
      if target.indexes[position].builtTo != nil { target.indexes[position].builtTo = 0 }
      // Objects may get notes while they are copied; without any, the next program removes the mark.
      if record.notes != nil, !target.indexes[position].isInternal {
        target.indexes[position].isBehind = true
      }
    }
    return target
  }

  /// Returns the index keys of the record under the new identifiers.
  private static func keys(_ moving: MigratingObject, _ types: Types) -> [ObjectIndexKey] {
    moving.keys.compactMap { key in
      guard let old = types.source.indexes.first(where: { $0.number == key.index }),
        old.name != ReferenceIndex.name,
        let new = types.target.indexes.first(where: { $0.name == old.name })
      else { return nil }
      return ObjectIndexKey(index: new.number, bytes: key.bytes)
    }
  }

  /// Returns the reference index keys of the object.
  private static func references(
    _ moving: MigratingObject, _ types: Types, _ value: CBORValue,
    _ changes: [ObjectMigration.FieldChange]
  ) -> [ObjectIndexKey] {
    guard let old = types.source.references, let new = types.target.references else { return [] }
    let keys = moving.keys.filter { $0.index == old.number }.map(\.bytes)
    return ReferenceIndex.keys(of: value, were: keys) { renamed($0, changes) }.map {
      ObjectIndexKey(index: new.number, bytes: $0)
    }
  }

  /// Returns whether the condition of an index uses a field, which a program without the field
  /// cannot declare.
  private static func isConditional(
    _ index: ObjectTypeRecord.Index, on field: String
  ) -> Bool {
    guard let condition = index.definition.firstRange(of: " where ") else { return false }
    return index.definition[condition.upperBound...].split(separator: "\\.").contains { part in
      guard part.hasPrefix(field) else { return false }
      guard let next = part.dropFirst(field.count).first else { return true }
      return !(next.isLetter || next.isNumber || next == "_")
    }
  }

  /// Returns the rest of a key path after a field, or `nil` if the path begins with another field.
  private static func tail(of path: String, behind field: String) -> Substring? {
    guard path.hasPrefix("\\." + field) else { return nil }
    let tail = path.dropFirst(field.count + 2)
    return tail.isEmpty || ".?!".contains(tail.first!) ? tail : nil
  }

  /// Returns the path of a property after the changes.
  private static func renamed(
    _ path: [String], _ changes: [ObjectMigration.FieldChange]
  ) -> [String] {
    changes.reduce(into: path) { path, change in
      if case .rename(let old, let new) = change, path.first == old { path[0] = new }
    }
  }

  private static func changed(
    _ pairs: [CBORValue.Pair], _ changes: [ObjectMigration.FieldChange]
  ) throws -> CBORValue {
    var others: [CBORValue.Pair] = []
    var fields: [String: CBORValue] = [:]
    for pair in pairs {
      if case .text(let name) = pair.key { fields[name] = pair.value } else { others.append(pair) }
    }
    for change in changes {
      switch change {
      case .add(let field, let value):
        if fields[field] == nil { fields[field] = value }
      case .rename(let old, let new):
        if let value = fields.removeValue(forKey: old) { fields[new] = value }
      case .remove(let field): fields[field] = nil
      case .change(let body): try body(&fields)
      case .dropIndex: break
      }
    }
    return .map(others + fields.map { CBORValue.Pair(.text($0.key), $0.value) })
  }
}

/// A migration that rebuilds the indexes of a type.
struct IndexRebuildMigration: Sendable {
  let type: String
  /// Empties the indexes.
  let begin: @Sendable (inout ObjectTransaction) throws -> Void
  /// Builds a batch; returns `nil` if the indexes are complete.
  let step: @Sendable (inout ObjectTransaction) throws -> (done: Int, total: Int)?

  init<Object: Storable>(_ type: Object.Type) {
    self.type = Object.storedName
    begin = { transaction in
      var record = try transaction.store.kind(type).prepare(&transaction.entries)
      for position in record.indexes.indices
      where record.indexes[position].name != UnindexedNotes.name {
        try transaction.entries.dropObjectNumber(record.indexes[position].number, isIndex: true)
        record.indexes[position].number = try transaction.entries.newNumber(
          for: record.indexes[position])
        record.indexes[position].builtTo = 0
      }
      try transaction.entries.putObjectType(record)
    }
    step = { transaction in
      try transaction.store.kind(type).buildStep(&transaction)
    }
  }
}
