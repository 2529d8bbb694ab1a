// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// Something `verify()` found wrong.
public struct StoreFinding: Sendable, Hashable, CustomStringConvertible {
  public enum Severity: String, Sendable, Hashable {
    /// Books or indexes disagree; no value is concerned.
    case warning
    /// An entry, or the file, is damaged.
    case error
  }

  public let severity: Severity
  /// What is concerned: a file, a table, an entry.
  public let place: String
  public let message: String

  public var description: String { "\(severity.rawValue): \(place): \(message)" }
}

// What is walked, inside one write transaction that is never committed, so that nothing moves:
// the pages of data.mdb from both roots; every entry (header, checksum, its hash), every chunk
// (checksum, exactly one owner), every deadline (exactly one entry or more), and the books.

extension StoreCore {
  /// Checks everything. Other writers wait meanwhile; readers do not.
  package func verify(limit: Int = 100) throws -> [StoreFinding] {
    try exclusively { core in
      try core.withGeneration { generation in
        guard generation.takeWriterTurn() else { throw EngineSignal.moved }
        defer { generation.endWriterTurn() }
        let transaction = try WriteTransaction(in: generation.environment)
        if generation.table.isCondemned { throw EngineSignal.moved }
        var check = StoreVerification(generation: generation, limit: limit)
        try check.run(transaction)
        return check.findings
      }
    }
  }
}

private struct StoreVerification {
  let generation: Generation
  let limit: Int
  var findings: [StoreFinding] = []

  private struct Sum {
    var bytes: UInt64 = 0
    var entries: UInt64 = 0
  }

  private var all = Sum()
  private var living: [UInt32: Sum] = [:]
  private var names: [UInt32: NamespaceRecord] = [:]
  private var chunkOwners: Set<UInt64> = []
  private var deadlines: Set<[UInt8]> = []

  init(generation: Generation, limit: Int) {
    self.generation = generation
    self.limit = limit
  }

  private mutating func find(_ severity: StoreFinding.Severity, _ place: String, _ message: String)
  {
    guard findings.count < limit else { return }
    findings.append(StoreFinding(severity: severity, place: place, message: message))
  }

  mutating func run(_ transaction: borrowing WriteTransaction) throws {
    let report = try StructuralVerifier.verify(
      fileDescriptor: generation.environment.dataDescriptor)
    for finding in report.findings { find(.error, "data.mdb", "\(finding)") }
    guard report.isSound else { return }
    try readNamespaces(transaction)
    try checkEntries(transaction)
    try checkChunks(transaction)
    try checkDeadlines(transaction)
    try checkBooks(transaction)
  }

