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
//   4  alone: `state`, the page cache, and the counts of failed openings and of deaths inside LMDB
//      decide between trust, verification of every page, an empty cache, and the last checkpoint of
//      another store (StoreOpener+CrashRecovery.swift).
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
  /// The hold of a process that opens the generation without a write (`QuietView.swift`).
  var view: QuietView?

  package init(directory: StoreDirectory, options: StoreOptions, firstNumber: UInt64 = 1) {
    self.directory = directory
    self.options = options
    self.firstNumber = firstNumber
  }

  func open() throws(StoreError) -> Generation {
    if let generation = try openQuietly() { return generation }
    do { return try openTakingPart() } catch { throw QuietView.explained(error, self) }
  }

  /// Opens as one of the processes that read and write the store.
  private func openTakingPart() throws(StoreError) -> Generation {
    // Also for a per-namespace store: openers of the main store remove unused ones.
    let main = directory.isBeside ? directory.outer : directory
    let gate = try OpenLock.enter(main, timeout: options.openTimeout)
    defer { gate.leave() }
    if directory.isBeside { return try openBeside(directory) }
    // Processes of this namespace use the fallback: this process must see the same values.
    let fallback = directory.inner(StoreDirectory.besideName)
    if options.durability == .cache, try isInUse(fallback) { return try openBeside(fallback) }
    if let generation = try openLocked() { return generation }
    if options.durability.survivesSystemCrash || options.readsOnly {
      throw StoreError(
        .otherNamespace, during: "open", path: directory.path,
        "Processes of another PID namespace (another container) have this .\(options.durability) store "
          + "open. LMDB identifies processes by pid, so all of them have to be in one namespace. Run "
          + "this one in theirs (`--pid` of the container), or close the store there.")
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
      let (existing, named) = try generations()
      if named == nil, existing.count > 1 {
        // One of them may be a copy that never came into force, or has been left.
        if options.durability.survivesSystemCrash || options.readsOnly {
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
        if options.readsOnly { throw unchanged("The store has no files") }
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
        if options.readsOnly { return generation }
        do throws(SystemError) {
          if named == nil { try CurrentPointer.write(number, in: directory, synchronous: true) }
          let isConfirmed = try confirmNames(of: generation)
          try removeOldGenerations(but: number, keepsFiles: !isConfirmed)
        } catch {
          generation.closeUnused()
          throw StoreError(error, during: "open", path: directory.path)
        }
        fault(.openDone)
        return generation
      case .pidNamespaceMismatch, .inUse:
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

  /// Returns the generations whose directories exist, in order, and the one that CURRENT names.
  private func generations() throws(StoreError) -> (existing: [UInt64], named: UInt64?) {
    do throws(SystemError) {
      return try (CurrentPointer.generations(in: directory), CurrentPointer.read(in: directory))
    } catch {
      throw StoreError(error, during: "open", path: directory.path)
    }
  }

  /// Reports damage, after every process that has the generation open was made to leave it.
  private func damaged(_ reason: String, fencing opening: Opening) throws(StoreError) -> Outcome {
    if !opening.alone, !options.readsOnly { opening.table?.fence() }
    return try damaged(reason)
  }

  func damaged(_ reason: String) throws(StoreError) -> Outcome {
    if options.readsOnly, options.durability == .cache { throw unchanged(reason) }
    if options.durability == .cache { return .unusable(reason: reason, nil) }
    throw StoreError(
      .damaged, during: "open", path: directory.path,
      "\(reason). Nothing was touched. `larder repair` salvages what is readable; or restore a copy."
    )
  }

  /// Whether unusable files are left for new, empty ones.
  var startsEmpty: Bool { options.durability == .cache && !options.readsOnly }

  /// Returns the error of a process that only reads, for a cache that another one would start empty.
  func unchanged(_ reason: String) -> StoreError { .unchanged(reason, path: directory.path) }

  /// A generation that is being opened.
  struct Opening {
    let number: UInt64
    let path: String
    let presence: OwnedFile
    /// Whether no other process has the generation open.
    let alone: Bool
    /// The shared-memory table, or `nil` if it has to be created again.
    var table: SharedTable?
    /// Whether the log lacks commits that `data.mdb` has: a checkpoint makes up for it.
    var needsCheckpoint = false
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
    let presence: OwnedFile
    let alone: Bool
    if view != nil {
      presence = try OwnedFile(path: path + "/presence", writable: false)
      alone = true
      if try presence.isLockedElsewhere(at: PresenceLocks.openOffset) { return .inUse }
    } else {
      presence = try OwnedFile(
        path: path + "/presence", creation: .createIfMissing, closesInForkedChild: true)
      alone = try presence.tryLock(.exclusive, at: PresenceLocks.openOffset)
      guard try presence.tryLock(.exclusive, at: PresenceLocks.pidOffset(ProcessIdentity.pid))
      else { return try closeDeferredAndOpen(number) }
    }
    try fault(throwing: .openPresenceTaken)

    let dataStatus = try FileSystem.status(of: path + "/data.mdb")
    var opening = Opening(
      number: number, path: path, presence: presence, alone: alone,
      table: try openTable(path + "/shared.table", number: number))
    if alone, let found = opening.table,
      try !isCredible(found, path, dataSize: dataStatus?.size ?? 0)
    {
      opening.table = nil
    }
    if let outcome = try refuse(byTableOf: &opening) { return outcome }
    if let table = opening.table { clearDeadProcesses(table, presence) }
    guard let dataStatus else { return try damaged("data.mdb is missing", fencing: opening) }
    if alone, let outcome = try recover(&opening, changed: dataStatus.changed) { return outcome }
    return try openVerified(opening)
  }

  /// Checks a fence, and that this process can share the table with those that have it open.
  ///
  /// - Returns: `nil` if opening continues.
  private func refuse(byTableOf opening: inout Opening) throws -> Outcome? {
    let tablePath = opening.path + "/shared.table"
    if let found = opening.table, found.isFenced {
      // The fencing process may have exited before the floor.
      if !opening.alone, !options.readsOnly { found.fence() }
      guard opening.alone, options.durability.survivesSystemCrash else {
        return try damaged("generation \(opening.number) was fenced")
      }
      opening.table = nil
    }
    if opening.alone { return nil }
    guard let table = opening.table else {
      // Other processes map this file: restore its length, so that none gets a SIGBUS, and set
      // its flag, so that all of them leave.
      if startsEmpty { try fenceByPath(tablePath) }
      return try damaged("shared.table is damaged")
    }
    if table.bootID != ProcessIdentity.bootID {
      if try openTable(tablePath, number: opening.number) == nil {
        if startsEmpty { try fenceByPath(tablePath) }
        return try damaged("shared.table was damaged just now")
      }
      throw StoreError(
        .fileSystem, during: "open", path: directory.path,
        "The store is open on another machine (boot id differs). Use a local directory.")
    }
    return table.pidNamespace == ProcessIdentity.pidNamespace ? nil : .pidNamespaceMismatch
  }

  /// Opens a file that passed verification, or that only needs the quick check.
  private func openVerified(_ opening: Opening) throws -> Outcome {
    if view == nil, opening.alone {
      try GenerationBuilder.prepareLockFile(in: opening.path, opening.table?.shape)
    } else if view == nil {
      // A reader slot with our own pid is left from a dead namesake: LMDB never clears those.
      try ReaderSlots.clear(pid: ProcessIdentity.pid, inLockFile: opening.path + "/lock.mdb")
    }
    // Counts processes that die from here on; an attempt that fails with an error is subtracted.
    let attempt = opening.alone ? opening.table : nil
    // Wrapping: what a damaged table counts must not be a trap.
    attempt?.openAttempts &+= 1
    defer { if let attempt, attempt.openAttempts > 0 { attempt.openAttempts -= 1 } }
    let findings = try StructuralVerifier.quickCheck(
      path: opening.path + "/data.mdb", atLeast: opening.table?.dataBytes ?? 0)
    if let finding = findings.first {
      return try damaged("data.mdb is damaged: \(finding)", fencing: opening)
    }
    try fault(throwing: .openTableReady)
    return try openEnvironment(opening)
  }

  private func openEnvironment(_ opening: Opening) throws -> Outcome {
    try fault(throwing: .openBeforeEnvironment)
    let environment: EnvironmentHandle
    do {
      environment = try EnvironmentHandle(
        path: opening.path,
        options: .init(
          mapSize: nil, minimumMapSize: GenerationBuilder.minimumMapSize,
          maximumReaders: GenerationBuilder.readerSlots(in: opening.path),
          synchronous: false, isQuiet: view != nil))
    } catch {
      guard error.isDamage else { throw error }
      return try damaged(error.cause, fencing: opening)
    }
    do {
      try fault(throwing: .openAfterEnvironment)
      return try finish(opening, environment)
    } catch let error as LMDBError where error.isDamage {
      environment.close()
      return try damaged(error.cause, fencing: opening)
    } catch {
      environment.close()
      throw error
    }
  }

  private func finish(_ opening: Opening, _ environment: EnvironmentHandle) throws -> Outcome {
    guard let (meta, tables) = try StoreOpener.readMeta(environment) else {
      environment.close()
      return try damaged("the meta record is missing or damaged", fencing: opening)
    }
    if meta.version > StoreMeta.version {
      throw StoreError(
        .newerFormat, during: "open", path: directory.path,
        "The store has format \(meta.version); this version writes format \(StoreMeta.version). "
          + "Update the program.")
    }
    if EvictionPolicy(code: meta.policyCode) == nil {
      throw StoreError.unknownPolicy(meta.policyCode, during: "open", path: directory.path)
    }
    try require(meta.durability)
    if meta.durability.survivesSystemCrash { try environment.confirmAbsence() }
    guard meta.generation == opening.number else {
      // Its labels are of other transactions than those the table and the other processes speak of.
      environment.close()
      return try damaged(
        "data.mdb is that of generation \(meta.generation), not of \(opening.number)",
        fencing: opening)
    }
    let binding = SharedTable.Binding(storeID: meta.storeID, generation: opening.number)
    if !opening.alone, let found = opening.table, found.binding != binding {
      environment.close()
      if !options.readsOnly { found.fence() }
      if startsEmpty {
        return .unusable(reason: "shared.table belongs to another store", meta)
      }
      throw StoreError(
        .damaged, during: "open", path: opening.path,
        "shared.table belongs to another store. Close all processes that use it, open again.")
    }
    let table = try validTable(opening, boundTo: binding, meta, environment)
    guard let slot = try takeSlot(table, opening.presence) else {
      throw StoreError(
        .tooManyProcesses, during: "open", path: directory.path,
        "All \(table.shape.processSlots) process slots of \(directory.path) are in use. Close "
          + "processes, or split them across several stores.")
    }
    try fault(throwing: .openSlotTaken)
    if view == nil { try takePart(opening.presence, environment) }
    table.openAttempts = 0
    let generation = Generation(
      directory: directory, meta: meta, environment: environment, tables: tables, slot: slot)
    view?.begin(for: generation)
    if opening.needsCheckpoint {
      do {
        try generation.keeper?.synchronize(generation)
      } catch {
        generation.closeUnused()
        throw error
      }
      options.onEvent?(
        .restored("the log was older than the store: a checkpoint has every commit again"))
    }
    return .opened(generation)
  }

  /// Returns the table of a generation. Without other processes, it is created again if it is of
  /// another store, of an impossible commit version or of another page cache, and gets this process's
  /// PID namespace and mount, and the properties in `meta`.
  private func validTable(
    _ opening: Opening, boundTo binding: SharedTable.Binding, _ meta: StoreMeta,
    _ environment: EnvironmentHandle
  ) throws -> SharedTable {
    let path = opening.path
    let newest = Generation.newestVersion(ofGeneration: opening.number, in: environment)
    var table = opening.table
    if opening.alone, let found = table,
      found.binding != binding || !found.isPlausible(after: newest)
    {
      table = nil
    }
    if opening.alone, table == nil || !table!.isCurrent(forDescriptor: environment.dataDescriptor) {
      table = try remakeTable(path, meta, environment)
    }
    guard let table else {
      throw StoreError(.damaged, during: "open", path: path, "shared.table is damaged.")
    }
    // The budget of `meta` has a checksum; that of the table has none.
    if opening.alone {
      table.adoptNamespace()
      table.pageCache = PageCacheIdentity(ofDescriptor: environment.dataDescriptor)
      table.budget = meta.budget
      table.entryBudget = meta.entryBudget
      table.policyCode = meta.policyCode
      if meta.durability.survivesSystemCrash {
        table.syncInterval = meta.syncInterval
        try resetRecord(of: table, in: path, newest: newest)
      }
    }
    return table
  }
}
