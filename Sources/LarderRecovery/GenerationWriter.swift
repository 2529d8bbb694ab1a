// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

// Entries arrive one at a time, in any order and from any source. The result equals a store into
// which the same entries were written: every key under its hash, large values in chunks, an expiry
// record for each entry that expires, exact counters. Of two entries with one key the newer
// remains.
//
// Only the writer uses the directory until the generation is current, so no entry needs a stamp and
// no commit waits for the disk: a durable generation is synchronized once, at the end. Commits only
// bound the memory that a transaction needs.
//
// Entries keep the commit version under which they were written. The generation's own commit
// version, with which its table starts, is higher.

/// A writer that builds a generation from entries in a separate directory.
final class GenerationWriter {
  /// An entry with the metadata of its source.
  struct Entry {
    let key: EncodedKey
    let payload: [UInt8]
    let codec: UInt16
    let commitVersion: UInt64
    let created: Int64
    let expires: Int64
    let traits: EntryHeader.Traits
    /// The hashes of the tags.
    let tags: [UInt64]
  }

  let path: String
  private(set) var meta: StoreMeta
  private let environment: EnvironmentHandle
  let tables: Generation.Tables
  private var entries: TableHandle { tables.entries }
  private var chunks: TableHandle { tables.chunks }
  private var expiries: TableHandle { tables.expiries }
  var transaction: WriteTransaction?
  /// The counters of each object type.
  var objectBooks: [UInt32: ObjectTypeCounters] = [:]
  /// The postings of full-text indexes that are not written yet.
  var postings = PostingBuffer()
  var totals = StoreTotals()
  private var spaces: [[UInt8]: FilledSpace] = [:]
  private var lastHash: UInt64?
  private var pendingCount = 0
  private var pendingBytes = 0

  private struct FilledSpace {
    let number: UInt32
    let prefix: SipHash13
    var record: NamespaceRecord
  }

  private static let batchCount = 4000
  private static let batchBytes = 16 << 20

  /// - Parameter path: The directory to make; nothing is there.
  init(at path: String, meta: StoreMeta) throws {
    self.path = path
    self.meta = meta
    try GenerationBuilder.makeDirectory(path)
    try GenerationBuilder.prepareLockFile(in: path, meta.shape)
    let environment = try EnvironmentHandle(
      path: path,
      options: .init(
        mapSize: Int(meta.mapSize), minimumMapSize: GenerationBuilder.minimumMapSize,
        maximumReaders: meta.shape.readerSlots,
        synchronous: false))
    do {
      var transaction = try WriteTransaction(in: environment)
      tables = try Generation.Tables(in: &transaction)
      try transaction.commit()
    } catch {
      environment.close()
      throw error
    }
    self.environment = environment
  }

  /// Abandons the generation. The caller removes the directory.
  func abandon() {
    transaction = nil
    environment.close()
  }

  // MARK: Entries

  /// Adds an entry, unless a newer one of the same key is there.
  ///
  /// - Returns: Whether it is the key's first.
  @discardableResult
  func append(_ entry: Entry, in namespace: [UInt8]) throws -> Bool {
    try prepareForMore()
    let space = space(named: namespace)
    let hash = NamespaceHandle.hash(of: entry.key, after: space.prefix, bits: meta.hashBits)
    var others: [UInt8] = []
    var isFirst = true
    if let found = try items(hash: hash) {
      if let same = try found.first(where: { try isEntry($0, hash, space.number, entry.key) }) {
        if same.header.commitVersion >= entry.commitVersion { return false }
        isFirst = false
        try remove(hash: hash, offset: same.offset)
      }
      others = try value(hash, in: entries) ?? []
    }

    var header = EntryHeader(
      codec: entry.codec, keyTag: entry.key.tag, keyLength: entry.key.bytes.count,
      payloadLength: entry.payload.count,
      commitVersion: min(
        entry.commitVersion, Generation.versionBase(ofGeneration: meta.generation)),
      created: entry.created, expires: entry.expires, traits: entry.traits,
      namespace: space.number, epoch: space.record.epoch)
    let reference =
      header.isChunked ? try writeChunks(entry.key.bytes, entry.payload).bytes() : nil
    let start =
      others
      + header.sealed(
        contentHash: EntryHeader.contentHash(key: entry.key.bytes, payload: entry.payload),
        tags: entry.tags)
    let isLast = lastHash.map { hash > $0 } ?? true
    if isLast { lastHash = hash }
    try start.withRawSpan { start throws(LMDBError) in
      try (reference ?? entry.key.bytes).withRawSpan { middle throws(LMDBError) in
        try (reference == nil ? entry.payload : []).withRawSpan { end throws(LMDBError) in
          try transaction!.put(start, middle, end, forKey: hash, in: entries, appending: isLast)
        }
      }
    }
    if header.keptUntil != EntryHeader.never {
      try transaction!.put(
        ExpiryKey.value(lifetime: entry.traits.lifetime),
        forKey: ExpiryKey.key(expires: header.keptUntil, hash: hash), in: expiries)
    }
    account(header, in: namespace, adding: true)
    if space.record.index != 0 {
      try transaction!.put(
        [],
        forKey: StoreTransaction.memberKey(
          space.number, index: space.record.index, epoch: header.epoch, hash: hash),
        in: tables.members)
    }
    account(pending: header.cost)
    return isFirst
  }

