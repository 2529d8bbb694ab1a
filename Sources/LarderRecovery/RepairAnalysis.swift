// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import LarderSystem

/// The analysis of a damaged store: its findings, and the entries and objects that repair keeps.
final class RepairAnalysis {
  /// The directory with the files that are read.
  private let path: String
  private let durability: Durability
  private let lossReason: String?
  private let restoration: CheckpointRestoration?
  private let isNamed: Bool
  let salvage: StoreSalvage
  var findings = FindingList(limit: 100)
  private var tallies: [UInt32: Tally] = [:]
  var objectTallies: [UInt32: ObjectTally] = [:]
  private var all = Tally()
  private var lostRecords = 0
  private var isDiscarded = false
  /// The table of the damaged generation, if it is valid: recency and counters.
  let oldTable: SharedTable?
  /// Whether the table is as the last process left it.
  private let isTableCurrent: Bool
  private(set) var report: RepairReport

  private struct Tally {
    /// The visible entries, as the counters include them.
    var bytes: UInt64 = 0
    var entries = 0
    var kept = 0
    var damaged = 0
  }

  init(_ repair: StoreRepair) throws {
    (path, durability, isNamed) = (repair.source, repair.durability, repair.isNamed)
    (lossReason, restoration) = (repair.lossReason, repair.restoration)
    let storePath = repair.directory.path
    report = RepairReport(outcome: .sound, path: storePath, durability: durability)
    if let restoration {
      report.mayMissCommits = repair.isOlder || restoration.mayMissCommits
      for finding in restoration.findings {
        findings.add(finding.severity, finding.place, finding.message)
      }
    } else {
      let isLoss = lossReason != nil && durability.survivesSystemCrash
      report.mayMissCommits = repair.isOlder || isLoss
      if isLoss {
        findings.add(
          .error, CheckpointFile.name, "\(lossReason!), and what was synced last is not readable")
      }
    }
    let opener = StoreOpener(directory: repair.directory, options: StoreOptions())
    oldTable = (try? opener.openTable(repair.path + "/shared.table", number: repair.number)) ?? nil
    let data = try OwnedFile(path: repair.path + "/data.mdb", writable: false)
    isTableCurrent = oldTable?.isCurrent(forDescriptor: data.descriptor) ?? false
    salvage = try StoreSalvage(path: path + "/data.mdb", number: repair.number)
    guard salvage.reader.hasSnapshot else {
      throw StoreError(
        .damaged, during: "repair", path: storePath,
        "Neither meta page of data.mdb is usable, so nothing tells old pages from new ones. Nothing "
          + "was changed. Restore a copy.")
    }
    if let meta = salvage.meta, meta.version > StoreMeta.version {
      throw StoreError(
        .newerFormat, during: "repair", path: storePath,
        "The store has format \(meta.version); this version writes format \(StoreMeta.version). "
          + "Update the program.")
    }
  }

  /// Nothing is wrong with the files since they were restored.
  var isOnlyRestored: Bool {
    guard let restoration, restoration.isInPlace, isNamed else { return false }
    return report.findings.count == restoration.findings.count
  }

  /// Only `CURRENT` is wrong.
  var isOnlyUnnamed: Bool {
    !isNamed && report.findings.count == 1 && !report.isDiscarded
  }

  // MARK: Analysis

  func run() throws {
    if !isNamed { findings.add(.warning, "CURRENT", "it does not name the newest generation") }
    if durability == .cache, let lossReason {
      findings.add(.error, "state", "\(lossReason): nothing can be trusted")
      isDiscarded = true
      report.isDiscarded = true
    }
    try checkStructure()
    try checkEntries()
    try conclude()
  }

  private func checkStructure() throws {
    let structure = try StructuralVerifier.verify(path: path + "/data.mdb")
    let read = salvage.reader.report
    for finding in structure.isSound ? read.findings : structure.findings {
      findings.add(.error, "data.mdb", "\(finding)")
    }
    report.pagesRead = Int(read.pagesRead)
    report.pagesDamaged = Int(read.pagesDamaged)
    report.pagesUnreachable = Int(read.pagesUnreachable)
    report.pagesScavenged = Int(read.pagesScavenged)
    if read.mayMissCommits, !isNewest(read.transactionID) { report.mayMissCommits = true }
    guard let meta = salvage.meta else {
      findings.add(.error, "meta", "the record is missing or damaged")
      return
    }
    if meta.durability != durability {
      findings.add(.error, "meta", "it says .\(meta.durability), the directory .\(durability)")
    }
  }

  /// Whether no process began a later transaction, according to a table that is as the last process left it.
  private func isNewest(_ transaction: UInt64) -> Bool {
    guard let oldTable, isTableCurrent else { return false }
    return oldTable.lastStamped == Generation.versionBase(ofGeneration: salvage.number)
      + transaction
  }