  private mutating func readNamespaces(_ transaction: borrowing WriteTransaction) throws {
    let prefix = Array("i:".utf8)
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: prefix)
    while more {
      guard let number = NamespaceRecord.number(ofKey: cursor.currentKey) else { break }
      if let record = NamespaceRecord(cursor.currentValue) {
        names[number] = record
      } else {
        find(.error, "namespace \(number)", "its record is damaged")
      }
      more = try cursor.moveToNext()
    }
    try readNames(transaction)
  }

  /// Each namespace is found by its name, and each name leads to one.
  private mutating func readNames(_ transaction: borrowing WriteTransaction) throws {
    let prefix = Array("n:".utf8)
    var numbers: [[UInt8]: UInt32] = [:]
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: prefix)
    while more {
      let key = cursor.currentKey.copied()
      guard key.starts(with: prefix) else { break }
      let name = Array(key.dropFirst(2))
      numbers[name] = NamespaceRecord.number(in: cursor.currentValue, name: name) ?? 0
      more = try cursor.moveToNext()
    }
    for (number, record) in names where numbers[record.name] != number {
      find(.error, "namespace \(number)", "its name leads to another namespace, or to none")
    }
    for (name, number) in numbers where names[number]?.name != name {
      find(
        .error, "namespace \(String(decoding: name, as: UTF8.self))",
        "it leads to number \(number), which is not its own")
    }
  }

  private mutating func checkEntries(_ transaction: borrowing WriteTransaction) throws {
    var cursor = try Cursor(over: generation.entries, in: transaction)
    var more = try cursor.moveToFirst()
    while more {
      let hash = cursor.currentInteger
      let place = "entry \(String(hash, radix: 16))"
      do {
        let record = cursor.currentValue
        for item in try Record.items(in: record) {
          try check(item, record, hash, place, transaction)
        }
      } catch let defect as EntryHeader.Defect {
        find(
          defect == .newerFormat ? .warning : .error, place,
          defect == .newerFormat ? "written by a newer version" : "its header is damaged")
      }
      more = try cursor.moveToNext()
    }
  }

  private mutating func check(
    _ item: RecordItem, _ record: RawSpan, _ hash: UInt64, _ place: String,
    _ transaction: borrowing WriteTransaction
  ) throws {
    let header = item.header
    all.bytes += UInt64(header.cost)
    all.entries += 1
    if header.expires != EntryHeader.never {
      deadlines.insert(Expiry.key(expires: header.expires, hash: hash))
    }
    var content: [UInt8]?
    if let chunks = item.chunks {
      for id in chunks.ids where !chunkOwners.insert(id).inserted {
        find(.error, place, "chunk \(id) belongs to another entry as well")
      }
      let chunkTable = generation.chunks
      content = try Record.chunkedContent(chunks, length: header.contentLength) { id, body in
        guard let chunk = try transaction.value(forKey: id, in: chunkTable) else { return false }
        return body(chunk)
      }
    } else {
      let start = item.offset + EntryHeader.size
      content = record.slice(start..<(start + header.contentLength))?.copied()
    }
    guard let content else {
      find(.error, place, "a chunk is missing or damaged")
      return
    }
    let key = Array(content[..<header.keyLength])
    let contentHash = EntryHeader.contentHash(
      key: key, payload: Array(content[header.keyLength...]))
    let headerBytes = record.slice(item.offset..<(item.offset + EntryHeader.size))!
    if !header.isIntact(header: headerBytes, contentHash: contentHash) {
      find(.error, place, "its checksum is wrong")
      return
    }
    guard let namespace = names[header.namespace] else {
      find(.error, place, "its namespace \(header.namespace) does not exist")
      return
    }
    if namespace.epoch == header.epoch {
      living[header.namespace, default: Sum()].bytes += UInt64(header.cost)
      living[header.namespace, default: Sum()].entries += 1
    }
    let space = try Space(name: String(decoding: namespace.name, as: UTF8.self))
    let encoded = EncodedKey(tag: header.keyTag, bytes: key)
    if space.hash(of: encoded, in: generation) != hash {
      find(.error, place, "it is stored under the hash of another key")
    }
  }

  private mutating func checkChunks(_ transaction: borrowing WriteTransaction) throws {
    var cursor = try Cursor(over: generation.chunks, in: transaction)
    var more = try cursor.moveToFirst()
    while more {
      let id = cursor.currentInteger
      if chunkOwners.remove(id) == nil { find(.warning, "chunk \(id)", "no entry refers to it") }
      more = try cursor.moveToNext()
    }
    for id in chunkOwners.sorted().prefix(5) { find(.error, "chunk \(id)", "it is missing") }
  }

  private mutating func checkDeadlines(_ transaction: borrowing WriteTransaction) throws {
    var cursor = try Cursor(over: generation.expiries, in: transaction)
    var more = try cursor.moveToFirst()
    while more {
      if deadlines.remove(cursor.currentKey.copied()) == nil {
        find(.warning, "expiries", "a deadline belongs to no entry")
      }
      more = try cursor.moveToNext()
    }
    if !deadlines.isEmpty {
      find(.warning, "expiries", "\(deadlines.count) entries are missing their deadline")
    }
  }

  private mutating func checkBooks(_ transaction: borrowing WriteTransaction) throws {
    guard
      let bytes = try transaction.value(forKey: StoreTotals.key, in: .main),
      let totals = StoreTotals(bytes)
    else {
      find(.error, "totals", "the record is missing or damaged")
      return
    }
    if totals.bytes != all.bytes || totals.entries != all.entries {
      find(
        .error, "totals",
        "they say \(totals.entries) entries of \(totals.bytes) bytes; there are \(all.entries) of "
          + "\(all.bytes)")
    }
    let budget = generation.table.budget
    if budget > 0, totals.bytes > budget {
      find(.error, "budget", "\(totals.bytes) bytes are stored, \(budget) are allowed")
    }
    for (number, record) in names {
      let sum = living[number] ?? Sum()
      if record.bytes != sum.bytes || record.entries != sum.entries {
        find(
          .error, "namespace \(String(decoding: record.name, as: UTF8.self))",
          "its record says \(record.entries) entries of \(record.bytes) bytes; there are "
            + "\(sum.entries) of \(sum.bytes)")
      }
    }
  }
}
