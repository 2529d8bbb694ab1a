// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// An object as it is stored, copied out and checked.
package struct StoredObject: Sendable {
  package let sequence: UInt64
  package let id: [UInt8]
  /// The object alone, as its codec wrote it.
  package let bytes: [UInt8]
  package let codec: UInt16
  /// The schema version it was written under.
  package let version: UInt32
  /// The label of the transaction that wrote it.
  package let commitVersion: UInt64
  package let created: Int64
}

/// What is known of an object besides its id and its bytes.
package struct StoredObjectMetadata: Sendable {
  package let sequence: UInt64
  package let codec: UInt16
  package let version: UInt32
  /// The label of the transaction that wrote it.
  package let commitVersion: UInt64
  package let created: Int64
}

/// Why a record cannot be read.
package struct DamagedObject: Error, Sendable {
  package let sequence: UInt64
}

/// Looking up objects in one snapshot, or in a write transaction with its own changes.
package enum ObjectReading {
  package static func type(
    named name: String, _ snapshot: borrowing Snapshot
  ) throws -> ObjectTypeRecord? {
    guard let bytes = try snapshot.transaction.value(forKey: ObjectTypeRecord.key(name), in: .main)
    else {
      return nil
    }
    // Not "none": whoever declared the type anew would hide what is stored.
    guard let record = ObjectTypeRecord(bytes) else {
      throw ChecksummedRecord.flaw(
        of: ObjectTypeRecord.self, bytes, "the record of the type \"\(name)\"")
    }
    return record
  }

  package static func types(
    _ snapshot: borrowing Snapshot
  ) throws -> [ObjectTypeRecord] {
    var result: [ObjectTypeRecord] = []
    let prefix = Array("t:".utf8)
    var cursor = try Cursor(over: .main, in: snapshot.transaction)
    var more = try cursor.move(atLeast: prefix)
    while more {
      guard cursor.currentKey.slice(0..<2)?.equals(prefix) ?? false else { break }
      if let record = ObjectTypeRecord(cursor.currentValue) { result.append(record) }
      more = try cursor.moveToNext()
    }
    return result
  }

  package static func books(
    _ type: UInt32, _ snapshot: borrowing Snapshot
  ) throws -> ObjectTypeCounters {
    guard
      let bytes = try snapshot.transaction.value(forKey: ObjectTypeCounters.key(type), in: .main)
    else {
      return ObjectTypeCounters()
    }
    // Sequences would be given a second time.
    guard let books = ObjectTypeCounters(bytes) else {
      throw LMDBError(.corrupted, during: "the books of a type")
    }
    return books
  }

  // MARK: One object

  /// The sequence of an id; `nil`: there is no such object.
  package static func sequence(
    type: UInt32, id: [UInt8], in snapshot: borrowing Snapshot
  ) throws -> UInt64? {
    let hash = ObjectFormat.hash(type: type, id: id, in: snapshot.generation)
    let key = ObjectFormat.idKey(hash, snapshot.generation.meta)
    guard let items = try snapshot.transaction.value(forKey: key, in: snapshot.generation.ids)
    else { return nil }
    var offset = 0
    while let found: UInt32 = items.integer(at: offset),
      let sequence: UInt64 = items.integer(at: offset + 4)
    {
      offset += ObjectFormat.idItemSize
      guard found == type else { continue }
      // One item nearly always, and the hash is keyed: still the id decides.
      if try hasID(id, type, sequence, snapshot) { return sequence }
    }
    return nil
  }

  /// Lends the parts of the object of an id.
  ///
  /// - Parameter hash: That of the id, as `Generation.objectHash` gives it.
  /// - Returns: `nil`: there is none.
  /// - Throws: ``DamagedObject``, and what `body` throws.
  package static func withObject<R>(
    type: UInt32, id: [UInt8], hash: UInt64, in snapshot: borrowing Snapshot,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R? {
    let key = ObjectFormat.idKey(hash, snapshot.generation.meta)
    guard let items = try snapshot.transaction.value(forKey: key, in: snapshot.generation.ids)
    else { return nil }
    var offset = 0
    while let found: UInt32 = items.integer(at: offset),
      let sequence: UInt64 = items.integer(at: offset + 4)
    {
      offset += ObjectFormat.idItemSize
      let key = ObjectFormat.objectKey(type: type, sequence: sequence)
      guard found == type,
        let record = try snapshot.transaction.value(forKey: key, in: snapshot.generation.objects),
        try hasID(id, record, snapshot)
      else { continue }
      return try withObject(at: record, type, sequence, snapshot, body)
    }
    return nil
  }

  private static func hasID(
    _ id: [UInt8], _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard let record = try snapshot.transaction.value(forKey: key, in: snapshot.generation.objects)
    else {
      return false
    }
    return try hasID(id, record, snapshot)
  }

  private static func hasID(
    _ id: [UInt8], _ record: RawSpan, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    guard let header = try? EntryHeader(in: record, at: 0), header.keyLength == id.count else {
      return false
    }
    if header.isChunked {
      return try snapshot.content(of: header, in: record, at: 0, length: id.count) == id
    }
    return record.slice(EntryHeader.size..<(EntryHeader.size + id.count))?.equals(id) ?? false
  }

  /// The object of a sequence.
  ///
  /// - Throws: ``DamagedObject``.
  package static func object(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot
  ) throws -> StoredObject? {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard let record = try snapshot.transaction.value(forKey: key, in: snapshot.generation.objects)
    else {
      return nil
    }
    return try object(in: record, type, sequence, snapshot)
  }

  /// Reads and checks a record.
  static func object(
    in record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> StoredObject {
    try withObject(at: record, type, sequence, snapshot) { head, id, object in
      StoredObject(
        sequence: sequence, id: id.copied(), bytes: object.copied(), codec: head.codec,
        version: head.version, commitVersion: head.commitVersion, created: head.created)
    }
  }

  /// Checks a record and lends its parts, without copying them where they lie in one piece.
  ///
  /// - Throws: ``DamagedObject``, and what `body` throws.
  static func withObject<R>(
    at record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R {
    guard let header = try? EntryHeader(in: record, at: 0) else {
      throw DamagedObject(sequence: sequence)
    }
    if header.isChunked {
      let (header, content) = try checked(record, type, sequence, snapshot)
      return try content.withRawSpan { content in
        try parts(of: content, header, sequence, body)
      }
    }
    guard
      header.namespace == type, header.keyTag == ObjectFormat.keyTag,
      let content = record.slice(EntryHeader.size..<(EntryHeader.size + header.contentLength)),
      header.isIntact(contentHash: EntryHeader.contentHash(content, keyLength: header.keyLength))
    else { throw DamagedObject(sequence: sequence) }
    return try parts(of: content, header, sequence, body)
  }

  private static func parts<R>(
    of content: RawSpan, _ header: EntryHeader, _ sequence: UInt64,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R {
    let payload = content.slice(header.keyLength..<content.byteCount)!
    guard
      let start = ObjectFormat.objectStart(payload),
      let object = payload.slice(start..<payload.byteCount)
    else { throw DamagedObject(sequence: sequence) }
    let head = StoredObjectMetadata(
      sequence: sequence, codec: header.codec, version: header.epoch,
      commitVersion: header.commitVersion,
      created: header.created)
    return try body(head, content.slice(0..<header.keyLength)!, object)
  }

  /// Lends the parts of one object.
  ///
  /// - Returns: `nil`: there is none.
  /// - Throws: ``DamagedObject``, and what `body` throws.
  package static func withObject<R>(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R? {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard let record = try snapshot.transaction.value(forKey: key, in: snapshot.generation.objects)
    else {
      return nil
    }
    return try withObject(at: record, type, sequence, snapshot, body)
  }

  /// Id and payload of a record whose checksum is right.
  package static func checked(
    _ record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> (EntryHeader, [UInt8]) {
    guard
      let header = try? EntryHeader(in: record, at: 0), header.namespace == type,
      header.keyTag == ObjectFormat.keyTag,
      let content = try snapshot.verifiedContent(of: header, in: record, at: 0)
    else { throw DamagedObject(sequence: sequence) }
    return (header, content)
  }

  /// The index keys a record owns.
  ///
  /// - Throws: ``DamagedObject``.
  package static func indexKeys(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot
  ) throws -> [ObjectIndexKey] {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard let record = try snapshot.transaction.value(forKey: key, in: snapshot.generation.objects)
    else { return [] }
    let (header, content) = try checked(record, type, sequence, snapshot)
    let keys = content.withRawSpan { content in
      ObjectFormat.indexKeys(content.slice(header.keyLength..<content.byteCount)!)?.keys
    }
    guard let keys else { throw DamagedObject(sequence: sequence) }
    return keys
  }
}