  private func checkEntries() throws {
    var (ownedChunks, deadlines) = (SetFingerprint(), SetFingerprint())
    var members = SetFingerprint()
    try salvage.forEachRecord { found in
      if found.isEmpty { lostRecords += 1 }
      for expires in Set(found.map(\.header.keptUntil)) where expires != EntryHeader.never {
        deadlines.add(ExpiryKey.key(expires: expires, hash: found[0].hash))
      }
      for key in Set(found.compactMap { memberKey($0) }) { members.add(key) }
      for item in found {
        for id in item.chunks?.ids ?? 0..<0 { ownedChunks.add(id) }
        check(item)
      }
    }
    if lostRecords > 0 { findings.add(.error, "entries", "\(lostRecords) records are unreadable") }
    try checkObjects(&ownedChunks)
    if ownedChunks != salvage.storedChunks {
      findings.add(
        .warning, "chunks",
        "there are \(salvage.storedChunks.count); the entries have \(ownedChunks.count), not the "
          + "same")
    }
    if deadlines != salvage.storedDeadlines {
      findings.add(
        .warning, "expiries",
        "there are \(salvage.storedDeadlines.count) deadlines; the entries have "
          + "\(deadlines.count), not the same")
    }
    if members != salvage.storedMembers {
      findings.add(
        .warning, "members",
        "there are \(salvage.storedMembers.count) records of indexes of namespaces; the entries have "
          + "\(members.count), not the same")
    }
    checkBooks()
  }

  private func memberKey(_ item: StoreSalvage.Found) -> [UInt8]? {
    let header = item.header
    guard let record = salvage.spaces[header.namespace]?.record, record.hasMaximum else {
      return nil
    }
    return StoreTransaction.memberKey(
      header.namespace, index: record.index, epoch: header.epoch, hash: item.hash)
  }

  private func check(_ item: StoreSalvage.Found) {
    let number = item.header.namespace
    let place = "entry \(String(item.hash, radix: 16))"
    all.entries += 1
    all.bytes += UInt64(item.header.cost)
    var tally = tallies[number] ?? Tally()
    defer { tallies[number] = tally }
    guard let entry = item.entry else {
      findings.add(
        .error, place,
        item.chunks == nil
          ? "its checksum is wrong" : "its checksum is wrong, or a chunk is missing or damaged")
      if !salvage.isCleared(item.header) { tally.damaged += 1 }
      all.damaged += 1
      return
    }
    if salvage.spaces[number]?.record?.epoch == item.header.epoch {
      tally.entries += 1
      tally.bytes += UInt64(item.header.cost)
    }
    if !salvage.isInPlace(entry, item.hash, namespace: number) {
      findings.add(.error, place, "it is stored under the hash of another key")
    }
    if survivesSystemCrash(item, entry) {
      tally.kept += 1
    } else if item.header.isTagged, salvage.mayMissRemovals {
      tally.damaged += 1
    }
  }

  private func checkBooks() {
    if let totals = salvage.totals {
      if totals.bytes != all.bytes || totals.entries != UInt64(all.entries) {
        findings.add(
          .error, "totals",
          "they say \(totals.entries) entries of \(totals.bytes) bytes; readable are \(all.entries) "
            + "of \(all.bytes)")
      }
    } else {
      findings.add(.error, "totals", "the record is missing or damaged")
    }
    for (number, space) in salvage.spaces.sorted(by: { $0.key < $1.key }) {
      let name = String(decoding: salvage.name(of: number), as: UTF8.self)
      if !space.isNamed {
        findings.add(.error, "namespace \(name)", "its name does not lead to it")
      }
      let tally = tallies[number] ?? Tally()
      guard let record = space.record, !space.isOlder else {
        findings.add(.error, "namespace \(name)", "its record is missing or damaged")
        continue
      }
      if record.bytes != tally.bytes || record.entries != UInt64(tally.entries) {
        findings.add(
          .error, "namespace \(name)",
          "its record says \(record.entries) entries of \(record.bytes) bytes; readable are "
            + "\(tally.entries) of \(tally.bytes)")
      }
    }
  }

  // MARK: The report

  private func conclude() throws {
    report.findings = findings.sorted
    if !report.findings.isEmpty { report.outcome = .repairable }
    // With every page accounted for, no entry can be missing.
    let read = salvage.reader.report
    let isAccounted = read.isFreeListSound && read.pagesUnreachable == 0
    report.isLossKnown = !salvage.reader.hasGaps || salvage.totals != nil || isAccounted
    var kept: [[UInt8]: Int] = [:]
    for (number, tally) in tallies { kept[salvage.name(of: number), default: 0] += tally.kept }
    if report.isDiscarded { kept = [:] }
    count(kept, in: &report)
    count(objects: report.isDiscarded ? [:] : keptObjects, in: &report)
    let isAnythingMissing =
      report.lost > 0 || report.objectsLost > 0 || salvage.reader.hasGaps || salvage.meta == nil
    if report.kept == 0, report.objectsKept == 0, isAnythingMissing, !report.isDiscarded {
      throw StoreError(
        .damaged, during: "repair", path: report.path,
        "Nothing of what is stored is readable (\(report.findings[0])). Nothing was changed. Restore a "
          + "copy, or remove the directory.")
    }
  }

