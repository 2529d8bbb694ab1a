// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

// The checks of verify() on objects: each record's checksum, its id entry, exactly the index keys
// that it owns, and the counters of each type.

extension StoreVerification {
  private struct Found {
    var objects: UInt64 = 0
    var bytes: UInt64 = 0
  }

  /// The declared indexes, and what the valid objects have in them.
  private struct IndexKeys {
    let indexes: Set<UInt32>
    var content = IndexContent()
  }

  mutating func checkObjects(_ snapshot: borrowing Snapshot) throws {
    let types = try ObjectReading.types(snapshot)
    var keys = IndexKeys(indexes: Set(types.flatMap { $0.indexes.map(\.number) }))
    var found: [UInt32: Found] = [:]
    try checkCatalog(types, snapshot)
    try forEachEntry(of: generation.objects, as: .entries, in: snapshot.transaction) {
      check, key, record in
      guard let (type, sequence) = ObjectFormat.place(key) else {
        return check.find(.error, "objects", "a key is damaged")
      }
      if sequence == 0 {
        check.checkLayouts(record, of: type, types)
      } else if let cost = try check.checkObject(record, type, sequence, &keys, snapshot) {
        found[type, default: Found()].objects += 1
        found[type, default: Found()].bytes += cost
      }
    }
    for type in types where type.movedTo == nil {
      guard let books = try? ObjectReading.books(type.number, snapshot) else { continue }
      let sum = found[type.number] ?? Found()
      if books.count != sum.objects || books.bytes != sum.bytes {
        find(
          .error, "type \(type.name)",
          "its books say \(books.count) objects of \(books.bytes) bytes; there are \(sum.objects) "
            + "of \(sum.bytes)")
      }
      try checkSample(books, type, snapshot)
    }
    for type in types where type.layouts != nil {
      let copy = ObjectFormat.objectKey(type: type.number, sequence: 0)
      if try snapshot.transaction.value(forKey: copy, in: generation.objects) == nil {
        find(.error, "type \(type.name)", "the copy of its layouts is missing")
      }
    }
    try checkSize(snapshot)
    try checkIndexes(keys, snapshot)
    try checkIDs(snapshot)
  }

  /// Checks that the copy of a type's layouts is that of its record.
  private mutating func checkLayouts(
    _ copy: RawSpan, of type: UInt32, _ types: [ObjectTypeRecord]
  ) {
    // A dropped type has no record.
    guard let record = types.first(where: { $0.number == type }) else { return }
    if ObjectLayouts(copy: copy) != record.layouts {
      find(.error, "type \(record.name)", "the copy of its layouts is damaged")
    }
  }

  /// Checks that every record of the catalog is readable.
  private mutating func checkCatalog(
    _ types: [ObjectTypeRecord], _ snapshot: borrowing Snapshot
  ) throws {
    for prefix in ["t:", "m:", "c:"] {
      try forEachRecord(prefix, in: snapshot.transaction) { check, key, record in
        if Self.isReadable(record, prefix) { return }
        let key = key.copied()
        let name = prefix == "c:" ? "\(key.dropFirst(2))" : String(decoding: key, as: UTF8.self)
        check.find(.error, "catalog \(name)", "its record is damaged")
      }
    }
    let numbers = types.map(\.number) + types.flatMap { $0.indexes.map(\.number) }
    if Set(numbers).count != numbers.count {
      find(.error, "catalog", "a number belongs to two types or indexes")
    }
  }

  private static func isReadable(_ record: RawSpan, _ prefix: String) -> Bool {
    switch prefix {
    case "t:": ObjectTypeRecord(record) != nil
    case "m:": ObjectMigrationRecord(record) != nil
    default: ObjectTypeCounters(record) != nil
    }
  }

  /// Checks that the totals contain the stored size of the objects of all types.
  private mutating func checkSize(_ snapshot: borrowing Snapshot) throws {
    var sum: UInt64 = 0
    try forEachRecord("c:", in: snapshot.transaction) { _, _, record in
      sum &+= ObjectTypeCounters(record)?.charged ?? 0
    }
    guard
      let record = try snapshot.transaction.value(forKey: StoreTotals.key, in: .main),
      let totals = StoreTotals(record)
    else { return }
    if totals.objectBytes != sum {
      find(
        .error, "totals", "they say \(totals.objectBytes) bytes of objects; the types have \(sum)")
    }
  }

