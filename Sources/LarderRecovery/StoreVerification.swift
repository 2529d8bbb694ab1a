// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// VERIFICATION DURING WRITES
//
// Everything is checked in one snapshot, pinned by one of this process's pooled readers: the pages
// of data.mdb that the snapshot's meta leads to (read as bytes, before LMDB walks them), every
// entry (header, checksum, its hash), every chunk (checksum, exactly one owner), every deadline
// (one entry at least), and the counters. What a snapshot reaches is not written to while it is
// pinned; so no process waits, and the file grows by the pages that other processes write.
//
// Two things are not part of a snapshot. Its meta page is written over by the second commit after
// it: both metas are read first, and what was read counts only if the second writer has not begun
// by then (as R2 of the protocol). And the budget: it is lowered in one transaction
// and evicted down to in others; a store that is over its budget is checked again.

extension SharedStore {
  /// Checks the file, every entry, and the counters.
  ///
  /// ```swift
  /// let findings = try store.verify { print("\($0.phase): \($0.done) of \($0.total)") }
  /// ```
  ///
  /// No process waits: the check uses one snapshot while all processes read and write. Until it
  /// ends, that snapshot keeps freed pages from being reused. So the file grows by the amount that
  /// other processes write during the check, and keeps that size.
  ///
  /// - Parameter progress: A closure that is called from time to time on the calling thread. It
  ///   must not use the store.
  /// - Returns: The findings, the most severe first. The array is empty if the store is valid.
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: Reads the whole file.
  public func verify(progress: ((StoreProgress) -> Void)? = nil) throws -> [StoreFinding] {
    try openCore("verify").verify(progress: progress)
  }
}

extension StoreCore {
  /// Checks the complete store. No other process waits.
  package func verify(
    limit: Int = 100, progress: ((StoreProgress) -> Void)? = nil
  ) throws -> [StoreFinding] {
    do {
      var check = try withGeneration { generation in
        try verify(generation, limit: limit, progress)
      }
      if check.isOverBudget { try recheckBudget(&check.findings) }
      return check.findings.sorted
    } catch let error as LMDBError {
      throw StoreError(wrapping: error, during: "verify", path: directory.path)
    } catch let error as LMDBFileError {
      throw StoreError(.system, during: "verify", path: directory.path, "\(error)")
    }
  }

  private func verify(
    _ generation: Generation, limit: Int, _ progress: ((StoreProgress) -> Void)?
  ) throws -> StoreVerification {
    for _ in 0..<10_000 {
      let budget = generation.table.budget
      let check: StoreVerification? = try generation.withSnapshot { snapshot in
        var check = StoreVerification(generation: generation, limit: limit, progress: progress)
        guard try check.checkPages(commitVersion: snapshot.commitVersion) else { return nil }
        if !check.findings.hasErrors { try check.run(snapshot, budget: budget) }
        return check
      }
      if let check { return check }
      OSThread.yield()
    }
    throw StoreError(
      .system, during: "verify", path: directory.path,
      "The meta page of no snapshot could be read in time. Try again when there is less to do.")
  }

  /// Reports an exceeded budget only if it persists: after a lower budget is set, eviction may
  /// still be running.
  private func recheckBudget(_ findings: inout FindingList) throws {
    var excess: (stored: UInt64, allowed: UInt64)?
    for _ in 0..<100 {
      excess = try withGeneration { generation in
        try generation.withSnapshot { snapshot in
          guard
            let bytes = try snapshot.transaction.value(forKey: StoreTotals.key, in: .main),
            let totals = StoreTotals(bytes)
          else { return nil }
          let budget = generation.table.budget
          return budget > 0 && totals.bytes > budget ? (totals.bytes, budget) : nil
        }
      }
      if excess == nil { return }
      Event().wait(nanoseconds: 10_000_000)
    }
    guard let excess else { return }
    findings.add(
      .error, "budget", "\(excess.stored) bytes are stored, \(excess.allowed) are allowed")
  }
}

struct StoreVerification {
  let generation: Generation
  let progress: ((StoreProgress) -> Void)?
  var findings: FindingList
  private(set) var isOverBudget = false

  private struct Sum {
    var bytes: UInt64 = 0
    var entries: UInt64 = 0
  }

  private var all = Sum()
  private var living: [UInt32: Sum] = [:]
  private var names: [UInt32: NamespaceRecord] = [:]
  private var spaces: [UInt32: NamespaceHandle] = [:]
  private var chunkOwners: Set<UInt64> = []
  /// Of the deadlines that there have to be, and are: equal sums, equal sets.
  private var expectedDeadlines = SetFingerprint()
  private var storedDeadlines = SetFingerprint()

  init(generation: Generation, limit: Int, progress: ((StoreProgress) -> Void)?) {
    self.generation = generation
    self.progress = progress
    findings = FindingList(limit: limit)
  }

  mutating func find(_ severity: StoreFinding.Severity, _ place: String, _ message: String) {
    findings.add(severity, place, message)
  }

  /// Whether this process must leave the generation, which waits for its readers. The check of a
  /// generation that was superseded since continues to the end.
  func tell(_ phase: StoreProgress.Phase, _ done: Int, of total: Int) throws {
    guard done & 0xFF == 0 else { return }
    if generation.isReadingOver { throw EngineSignal.generationChanged }
    progress?(StoreProgress(phase: phase, done: done, total: max(total, done)))
  }

