// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// Encoding of objects to bytes with the fields and references that belong to them, and decoding.

extension ObjectTypeDescriptor {
  /// Returns the encoded object. The collector receives its references.
  func encode(_ object: Object, _ collector: ReferenceCollector) throws -> [UInt8] {
    try encode(object, with: ReferenceEncoder(collector))
  }

  /// Returns the encoded object.
  ///
  /// - Parameter log: The log that records the fields that are written.
  func encode(
    _ object: Object, with encoder: ReferenceEncoder, log: CBORFieldLog? = nil
  ) throws -> [UInt8] {
    do {
      return try encoder.cbor.encode(object, log: log)
    } catch {
      if let cause = error.underlyingError as? ObjectError, cause.code == .notLoaded {
        throw ObjectError(
          .notLoaded, type: name, cause.message, ids: [Self.text(of: object.id)] + cause.ids)
      }
      throw ObjectError(
        .unencodable, type: name,
        "The object cannot be encoded: \(error). Correct the value or its encode(to:).",
        ids: [Self.text(of: object.id)])
    }
  }

  /// Returns the fields of an object, or `nil` if it must be encoded as a map: because some of its
  /// fields are no scalars, or because it may refer to other objects.
  func fields(of object: Object) -> StoredObjectWriter? {
    guard let layout, !hasReferences, writesFields.load(ordering: .relaxed) else { return nil }
    let fields = StoredObjectWriter(layout)
    // An error of a value is reported by the encoding as a map.
    guard (try? object.encode(to: fields)) != nil, fields.isComplete else {
      writesFields.store(false, ordering: .relaxed)
      return nil
    }
    return fields
  }

  /// Returns the number of the layout with which objects are written, or `nil` if an object must be
  /// encoded as a map first: to compare the declaration with the type's record, or for indexes of
  /// other programs.
  func layoutNumber(_ record: ObjectTypeRecord) -> Int? {
    guard record.references == nil, undeclaredIndexes(of: record).isEmpty, let layout,
      schema.withLock({ $0.agreed?.isAbout(record) ?? false })
    else { return nil }
    return record.layouts?.number(of: layout)
  }

  /// Returns the write for the fields of an object, or `nil` if the object must be encoded as a map.
  func write(
    _ object: Object, _ fields: StoredObjectWriter, _ type: PreparedType
  ) -> ObjectWrite? {
    guard let number = type.layoutNumber, let bytes = fields.packed(number: number) else {
      return nil
    }
    let (keys, unique) = keys(of: object, type.indexes)
    return ObjectWrite(
      id: Self.bytes(of: object.id), bytes: bytes, codec: ObjectLayout.codec,
      version: type.record.version, keys: keys, uniqueIndexes: unique)
  }

  /// Returns the write for an object, and updates the type's record with its references.
  func write(
    _ object: Object, _ record: inout ObjectTypeRecord, in transaction: inout StoreTransaction
  ) throws -> ObjectWrite {
    let collector = ReferenceCollector()
    let bytes = try encode(object, collector)
    return try write(object, bytes, collector, &record, in: &transaction)
  }

  /// Returns the keys of an object in the declared indexes, and the identifiers of the unique ones.
  func keys(
    of object: Object, _ record: ObjectTypeRecord
  ) -> (keys: [ObjectIndexKey], unique: [UInt32]) {
    keys(of: object, indexNumbers(record))
  }

  /// Returns the identifiers of the declared indexes, in their order.
  func indexNumbers(_ record: ObjectTypeRecord) -> [UInt32?] {
    declared.map { index in record.indexes.first { index.isKept(as: $0) }?.number }
  }

  /// Returns the keys of an object in the declared indexes, and the identifiers of the unique ones.
  ///
  /// - Parameter numbers: The identifiers from ``indexNumbers(_:)``.
  private func keys(
    of object: Object, _ numbers: [UInt32?]
  ) -> (keys: [ObjectIndexKey], unique: [UInt32]) {
    var keys: [ObjectIndexKey] = []
    var unique: [UInt32] = []
    keys.reserveCapacity(numbers.count)
    for position in numbers.indices {
      guard let number = numbers[position] else { continue }
      for key in declared[position].keys(of: object) {
        let key = ObjectIndexKey(index: number, bytes: key)
        keys.append(key)
        if declared[position].isUnique, !key.isEmpty { unique.append(number) }
      }
    }
    return (keys, unique)
  }

  /// Returns the write for an object that a migration created. Its children are not saved.
  func writeMigrated(_ object: Object, _ record: ObjectTypeRecord) throws -> ObjectWrite {
    let collector = ReferenceCollector()
    let bytes = try encode(object, collector)
    var (keys, unique) = self.keys(of: object, record)
    if let references = record.references {
      keys += ReferenceIndex.keys(collector.links, references.number)
    }
    return ObjectWrite(
      id: Self.bytes(of: object.id), bytes: bytes, codec: CodecIdentifier.cbor.rawValue,
      version: record.version, keys: keys, uniqueIndexes: unique)
  }

  func write(
    _ object: Object, _ bytes: [UInt8], _ collector: ReferenceCollector,
    _ record: inout ObjectTypeRecord, in transaction: inout StoreTransaction
  ) throws -> ObjectWrite {
    try declare(collector, of: object, &record, in: &transaction)
    var (keys, unique) = keys(of: object, record)
    if let references = record.references {
      keys += ReferenceIndex.keys(collector.links, references.number)
    }
    let undeclared = undeclaredIndexes(of: record)
    if !undeclared.isEmpty {
      try transaction.declareNotes(&record)
      keys += record.notes(for: undeclared)
    }
    return ObjectWrite(
      id: Self.bytes(of: object.id), bytes: bytes, codec: CodecIdentifier.cbor.rawValue,
      version: record.version, keys: keys, uniqueIndexes: unique)
  }

