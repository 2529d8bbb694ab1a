// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE WRITE PIPELINE
//
// Every write of a process passes these stages in this order. One file owns each stage.
//
//   enqueue   `submit`, `enqueueWriteBehind`  StoreCore+GroupCommit  The request is queued.
//   lead      `lead`, `commitQueued`          StoreCore+GroupCommit  One thread is the commit
//                                             StoreCore+Batch        leader and takes a batch.
//   begin     `begin`, `announce`             this file              W0, W1
//   apply     `apply`, or a user's closure    StoreCore+Batch        W2
//   stamp     `stamp`                         this file              W3
//   commit    `commit`                        this file              W4
//   publish   `publish`                       this file              W5
//   complete  `complete`                      StoreCore+Batch        Callers get their results.
//
// `transact` acquires the process writer lock and the writer ticket and runs W0 to W5. Every write
// transaction uses it: batches, users' transactions, sweeps and maintenance.
//
// THE WRITER'S HALF OF THE COHERENCE PROTOCOL
//
//   W0  Begin: acquire LMDB's writer lock. A killed writer's commit is now published or discarded.
//   W1  Announce T = base + transaction id. If the generation is fenced: abort and switch
//       generations. If a commit without stamps is found: raise the floor to T. Then publish T,
//       before any effect of T is visible. Then, after a commit without stamps, cancel all leases:
//       that commit may have changed the key of any computation in flight.
//   W2  Apply the writes in order.
//   W3  Stamp every touched slot with T, immediately before the commit.
//   W4  Commit. The stamps contain T whatever the result is: after an error, a no-op commit is due.
//   W5  Publish: update this process's totals and counters, advance the wake-up word. Then complete
//       the requests.
//
// A value cached at read version N can be wrong only if a transaction T > N wrote its key and was
// published. T stamped the slot before it could be published, so the value does not validate. A
// writer that dies between W1 and W4 leaves slots that miss until any next commit reaches T. The
// protocol repairs nothing, so no repair can be wrong.