  /// Checks the file's pages in the snapshot with this commit version.
  ///
  /// - Returns: `false` if a later commit has overwritten the snapshot's meta page.
  mutating func checkPages(commitVersion: UInt64) throws -> Bool {
    let report = try generation.verifyPages(commitVersion: commitVersion) {
      [progress] pages, lastPage in
      progress?(StoreProgress(phase: .pages, done: Int(pages), total: Int(lastPage)))
    }
    for finding in report?.findings ?? [] { find(.error, "data.mdb", "\(finding)") }
    return report != nil
  }

  mutating func run(_ snapshot: borrowing Snapshot, budget: UInt64) throws {
    try readNamespaces(snapshot.transaction)
    try checkEntries(snapshot.transaction)
    try checkObjects(snapshot)
    try checkChunks(snapshot.transaction)
    try checkDeadlines(snapshot.transaction)
    try checkBooks(snapshot.transaction, budget: budget)
  }

  private mutating func readNamespaces(_ transaction: borrowing ReadTransaction) throws {
    let prefix = Array("i:".utf8)
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: prefix)
    while more {
      guard let number = NamespaceRecord.number(ofKey: cursor.currentKey) else { break }
      if let record = NamespaceRecord(cursor.currentValue) {
        names[number] = record
        spaces[number] = try? NamespaceHandle(name: String(decoding: record.name, as: UTF8.self))
      } else {
        find(.error, "namespace \(number)", "its record is damaged")
      }
      more = try cursor.moveToNext()
    }
    try readNames(transaction)
  }

  /// Checks that each namespace is found by its name, and that each name refers to one.
  private mutating func readNames(_ transaction: borrowing ReadTransaction) throws {
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

  private mutating func checkEntries(_ transaction: borrowing ReadTransaction) throws {
    let total = try transaction.statistics(of: generation.entries).entries
    var cursor = try Cursor(over: generation.entries, in: transaction)
    var more = try cursor.moveToFirst()
    var done = 0
    while more {
      try tell(.entries, done, of: total)
      done += 1
      let hash = cursor.currentInteger
      let place = "entry \(String(hash, radix: 16))"
      do {
        let record = cursor.currentValue
        let items = try Record.items(in: record)
        for item in items { try check(item, record, hash, place, transaction) }
        for expires in Set(items.map(\.header.expires)) where expires != EntryHeader.never {
          expectedDeadlines.add(ExpiryKey.key(expires: expires, hash: hash))
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
    _ item: RecordEntry, _ record: RawSpan, _ hash: UInt64, _ place: String,
    _ transaction: borrowing ReadTransaction
  ) throws {
    let header = item.header
    all.bytes += UInt64(header.cost)
    all.entries += 1
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
    if !header.isIntact(contentHash: contentHash) {
      find(.error, place, "its checksum is wrong")
      return
    }
    guard let namespace = names[header.namespace], let space = spaces[header.namespace] else {
      find(.error, place, "its namespace \(header.namespace) does not exist")
      return
    }
    if namespace.epoch == header.epoch {
      living[header.namespace, default: Sum()].bytes += UInt64(header.cost)
      living[header.namespace, default: Sum()].entries += 1
    }
    let encoded = EncodedKey(tag: header.keyTag, bytes: key)
    if space.hash(of: encoded, in: generation) != hash {
      find(.error, place, "it is stored under the hash of another key")
    }
  }

  /// Records the owner of chunks, and reports a chunk that has another owner.
  mutating func own(chunks ids: Range<UInt64>, _ place: String) {
    for id in ids where !chunkOwners.insert(id).inserted {
      find(.error, place, "chunk \(id) belongs to another entry as well")
    }
  }

  private mutating func checkChunks(_ transaction: borrowing ReadTransaction) throws {
    let total = try transaction.statistics(of: generation.chunks).entries
    var cursor = try Cursor(over: generation.chunks, in: transaction)
    var more = try cursor.moveToFirst()
    var done = 0
    while more {
      try tell(.chunks, done, of: total)
      done += 1
      let id = cursor.currentInteger
      if chunkOwners.remove(id) == nil { find(.warning, "chunk \(id)", "no entry refers to it") }
      more = try cursor.moveToNext()
    }
    for id in chunkOwners.sorted().prefix(5) { find(.error, "chunk \(id)", "it is missing") }
  }

  private mutating func checkDeadlines(_ transaction: borrowing ReadTransaction) throws {
    let total = try transaction.statistics(of: generation.expiries).entries
    var cursor = try Cursor(over: generation.expiries, in: transaction)
    var more = try cursor.moveToFirst()
    var done = 0
    while more {
      try tell(.deadlines, done, of: total)
      done += 1
      storedDeadlines.add(cursor.currentKey.copied())
      more = try cursor.moveToNext()
    }
    if expectedDeadlines != storedDeadlines {
      find(
        .warning, "expiries",
        "there are \(storedDeadlines.count) deadlines; the entries have "
          + "\(expectedDeadlines.count), not the same")
    }
  }

  private mutating func checkBooks(
    _ transaction: borrowing ReadTransaction, budget: UInt64
  ) throws {
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
    isOverBudget = budget > 0 && totals.bytes > budget
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

/// A fingerprint of a set of keys, independent of their order.
struct SetFingerprint: Hashable {
  private(set) var count = 0
  private var sum: UInt64 = 0

  mutating func add(_ key: [UInt8]) {
    count += 1
    sum &+= XXH64.hash(key)
  }

  mutating func add(_ number: UInt64) {
    var key: [UInt8] = []
    key.append(littleEndian: number)
    add(key)
  }
}