  /// Returns whether a record may have indexes that the program does not declare.
  func mayLackIndexes(_ record: ObjectTypeRecord) -> Bool {
    record.indexes.count > declared.count || record.indexes.contains { $0.replaced != nil }
  }

  /// Returns the stored indexes whose keys this program cannot compute.
  func undeclaredIndexes(of record: ObjectTypeRecord) -> [ObjectTypeRecord.Index] {
    guard mayLackIndexes(record) else { return [] }
    return record.indexes.filter { stored in
      !stored.isInternal && !declared.contains { $0.isKept(as: stored) }
    }
  }

  /// Keeps the keys of a stored object in undeclared indexes if the object does not change.
  func keepUndeclaredKeys(
    of old: RawSpan, _ oldKeys: [ObjectIndexKey], in write: inout ObjectWrite,
    _ record: ObjectTypeRecord
  ) {
    let undeclared = undeclaredIndexes(of: record)
    guard !undeclared.isEmpty, old.equals(write.bytes) else { return }
    let notes = record.allNotes(for: undeclared)
    write.keys.removeAll { notes.contains($0) }
    write.keys += oldKeys.filter { key in
      notes.contains(key) || undeclared.contains { $0.number == key.index }
    }
  }

  func decode(_ stored: StoredObject) throws -> Object {
    try decode(stored, newDecoder()).object
  }

  func decode(_ stored: StoredObject, _ decoder: ReferenceDecoder) throws -> Decoded {
    try decode(stored.bytes, id: stored.id, decoder)
  }

  /// Decodes an object as it is stored.
  ///
  /// - Parameters:
  ///   - object: The stored object, from the snapshot of `record`.
  ///   - head: The metadata of the object. The decoded object can also be found by its sequence number.
  ///   - id: The id, for errors.
  func decode(
    _ object: [UInt8], _ head: StoredObjectMetadata, id: RawSpan, _ record: ObjectTypeRecord,
    _ decoder: ReferenceDecoder, _ box: ObjectBox<Object>
  ) throws -> DecodedObject {
    guard head.codec == ObjectLayout.codec else {
      return try decode(object, id: id.copied(), decoder, type: head.type, sequence: head.sequence)
    }
    let layouts = record.layouts ?? ObjectLayouts()
    if layout != nil, !hasReferences,
      let fields = StoredObjectFields(object, layouts, decoder.cbor),
      let decoded = try? box.decode(fields, head.type, head.sequence), !decoder.context.wasUsed
    {
      return decoded
    }
    // With the context and the errors of all other objects.
    guard let map = object.withRawSpan({ layouts.expanded($0) }) else {
      throw damaged(DamagedObject(sequence: head.sequence))
    }
    return try decode(map, id: id.copied(), decoder, type: head.type, sequence: head.sequence)
  }

  /// Decodes an object.
  ///
  /// - Parameters:
  ///   - type: The type identifier, if the object can also be found by its sequence number.
  ///   - log: The log that records the fields that the type requests.
  func decode(
    _ bytes: [UInt8], id: [UInt8], _ decoder: ReferenceDecoder, type: UInt32 = 0,
    sequence: UInt64 = 0,
    log: CBORFieldLog? = nil
  ) throws -> Decoded {
    do {
      let object = try decoder.cbor.decode(Object.self, from: bytes, log: log)
      let context = decoder.context
      guard context.wasUsed else {
        return Decoded(object: object, context: nil, type: type, sequence: sequence)
      }
      markReferences()
      return Decoded(object: object, context: context)
    } catch {
      // The cause may be another object that this one requires.
      let cause = error.underlyingError as? ObjectError
      throw ObjectError(
        .unreadable, type: name,
        "The object cannot be decoded: \(cause?.description ?? "\(error)"). Migrate the type, or "
          + "delete the object.", ids: [String(decoding: id, as: UTF8.self)] + (cause?.ids ?? []))
    }
  }

  func damaged(_ damage: DamagedObject) -> ObjectError {
    ObjectError(
      .unreadable, type: name,
      "The object with sequence number \(damage.sequence) is damaged. Run `larder verify` on the "
        + "store.")
  }
}

extension ObjectTypeRecord {
  /// Returns the error for two stored objects that violate a new unique index.
  func violation(ofNewIndex error: UniqueKeyConflict) -> ObjectError {
    let index = indexes.first { $0.number == error.index }?.name ?? "?"
    let holder = String(decoding: error.holder, as: UTF8.self)
    let id = String(decoding: error.id, as: UTF8.self)
    return ObjectError(
      .uniqueViolation, type: name,
      "The stored objects \"\(holder)\" and \"\(id)\" have the same key in the new unique index "
        + "\"\(index)\", so no query uses it; saves are checked by it. Change or delete one of the "
        + "objects, and call prepare(_:).", ids: [holder, id], index: index)
  }

  /// Returns the error for a violation of a unique index.
  func violation(_ error: UniqueKeyConflict) -> ObjectError {
    let index = indexes.first { $0.number == error.index }?.name ?? "?"
    let holder = String(decoding: error.holder, as: UTF8.self)
    let id = String(decoding: error.id, as: UTF8.self)
    return ObjectError(
      .uniqueViolation, type: name,
      "\"\(id)\" was not stored: \"\(holder)\" has the same key in the unique index \"\(index)\". "
        + "Change the value, or delete the other object.", ids: [id, holder], index: index)
  }
}
