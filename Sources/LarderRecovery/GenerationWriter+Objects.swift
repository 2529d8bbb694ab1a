// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

// Objects keep type identifier, sequence number and schema version. Ids and index entries are
// rebuilt from the records, and the counters are recounted.

extension GenerationWriter {
  /// Adds an object, unless a newer one of the same id or the same place is there.
  ///
  /// - Parameter indexes: Those that are still kept.
  func append(_ object: SalvagedObject, indexes: Set<UInt32>) throws {
    try prepareForMore()
    let idKey = ObjectFormat.idKey(
      ObjectFormat.hash(type: object.type, id: object.id, meta: meta), meta)
    let place = ObjectFormat.objectKey(type: object.type, sequence: object.sequence)
    var others: [[UInt8]] = []
    let known = try value(place, in: tables.objects)
    if known != nil { others.append(place) }
    let items = try value(idKey, in: tables.ids) ?? []
    for item in items.withRawSpan({ ObjectFormat.idItems($0) }) where item.type == object.type {
      let key = ObjectFormat.objectKey(type: item.type, sequence: item.sequence)
      if key != place { others.append(key) }
    }
    for other in others {
      guard let stored = try stored(other) else { continue }
      // Of one place in `ids` only: another object.
      if other != place, stored.id != object.id { continue }
      if stored.header.commitVersion >= object.header.commitVersion { return }
      try remove(stored, other, indexes)
    }
    var header = object.header
    header.commitVersion = min(
      header.commitVersion, Generation.versionBase(ofGeneration: meta.generation))
    let chunks = header.isChunked ? try writeChunks(object.id, object.payload) : nil
    try transaction!.put(
      header.record(
        object.id, object.payload, chunks: chunks, type: object.type, sequence: object.sequence),
      forKey: place, in: tables.objects)
    try link(idKey, object.type, object.sequence)
    for key in object.keys where indexes.contains(key.index) {
      if ObjectFormat.isText(key.index) {
        postings.change(key, of: object.sequence, isRemoval: false)
      } else {
        try transaction!.put(
          [], forKey: ObjectFormat.indexEntry(key, sequence: object.sequence), in: tables.indexes)
      }
    }
    if postings.isFull { try postings.merge(into: &transaction!, tables.indexes) }
    var books = objectBooks[object.type] ?? ObjectTypeCounters()
    books.count += 1
    books.bytes += UInt64(header.cost)
    books.nextSequence = max(books.nextSequence, object.sequence + 1)
    objectBooks[object.type] = books
    account(pending: header.cost)
  }

  private func link(_ idKey: UInt64, _ type: UInt32, _ sequence: UInt64) throws {
    var items = try value(idKey, in: tables.ids) ?? []
    ObjectFormat.appendIDItem(type, sequence, to: &items)
    try items.withRawSpan { items throws(LMDBError) in
      try transaction!.put(items, forKey: idKey, in: tables.ids)
    }
  }

  // MARK: What is there already

  private struct Stored {
    let header: ObjectHeader
    let id: [UInt8]
    let keys: [ObjectIndexKey]
    let type: UInt32
    let sequence: UInt64
  }

  private func stored(_ key: [UInt8]) throws -> Stored? {
    guard let record = try value(key, in: tables.objects),
      let header = record.withRawSpan({ ObjectHeader(in: $0) }),
      let (type, sequence) = key.withRawSpan({ ObjectFormat.place($0) })
    else { return nil }
    var content: [UInt8] = Array(record.dropFirst(header.contentStart))
    if let chunks = header.chunks {
      content =
        try Record.chunkedContent(chunks, length: header.contentLength) { id, body in
          try value(id, in: tables.chunks).map { $0.withRawSpan { body($0) } } ?? false
        } ?? []
    }
    let payload = Array(content.dropFirst(header.idLength))
    let keys = payload.withRawSpan { ObjectFormat.indexKeys($0)?.keys }
    return Stored(
      header: header, id: Array(content.prefix(header.idLength)), keys: keys ?? [], type: type,
      sequence: sequence)
  }

  private func remove(_ stored: Stored, _ key: [UInt8], _ indexes: Set<UInt32>) throws {
    for id in stored.header.chunks?.ids ?? 0..<0 {
      try transaction!.remove(key: id, in: tables.chunks)
    }
    for key in stored.keys where indexes.contains(key.index) {
      if ObjectFormat.isText(key.index) {
        postings.change(key, of: stored.sequence, isRemoval: true)
      } else {
        try transaction!.remove(
          key: ObjectFormat.indexEntry(key, sequence: stored.sequence), in: tables.indexes)
      }
    }
    let idKey = ObjectFormat.idKey(
      ObjectFormat.hash(type: stored.type, id: stored.id, meta: meta), meta)
    let items = try value(idKey, in: tables.ids) ?? []
    try transaction!.remove(key: idKey, in: tables.ids)
    for item in items.withRawSpan({ ObjectFormat.idItems($0) })
    where item.type != stored.type || item.sequence != stored.sequence {
      try link(idKey, item.type, item.sequence)
    }
    try transaction!.remove(key: key, in: tables.objects)
    objectBooks[stored.type]!.count -= 1
    objectBooks[stored.type]!.bytes -= UInt64(stored.header.cost)
  }

  // MARK: End

  /// Writes the catalog: after all objects.
  func write(_ catalog: SalvagedCatalog) throws {
    try prepareForMore()
    try postings.merge(into: &transaction!, tables.indexes)
    for type in catalog.repairedTypes {
      try transaction!.put(
        type.encoded(), forKey: ObjectTypeRecord.key(type.name), in: .main)
      if let layouts = type.layouts {
        try transaction!.put(
          layouts.copy(), forKey: ObjectFormat.objectKey(type: type.number, sequence: 0),
          in: tables.objects)
      }
      var books = objectBooks[type.number] ?? ObjectTypeCounters()
      if let old = catalog.books[type.number] {
        books.nextSequence = max(books.nextSequence, min(old.nextSequence, 1 << 62))
        books.budget = old.budget
        books.mostObjects = old.mostObjects
        // The index for eviction samples is rebuilt when it is missing.
      }
      totals.objectBytes += books.charged
      try transaction!.put(
        books.encoded(), forKey: ObjectTypeCounters.key(type.number), in: .main)
    }
    for migration in catalog.appliedMigrations {
      try transaction!.put(
        migration.encoded(), forKey: ObjectMigrationRecord.key(migration.name), in: .main)
    }
    var number: [UInt8] = []
    number.append(littleEndian: catalog.nextNumber)
    try transaction!.put(number, forKey: ObjectTypeCounters.numbersKey, in: .main)
  }
}
