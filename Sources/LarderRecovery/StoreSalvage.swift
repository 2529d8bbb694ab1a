// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// SALVAGE OF A DAMAGED STORE
//
// Entries, chunks and the store's own records are used if their checksum matches. Replacements of
// missing records:
//
//   names       in the record of the name ("n:"), then in the main table of one commit earlier;
//               else the entries go to `recovered-<number>`
//   epochs      an entry of an earlier epoch was removed by a removeAll, and stays removed. Without
//               the namespace's record the highest epoch there is counts
//   tags        an entry that a removal by tag includes stays removed. If records of removals may be
//               missing, because pages or `meta` are damaged, every tagged entry is removed
//   secret      lost with `meta`, unless the main table of one commit earlier has it: a new one
//   budget      of `meta`, else of the shared table; it never costs a durable store an entry
//
// An entry on an unreachable page must also be stored under the hash of its key. Of two entries
// with the same key the one with the higher commit version stays. Chunk ids are never reused: a
// chunk with a matching checksum is the right one on any page.

/// The readable data of a store whose files no process has open.
final class StoreSalvage {
  /// A namespace of the damaged store.
  struct SalvagedNamespace {
    var record: NamespaceRecord?
    /// Whether the record is of one commit earlier.
    var isOlder = false
    var name: [UInt8]?
    /// Whether its name record refers to it.
    var isNamed = false
    var highestEpoch: UInt32 = 0
  }

  let number: UInt64
  var reader: SalvageReader
  let values: SalvageReader.Values
  private(set) var meta: StoreMeta?
  private(set) var totals: StoreTotals?
  private(set) var spaces: [UInt32: SalvagedNamespace] = [:]
  private(set) var chunks: [UInt64: SalvageReader.Value] = [:]
  /// The contents of the tables of chunks and expiration times.
  private(set) var storedChunks = SetFingerprint()
  private(set) var storedDeadlines = SetFingerprint()
  /// The indexes of namespaces with a maximum.
  private(set) var storedMembers = SetFingerprint()
  /// The removals by tag, by the hash of the tag.
  private var removals: [UInt64: TagRecord] = [:]
  /// Whether a removal by tag may be missing.
  private(set) var mayMissRemovals = true

  /// The types of the stored objects.
  var catalog = SalvagedCatalog()

  /// - Throws: `SystemError` if there is no data file.
  init(path: String, number: UInt64) throws {
    let reader = try SalvageReader(path: path)
    self.number = number
    values = reader.values
    self.reader = reader
    try readRecords(of: .main)
    try readRemovals()
    try readRecords(of: .unknown)
    try readRecords(of: .olderMain)
    try indexChunks()
    try readDeadlines()
    try readMembers()
    try findEpochs()
    try readObjects()
  }

  // MARK: Records

  private func readRecords(of source: SalvageReader.Source) throws {
    var records: [(key: [UInt8], value: [UInt8])] = []
    let values = values
    try reader.forEachNode(of: source) { node in
      let isKnown =
        node.key == StoreMeta.key || node.key == StoreTotals.key
        || node.key.starts(with: "n:".utf8) || node.key.starts(with: "i:".utf8)
        || SalvagedCatalog.isKey(node.key)
      guard isKnown, let bytes = values.bytes(of: node.value) else { return }
      records.append((node.key, bytes))
    }
    for (key, value) in records {
      value.withRawSpan { value in
        if SalvagedCatalog.isKey(key) {
          catalog.read(value, key, source: source)
        } else {
          read(value, key, isOlder: source == .olderMain)
        }
      }
    }
  }

