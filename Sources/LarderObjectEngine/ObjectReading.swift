// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
package import LarderLMDB
internal import LarderSystem

/// A verified copy of a stored object.
package struct StoredObject: Sendable {
  package let sequence: UInt64
  package let id: [UInt8]
  /// The encoded object, without its index keys: a map if it was stored with a layout.
  package let bytes: [UInt8]
  /// The codec of ``bytes``.
  package let codec: UInt16
  /// The schema version of the write.
  package let version: UInt32
  /// The commit version of the transaction that wrote it.
  package let commitVersion: UInt64
  package let created: Int64
}

/// The metadata of a stored object: everything except its id and its bytes.
package struct StoredObjectMetadata: Sendable {
  package let type: UInt32
  package let sequence: UInt64
  /// The codec of the object as it is stored; see ``ObjectLayout/codec``.
  package let codec: UInt16
  package let version: UInt32
  /// The commit version of the transaction that wrote it.
  package let commitVersion: UInt64
  package let created: Int64
}

/// The error for an object whose record is unreadable.
package struct DamagedObject: Error, Sendable {
  package let sequence: UInt64

  package init(sequence: UInt64) { self.sequence = sequence }
}

extension Snapshot {
  /// Returns the record of the object of a sequence, or `nil` if there is no such object.
  @_lifetime(borrow self)
  package func objectRecord(type: UInt32, sequence: UInt64) throws(LMDBError) -> RawSpan? {
    try transaction.value(
      forKey: PackedKey.object(type: type, sequence: sequence), in: generation.objects)
  }
}

