// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The content to write for one object.
package struct ObjectWrite: Sendable {
  package var id: [UInt8]
  package var bytes: [UInt8]
  package var codec: UInt16
  package var version: UInt32
  package var keys: [ObjectIndexKey]
  /// The indexes in which a key belongs to at most one object.
  package var uniqueIndexes: [UInt32]

  package init(
    id: [UInt8], bytes: [UInt8], codec: UInt16, version: UInt32, keys: [ObjectIndexKey],
    uniqueIndexes: [UInt32]
  ) {
    self.id = id
    self.bytes = bytes
    self.codec = codec
    self.version = version
    self.keys = keys
    self.uniqueIndexes = uniqueIndexes
  }
}

/// The outcome of saving an object, with its sequence.
package enum SaveOutcome: Sendable, Hashable {
  case inserted(UInt64)
  case replaced(UInt64)
  /// The stored bytes are the same; nothing was written.
  case unchanged(UInt64)
  /// An object was stored and is kept.
  case kept(UInt64)

  /// Whether the object was written.
  package var isWritten: Bool {
    switch self {
    case .inserted, .replaced: true
    case .unchanged, .kept: false
    }
  }
}

extension StoreTransaction {
  // MARK: Catalog

  /// Returns the record of a type, or `nil` if no program has declared it.
  package func objectType(named name: String) throws -> ObjectTypeRecord? {
    try withSnapshot { try ObjectReading.type(named: name, $0) }
  }

  /// Stores a type's record.
  package mutating func putObjectType(_ record: ObjectTypeRecord) throws {
    try transaction.put(record.encoded(), forKey: ObjectTypeRecord.key(record.name), in: .main)
    try putLayouts(of: record)
    objects.keep(record, declarer: objects.type(named: record.name)?.declarer)
    objects.typeChanges += 1
    objects[record.number].layouts = nil
    touchObjectType(record.number)
    touchObjectType(0)
    try fault(throwing: .catalogChanged)
  }

  /// Assigns an identifier that was never used.
  package mutating func newObjectNumber() throws -> UInt32 {
    var next: UInt32 = 1
    if let bytes = try transaction.value(forKey: ObjectTypeCounters.numbersKey, in: .main) {
      next = bytes.integer(at: 0) ?? 1
    }
    var bytes: [UInt8] = []
    bytes.append(littleEndian: next &+ 1)
    try transaction.put(bytes, forKey: ObjectTypeCounters.numbersKey, in: .main)
    return next
  }

  /// Drops an identifier. The tombstone makes its records invisible; they are swept later.
  package mutating func dropObjectNumber(_ number: UInt32, isIndex: Bool) throws {
    try transaction.put(
      [isIndex ? 2 : 1], forKey: ObjectTypeCounters.droppedKey(number), in: .main)
    if !isIndex {
      let sample = try objectBooks(number).sample
      if sample != 0 { try dropObjectNumber(sample, isIndex: true) }
      // The sweep is not a change that a migration copies.
      try changeObjectBooks(number) {
        $0.watch = 0
        $0.watchedTo = 0
        $0.sample = 0
        // It is free for others at once, as far as budgets are concerned.
        $0.bytes = 0
        $0.budget = 0
        $0.mostObjects = 0
      }
      try transaction.put(
        objectBooks(number).encoded(), forKey: ObjectTypeCounters.key(number), in: .main)
      // No key is stamped, so the floor invalidates the cached objects.
      raisesFloor = true
    }
    // The entries of a dropped index have no meaning any more.
    objects.conflicts.removeAll { $0.key.index == number }
    objects.postings.forget(number)
    objects[number].books = nil
    touchObjectType(number)
    touchObjectType(0)
    try fault(throwing: .numberDropped)
  }

  package mutating func objectBooks(_ type: UInt32) throws -> ObjectTypeCounters {
    if let known = objects[type].books { return known.books }
    let books = try withSnapshot { try ObjectReading.books(type, $0) }
    objects[type].books = (books, books)
    if objects[type].booksBefore == nil { objects[type].booksBefore = books }
    return books
  }

  package mutating func changeObjectBooks(
    _ type: UInt32, _ body: (inout ObjectTypeCounters) -> Void
  ) throws {
    var books = try objectBooks(type)
    let before = books.charged
    body(&books)
    countObjects(removing: before, adding: books.charged)
    objects[type].books!.books = books
    objects[type].isChanged = true
  }

  /// Marks the type as changed, which invalidates the cached results of its queries.
  mutating func touchObjectType(_ type: UInt32) {
    // Stamps are stored at the end, so one touch is sufficient for all objects of a type.
    if objects[type].isTouched { return }
    objects[type].isTouched = true
    touch(hash: ObjectFormat.typeSlot(type, in: generation))
  }