  /// Commits what has come together, if it is enough.
  func prepareForMore() throws {
    if pendingCount >= Self.batchCount || pendingBytes >= Self.batchBytes { try commit() }
    if transaction == nil { transaction = try WriteTransaction(in: environment) }
  }

  func account(pending cost: Int) {
    pendingCount += 1
    pendingBytes += cost
  }

  /// Gives a namespace the limits of its salvaged record, before its first entry.
  func setLimits(of namespace: [UInt8], from record: NamespaceRecord) {
    _ = space(named: namespace)
    spaces[namespace]!.record.inheritLimits(from: record)
  }

  private func space(named name: [UInt8]) -> FilledSpace {
    if let known = spaces[name] { return known }
    let space = FilledSpace(
      number: totals.nextNamespace, prefix: NamespaceHandle.prefix(of: name, secret: meta.secret),
      record: NamespaceRecord(name: name))
    totals.nextNamespace += 1
    spaces[name] = space
    return space
  }

  private func account(_ header: EntryHeader, in namespace: [UInt8], adding: Bool) {
    let cost = UInt64(header.cost)
    if adding {
      totals.add(header)
      spaces[namespace]!.record.bytes += cost
      spaces[namespace]!.record.entries += 1
    } else {
      totals.subtract(header)
      spaces[namespace]!.record.bytes -= cost
      spaces[namespace]!.record.entries -= 1
    }
  }

  func writeChunks(_ key: [UInt8], _ payload: [UInt8]) throws -> ChunkReference {
    let reference = ChunkReference(
      first: totals.nextChunk, count: ChunkReference.count(forContent: key.count + payload.count))
    totals.nextChunk += UInt64(reference.count)
    for id in reference.ids {
      let (checksum, data) = reference.chunk(id, of: key, payload)
      try checksum.withRawSpan { checksum throws(LMDBError) in
        try data.withRawSpan { data throws(LMDBError) in
          try transaction!.put(
            checksum, data, RawSpan(), forKey: id, in: chunks, appending: true)
        }
      }
    }
    return reference
  }

  // MARK: What is there already

  private func reading<R>(_ body: (borrowing WriteTransaction) throws -> R) rethrows -> R {
    try body(transaction!)
  }

  func value(_ key: UInt64, in table: TableHandle) throws -> [UInt8]? {
    try reading { transaction in try transaction.value(forKey: key, in: table)?.copied() }
  }

  func value(_ key: [UInt8], in table: TableHandle) throws -> [UInt8]? {
    try reading { transaction in try transaction.value(forKey: key, in: table)?.copied() }
  }

  private func items(hash: UInt64) throws -> [RecordEntry]? {
    try value(hash, in: entries).map { try $0.withRawSpan { try Record.items(in: $0) } }
  }

  private func isEntry(
    _ item: RecordEntry, _ hash: UInt64, _ number: UInt32, _ key: EncodedKey
  ) throws -> Bool {
    let header = item.header
    guard
      header.namespace == number, header.keyTag == key.tag, header.keyLength == key.bytes.count
    else { return false }
    if let reference = item.chunks {
      let content = try Record.chunkedContent(reference, length: header.keyLength) { id, body in
        try value(id, in: chunks).map { $0.withRawSpan { body($0) } } ?? false
      }
      return content == key.bytes
    }
    let start = item.offset + header.contentOffset
    return try value(hash, in: entries)?[start..<(start + header.keyLength)]
      .elementsEqual(key.bytes) ?? false
  }