  /// Fills in the numbers of kept and lost entries, given the entries kept of each namespace.
  func count(_ kept: [[UInt8]: Int], in report: inout RepairReport) {
    report.namespaces = salvage.spaces.map { number, space in
      let name = salvage.name(of: number)
      return RepairReport.Namespace(
        name: String(decoding: name, as: UTF8.self), kept: kept[name] ?? 0,
        lost: lost(number, space), isRecovered: space.name == nil)
    }.sorted { $0.name < $1.name }
    report.kept = kept.values.reduce(0, +)
    report.lost = report.namespaces.reduce(0) { $0 + $1.lost }
    for (number, tally) in tallies where salvage.spaces[number] == nil {
      report.lost += tally.damaged
    }
    if let totals = salvage.totals, isAnyKeyLost {
      let missing = StoreTotals.missing(totals.entries, all.entries - all.damaged)
      report.lost = max(report.lost, missing)
    }
    report.lost = max(report.lost, lostRecords)
  }

  /// Whether entries may have been lost that only the counters record.
  private var isAnyKeyLost: Bool {
    isDiscarded || salvage.reader.hasGaps || lostRecords > 0
  }

  private func lost(_ number: UInt32, _ space: StoreSalvage.SalvagedNamespace) -> Int {
    let tally = tallies[number] ?? Tally()
    if isDiscarded { return max(tally.kept + tally.damaged, Int(space.record?.entries ?? 0)) }
    guard let record = space.record, isAnyKeyLost else { return tally.damaged }
    return max(tally.damaged, StoreTotals.missing(record.entries, tally.entries))
  }

  // MARK: What is kept

  private func survivesSystemCrash(_ item: StoreSalvage.Found, _ entry: GenerationWriter.Entry)
    -> Bool
  {
    if salvage.isCleared(item.header) || salvage.isRemovedByTag(item.header, entry) { return false }
    // Found by search: it may be another table's, or another store's.
    return !item.isScavenged
      || salvage.isInPlace(entry, item.hash, namespace: item.header.namespace)
  }

  /// Calls `body` with every entry that belongs into the repaired store and its namespace's name.
  func forEachKept(_ body: (GenerationWriter.Entry, [UInt8]) throws -> Void) throws {
    try salvage.forEachRecord { found in
      for item in found {
        guard let entry = item.entry, survivesSystemCrash(item, entry) else { continue }
        try body(entry, salvage.name(of: item.header.namespace))
      }
    }
  }

  /// Returns the meta record of the repaired store.
  func newMeta(number: UInt64) -> StoreMeta {
    let old = salvage.meta
    let budget = budget
    var mapSize = GenerationBuilder.mapSize(budget: Int(budget))
    // If the budget is damaged, data beyond it must fit as well.
    let size = (try? FileSystem.status(of: path + "/data.mdb"))??.size ?? 0
    while mapSize < 4 * size { mapSize *= 2 }
    var meta = StoreMeta(
      durability: durability, generation: number, inheriting: old, budget: budget,
      shape: old?.shape ?? oldTable?.shape ?? SharedTableShape(budget: Int(budget)),
      created: old?.created ?? Clocks.wallMilliseconds())
    meta.mapSize = UInt64(mapSize)
    if let old { (meta.entryBudget, meta.policyCode) = (old.entryBudget, old.policyCode) }
    let storeID =
      old?.storeID ?? (try? StoreState.read(from: path + "/state"))??.storeID ?? oldTable?.storeID
    if let storeID { meta.storeID = storeID }
    return meta
  }

  /// The budget: of `meta`, else of the shared-memory table, which has no checksum, if it is in the
  /// valid range, else the default.
  private var budget: UInt64 {
    if let meta = salvage.meta { return meta.budget }
    if let said = oldTable?.budget, (4096...1 << 43).contains(said) { return said }
    return durability == .cache ? UInt64(GenerationBuilder.defaultCacheBudget) : 0
  }
}

extension StoreTotals {
  /// Returns the number of counted entries that are missing, or zero if the counter is implausible.
  fileprivate static func missing(_ said: UInt64, _ found: Int) -> Int {
    said < 1 << 40 ? max(0, Int(said) - found) : 0
  }
}