  // MARK: Reading, with the transaction's own writes

  package func object(type: UInt32, id: [UInt8]) throws -> StoredObject? {
    try withSnapshot { snapshot in
      guard let sequence = try ObjectReading.sequence(type: type, id: id, in: snapshot) else {
        return nil
      }
      return try ObjectReading.object(type: type, sequence: sequence, in: snapshot)
    }
  }

  // MARK: Writing

  /// Stores an object with its index entries, in place of the object of the same id.
  ///
  /// - Parameters:
  ///   - since: The creation time to keep, for an object that is only rewritten; its recency does
  ///     not change then.
  ///   - defersConflicts: Whether an object with a unique key of another is stored and noted for
  ///     ``firstConflict()``, which the caller calls before the commit.
  ///   - revise: A closure that may change the write. It gets the stored object of the same schema
  ///     version and its index keys.
  /// - Throws: ``UniqueKeyConflict`` or ``ObjectTooLarge``; nothing of the object is changed then.
  package mutating func save(
    _ write: ObjectWrite, type: UInt32, keepsExisting: Bool = false, since: Int64? = nil,
    defersConflicts: Bool = false,
    revise: (RawSpan, [ObjectIndexKey], inout ObjectWrite) throws -> Void = { _, _, _ in }
  ) throws -> SaveOutcome {
    let hash = ObjectFormat.hash(type: type, id: write.id, in: generation)
    let (known, isHashFree) = try withSnapshot {
      try ObjectReading.lookUp(type: type, id: write.id, hash: hash, in: $0)
    }
    if let known, keepsExisting { return .kept(known) }
    if since == nil {
      generation.table.setLastUse(
        hash: hash, tick: generation.table.advanceClock(milliseconds: now))
    }
    let previous = try known.map { try old(type, $0) }
    var write = write
    if let previous { try self.revise(&write, previous, type: type, revise) }
    write = try packed(write, type: type)
    let payload = ObjectFormat.payload(write.keys, write.bytes)
    try requireFitting(write, payload, type)
    // The code below reads the indexes, so they must be complete.
    if known != nil || !write.uniqueIndexes.isEmpty { try putHeldEntries() }
    // Checked before the first change, because a caller that catches the error may continue the
    // transaction.
    for key in write.keys
    where write.uniqueIndexes.contains(key.index) && !Mutant.uniqueUnchecked.isActive {
      guard let holder = try holder(of: key, except: known) else { continue }
      guard defersConflicts else {
        throw conflict(key, write.id, heldBy: holder, type)
      }
      objects.conflicts.append((key, write.id, type))
    }
    var oldKeys: [ObjectIndexKey] = []
    if let known, let previous {
      switch previous {
      case .found(let header, let content, let keys):
        if header.version == write.version, header.codec == write.codec,
          content.count == write.id.count + payload.count,
          content[header.idLength...].elementsEqual(payload)
            || Self.isSame(write, as: content, keys)
        {
          return .unchanged(known)
        }
        oldKeys = keys
        try removeContent(type, header)
      case .damaged(let header):
        try removeDanglingKeys(of: [known], type)
        try link(hash, type, known)
        try removeContent(type, header)
      }
    }
    let sequence =
      try known
      ?? {
        let next = try objectBooks(type).nextSequence
        try changeObjectBooks(type) { $0.nextSequence = next + 1 }
        return next
      }()
    if known == nil { try link(hash, type, sequence, isHashFree: isHashFree) }
    // A save usually changes a value and few keys.
    if oldKeys != write.keys {
      for key in oldKeys where !write.keys.contains(key) && !Mutant.indexKeyLeft.isActive {
        try remove(key, of: sequence)
      }
      for key in write.keys where !oldKeys.contains(key) {
        if known == nil {
          try addNew(key, of: sequence)
        } else {
          try add(key, of: sequence)
        }
      }
    }
    try fault(throwing: .objectIndexed)
    try put(write, payload, type, sequence, created: since)
    if known != nil { try logObjectChange(type, sequence) }
    touch(hash: hash)
    touchObjectType(type)
    fault(.betweenPuts)
    return known == nil ? .inserted(sequence) : .replaced(sequence)
  }