extension StoreCore {
  /// Runs one write transaction in a generation. One thread runs it from begin to end.
  ///
  /// - Parameter offering: A request of `body` that another process may execute before.
  /// - Returns: The result of `body` and the commit version of the transaction.
  /// - Throws: `OfferExecuted`; errors of `body`; `EngineSignal.generationChanged` if the generation is fenced or
  ///   closed; ``StoreError/Code/writerStalled`` if the leader's time limit passes; `LMDBError` if
  ///   LMDB fails.
  package func transact<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, commitVersion: UInt64) {
    try transact(in: generation, offering: nil, body)
  }

  func transact<R>(
    in generation: Generation, offering: Offering?, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, commitVersion: UInt64) {
    func run() throws -> (result: R, commitVersion: UInt64) {
      let done = try runTransaction(in: generation, offering, body)
      try done.wait?.end(self)
      return (done.result, done.commitVersion)
    }
    guard let monitors else { return try run() }
    return try monitors.runCommit(run)
  }

  /// Runs one write transaction as `transact`, and lets the caller wait for the disk.
  func transactWithoutWait<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, wait: DurableWait?) {
    // A monitor measures the whole commit.
    if monitors != nil { return (try transact(in: generation, body).result, nil) }
    let done = try runTransaction(in: generation, nil, body)
    return (done.result, done.wait)
  }

  @inline(__always)
  private func runTransaction<R>(
    in generation: Generation, _ offering: Offering?, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, commitVersion: UInt64, wait: DurableWait?) {
    if options.readsOnly { throw StoreError.readsOnly(path: directory.path) }
    if generation.keeper != nil, generation.table.hasFailedSync {
      if let offering { requeue(offering) }
      // After a failed sync the contents of the disk are unknown: copy everything to new files.
      try copyGeneration(generation)
      throw EngineSignal.generationChanged
    }
    guard generation.acquireProcessWriterLock() else { throw EngineSignal.generationChanged }
    defer { generation.releaseProcessWriterLock() }
    if generation.isClosing { throw EngineSignal.generationChanged }
    let done = try runLocked(in: generation, offering, body)
    // Others write during the wait.
    let waits =
      done.isCommitted && generation.waitsForDisk
      && generation.table.durableVersion < done.commitVersion
    return (
      done.result, done.commitVersion,
      waits ? DurableWait(for: done.commitVersion, in: generation) : nil
    )
  }

  /// The result of a transaction, and whether it has changed something.
  private typealias Done<R> = (result: R, commitVersion: UInt64, isCommitted: Bool)

  @inline(__always)
  private func runLocked<R>(
    in generation: Generation, _ offering: Offering?, _ body: (inout StoreTransaction) throws -> R
  ) throws -> Done<R> {
    try takeTicket(in: generation, offering: offering)
    generation.table.beginWriting(process: generation.process)
    defer {
      generation.table.endWriting(process: generation.process)
      generation.table.releaseTicket(process: generation.process)
    }
    generation.awaitReaders(timeout: options.writeTimeout)
    let inside = SharedTableLayout.insideCount - 1
    generation.table.markInsideLMDB(process: generation.process, index: inside, true)
    defer { generation.table.markInsideLMDB(process: generation.process, index: inside, false) }
    return try performSelectingWriteMode(in: generation, body)
  }

  /// Uses the write map where it is allowed. If the disk may not have enough space for that, runs
  /// the transaction from the beginning with `pwrite`.
  private func performSelectingWriteMode<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> Done<R> {
    let environment = generation.environment
    environment.selectWriteMode(
      throughMap: options.usesWriteMap && options.durability == .cache)
    if environment.usesWriteMap {
      do {
        return try perform(in: generation, body)
      } catch {
        // The aborted transaction has changed the file through the map, but only in pages without
        // live data.
        generation.recordChange()
        guard environment.didReservationFail else { throw error }
      }
      environment.selectWriteMode(throughMap: false)
    }
    guard ResourceLimits.fileSize != nil else { return try perform(in: generation, body) }
    return try OSThread.blockingSIGXFSZ { () throws(any Error) in
      try perform(in: generation, body)
    }
  }

  /// Runs the steps W0 to W5. The caller holds the process writer lock and the writer ticket.
  private func perform<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> Done<R> {
    do {
      let transaction = try begin(in: generation)
      let commitVersion = generation.versionBase &+ transaction.id
      let now = options.clock.now()
      let checksFileStatus = try announce(commitVersion, in: generation)
      var context = try StoreTransaction(
        transaction, in: generation, commitVersion: commitVersion, now: now)
      if monitors != nil { context.writtenSpaces = [] }
      let result = try body(&context)
      try context.requireNoFailure()
      guard context.hasChanges else {
        context.publishEarliestExpiry()
        // No overflow was committed either: the owners of offers execute them.
        generation.table.settleOffers(commitVersion: commitVersion, isEnd: false)
        return (result, commitVersion, false)
      }
      try context.removeShareOfExpired()
      try context.finish()
      context.queues?.publish()
      monitors?.note(context)
      try stamp(context, in: generation)
      let remaining = PostCommitWork(context, commitVersion: commitVersion)
      try commit(context)
      try publish(remaining, checksFileStatus: checksFileStatus, in: generation)
      return (result, commitVersion, true)
    } catch let error as LMDBError {
      try rethrow(error, from: generation)
    }
  }

  /// W0: begins the transaction. The generation is not fenced.
  private func begin(in generation: Generation) throws -> WriteTransaction {
    generation.log?.recorder.reset()
    let transaction = try WriteTransaction(
      in: generation.environment, recorder: generation.log?.recorder)
    try fault(throwing: .begin)
    try generation.resolveInterruptedCompaction()
    if generation.table.isFenced { throw EngineSignal.generationChanged }
    return transaction
  }

  /// W1: publishes the commit version before any effect of the transaction is visible.
  ///
  /// - Returns: Whether the transaction checks the status of `data.mdb`, also after its commit.
  private func announce(_ commitVersion: UInt64, in generation: Generation) throws -> Bool {
    let table = generation.table
    // With the write map, a transaction takes about as long as one `fstat`, so the file status is
    // checked at most once per millisecond. In that mode the size changes only with reservations.
    let checksFileStatus = generation.shouldCheckFileStatus(at: Clocks.wallMilliseconds())
    if checksFileStatus {
      let extent = generation.dataExtent
      try requireFiles(of: generation, links: extent?.links ?? 0)
      let size = UInt64(extent?.size ?? 0)
      guard size >= table.dataBytes else {
        throw LMDBError(.corrupted, during: "the size of data.mdb (it shrank)")
      }
      table.raiseDataBytes(to: size)
    }
    // Before the publication: a computation that begins after it waits for this transaction.
    if !table.isDirty { try generation.markDirty() }
    let hasMissedStamps = table.lastStamped < commitVersion &- 1
    if hasMissedStamps { table.raiseFloor(to: commitVersion) }
    if table.lastStamped >= commitVersion { table.earliestExpiry = 0 }  // X3, `ExpirySweep.swift`
    table.announceWriter(commitVersion: commitVersion)
    table.settleOffers(commitVersion: commitVersion, isEnd: false)  // O4
    table.settleRemovals(before: commitVersion)
    // This runs after the publication: a lease that is not visible here belongs to a process that
    // reads this commit version, and whose snapshot contains the commit without stamps.
    if hasMissedStamps, !Mutant.fillIgnoresCancel.isActive { table.cancelAllLeases() }
    try fault(throwing: .afterWriterLabel)
    try generation.keeper?.pin(for: commitVersion &- generation.versionBase, in: generation)
    return checksFileStatus
  }

  /// Checks that the files still exist under their path: a commit to deleted files would be
  /// acknowledged and lost.
  ///
  /// - Throws: For a cache, the signal to switch to new files; otherwise a ``StoreError``.
  private func requireFiles(of generation: Generation, links: UInt64) throws {
    // A durable store has no periodic checks, so its commits check for replaced files once a second.
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    if generation.waitsForDisk, now &- lastFileCheck.load(ordering: .relaxed) >= 1000 {
      lastFileCheck.store(now, ordering: .relaxed)
      generation.searchForLostFiles()
    }
    guard links == 0 || generation.hasLostFiles.load(ordering: .acquiring) else { return }
    if options.durability == .cache { throw EngineSignal.generationChanged }
    throw StoreError.filesRemoved(during: "write", path: directory.path, isRefused: true)
  }

  /// W3: stamps every touched slot. The commit follows immediately.
  private func stamp(_ context: borrowing StoreTransaction, in generation: Generation) throws {
    try fault(throwing: .beforeStamps)
    if !Mutant.stampsAfterCommit.isActive { storeStamps(of: context, in: generation.table) }
    stageRemovals(of: context, in: generation.table)
    generation.table.lastStamped = context.commitVersion
    context.publishEarliestExpiry()
  }

  /// E1 of the removal ring. A transaction that began before the first subscription only counts.
  private func stageRemovals(of context: borrowing StoreTransaction, in table: SharedTable) {
    let version = context.commitVersion
    if let removals = context.removals {
      guard removals.count > 0 else { return }
      table.stageRemovals(removals.words, count: removals.count, commitVersion: version)
    } else if context.unrecordedRemovals > 0, RemovalLog.isWanted(table) {
      table.stageRemovals([], count: context.unrecordedRemovals, commitVersion: version)
    }
  }

  private func storeStamps(of context: borrowing StoreTransaction, in table: SharedTable) {
    let commitVersion =
      Mutant.stampsOneLow.isActive ? context.commitVersion - 1 : context.commitVersion
    context.touchedSlots.forEach { slot in
      table.stamp(slot: slot, commitVersion: commitVersion)
      fault(.betweenStamps)
    }
    for number in context.clearedNamespaces {
      table.stampNamespace(number, commitVersion: commitVersion)
    }
    if context.tagRemovals > 0 { table.tagsRemoved = commitVersion }
    if context.raisesFloor { table.raiseFloor(to: commitVersion) }
    fault(.afterStamps)
  }

  /// W4: commits.
  private func commit(_ context: consuming StoreTransaction) throws {
    let (generation, version) = (context.generation, context.commitVersion)
    do {
      try fault(throwing: .beforeCommit)
      try generation.log?.append(version, in: generation)
      do {
        try context.transaction.commit()
      } catch {
        // One that may be committed keeps its record: later ones follow it.
        if error.code != .outcomeUnknown {
          try withdraw(version, generation, after: error)
        }
        throw error
      }
      generation.log?.noteCommit(version, in: generation)
    } catch {
      // The stamps are stored and the transaction is not committed: those slots miss until the next
      // commit.
      needsNoOpCommit.store(true, ordering: .releasing)
      worker.wake(self)
      throw error
    }
    fault(.afterCommit)
  }

  /// W5: updates what this process knows of the generation, then wakes the waiters of every
  /// process.
  private func publish(
    _ remaining: PostCommitWork, checksFileStatus: Bool, in generation: Generation
  ) throws {
    let table = generation.table
    table.publishRemovals(of: remaining.commitVersion)
    let hasSettled = table.settleOffers(commitVersion: remaining.commitVersion, isEnd: true)  // O3
    // LMDB's lock is free: the next writer does not wait for the rest.
    table.countCommitTime(process: generation.process)
    table.releaseTicket(process: generation.process, wakingAll: hasSettled)
    // Stored now and not with the next commit, so that a truncation after this commit is detected.
    if checksFileStatus || generation.hasReservedMore, let size = generation.dataExtent?.size {
      table.raiseDataBytes(to: UInt64(size))
      generation.recordCommit()
      generation.growth.note(size, self)
      if let keeper = generation.keeper {
        // That of a durable store starts when it is first needed.
        try? syncer.start(self)
        syncer.noteCommit(isUrgent: keeper.noteCommit(size: size, in: generation))
      }
    }
    remaining.publish(in: generation)
    noteCommit(changesData: remaining.changesData, in: table)
    try requireSuccession(of: generation)
    fault(.beforeWake)
    table.advanceWakeWord()
  }

  /// Records that this process has written, and starts its thread: whose ticks sync the store to the disk
  /// when it is idle, and remove expired entries.
  func noteCommit(changesData: Bool, in table: SharedTable) {
    if changesData, !hasWritten.load(ordering: .relaxed) {
      hasWritten.store(true, ordering: .relaxed)
    }
    if !worker.hasStarted, options.durability != .durable || table.hasExpiringEntries {
      worker.start(self)
    }
  }

  /// Checks after a commit that the next generation, if there is one already, contains it.
  func requireSuccession(of generation: Generation) throws {
    guard generation.table.isFenced, !generation.table.isSuperseded else { return }
    if options.durability == .cache { throw EngineSignal.generationChanged }
    throw StoreError(
      .outcomeUnknown, during: "commit", path: directory.path,
      "The store switched generations during the commit; the outcome is unknown. "
        + "Read the value to see whether it was stored.")
  }

  /// Throws what an error of LMDB means for the transaction. Damage fences the generation.
  private func rethrow(_ error: LMDBError, from generation: Generation) throws -> Never {
    let explained = generation.explained(error)
    guard explained is LMDBError else { throw explained }
    // EFBIG without a file size limit means an invalid page number: the file is damaged.
    let isHuge =
      error.code.rawValue == SystemError.fileTooLarge && ResourceLimits.fileSize == nil
    if error.isDamage || isHuge { try fence(generation, because: error) }
    throw error
  }
}