/// Look-ups of objects in one snapshot.
package enum ObjectReading {
  package static func type(
    named name: String, _ snapshot: borrowing Snapshot
  ) throws -> ObjectTypeRecord? {
    guard let bytes = try snapshot.transaction.value(forKey: ObjectTypeRecord.key(name), in: .main)
    else {
      return nil
    }
    // A missing record would let a program declare the type again, which hides the stored objects.
    guard let record = snapshot.generation.typeRecord(named: name, bytes) else {
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
    // Default counters would assign sequences a second time.
    guard let books = ObjectTypeCounters(bytes) else {
      throw LMDBError(.corrupted, during: "the counters of a type")
    }
    return books
  }

  // MARK: One object

  /// Returns the sequence of the object of an id, or `nil` if there is no such object.
  package static func sequence(
    type: UInt32, id: [UInt8], in snapshot: borrowing Snapshot
  ) throws -> UInt64? {
    let hash = ObjectFormat.hash(type: type, id: id, in: snapshot.generation)
    return try lookUp(type: type, id: id, hash: hash, in: snapshot).sequence
  }

  /// Returns the sequence of the object of an id with its hash, and whether no id has that hash.
  static func lookUp(
    type: UInt32, id: [UInt8], hash: UInt64, in snapshot: borrowing Snapshot
  ) throws -> (sequence: UInt64?, isHashFree: Bool) {
    let key = ObjectFormat.idKey(hash, snapshot.generation.meta)
    guard let items = try snapshot.transaction.value(forKey: key, in: snapshot.generation.ids)
    else { return (nil, true) }
    var offset = 0
    while let (found, sequence) = ObjectFormat.idItem(items, at: &offset) {
      guard found == type else { continue }
      // The hash is keyed and collides rarely, but only the id identifies the object.
      if try hasID(id, type, sequence, snapshot) { return (sequence, false) }
    }
    return (nil, false)
  }

  /// Passes the parts of the object of an id to `body`, without copying them if they are stored in
  /// one piece.
  ///
  /// - Parameter hash: The hash of the id from `Generation.objectHash`.
  /// - Returns: The result of `body`, or `nil` if there is no such object.
  /// - Throws: ``DamagedObject``; errors of `body`.
  package static func withObject<R>(
    type: UInt32, id: [UInt8], hash: UInt64, in snapshot: borrowing Snapshot,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R? {
    let key = ObjectFormat.idKey(hash, snapshot.generation.meta)
    guard let items = try snapshot.transaction.value(forKey: key, in: snapshot.generation.ids)
    else { return nil }
    var offset = 0
    while let (found, sequence) = ObjectFormat.idItem(items, at: &offset) {
      guard found == type,
        let record = try snapshot.objectRecord(type: type, sequence: sequence),
        try hasID(id, record, snapshot)
      else { continue }
      return try withObject(at: record, type, sequence, snapshot, body)
    }
    return nil
  }

  private static func hasID(
    _ id: [UInt8], _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    guard let record = try snapshot.objectRecord(type: type, sequence: sequence) else {
      return false
    }
    return try hasID(id, record, snapshot)
  }

  private static func hasID(
    _ id: [UInt8], _ record: RawSpan, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    guard let header = ObjectHeader(in: record), header.idLength == id.count else { return false }
    if let chunks = header.chunks {
      return try snapshot.content(of: chunks, length: id.count) == id
    }
    return record.slice(header.contentStart..<(header.contentStart + id.count))!.equals(id)
  }

  /// Returns a copy of the object of a sequence, or `nil` if there is no such object.
  ///
  /// - Throws: ``DamagedObject``.
  package static func object(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot
  ) throws -> StoredObject? {
    guard let record = try snapshot.objectRecord(type: type, sequence: sequence) else {
      return nil
    }
    return try object(in: record, type, sequence, snapshot)
  }

  /// Returns a verified copy of a record.
  static func object(
    in record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> StoredObject {
    try withObject(at: record, type, sequence, snapshot) { head, id, object in
      try StoredObject(head, id: id, object, in: snapshot)
    }
  }

  /// Verifies a record and passes its parts to `body`, without copying them if they are stored in
  /// one piece.
  ///
  /// - Throws: ``DamagedObject``; errors of `body`.
  static func withObject<R>(
    at record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R {
    guard let header = ObjectHeader(in: record) else { throw DamagedObject(sequence: sequence) }
    if header.isChunked {
      let (header, content) = try checked(record, type, sequence, snapshot)
      return try content.withRawSpan { content in
        try parts(of: content, header, type, sequence, body)
      }
    }
    guard header.isIntact(in: record, type: type, sequence: sequence) else {
      throw DamagedObject(sequence: sequence)
    }
    let content = record.slice(header.contentStart..<record.byteCount)!
    return try parts(of: content, header, type, sequence, body)
  }

  private static func parts<R>(
    of content: RawSpan, _ header: ObjectHeader, _ type: UInt32, _ sequence: UInt64,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R {
    let payload = content.slice(header.idLength..<content.byteCount)!
    guard
      let start = ObjectFormat.objectStart(payload),
      let object = payload.slice(start..<payload.byteCount)
    else { throw DamagedObject(sequence: sequence) }
    let head = StoredObjectMetadata(
      type: type, sequence: sequence, codec: header.codec, version: header.version,
      commitVersion: header.commitVersion,
      created: header.created)
    return try body(head, content.slice(0..<header.idLength)!, object)
  }

  /// Passes the parts of the object of a sequence to `body`.
  ///
  /// - Returns: The result of `body`, or `nil` if there is no such object.
  /// - Throws: ``DamagedObject``; errors of `body`.
  package static func withObject<R>(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> R
  ) throws -> R? {
    guard let record = try snapshot.objectRecord(type: type, sequence: sequence) else {
      return nil
    }
    return try withObject(at: record, type, sequence, snapshot, body)
  }

  /// Returns the header of a record, and its id and payload, after verifying the checksum.
  package static func checked(
    _ record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> (ObjectHeader, [UInt8]) {
    guard let header = ObjectHeader(in: record) else { throw DamagedObject(sequence: sequence) }
    if let chunks = header.chunks {
      guard let content = try snapshot.content(of: chunks, length: header.contentLength),
        header.isIntact(in: record, with: content, type: type, sequence: sequence)
      else { throw DamagedObject(sequence: sequence) }
      return (header, content)
    }
    guard header.isIntact(in: record, type: type, sequence: sequence) else {
      throw DamagedObject(sequence: sequence)
    }
    return (header, record.slice(header.contentStart..<record.byteCount)!.copied())
  }

  /// Returns the index keys that a record owns.
  ///
  /// - Throws: ``DamagedObject``.
  package static func indexKeys(
    type: UInt32, sequence: UInt64, in snapshot: borrowing Snapshot
  ) throws -> [ObjectIndexKey] {
    guard let record = try snapshot.objectRecord(type: type, sequence: sequence) else {
      return []
    }
    return try indexKeys(of: record, type, sequence, snapshot)
  }

  static func indexKeys(
    of record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ snapshot: borrowing Snapshot
  ) throws -> [ObjectIndexKey] {
    let (header, content) = try checked(record, type, sequence, snapshot)
    let keys = content.withRawSpan { content in
      ObjectFormat.indexKeys(content.slice(header.idLength..<content.byteCount)!)?.keys
    }
    guard let keys else { throw DamagedObject(sequence: sequence) }
    return keys
  }
}