  private func read(_ bytes: RawSpan, _ key: [UInt8], isOlder: Bool) {
    if key == StoreMeta.key {
      if meta == nil, let found = StoreMeta(bytes), found.generation == number { meta = found }
    } else if key == StoreTotals.key {
      if totals == nil, !isOlder { totals = StoreTotals(bytes) }
    } else if let namespace = key.withRawSpan({ NamespaceRecord.number(ofKey: $0) }) {
      var space = spaces[namespace] ?? SalvagedNamespace()
      if space.record == nil, let record = NamespaceRecord(bytes) {
        space.record = record
        space.isOlder = isOlder
        space.name = space.name ?? record.name
      }
      spaces[namespace] = space
    } else {
      let name = Array(key.dropFirst(2))
      guard let namespace = NamespaceRecord.number(in: bytes, name: name) else { return }
      spaces[namespace, default: SalvagedNamespace()].name = name
      if !isOlder { spaces[namespace]!.isNamed = true }
    }
  }

  private func indexChunks() throws {
    for source in [SalvageReader.Source.table(Generation.chunksName), .unknown] {
      var found: [UInt64: SalvageReader.Value] = [:]
      var ids = SetFingerprint()
      try reader.forEachNode(of: source) { node in
        guard node.key.count == 8, let id: UInt64 = node.key.integer(at: 0) else { return }
        if source != .unknown { ids.add(id) }
        // For a value inside its node the location would suffice; these values are few and small.
        if found[id] == nil || !node.isScavenged { found[id] = node.value }
      }
      if source != .unknown { storedChunks = ids }
      chunks.merge(found) { known, _ in known }
    }
  }

  private func readDeadlines() throws {
    var deadlines = SetFingerprint()
    try reader.forEachNode(of: .table(Generation.expiriesName)) { deadlines.add($0.key) }
    storedDeadlines = deadlines
  }

  private func readMembers() throws {
    var members = SetFingerprint()
    let spaces = spaces
    try reader.forEachNode(of: .table(Generation.membersName)) { node in
      let (number, index) = node.key.withRawSpan { key in
        (
          key.integer(at: 0, as: UInt32.self)?.byteSwapped ?? 0,
          key.integer(at: 4, as: UInt32.self)?.byteSwapped
        )
      }
      // Records of old indexes have no meaning.
      if let record = spaces[number]?.record, record.hasMaximum, record.index == index {
        members.add(node.key)
      }
    }
    storedMembers = members
  }

  private func readRemovals() throws {
    var records: [UInt64: TagRecord] = [:]
    var isDamaged = false
    let values = values
    try reader.forEachNode(of: .table(Generation.tagsName)) { node in
      guard node.key.count == 8, let tag: UInt64 = node.key.integer(at: 0),
        let bytes = values.bytes(of: node.value),
        let record = bytes.withRawSpan({ TagRecord($0, tag: tag) })
      else {
        isDamaged = true
        return
      }
      records[tag] = record
    }
    removals = records
    mayMissRemovals = isDamaged || reader.hasGaps || meta == nil
  }

  // MARK: Entries

  /// An item of a record, with its content if the checksum matches.
  struct Found {
    let hash: UInt64
    let header: EntryHeader
    /// The entry, or `nil` if it is damaged.
    let entry: GenerationWriter.Entry?
    let chunks: ChunkReference?
    let isScavenged: Bool
  }

  /// Calls `body` with the items of every record, or with an empty list if a record is unreadable.
  func forEachRecord(
    content isWanted: (EntryHeader) -> Bool = { _ in true }, _ body: ([Found]) throws -> Void
  ) throws {
    let (values, chunks) = (values, chunks)
    for source in [SalvageReader.Source.table(Generation.entriesName), .unknown] {
      try reader.forEachNode(of: source) { node in
        guard node.key.count == 8, let hash: UInt64 = node.key.integer(at: 0) else { return }
        // Of an unknown table it may as well be a chunk.
        let isRecord = source != .unknown
        guard let record = values.bytes(of: node.value) else {
          if isRecord { try body([]) }
          return
        }
        let readable = record.withRawSpan { Record.readableLength(of: $0) }
        if readable < record.count, isRecord { try body([]) }
        let items = try record.withRawSpan { try Record.items(in: $0.slice(0..<readable)!) }
        guard !items.isEmpty else { return }
        let found = items.map { item in
          let entry =
            isWanted(item.header)
            ? StoreSalvage.entry(item, in: record, chunks: chunks, values) : nil
          return Found(
            hash: hash, header: item.header, entry: entry, chunks: item.chunks,
            isScavenged: node.isScavenged)
        }
        if source == .unknown, found.allSatisfy({ $0.entry == nil }) { return }
        try body(found)
      }
    }
  }

