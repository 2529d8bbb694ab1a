// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
public import LarderEngine
internal import LarderLMDB
internal import LarderObjectEngine
internal import LarderSystem

// REPAIR
//
// The files of the damaged generation are only read, and never by LMDB. What is readable is written
// into a new generation next to it, complete and (of a durable store) on the disk before CURRENT
// names it. Repair holds the open lock, and no process has the store open.
//
//     0  if the files of a durable or relaxed store are damaged, or their pages may be missing, checkpoint and log
//        come first (`CheckpointRestoration.swift`)
//     1  everything is read once, to collect findings and valid data (`StoreSalvage.swift`); if
//        nothing is wrong, or in a dry run, repair ends here
//     2  g-<n+1>.tmp is filled and completed
//     3  `set-aside` is put into g-<n>: the removal of old generations keeps this one
//     4  g-<n+1>.tmp is renamed, CURRENT names it
//     5  g-<n> becomes damaged-g-<n>; of a cache, it is removed
//
// After a kill before the end of 4, the old generation is current and unchanged, and the next
// opener or repair removes the unfinished one. After a kill after step 4, the next opener runs 5.

extension SharedStore {
  /// Checks the files of a store that no process has open, and salvages readable data into new
  /// files.
  ///
  /// ```swift
  /// let report = try SharedStore.repair(at: "/var/lib/myapp/objects")
  /// print("\(report.kept) entries kept, \(report.lost) lost")
  /// ```
  ///
  /// Every kept entry is valid. It is the last one of its key unless the report's `mayMissCommits`
  /// is `true`. Damaged files of a durable store are quarantined; the report contains their path.
  /// Opening and closing wait until the repair ends. A process killed during a repair leaves the
  /// old store or the repaired one.
  ///
  /// - Parameters:
  ///   - path: The directory of the store; without it, the user's default store.
  ///   - dryRun: Whether to report the repair without any change.
  ///   - keepsDamagedFiles: Whether to quarantine the damaged files of a cache as well.
  ///   - openTimeout: The maximum wait for a process that is opening or closing the store.
  /// - Throws: ``/LarderEngine/StoreError/Code/inUse`` if a process has the store open,
  ///   ``/LarderEngine/StoreError/Code/damaged`` if nothing of it is readable. Then nothing was changed.
  /// - Complexity: Reads everything two or three times; needs room on the disk for what is kept.
  public static func repair(
    at path: String? = nil, dryRun: Bool = false, keepsDamagedFiles: Bool = false,
    openTimeout: Duration = .seconds(10)
  ) throws -> RepairReport {
    do {
      var repair = try StoreRepair(at: path ?? defaultPath, openTimeout: openTimeout)
      return try repair.run(dryRun: dryRun, keepsDamagedFiles: keepsDamagedFiles)
    } catch let error as LMDBFileError {
      throw StoreError(
        .damaged, during: "repair", path: path, "\(error) Nothing was changed.")
    } catch {
      throw StoreError(wrapping: error, during: "repair", path: path)
    }
  }

  /// Checks the files of a store that no process has open, even if the store cannot be opened.
  ///
  /// - Returns: The findings, the worst first. If a repair would find nothing readable, one says so.
  /// - Throws: ``/LarderEngine/StoreError``, as ``repair(at:dryRun:keepsDamagedFiles:openTimeout:)``.
  public static func findings(at path: String? = nil) throws -> [StoreFinding] {
    do {
      return try repair(at: path, dryRun: true).findings
    } catch let error as StoreError where error.code == .damaged {
      return [StoreFinding(severity: .error, place: "repair", message: error.message)]
    }
  }
}

/// One repair: it holds the open lock and is the only user of the store.
struct StoreRepair {
  let directory: StoreDirectory
  let durability: Durability
  let number: UInt64
  /// Whether `CURRENT` names the generation.
  let isNamed: Bool
  /// Whether it names a newer one, of which nothing is left.
  let isOlder: Bool
  private let gate: OpenLock
  private let presence: OwnedFile
  /// The reason why commits may be missing from the files: their page cache is not proven, or they were replaced.
  let lossReason: String?
  /// The files that checkpoint and log gave back.
  private(set) var restoration: CheckpointRestoration?

  var path: String { directory.generation(number) }
  /// The directory with the files that are read: those of the generation, or what was restored from them.
  var source: String { restoration?.path ?? path }

  init(at path: String, openTimeout: Duration) throws {
    if ForkGuard.isForkedChild { throw StoreError.usedAfterFork("repair") }
    guard let (found, durability) = try StoreDirectory.findDamaged(path) else {
      throw StoreError(
        .directory, during: "repair", path: path,
        "There is no store here. Name the directory the store was opened at.")
    }
    self.durability = durability
    let directory = try StoreDirectory.prepare(found.path, durability: durability)
    self.directory = directory
    gate = try OpenLock.enter(directory, timeout: openTimeout)
    fault(.openGateTaken)
    let existing = try CurrentPointer.generations(in: directory)
    let named = try CurrentPointer.read(in: directory)
    let candidates = [named].compactMap { $0 } + existing.reversed()
    let present = candidates.first { StoreDirectory.exists(directory.generation($0)) }
    guard let present else {
      throw StoreError(
        .damaged, during: "repair", path: path,
        "None of the store's files is left. Restore a copy, or remove the directory.")
    }
    number = present
    let opener = StoreOpener(directory: directory, options: StoreOptions(durability: durability))
    if let name = try opener.unexpectedFile(in: directory.generation(present)) {
      throw StoreError(
        .damaged, during: "repair", path: path,
        "\(name) of g-\(present) is not a regular file. Move it away, and repair again.")
    }
    isNamed = named == present
    isOlder = named.map { $0 > present } ?? false
    presence = try OwnedFile(
      path: directory.generation(present) + "/presence", creation: .createIfMissing,
      closesInForkedChild: true)
    guard try presence.tryLock(.exclusive, at: PresenceLocks.openOffset) else {
      throw StoreRepair.inUse(path, by: StoreRepair.processes(presence, directory, present))
    }
    fault(.openPresenceTaken)
    lossReason = try opener.lossDoubt(ofGeneration: present, presence)
  }