  /// Checks that every id refers to an object.
  private mutating func checkIDs(_ snapshot: borrowing Snapshot) throws {
    var cursor = try Cursor(over: generation.ids, in: snapshot.transaction)
    var more = try cursor.moveToFirst()
    while more {
      let place = cursor.currentInteger
      for item in ObjectFormat.idItems(cursor.currentValue) {
        let key = ObjectFormat.objectKey(type: item.type, sequence: item.sequence)
        if try snapshot.transaction.value(forKey: key, in: generation.objects) == nil {
          find(
            .error, "id \(String(place, radix: 16))",
            "it leads to object \(item.type)/\(item.sequence), which is not there")
        }
      }
      more = try cursor.moveToNext()
    }
  }

  /// - Returns: The record's share of the counters, or `nil` if it is damaged.
  private mutating func checkObject(
    _ record: RawSpan, _ type: UInt32, _ sequence: UInt64, _ keys: inout IndexKeys,
    _ snapshot: borrowing Snapshot
  ) throws -> UInt64? {
    let place = "object \(type)/\(sequence)"
    if let chunks = ObjectHeader(in: record)?.chunks { own(chunks: chunks.ids, place) }
    let header: ObjectHeader
    let content: [UInt8]
    do {
      (header, content) = try ObjectReading.checked(
        record, type, sequence, snapshot)
    } catch is DamagedObject {
      find(.error, place, "it is damaged")
      return nil
    }
    if header.codec == ObjectLayout.codec { try checkFields(type, sequence, place, snapshot) }
    let id = Array(content[..<header.idLength])
    let own = content.withRawSpan { content in
      ObjectFormat.indexKeys(content.slice(header.idLength..<content.byteCount)!)?.keys
    }
    guard let own else {
      find(.error, place, "its index keys are damaged")
      return nil
    }
    if try ObjectReading.sequence(type: type, id: id, in: snapshot) != sequence {
      find(.error, place, "its id leads to another object, or to none")
    }
    for key in own where keys.indexes.contains(key.index) {
      keys.content.add(key, of: sequence)
      // The fingerprint shows a word without the object.
      if ObjectFormat.isText(key.index) {
        if TextVector(key.bytes) == nil { find(.error, place, "its words are damaged") }
        continue
      }
      let entry = ObjectFormat.indexEntry(key, sequence: sequence)
      if try snapshot.transaction.value(forKey: entry, in: generation.indexes) == nil {
        find(.error, place, "a key of index \(key.index) is missing")
      }
    }
    return UInt64(header.cost)
  }

  /// Checks that the fields of an object are those of its layout. A dropped type has no layouts any
  /// more, and its objects are only swept.
  private mutating func checkFields(
    _ type: UInt32, _ sequence: UInt64, _ place: String, _ snapshot: borrowing Snapshot
  ) throws {
    let tombstone = ObjectTypeCounters.droppedKey(type)
    guard try snapshot.transaction.value(forKey: tombstone, in: .main) == nil else { return }
    do {
      _ = try ObjectReading.object(type: type, sequence: sequence, in: snapshot)
    } catch is DamagedObject {
      find(.error, place, "its fields are not those of its layout")
    }
  }

  private mutating func checkIndexes(
    _ keys: IndexKeys, _ snapshot: borrowing Snapshot
  ) throws {
    var content = IndexContent()
    for index in keys.indexes {
      try ObjectReading.forEachEntry(of: index, snapshot) { content.add(entry: $0, $1) }
    }
    if content != keys.content {
      find(
        .error, "indexes",
        "there are \(content.count) keys; the objects have \(keys.content.count), not the same")
    }
  }
}

extension StoreVerification {
  /// Checks that the sample of a bounded type has an entry for each object, and no other entry.
  mutating func checkSample(
    _ books: ObjectTypeCounters, _ type: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws {
    guard books.sample != 0 else { return }
    var count: UInt64 = 0
    var stray: UInt64 = 0
    try ObjectReading.scanIndex(books.sample, in: snapshot) { key, sequence in
      count += 1
      let isThere = try snapshot.objectRecord(type: type.number, sequence: sequence) != nil
      if key.byteCount != 8 || !isThere { stray += 1 }
      return true
    }
    if count != books.count || stray > 0 {
      find(
        .error, "type \(type.name)",
        "eviction index has \(count) entries (\(stray) dangling) for \(books.count) objects")
    }
  }
}
