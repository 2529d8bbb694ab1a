// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderSystem

// Objects of a type as bytes: with the fields and references that are written with them, and back.

extension ObjectTypeDescriptor {
  /// An object as its bytes; what it refers to is told to the collector.
  func encode(_ object: Object, _ collector: ReferenceCollector) throws -> [UInt8] {
    try encode(object, with: ReferenceEncoder(collector))
  }

  /// - Parameter log: Where the fields are recorded that the object is written with.
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
        .unencodable, type: name, "The object cannot be encoded: \(error).",
        ids: [Self.text(of: object.id)])
    }
  }

  /// What is written for an object; the type's record learns what it refers to.
  func write(
    _ object: Object, _ record: inout ObjectTypeRecord, in transaction: inout StoreTransaction
  ) throws -> ObjectWrite {
    let collector = ReferenceCollector()
    let bytes = try encode(object, collector)
    return try write(object, bytes, collector, &record, in: &transaction)
  }

  /// The keys an object has in the declared indexes, and which of these are unique.
  func keys(
    of object: Object, _ record: ObjectTypeRecord
  ) -> (keys: [ObjectIndexKey], unique: [UInt32]) {
    var keys: [ObjectIndexKey] = []
    var unique: [UInt32] = []
    for position in declared.indices {
      let index = declared[position]
      // Mostly the catalog has them in the order of the declaration.
      guard
        let stored = position < record.indexes.count && record.indexes[position].name == index.name
          ? record.indexes[position] : record.indexes.first(where: { $0.name == index.name })
      else { continue }
      for key in index.keys(of: object) {
        keys.append(ObjectIndexKey(index: stored.number, bytes: key))
        if index.isUnique, !Index<Object>.isEmpty(key) { unique.append(stored.number) }
      }
    }
    return (keys, unique)
  }

  /// What is written for an object made by a migration; its children are not saved.
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
    return ObjectWrite(
      id: Self.bytes(of: object.id), bytes: bytes, codec: CodecIdentifier.cbor.rawValue,
      version: record.version, keys: keys, uniqueIndexes: unique)
  }

  func decode(_ stored: StoredObject) throws -> Object {
    try decode(stored, newDecoder()).object
  }

  func decode(_ stored: StoredObject, _ decoder: ReferenceDecoder) throws -> Decoded {
    try decode(stored.bytes, id: stored.id, decoder)
  }

  /// - Parameters:
  ///   - type: The type's number, where the object can be found by its sequence, too.
  ///   - log: Where the fields are recorded that the type requests.
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
      // What is wrong may be another object that this one cannot be without.
      let cause = error.underlyingError as? ObjectError
      throw ObjectError(
        .unreadable, type: name,
        "The object does not decode: \(cause?.description ?? "\(error)"). Migrate the type, or delete "
          + "the object.", ids: [String(decoding: id, as: UTF8.self)] + (cause?.ids ?? []))
    }
  }

  func damaged(_ damage: DamagedObject) -> ObjectError {
    ObjectError(
      .unreadable, type: name,
      "Object number \(damage.sequence) is damaged. Run `larder verify` on the store.")
  }

  /// A unique key that is taken, as the facade's error.
  func taken(_ error: UniqueKeyConflict, _ record: ObjectTypeRecord) -> ObjectError {
    let index = record.indexes.first { $0.number == error.index }?.name ?? "?"
    let holder = String(decoding: error.holder, as: UTF8.self)
    let id = String(decoding: error.id, as: UTF8.self)
    return ObjectError(
      .uniqueViolation, type: name,
      "\"\(id)\" has the same key of the unique index \"\(index)\" as \"\(holder)\", and is not "
        + "stored.", ids: [id, holder], index: index)
  }
}