  static func entry(
    _ item: RecordEntry, in record: [UInt8], chunks: [UInt64: SalvageReader.Value],
    _ values: SalvageReader.Values
  ) -> GenerationWriter.Entry? {
    let header = item.header
    let start = item.offset + header.contentOffset
    var content: [UInt8]?
    if let reference = item.chunks {
      content = self.content(of: reference, length: header.contentLength, chunks, values)
    } else {
      content = Array(record[start..<(start + header.contentLength)])
    }
    guard let content else { return nil }
    let key = Array(content[..<header.keyLength])
    let payload = Array(content[header.keyLength...])
    guard header.isIntact(contentHash: EntryHeader.contentHash(key: key, payload: payload)) else {
      return nil
    }
    return GenerationWriter.Entry(
      key: EncodedKey(tag: header.keyTag, bytes: key), payload: payload, codec: header.codec,
      commitVersion: header.commitVersion, created: header.created, expires: header.expires,
      traits: EntryHeader.Traits(header),
      tags: record.withRawSpan { header.tags(in: $0, at: item.offset) } ?? [])
  }

  /// Returns the content in chunks, or `nil` if one is missing or damaged.
  static func content(
    of reference: ChunkReference, length: Int, _ chunks: [UInt64: SalvageReader.Value],
    _ values: SalvageReader.Values
  ) -> [UInt8]? {
    Record.chunkedContent(reference, length: length) { id, body in
      guard let value = chunks[id], let bytes = values.bytes(of: value) else { return false }
      return bytes.withRawSpan { body($0) }
    }
  }

  // MARK: Checks

  /// Reconstructs namespaces that lost their record, from all of their entries.
  private func findEpochs() throws {
    var epochs: [UInt32: UInt32] = [:]
    let spaces = spaces
    try forEachRecord(
      content: { spaces[$0.namespace].map { $0.record == nil || $0.isOlder } ?? true },
      { found in
        for item in found where item.entry != nil {
          let number = item.header.namespace
          epochs[number] = max(epochs[number] ?? 0, item.header.epoch)
        }
      })
    for (number, epoch) in epochs {
      self.spaces[number, default: SalvagedNamespace()].highestEpoch = epoch
    }
  }

  /// The name of a namespace in the repaired store.
  func name(of number: UInt32) -> [UInt8] {
    if let name = spaces[number]?.name { return name }
    var name = Array("recovered-\(number)".utf8)
    while spaces.values.contains(where: { $0.name == name }) { name += Array("-2".utf8) }
    return name
  }

  /// Whether an entry was removed together with its namespace's others, and not yet swept.
  func isCleared(_ header: EntryHeader) -> Bool {
    guard let space = spaces[header.namespace] else { return false }
    guard let record = space.record else { return header.epoch < space.highestEpoch }
    // A record of one commit earlier does not contain a later clear.
    return space.isOlder
      ? header.epoch < max(record.epoch, space.highestEpoch) : header.epoch != record.epoch
  }

  /// Whether an entry was removed by one of its tags, or may have been.
  func isRemovedByTag(_ header: EntryHeader, _ entry: GenerationWriter.Entry) -> Bool {
    guard header.isTagged else { return false }
    return mayMissRemovals || entry.tags.contains { removals[$0]?.removes(header) == true }
  }

  /// Whether an entry is stored where a lookup of its key reads; `true` if that is unknown.
  func isInPlace(_ entry: GenerationWriter.Entry, _ hash: UInt64, namespace: UInt32) -> Bool {
    guard let meta, let name = spaces[namespace]?.name else { return true }
    return NamespaceHandle.hash(
      of: entry.key, after: NamespaceHandle.prefix(of: name, secret: meta.secret),
      bits: meta.hashBits) == hash
  }
}
