// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// WHAT OF A DAMAGED STORE IS BELIEVED
//
// An entry: its checksum, over key, header and payload. Without it nothing is kept.
//
// The store's own records have none. So what they say is held against the entries:
//
//   secret      keys hash to where their entries stand; if none does, it is given up for a new one
//   names       likewise, for each namespace. A name that is lost, or fails, is looked for in the
//               record of the name ("n:"), then in the main table of one commit earlier; else the
//               entries go to `recovered-<number>`
//   epochs      an entry of an earlier epoch was removed by a removeAll, and stays removed, if it was
//               written no later than that. Without a credible record the highest epoch there is
//               counts
//   budget      of `meta` and the shared table the larger; it never costs a durable store an entry
//
// An entry found where nothing leads to has to stand under the hash of its key as well; of two of the
// same key the newer label stays. Chunks have ids that are never used again: one that has its
// checksum is the right one, wherever it was found.

/// Everything that is readable of a store whose files nobody has open.
final class StoreSalvage {
  /// A namespace of the damaged store.
  struct Space {
    var record: NamespaceRecord?
    /// Whether the record is of one commit earlier.
    var isOlder = false
    /// Names it may have, the likeliest first.
    var names: [[UInt8]] = []
    var name: [UInt8] = []
    var isRecovered = false
    var highestEpoch: UInt32 = 0
    var samples: [(hash: UInt64, key: EncodedKey)] = []
  }

  static let sampleCount = 16

  let number: UInt64
  var reader: SalvageReader
  let values: SalvageReader.Values
  var meta: StoreMeta?
  var totals: StoreTotals?
  var spaces: [UInt32: Space] = [:]
  var chunks: [UInt64: SalvageReader.Value] = [:]
  /// The ids of the table of chunks.
  var storedChunks = Fingerprint()
  var storedDeadlines = Fingerprint()
  var isSecretTrusted = false

  /// - Throws: when there is no data file, or nothing in it that could be a store.
  init(path: String, number: UInt64) throws {
    let reader = try SalvageReader(path: path)
    self.number = number
    values = reader.values
    self.reader = reader
    try readRecords(of: .main)
    try readRecords(of: .unknown)
    try readRecords(of: .olderMain)
    try indexChunks()
    try readDeadlines()
    try sample()
    // Without its record, a namespace is known by all of its entries only.
    if judge() { try sample() }
  }

  // MARK: Records

  private func readRecords(of source: SalvageReader.Source) throws {
    var records: [(key: [UInt8], value: [UInt8])] = []
    let values = values
    try reader.forEachNode(of: source) { node in
      let isKnown =
        node.key == StoreMeta.key || node.key == StoreTotals.key
        || node.key.starts(with: "n:".utf8) || node.key.starts(with: "i:".utf8)
      guard isKnown, let bytes = values.bytes(of: node.value) else { return }
      records.append((node.key, bytes))
    }
    for (key, value) in records {
      value.withRawSpan { bytes in
        if key == StoreMeta.key {
          if meta == nil, let found = StoreMeta(bytes), found.generation == number { meta = found }
        } else if key == StoreTotals.key {
          if totals == nil, source != .olderMain { totals = StoreTotals(bytes) }
        } else if let namespace = key.withRawSpan({ NamespaceRecord.number(ofKey: $0) }) {
          guard let record = NamespaceRecord(bytes) else { return }
          var space = spaces[namespace] ?? Space()
          if space.record == nil {
            space.record = record
            space.isOlder = source == .olderMain
          }
          space.names.insert(record.name, at: space.isOlder ? space.names.count : 0)
          spaces[namespace] = space
        } else if key.starts(with: "n:".utf8), let namespace: UInt32 = bytes.integer(at: 0) {
          spaces[namespace, default: Space()].names.append(Array(key.dropFirst(2)))
        }
      }
    }
  }

  private func indexChunks() throws {
    for source in [SalvageReader.Source.table(Generation.chunksName), .unknown] {
      var found: [UInt64: SalvageReader.Value] = [:]
      var ids = Fingerprint()
      try reader.forEachNode(of: source) { node in
        guard node.key.count == 8, let id: UInt64 = node.key.integer(at: 0) else { return }
        if source != .unknown { ids.add(id) }
        // Of one that stands in its node, the place would do; they are few and small.
        if found[id] == nil || !node.isScavenged { found[id] = node.value }
      }
      if source != .unknown { storedChunks = ids }
      chunks.merge(found) { known, _ in known }
    }
  }

  private func readDeadlines() throws {
    var deadlines = Fingerprint()
    try reader.forEachNode(of: .table(Generation.expiriesName)) { deadlines.add($0.key) }
    storedDeadlines = deadlines
  }

  // MARK: Entries

  /// An item of a record, with the content its checksum vouches for.
  struct Found {
    let hash: UInt64
    let header: EntryHeader
    /// `nil`: damaged.
    let entry: GenerationFiller.Entry?
    let chunks: ChunkReference?
    let isScavenged: Bool
  }