  private static func processes(
    _ presence: OwnedFile, _ directory: StoreDirectory, _ number: UInt64
  ) -> [Int32] {
    let opener = StoreOpener(directory: directory, options: StoreOptions())
    let path = directory.generation(number) + "/shared.table"
    guard let table = (try? opener.openTable(path, number: number)) ?? nil else { return [] }
    return (0..<table.shape.processSlots).compactMap { process in
      guard
        let pid = table.pid(process: process),
        (try? presence.isLockedElsewhere(at: PresenceLocks.slotOffset(process))) == true
      else { return nil }
      return pid
    }
  }

  private static func inUse(_ path: String, by processes: [Int32]) -> StoreError {
    let names = processes.map(String.init).joined(separator: ", ")
    let holders = processes.isEmpty ? "Other processes" : "Processes (\(names))"
    return StoreError(
      .inUse, during: "repair", path: path,
      "\(holders) have the store open. End them, or let them close it, and repair again.",
      pid: processes.first)
  }

  // MARK: Running

  mutating func run(dryRun: Bool, keepsDamagedFiles: Bool) throws -> RepairReport {
    defer {
      restoration?.removeCopy()
      gate.leave()
    }
    let checkpoints = try CheckpointRestoration.Candidate.best(for: self)
    if let checkpoints, lossReason != nil || checkpoints.isComplete {
      restoration = try CheckpointRestoration(checkpoints, of: self, isDryRun: dryRun)
    }
    let survey: RepairAnalysis
    do {
      survey = try RepairAnalysis(self)
      try survey.run()
    } catch let error as StoreError where error.code == .damaged && restoration == nil {
      // Older commits are more than nothing.
      guard let checkpoints else { throw error }
      restoration = try CheckpointRestoration(checkpoints, of: self, isDryRun: dryRun)
      return try mend(with: run(RepairAnalysis(self)), dryRun, keepsDamagedFiles)
    }
    return try mend(with: survey, dryRun, keepsDamagedFiles)
  }

  private func run(_ survey: RepairAnalysis) throws -> RepairAnalysis {
    try survey.run()
    return survey
  }

  private func mend(
    with survey: RepairAnalysis, _ dryRun: Bool, _ keepsDamagedFiles: Bool
  ) throws -> RepairReport {
    if survey.report.outcome == .sound || dryRun { return survey.report }
    var report = survey.report
    report.outcome = .repaired
    if survey.isOnlyRestored { return report }
    if survey.isOnlyUnnamed {
      try CurrentPointer.write(number, in: directory, synchronous: true)
      return report
    }
    let builder = GenerationBuilder(
      directory: directory, options: StoreOptions(durability: durability))
    let newest = max(number, try CurrentPointer.generations(in: directory).last ?? 0)
    let temporary = directory.generation(newest + 1) + ".tmp"
    FileSystem.removeTree(temporary)
    do {
      try fill(survey, temporary, newest + 1, builder, &report)
      let keeps = durability.survivesSystemCrash || keepsDamagedFiles
      if keeps { try markSetAside() }
      try builder.put(temporary, inForceAs: newest + 1)
      if keeps {
        report.damagedFiles = try directory.quarantine(number)
      } else {
        FileSystem.removeTree(path)
      }
    } catch {
      FileSystem.removeTree(temporary)
      throw error
    }
    let options = StoreOptions(durability: durability)
    try StoreOpener(directory: directory, options: options).removeOldGenerations(but: newest + 1)
    return report
  }

  private func fill(
    _ survey: RepairAnalysis, _ temporary: String, _ newNumber: UInt64,
    _ builder: GenerationBuilder, _ report: inout RepairReport
  ) throws {
    let filler = try GenerationWriter(at: temporary, meta: survey.newMeta(number: newNumber))
    do {
      if !report.isDiscarded {
        for (number, space) in survey.salvage.spaces.sorted(by: { $0.key < $1.key }) {
          guard let record = space.record else { continue }
          filler.setLimits(of: survey.salvage.name(of: number), from: record)
        }
        var kept: [[UInt8]: Int] = [:]
        try survey.forEachKept { entry, name in
          if try filler.append(entry, in: name) { kept[name, default: 0] += 1 }
        }
        // After one of two entries with the same key was dropped.
        survey.count(kept, in: &report)
        let indexes = survey.catalog.indexes
        try survey.forEachKeptObject { try filler.append($0, indexes: indexes) }
        survey.count(objects: filler.objectBooks.mapValues { Int($0.count) }, in: &report)
        try filler.write(survey.catalog)
      }
      switch durability {
      case .durable, .durableStrict, .relaxed: filler.raiseBudget()
      case .cache:
        report.evicted = try filler.trim()
        report.kept -= report.evicted
      }
    } catch {
      filler.abandon()
      throw error
    }
    try filler.finish(with: builder, inheriting: survey.oldTable)
  }

  /// Step 3.
  private func markSetAside() throws {
    let mark = try OwnedFile(
      path: path + "/" + StoreDirectory.setAsideMark, creation: .createIfMissing)
    try mark.synchronize()
    try FileSystem.synchronizeDirectory(path)
  }
}
