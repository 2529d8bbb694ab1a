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
  /// Checks the file, every entry, the counters, and the log of a relaxed or durable store.
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
      if var check {
        if let fault = try generation.checkLog() { check.find(.error, "log", fault) }
        return check
      }
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
          return budget > 0 && totals.charged > budget ? (totals.charged, budget) : nil
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

  private var all = StoreTotals()
  private var living: [UInt32: StoreTotals.Sum] = [:]
  var names: [UInt32: NamespaceRecord] = [:]
  private var spaces: [UInt32: NamespaceHandle] = [:]
  private var chunkOwners: Set<UInt64> = []
  /// Of the deadlines that there have to be, and are: equal sums, equal sets.
  private var expectedDeadlines = SetFingerprint()
  private var storedDeadlines = SetFingerprint()
  var expectedMembers = SetFingerprint()
  var storedMembers = SetFingerprint()

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
    try checkEntries(snapshot)
    try checkObjects(snapshot)
    try checkChunks(snapshot.transaction)
    try checkDeadlines(snapshot.transaction)
    try checkTags(snapshot.transaction)
    try checkMembers(snapshot.transaction)
    try checkBooks(snapshot.transaction, budget: budget, newest: snapshot.commitVersion)
  }

  // MARK: Loops

  /// Calls `body` with every entry of a table in order, and reports the progress.
  mutating func forEachEntry(
    of table: TableHandle, as phase: StoreProgress.Phase,
    in transaction: borrowing ReadTransaction,
    _ body: (inout StoreVerification, _ key: RawSpan, _ value: RawSpan) throws -> Void
  ) throws {
    let total = try transaction.statistics(of: table).entries
    var cursor = try Cursor(over: table, in: transaction)
    var more = try cursor.moveToFirst()
    var done = 0
    while more {
      try tell(phase, done, of: total)
      done += 1
      try body(&self, cursor.currentKey, cursor.currentValue)
      more = try cursor.moveToNext()
    }
  }

  /// Calls `body` with every record of the main table whose key begins with `prefix`.
  mutating func forEachRecord(
    _ prefix: String, in transaction: borrowing ReadTransaction,
    _ body: (inout StoreVerification, _ key: RawSpan, _ record: RawSpan) throws -> Void
  ) throws {
    var cursor = try Cursor(over: .main, in: transaction)
    var more = try cursor.move(atLeast: Array(prefix.utf8))
    while more, cursor.currentKey.copied().starts(with: prefix.utf8) {
      try body(&self, cursor.currentKey, cursor.currentValue)
      more = try cursor.moveToNext()
    }
  }

  // MARK: Checks

  private mutating func readNamespaces(_ transaction: borrowing ReadTransaction) throws {
    try forEachRecord("i:", in: transaction) { check, key, record in
      guard let number = NamespaceRecord.number(ofKey: key) else { return }
      if let record = NamespaceRecord(record) {
        check.names[number] = record
        check.spaces[number] = try? NamespaceHandle(
          name: String(decoding: record.name, as: UTF8.self))
      } else {
        check.find(.error, "namespace \(number)", "its record is damaged")
      }
    }
    try readNames(transaction)
  }

  /// Checks that each namespace is found by its name, and that each name refers to one.
  private mutating func readNames(_ transaction: borrowing ReadTransaction) throws {
    var numbers: [[UInt8]: UInt32] = [:]
    try forEachRecord("n:", in: transaction) { _, key, record in
      let name = Array(key.copied().dropFirst(2))
      numbers[name] = NamespaceRecord.number(in: record, name: name) ?? 0
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

  private mutating func checkEntries(_ snapshot: borrowing Snapshot) throws {
    try forEachEntry(of: generation.entries, as: .entries, in: snapshot.transaction) {
      check, key, record in
      let hash = key.integer(at: 0, as: UInt64.self) ?? 0
      let place = "entry \(String(hash, radix: 16))"
      do {
        let items = try Record.items(in: record)
        for item in items { try check.check(item, record, hash, place, snapshot) }
        for expires in Set(items.map(\.header.keptUntil)) where expires != EntryHeader.never {
          check.expectedDeadlines.add(ExpiryKey.key(expires: expires, hash: hash))
        }
        check.expectMembers(items, hash)
      } catch let defect as EntryHeader.Defect {
        check.find(
          defect == .newerFormat ? .warning : .error, place,
          defect == .newerFormat ? "written by a newer version" : "its header is damaged")
      }
    }
  }

  private mutating func check(
    _ item: RecordEntry, _ record: RawSpan, _ hash: UInt64, _ place: String,
    _ snapshot: borrowing Snapshot
  ) throws {
    let header = item.header
    all.add(header)
    if let chunks = item.chunks { own(chunks: chunks.ids, place) }
    let content = try snapshot.content(
      of: header, in: record, at: item.offset, length: header.contentLength)
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
      living[header.namespace, default: .init()].add(header)
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
    try forEachEntry(of: generation.chunks, as: .chunks, in: transaction) { check, key, _ in
      let id = key.integer(at: 0, as: UInt64.self) ?? 0
      if check.chunkOwners.remove(id) == nil {
        check.find(.warning, "chunk \(id)", "no entry refers to it")
      }
    }
    for id in chunkOwners.sorted().prefix(5) { find(.error, "chunk \(id)", "it is missing") }
  }

  private mutating func checkDeadlines(_ transaction: borrowing ReadTransaction) throws {
    try forEachEntry(of: generation.expiries, as: .deadlines, in: transaction) { check, key, _ in
      check.storedDeadlines.add(key.copied())
    }
    if expectedDeadlines != storedDeadlines {
      find(
        .warning, "expiries",
        "there are \(storedDeadlines.count) deadlines; the entries have "
          + "\(expectedDeadlines.count), not the same")
    }
  }

  private mutating func checkTags(_ transaction: borrowing ReadTransaction) throws {
    var cursor = try Cursor(over: generation.tags, in: transaction)
    var more = try cursor.moveToFirst()
    while more {
      let tag = cursor.currentInteger
      if TagRecord(cursor.currentValue, tag: tag) == nil {
        find(.error, "tag \(String(tag, radix: 16))", "the record of its removals is damaged")
      }
      more = try cursor.moveToNext()
    }
  }

  private mutating func checkBooks(
    _ transaction: borrowing ReadTransaction, budget: UInt64, newest: UInt64
  ) throws {
    guard
      let bytes = try transaction.value(forKey: StoreTotals.key, in: .main),
      let totals = StoreTotals(bytes)
    else {
      find(.error, "totals", "the record is missing or damaged")
      return
    }
    try checkChanges(transaction, totals, newest: newest)
    if totals.bytes != all.bytes || totals.entries != all.entries {
      find(
        .error, "totals",
        "they say \(totals.entries) entries of \(totals.bytes) bytes; there are \(all.entries) of "
          + "\(all.bytes)")
    }
    for (name, said, sum) in [
      ("pinned", totals.pinned, all.pinned), ("negative", totals.absent, all.absent),
    ] where said != sum {
      find(
        .error, "totals",
        "they say \(said.entries) \(name) entries of \(said.bytes) bytes; there are "
          + "\(sum.entries) of \(sum.bytes)")
    }
    isOverBudget = budget > 0 && totals.charged > budget
    for (number, record) in names {
      let sum = living[number] ?? .init()
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