  /// Lends what every record holds; an empty list for one that cannot be read at all.
  func forEachRecord(
    content isWanted: (EntryHeader) -> Bool = { _ in true }, _ body: ([Found]) throws -> Void
  ) throws {
    let (values, chunks) = (values, chunks)
    for source in [SalvageReader.Source.table(Generation.entriesName), .unknown] {
      try reader.forEachNode(of: source) { node in
        guard node.key.count == 8, let hash: UInt64 = node.key.integer(at: 0) else { return }
        let record = values.bytes(of: node.value)
        let items = record.flatMap { record in
          record.withRawSpan { try? Record.items(in: $0) }
        }
        guard let record, let items else {
          // Of an unknown table it may as well be a chunk.
          if source != .unknown { try body([]) }
          return
        }
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

  private static func entry(
    _ item: RecordItem, in record: [UInt8], chunks: [UInt64: SalvageReader.Value],
    _ values: SalvageReader.Values
  ) -> GenerationFiller.Entry? {
    let header = item.header
    let start = item.offset + EntryHeader.size
    var content: [UInt8]?
    if let reference = item.chunks {
      content = Record.chunkedContent(reference, length: header.contentLength) { id, body in
        guard let value = chunks[id], let bytes = values.bytes(of: value) else { return false }
        return bytes.withRawSpan { body($0) }
      }
    } else {
      content = Array(record[start..<(start + header.contentLength)])
    }
    guard let content else { return nil }
    let key = Array(content[..<header.keyLength])
    let payload = Array(content[header.keyLength...])
    let isIntact = record.withRawSpan { record in
      header.isIntact(
        header: record.slice(item.offset..<start)!,
        contentHash: EntryHeader.contentHash(key: key, payload: payload))
    }
    guard isIntact else { return nil }
    return GenerationFiller.Entry(
      key: EncodedKey(tag: header.keyTag, bytes: key), payload: payload, codec: header.codec,
      label: header.label, created: header.created, expires: header.expires)
  }

  // MARK: Judging

  /// Looks at some entries of every namespace, and at all of one that lost its record.
  private func sample() throws {
    var spaces = spaces
    try forEachRecord(
      content: { header in
        guard let space = spaces[header.namespace] else { return true }
        return space.record == nil || space.samples.count < StoreSalvage.sampleCount
      },
      { found in
        for item in found {
          guard let entry = item.entry else { continue }
          var space = spaces[item.header.namespace] ?? Space()
          space.highestEpoch = max(space.highestEpoch, item.header.epoch)
          if space.samples.count < StoreSalvage.sampleCount {
            space.samples.append((item.hash, entry.key))
          }
          spaces[item.header.namespace] = space
        }
      })
    self.spaces = spaces
  }

  /// Decides which records are believed.
  ///
  /// - Returns: Whether one is not.
  private func judge() -> Bool {
    var tried = false
    var isAnyRefused = false
    if let meta {
      for space in spaces.values where !space.samples.isEmpty {
        for name in space.names {
          tried = true
          if fits(name, space.samples, meta) { isSecretTrusted = true }
        }
      }
    }
    if meta != nil, !tried { isSecretTrusted = true }
    var taken = Set(spaces.values.flatMap(\.names))
    for (number, var space) in spaces.sorted(by: { $0.key < $1.key }) {
      let known = space.names.first { name in
        guard isSecretTrusted, let meta, !space.samples.isEmpty else { return true }
        return fits(name, space.samples, meta)
      }
      let hadRecord = space.record != nil
      if let known {
        space.name = known
        if space.record?.name != known { space.record = nil }
      } else {
        var name = "recovered-\(number)"
        while !taken.insert(Array(name.utf8)).inserted { name += "-2" }
        space.name = Array(name.utf8)
        space.isRecovered = true
        space.record = nil
      }
      if hadRecord, space.record == nil { isAnyRefused = true }
      spaces[number] = space
    }
    return isAnyRefused
  }

  /// Whether one of the samples stands under the hash it has with this name.
  private func fits(
    _ name: [UInt8], _ samples: [(hash: UInt64, key: EncodedKey)], _ meta: StoreMeta
  ) -> Bool {
    samples.contains { sample in
      LarderEngine.Space.hash(
        of: sample.key, after: LarderEngine.Space.prefix(of: name, secret: meta.secret),
        bits: meta.hashBits) == sample.hash
    }
  }

  /// Whether an entry was removed together with its namespace's others, and not yet swept.
  func isCleared(_ header: EntryHeader) -> Bool {
    guard let space = spaces[header.namespace] else { return false }
    guard let record = space.record else { return header.epoch < space.highestEpoch }
    // The record may be damaged: only if both of its fields say so.
    return header.epoch != record.epoch && header.label <= record.clearedLabel
      && record.clearedLabel < Generation.base(ofGeneration: number + 1)
  }

  /// Whether an entry stands where its key is looked for; `true` if that cannot be told.
  func isInPlace(_ entry: GenerationFiller.Entry, _ hash: UInt64, namespace: UInt32) -> Bool {
    guard isSecretTrusted, let meta, let space = spaces[namespace], !space.isRecovered else {
      return true
    }
    return fits(space.name, [(hash, entry.key)], meta)
  }
}