  private func remove(hash: UInt64, offset: Int) throws {
    guard let all = try items(hash: hash), let item = all.first(where: { $0.offset == offset })
    else { return }
    var record = try value(hash, in: entries) ?? []
    let header = item.header
    let name = spaces.first { $0.value.number == header.namespace }!.key
    account(header, in: name, adding: false)
    for id in item.chunks?.ids ?? 0..<0 { try transaction!.remove(key: id, in: chunks) }
    if header.keptUntil != EntryHeader.never,
      !all.contains(where: { $0.offset != offset && $0.header.keptUntil == header.keptUntil })
    {
      try transaction!.remove(
        key: ExpiryKey.key(expires: header.keptUntil, hash: hash), in: expiries)
    }
    let isLastOfSpace = !all.contains {
      $0.offset != offset && $0.header.namespace == header.namespace
        && $0.header.epoch == header.epoch
    }
    if spaces[name]!.record.index != 0, isLastOfSpace {
      try transaction!.remove(
        key: StoreTransaction.memberKey(
          header.namespace, index: spaces[name]!.record.index, epoch: header.epoch, hash: hash),
        in: tables.members)
    }
    record.removeSubrange(offset..<(offset + header.storedLength))
    if record.isEmpty {
      try transaction!.remove(key: hash, in: entries)
      if lastHash == hash { lastHash = .max }
    } else {
      try record.withRawSpan { record throws(LMDBError) in
        try transaction!.put(record, forKey: hash, in: entries)
      }
    }
  }

  // MARK: End

  /// Removes the entries that were created first until the rest fits into the budget, pinned ones last.
  ///
  /// - Returns: How many.
  func trim() throws -> Int {
    let before = totals.entries
    // Each pass removes at most one entry per record, because a removal shifts the later entries.
    while meta.budget > 0, totals.charged > meta.budget, totals.entries > 0 { try trimOnce() }
    return Int(before - totals.entries)
  }

  private func trimOnce() throws {
    try commit()
    transaction = try WriteTransaction(in: environment)
    var all: [(isPinned: Int, created: Int64, hash: UInt64, offset: Int)] = []
    try reading { transaction in
      var cursor = try Cursor(over: entries, in: transaction)
      var more = try cursor.moveToFirst()
      while more {
        let hash = cursor.currentInteger
        for item in try Record.items(in: cursor.currentValue) {
          all.append((item.header.isPinned ? 1 : 0, item.header.created, hash, item.offset))
        }
        more = try cursor.moveToNext()
      }
    }
    all.sort { ($0.isPinned, $0.created, $0.hash) < ($1.isPinned, $1.created, $1.hash) }
    var seen: Set<UInt64> = []
    for victim in all where totals.charged > meta.budget {
      guard seen.insert(victim.hash).inserted else { continue }
      try remove(hash: victim.hash, offset: victim.offset)
      if seen.count.isMultiple(of: Self.batchCount) {
        try commit()
        transaction = try WriteTransaction(in: environment)
      }
    }
  }

  /// Raises a budget that what was kept does not fit into.
  func raiseBudget() {
    if meta.budget > 0 { meta.budget = max(meta.budget, totals.charged) }
  }

  private func commit() throws {
    guard transaction != nil else { return }
    let ending = transaction.take()!
    try ending.commit()
    pendingCount = 0
    pendingBytes = 0
  }

  /// Completes the generation: counters and support files. Synchronizes them if the store survives
  /// system crashes. No other method may be called afterwards.
  func finish(with builder: GenerationBuilder, inheriting old: SharedTable? = nil) throws {
    try commit()
    do {
      var last = try WriteTransaction(in: environment)
      for (name, space) in spaces {
        try last.put(
          NamespaceRecord.nameRecord(space.number, name: name),
          forKey: NamespaceRecord.nameKey(name), in: .main)
        try last.put(space.record.encoded(), forKey: NamespaceRecord.key(space.number), in: .main)
      }
      try last.put(meta.bytes(), forKey: StoreMeta.key, in: .main)
      try last.put(totals.encoded(), forKey: StoreTotals.key, in: .main)
      try last.commit()
    }
    if meta.durability.survivesSystemCrash { try environment.synchronize() }
    try builder.createSupportFiles(path, meta, closing: environment, inheriting: old)
    guard meta.durability.survivesSystemCrash else { return }
    for name in try FileSystem.names(in: path) where name != "lock.mdb" {
      try OwnedFile(path: path + "/" + name).synchronize()
    }
    try FileSystem.synchronizeDirectory(path)
  }
}
