// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
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
  package let label: UInt64
  package let created: Int64
}

/// Why a record cannot be read.
package struct DamagedObject: Error, Sendable {
  package let sequence: UInt64
}

/// Looking up objects in one snapshot, or in a write transaction with its own changes.
package enum ObjectReading {
  package static func type(
    named name: String, _ transaction: borrowing ReadTransaction
  ) throws -> ObjectTypeRecord? {
    guard let bytes = try transaction.value(forKey: ObjectTypeRecord.key(name), in: .main) else {
      return nil
    }
    // Not "none": whoever declared the type anew would hide what is stored.
    guard let record = ObjectTypeRecord(bytes) else {
      throw LMDBError(.corrupted, during: "the record of a type")
    }
    return record
  }

  package static func types(
    _ transaction: borrowing ReadTransaction
  ) throws -> [ObjectTypeRecord] {
    var result: [ObjectTypeRecord] = []
    let prefix = Array("t:".utf8)
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: prefix)
    while more {
      guard cursor.currentKey.slice(0..<2)?.equals(prefix) ?? false else { break }
      if let record = ObjectTypeRecord(cursor.currentValue) { result.append(record) }
      more = try cursor.moveToNext()
    }
    return result
  }

  package static func books(
    _ type: UInt32, _ transaction: borrowing ReadTransaction
  ) throws -> ObjectTypeBooks {
    guard let bytes = try transaction.value(forKey: ObjectTypeBooks.key(type), in: .main) else {
      return ObjectTypeBooks()
    }
    // Sequences would be given a second time.
    guard let books = ObjectTypeBooks(bytes) else {
      throw LMDBError(.corrupted, during: "the books of a type")
    }
    return books
  }

  // MARK: One object

  /// The sequence of an id; `nil`: there is no such object.
  package static func sequence(
    type: UInt32, id: [UInt8], in generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> UInt64? {
    let hash = ObjectFormat.hash(type: type, id: id, in: generation)
    guard let items = try transaction.value(forKey: hash, in: generation.ids) else { return nil }
    var offset = 0
    while let found: UInt32 = items.integer(at: offset),
      let sequence: UInt64 = items.integer(at: offset + 4)
    {
      offset += ObjectFormat.idItemSize
      guard found == type else { continue }
      // One item nearly always, and the hash is keyed: still the id decides.
      if try hasID(id, type, sequence, generation, transaction) { return sequence }
    }
    return nil
  }

  private static func hasID(
    _ id: [UInt8], _ type: UInt32, _ sequence: UInt64, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> Bool {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard
      let record = try transaction.value(forKey: key, in: generation.objects),
      let item = try? Record.items(in: record).first
    else { return false }
    guard item.header.keyLength == id.count else { return false }
    if let chunks = item.chunks {
      return try content(chunks, id.count, generation, transaction) == id
    }
    return record.slice(EntryHeader.size..<(EntryHeader.size + id.count))?.equals(id) ?? false
  }

  private static func content(
    _ chunks: ChunkReference, _ length: Int, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [UInt8]? {
    try Record.chunkedContent(chunks, length: length) { id, body in
      guard let chunk = try transaction.value(forKey: id, in: generation.chunks) else {
        return false
      }
      return body(chunk)
    }
  }

  /// The object of a sequence.
  ///
  /// - Throws: ``DamagedObject``.
  package static func object(
    type: UInt32, sequence: UInt64, in generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> StoredObject? {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard let record = try transaction.value(forKey: key, in: generation.objects) else {
      return nil
    }
    return try object(in: record, type, sequence, generation, transaction)
  }

  /// Reads and checks a record.
  static func object(
    in record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> StoredObject {
    let (header, content) = try checked(record, type, sequence, generation, transaction)
    let payload = Array(content[header.keyLength...])
    let start = payload.withRawSpan { ObjectFormat.objectStart($0) }
    guard let start else { throw DamagedObject(sequence: sequence) }
    return StoredObject(
      sequence: sequence, id: Array(content[..<header.keyLength]), bytes: Array(payload[start...]),
      codec: header.codec, version: header.epoch, label: header.label, created: header.created)
  }

  /// Id and payload of a record whose checksum is right.
  static func checked(
    _ record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> (EntryHeader, [UInt8]) {
    guard
      let item = try? Record.items(in: record).first, item.header.namespace == type,
      item.header.keyTag == ObjectFormat.keyTag
    else { throw DamagedObject(sequence: sequence) }
    let header = item.header
    var content: [UInt8]?
    if let chunks = item.chunks {
      content = try self.content(chunks, header.contentLength, generation, transaction)
    } else {
      let start = EntryHeader.size
      content = record.slice(start..<(start + header.contentLength))?.copied()
    }
    guard let content else { throw DamagedObject(sequence: sequence) }
    let hash = content.withRawSpan { content in
      XXH64.hash(
        content.slice(header.keyLength..<content.byteCount)!,
        seed: XXH64.hash(content.slice(0..<header.keyLength)!))
    }
    guard header.isIntact(header: record.slice(0..<EntryHeader.size)!, contentHash: hash) else {
      throw DamagedObject(sequence: sequence)
    }
    return (header, content)
  }

  /// The index keys a record owns.
  ///
  /// - Throws: ``DamagedObject``.
  package static func indexKeys(
    type: UInt32, sequence: UInt64, in generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> [ObjectIndexKey] {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    guard let record = try transaction.value(forKey: key, in: generation.objects) else { return [] }
    let (header, content) = try checked(record, type, sequence, generation, transaction)
    let keys = content.withRawSpan { content in
      ObjectFormat.indexKeys(content.slice(header.keyLength..<content.byteCount)!)?.keys
    }
    guard let keys else { throw DamagedObject(sequence: sequence) }
    return keys
  }

  // MARK: Many

  /// Walks the objects of a type in the order of insertion, or backwards.
  ///
  /// - Parameters:
  ///   - start: The first sequence; backwards the last.
  ///   - body: Given the object, or what is wrong with it; `false` ends the walk.
  package static func scan(
    type: UInt32, from start: UInt64? = nil, backwards: Bool = false, in generation: Generation,
    _ transaction: borrowing ReadTransaction,
    _ body: (Result<StoredObject, DamagedObject>) throws -> Bool
  ) throws {
    var cursor = try Cursor(over: generation.objects, in: transaction)
    var more: Bool
    if backwards {
      more = try move(
        &cursor, below: ObjectFormat.objectKey(type: type, sequence: start ?? .max))
    } else {
      more = try cursor.move(
        atLeast: ObjectFormat.objectKey(type: type, sequence: start ?? 0))
    }
    while more {
      guard
        let sequence = ObjectFormat.sequence(ofObjectKey: cursor.currentKey, type: type)
      else { return }
      let found: Result<StoredObject, DamagedObject>
      do {
        found = .success(
          try object(in: cursor.currentValue, type, sequence, generation, transaction))
      } catch let damage as DamagedObject {
        found = .failure(damage)
      }
      guard try body(found) else { return }
      more = backwards ? try cursor.moveToPrevious() : try cursor.moveToNext()
    }
  }

  /// Moves to the last key that is not above `key`.
  @_lifetime(cursor: copy cursor)
  static func move(_ cursor: inout Cursor, below key: [UInt8]) throws -> Bool {
    guard try cursor.move(atLeast: key) else { return try cursor.moveToLast() }
    let isExact = cursor.currentKey.equals(key)
    return isExact ? true : try cursor.moveToPrevious()
  }

  /// Walks the entries of an index whose keys are in a range of bytes.
  ///
  /// - Parameters:
  ///   - lower: The first key, or a part all keys begin with that are not below it.
  ///   - upper: Keys are below this; `nil`: no limit.
  ///   - body: Given the key's bytes and the object's sequence; `false` ends the walk.
  package static func scanIndex(
    _ index: UInt32, from lower: [UInt8] = [], below upper: [UInt8]? = nil,
    backwards: Bool = false, in generation: Generation,
    _ transaction: borrowing ReadTransaction,
    _ body: (_ key: RawSpan, _ sequence: UInt64) throws -> Bool
  ) throws {
    var cursor = try Cursor(over: generation.indexes, in: transaction)
    let first = ObjectFormat.indexPrefix(index, lower)
    let last =
      upper.map { ObjectFormat.indexPrefix(index, $0) } ?? ObjectFormat.indexPrefix(index &+ 1)
    var more: Bool
    if backwards {
      more = try cursor.move(atLeast: last)
      more = more ? try cursor.moveToPrevious() : try cursor.moveToLast()
    } else {
      more = try cursor.move(atLeast: first)
    }
    while more {
      do {
        let entry = cursor.currentKey
        guard let sequence = ObjectFormat.sequence(ofIndexEntry: entry, index: index) else {
          return
        }
        let key = entry.slice(4..<(entry.byteCount - 8))!
        if backwards {
          if key.precedes(lower) { return }
        } else if let upper, !key.precedes(upper) {
          return
        }
        guard try body(key, sequence) else { return }
      }
      more = backwards ? try cursor.moveToPrevious() : try cursor.moveToNext()
    }
  }
}
