// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// OPENING
//
// Everything runs under the open lock: one process at a time. The next opener handles every state
// that a killed opener leaves.
//
//   1  CURRENT names the generation. If it is damaged or missing, the newest directory is used; if
//      there is none, a generation is built.
//   2  presence: if byte 0 can be write-locked, no other process has the generation open: this
//      process is alone.
//   3  shared.table: it must be complete, of this version and of this generation. A process that is
//      alone may rebuild it; otherwise it shows whether the other processes are of this boot and of
//      this PID namespace, and whether the generation is fenced.
//   4  alone: `state` and the counts of failed openings and of deaths inside LMDB decide between
//      trust, verification of every page, an empty cache, and the last checkpoint of a relaxed
//      store.
//   5  the quick check, always: both meta pages are valid, and the file has at least its last size.
//   6  LMDB opens the file; `meta` must agree with the table and with the options.
//   7  this process acquires a slot and its bytes in presence, and releases the open lock.
//
// A cache whose files are damaged is fenced and a new, empty generation built. A durable store's
// files are never changed: opening fails with an error that reports the damage.

/// The opener of a store's current generation, which it recovers or creates if necessary.
package struct StoreOpener {
  var directory: StoreDirectory
  let options: StoreOptions
  let firstNumber: UInt64

  package init(directory: StoreDirectory, options: StoreOptions, firstNumber: UInt64 = 1) {
    self.directory = directory
    self.options = options
    self.firstNumber = firstNumber
  }

  func open() throws(StoreError) -> Generation {
    // Also for a per-namespace store: openers of the main store remove unused ones.
    let main = directory.isBeside ? directory.outer : directory
    let gate = try OpenLock.enter(main, timeout: options.openTimeout)
    defer { gate.leave() }
    if directory.isBeside { return try openBeside(directory) }
    // Processes of this namespace use the fallback: this process must see the same values.
    let fallback = directory.inner(StoreDirectory.besideName)
    if options.durability == .cache, try isInUse(fallback) { return try openBeside(fallback) }
    if let generation = try openLocked() { return generation }
    if options.durability.survivesSystemCrash {
      throw StoreError(
        .otherNamespace, during: "open", path: directory.path,
        "Processes of another PID namespace (another container) have this .\(options.durability) "
          + "store open. LMDB identifies processes by pid, so all of them have to be in one "
          + "namespace. Run this one in theirs (`--pid` of the container), or close the store there."
      )
    }
    removeDeadNamespaces()
    return try openBeside(fallback)
  }

  /// Opens the current generation, under the gate.
  ///
  /// - Returns: `nil` if processes of another PID namespace have it open.
  func openLocked() throws(StoreError) -> Generation? {
    try fault(throwing: .openGateTaken, during: "open", path: directory.path)
    let builder = GenerationBuilder(directory: directory, options: options)
    // Twice may be unlucky (damaged, then a full disk); more is a loop.
    for _ in 0..<3 {
      let existing: [UInt64]
      let named: UInt64?
      do throws(SystemError) {
        existing = try CurrentPointer.generations(in: directory)
        named = try CurrentPointer.read(in: directory)
      } catch {
        throw StoreError(error, during: "open", path: directory.path)
      }
      if named == nil, existing.count > 1 {
        // One of them may be a copy that never came into force, or has been left.
        if options.durability.survivesSystemCrash {
          throw StoreError(
            .damaged, during: "open", path: directory.path,
            "CURRENT is missing or damaged, and there are generations "
              + "\(existing.map { "g-\($0)" }.joined(separator: ", ")). Nothing was touched. "
              + "`larder repair` takes the newest.")
        }
        options.onEvent?(.resetToEmpty("CURRENT is missing or damaged"))
        try builder.build(number: existing.last! + 1, heritage: nil)
        continue
      }
      guard let number = named ?? existing.last else {
        try builder.build(number: firstNumber, heritage: nil)
        continue
      }
      let outcome: Outcome
      do {
        outcome = try open(number)
      } catch {
        throw StoreError(wrapping: error, during: "open", path: directory.path)
      }
      switch outcome {
      case .opened(let generation):
        do throws(SystemError) {
          if named == nil { try CurrentPointer.write(number, in: directory, synchronous: true) }
          try removeOldGenerations(but: number)
        } catch {
          generation.closeUnused()
          throw StoreError(error, during: "open", path: directory.path)
        }
        fault(.openDone)
        return generation
      case .pidNamespaceMismatch:
        return nil
      case .unusable(let reason, let heritage):
        options.onEvent?(.resetToEmpty(reason))
        var next = max(number, existing.last ?? 0) + 1
        // No store reaches this number: the one in CURRENT is invalid.
        if !CurrentPointer.isPossible(next) { next = (existing.last ?? 0) + 1 }
        try builder.build(number: next, heritage: heritage, budget: lastBudget(of: number))
      }
    }
    throw StoreError(
      .damaged, during: "open", path: directory.path,
      "Its files were quarantined twice and are unusable again. Check the disk.")
  }

  private func damaged(_ reason: String) throws(StoreError) -> Outcome {
    if options.durability == .cache { return .unusable(reason: reason, nil) }
    throw StoreError(
      .damaged, during: "open", path: directory.path,
      "\(reason). Nothing was touched. `larder repair` salvages what is readable; or restore a copy."
    )
  }

  func open(_ number: UInt64) throws -> Outcome {
    let path = directory.generation(number)
    guard let status = try FileSystem.status(of: path), status.isDirectory else {
      return try damaged("CURRENT names g-\(number), which does not exist")
    }
    if let name = try unexpectedFile(in: path) {
      return try damaged("\(name) of g-\(number) is not a regular file")
    }
    // First, because the checks depend on the durability. The location of a cache identifies it,
    // so a state with another durability is damage.
    if options.durability.survivesSystemCrash,
      let kind = try StoreState.read(from: path + "/state")?.durability,
      kind.survivesSystemCrash
    {
      try require(kind)
    }
    let presence = try OwnedFile(
      path: path + "/presence", creation: .createIfMissing, closesInForkedChild: true)
    let alone = try presence.tryLock(.exclusive, at: PresenceLocks.openOffset)
    guard try presence.tryLock(.exclusive, at: PresenceLocks.pidOffset(ProcessIdentity.pid)) else {
      return try closeDeferredAndOpen(number)
    }
    try fault(throwing: .openPresenceTaken)

    let tablePath = path + "/shared.table"
    let dataPath = path + "/data.mdb"
    let dataStatus = try FileSystem.status(of: dataPath)
    var table = try openTable(tablePath, number: number)
    if alone, let found = table, try !isCredible(found, path, dataSize: dataStatus?.size ?? 0) {
      table = nil
    }
    if let found = table {
      if found.isFenced {
        if !alone { found.fence() }  // The fencing process may have exited before the floor.
        if alone, options.durability.survivesSystemCrash {
          table = nil
        } else {
          return try damaged("generation \(number) was fenced")
        }
      }
    }
    if !alone {
      guard let table else {
        // Other processes map this file: restore its length, so that none gets a SIGBUS, and set
        // its flag, so that all of them leave.
        if options.durability == .cache { try fenceByPath(tablePath) }
        return try damaged("shared.table is damaged")
      }
      if table.bootID != ProcessIdentity.bootID {
        if try openTable(tablePath, number: number) == nil {
          if options.durability == .cache { try fenceByPath(tablePath) }
          return try damaged("shared.table was damaged just now")
        }
        throw StoreError(
          .fileSystem, during: "open", path: directory.path,
          "The store is open on another machine (boot id differs). Use a local directory.")
      }
      if table.pidNamespace != ProcessIdentity.pidNamespace { return .pidNamespaceMismatch }
    }
    if let table { clearDeadProcesses(table, presence) }
    if dataStatus == nil {
      if !alone { table?.fence() }
      return try damaged("data.mdb is missing")
    }

    if alone {
      let changed = dataStatus?.changed ?? 0
      if let reason = try suspicion(path, table, changed: changed) {
        if reason.mustDiscard { return try damaged(reason.text) }
        if reason.mustRestore {
          switch try StoreOpener.validCheckpoint(in: path, generation: number) {
          case .success(let record): try StoreOpener.restore(record, in: path)
          case .failure(let none): return try damaged("\(reason.text), and \(none.reason)")
          }
          return try openJudged(number, path, presence, nil, alone: alone)
        }
        let report = try StructuralVerifier.verify(path: dataPath)
        if !report.isSound {
          return try damaged("\(reason.text), and data.mdb is damaged: \(report.findings[0])")
        }
        table?.crashesInLMDB = 0
        table?.dataChanged = changed
      }
    }
    return try openJudged(number, path, presence, table, alone: alone)
  }

  /// Opens a file that passed verification, or that only needs the quick check.
  private func openJudged(
    _ number: UInt64, _ path: String, _ presence: OwnedFile, _ table: SharedTable?, alone: Bool
  ) throws -> Outcome {
    let dataPath = path + "/data.mdb"
    if alone {
      try GenerationBuilder.prepareLockFile(in: path, table?.shape)
    } else {
      // A reader slot with our own pid is left from a dead namesake: LMDB never clears those.
      try ReaderSlots.clear(pid: ProcessIdentity.pid, inLockFile: path + "/lock.mdb")
    }
    // Counts processes that die from here on; an attempt that fails with an error is subtracted.
    let attempt = alone ? table : nil
    // Wrapping: what a damaged table counts must not be a trap.
    attempt?.openAttempts &+= 1
    defer { if let attempt, attempt.openAttempts > 0 { attempt.openAttempts -= 1 } }
    let findings = try StructuralVerifier.quickCheck(
      path: dataPath, atLeast: table?.dataBytes ?? 0)
    if let finding = findings.first {
      if !alone { table?.fence() }
      return try damaged("data.mdb is damaged: \(finding)")
    }
    try fault(throwing: .openTableReady)
    return try openEnvironment(number, path, presence, table, alone: alone)
  }

  private func openEnvironment(
    _ number: UInt64, _ path: String, _ presence: OwnedFile, _ found: SharedTable?, alone: Bool
  ) throws -> Outcome {
    try fault(throwing: .openBeforeEnvironment)
    let environment: EnvironmentHandle
    do {
      environment = try EnvironmentHandle(
        path: path,
        options: .init(
          mapSize: nil, minimumMapSize: GenerationBuilder.minimumMapSize,
          maximumReaders: GenerationBuilder.readerSlots(in: path),
          synchronous: options.durability.syncsEachCommit))
    } catch {
      guard error.isDamage else { throw error }
      if !alone { found?.fence() }
      return try damaged(error.cause)
    }
    do {
      try fault(throwing: .openAfterEnvironment)
      return try finish(number, path, presence, found, environment, alone: alone)
    } catch {
      environment.close()
      throw error
    }
  }

  private func finish(
    _ number: UInt64, _ path: String, _ presence: OwnedFile, _ found: SharedTable?,
    _ environment: EnvironmentHandle, alone: Bool
  ) throws -> Outcome {
    guard let (meta, tables) = try StoreOpener.readMeta(environment) else {
      environment.close()
      if !alone { found?.fence() }
      return try damaged("the meta record is missing or damaged")
    }
    if meta.version > StoreMeta.version {
      throw StoreError(
        .newerFormat, during: "open", path: directory.path,
        "The store has format \(meta.version); this version writes format \(StoreMeta.version). "
          + "Update the program.")
    }
    try require(meta.durability)
    if meta.durability.survivesSystemCrash { try environment.confirmAbsence() }
    guard meta.generation == number else {
      // Its labels are of other transactions than those the table and the other processes speak of.
      environment.close()
      if !alone { found?.fence() }
      return try damaged("data.mdb is that of generation \(meta.generation), not of \(number)")
    }
    let heritage = GenerationBuilder.InheritedState(
      storeID: meta.storeID, secret: meta.secret, budget: meta.budget)
    let binding = SharedTable.Binding(storeID: meta.storeID, generation: number)
    var table = found
    if table.map({ $0.binding != binding }) ?? false {
      if !alone {
        found?.fence()
        environment.close()
        if options.durability == .cache {
          return .unusable(reason: "shared.table belongs to another store", heritage)
        }
        throw StoreError(
          .damaged, during: "open", path: path,
          "shared.table belongs to another store. Close all processes that use it, open again.")
      }
      table = nil
    }
    let newest =
      Generation.versionBase(ofGeneration: number) + environment.information.lastTransaction
    if alone, let found = table, !found.isPlausible(after: newest) { table = nil }
    if alone, table == nil || table!.bootID != ProcessIdentity.bootID {
      // Only recency and statistics are lost, and no process maps the old table. Unless `state`
      // already marks this boot dirty, the first writer marks it.
      let state = try StoreState.read(from: path + "/state")
      let isDirty = state.map { $0.isDirty && $0.bootID == ProcessIdentity.bootID } ?? false
      table = try remakeTable(path, meta, environment, dirty: isDirty)
    }
    guard let table else {
      throw StoreError(.damaged, during: "open", path: path, "shared.table is damaged.")
    }
    // The budget of `meta` has a checksum; that of the table has none.
    if alone {
      table.adoptNamespace()
      table.budget = meta.budget
      if meta.durability == .relaxed {
        table.syncInterval = meta.syncInterval
        try resetRecord(of: table, in: path, newest: newest)
      }
    }
    guard let process = try takeSlot(table, presence) else {
      throw StoreError(
        .tooManyProcesses, during: "open", path: directory.path,
        "All \(table.shape.processSlots) process slots of \(directory.path) are in use. Close "
          + "processes, or split them across several stores.")
    }
    try fault(throwing: .openSlotTaken)
    _ = try presence.tryLock(.shared, at: PresenceLocks.openOffset)
    try environment.clearDeadReaders()
    table.openAttempts = 0
    return .opened(
      Generation(
        directory: directory, number: number, meta: meta, table: table, process: process,
        environment: environment, presence: presence, tables: tables))
  }

  // MARK: Parts

  private struct RecoveryDecision {
    let text: String
    /// A cache starts empty without looking further.
    let mustDiscard: Bool
    /// A relaxed store goes back to what was synced last.
    let mustRestore: Bool

    init(_ text: String, mustDiscard: Bool = false, mustRestore: Bool = false) {
      self.text = text
      self.mustDiscard = mustDiscard
      self.mustRestore = mustRestore
    }
  }

  private func suspicion(
    _ path: String, _ table: SharedTable?, changed: UInt64
  ) throws -> RecoveryDecision? {
    let isCache = options.durability == .cache
    let isRelaxed = options.durability == .relaxed
    guard let state = try StoreState.read(from: path + "/state") else {
      // A table of this boot is proof that the system has been up all the time. Without it pages
      // may be missing, and their older versions would be accepted as valid.
      let isUnknown = table?.bootID != ProcessIdentity.bootID
      return RecoveryDecision(
        "the state file is missing or damaged", mustDiscard: isCache && isUnknown,
        mustRestore: isRelaxed && isUnknown)
    }
    if state.isDirty, state.bootID != ProcessIdentity.bootID {
      return RecoveryDecision(
        "the system went down while the store was in use", mustDiscard: isCache,
        mustRestore: isRelaxed)
    }
    guard let table else { return RecoveryDecision("shared.table is missing or damaged") }
    if table.openAttempts >= 2 {
      return RecoveryDecision("two processes died opening the store", mustDiscard: isCache)
    }
    if table.crashesInLMDB >= Self.deathLimit {
      return RecoveryDecision("two processes died inside LMDB")
    }
    // The last process recorded the time: in the table for this boot, in a clean `state` also across
    // boots. A writer killed in a commit leaves a difference as well; verifying costs time only.
    let known = table.bootID == ProcessIdentity.bootID ? table.dataChanged : state.dataChanged
    if known != changed { return RecoveryDecision("data.mdb was changed since it was closed") }
    return nil
  }
}