  /// Removes an object and its index entries.
  ///
  /// - Returns: Whether there was such an object.
  @discardableResult
  package mutating func delete(type: UInt32, id: [UInt8]) throws -> Bool {
    let sequence = try objectSequence(type: type, id: id)
    guard let sequence else { return false }
    let hash = ObjectFormat.hash(type: type, id: id, in: generation)
    switch try old(type, sequence) {
    case .found(let header, _, let keys):
      for key in keys { try remove(key, of: sequence) }
      try removeRecord(type, sequence, header)
    case .damaged(let header):
      try removeDanglingKeys(of: [sequence], type)
      try removeRecord(type, sequence, header)
    }
    try fault(throwing: .objectUnlinked)
    try unlink(hash, type, sequence)
    try logObjectChange(type, sequence)
    touch(hash: hash)
    touchObjectType(type)
    return true
  }

  // MARK: Parts

  enum Old {
    case found(ObjectHeader, [UInt8], [ObjectIndexKey])
    /// The record no longer names its index entries; see ``removeDanglingKeys(of:_:)``.
    case damaged(ObjectHeader?)
  }

  func old(_ type: UInt32, _ sequence: UInt64) throws -> Old {
    try withSnapshot { snapshot in
      guard let record = try snapshot.objectRecord(type: type, sequence: sequence) else {
        return .damaged(nil)
      }
      do {
        let (header, content) = try ObjectReading.checked(record, type, sequence, snapshot)
        let keys = content.withRawSpan { content in
          ObjectFormat.indexKeys(content.slice(header.idLength..<content.byteCount)!)?.keys
        }
        guard let keys else { return .damaged(header) }
        return .found(header, content, keys)
      } catch is DamagedObject {
        return .damaged(ObjectHeader(in: record))
      }
    }
  }

  mutating func removeRecord(
    _ type: UInt32, _ sequence: UInt64, _ header: ObjectHeader?
  ) throws {
    let key = ObjectFormat.objectKey(type: type, sequence: sequence)
    try transaction.remove(key: key, in: generation.objects)
    try removeContent(type, header)
  }

  /// Removes what an object has outside of its record, which the caller replaces or removes.
  private mutating func removeContent(_ type: UInt32, _ header: ObjectHeader?) throws {
    for id in header?.chunks?.ids ?? 0..<0 {
      try transaction.remove(key: id, in: generation.chunks)
    }
    let cost = UInt64(header?.cost ?? 0)
    try changeObjectBooks(type) {
      $0.count -= min($0.count, 1)
      $0.bytes -= min($0.bytes, cost)
    }
  }

  mutating func put(
    _ write: ObjectWrite, _ payload: [UInt8], _ type: UInt32, _ sequence: UInt64,
    created: Int64? = nil
  ) throws {
    let header = ObjectHeader(
      codec: write.codec, version: write.version, commitVersion: commitVersion,
      created: created ?? now, idLength: write.id.count,
      contentLength: write.id.count + payload.count)
    let chunks =
      ObjectHeader.needsChunks(header.contentLength) ? try writeChunks(write.id, payload) : nil
    try transaction.put(
      header.record(write.id, payload, chunks: chunks, type: type, sequence: sequence),
      forKey: ObjectFormat.objectKey(type: type, sequence: sequence), in: generation.objects)
    let cost = UInt64(header.cost)
    bytesWritten += cost
    try changeObjectBooks(type) {
      $0.count += 1
      $0.bytes += cost
    }
  }

  /// Adds the id of an object.
  ///
  /// - Parameter isHashFree: Whether no id has the hash.
  mutating func link(
    _ hash: UInt64, _ type: UInt32, _ sequence: UInt64, isHashFree: Bool = false
  ) throws {
    try linkSample(hash, type, sequence)
    let key = ObjectFormat.idKey(hash, generation.meta)
    var items: [UInt8] = []
    if !isHashFree, let found = try transaction.value(forKey: key, in: generation.ids) {
      items = found.copied()
    }
    ObjectFormat.appendIDItem(type, sequence, to: &items)
    try items.withRawSpan { items throws(LMDBError) in
      try transaction.put(items, forKey: key, in: generation.ids)
    }
  }

  mutating func unlink(_ hash: UInt64, _ type: UInt32, _ sequence: UInt64) throws {
    try unlinkSample(hash, type, sequence)
    let key = ObjectFormat.idKey(hash, generation.meta)
    var kept: [UInt8] = []
    if let items = try transaction.value(forKey: key, in: generation.ids) {
      var offset = 0
      while let item = ObjectFormat.idItem(items, at: &offset) {
        if item != (type, sequence) {
          ObjectFormat.appendIDItem(item.type, item.sequence, to: &kept)
        }
      }
    }
    if kept.isEmpty {
      try transaction.remove(key: key, in: generation.ids)
    } else {
      try kept.withRawSpan { kept throws(LMDBError) in
        try transaction.put(kept, forKey: key, in: generation.ids)
      }
    }
  }
}
