// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE WRITER'S HALF OF THE COHERENCE PROTOCOL
//
//   W0  begin: LMDB's writer lock. A killed writer's commit is now published or gone.
//   W1  T = base + transaction id. Condemned: abort and move. A commit without stamps was found: raise
//       the floor to T. Then announce T, before anything of T can be seen. After a commit without
//       stamps cancel all leases: it may have changed the key of any computation in flight.
//   W2  the writes, in order.
//   W3  stamp every slot touched with T, immediately before the commit.
//   W4  commit. Whatever it says, the stamps say T: after an error a bump is due.
//   W5  the callers learn of it; the wake word advances.
//
// A value filed under a snapshot N can only be wrong if a T > N wrote its key and was published; T
// stamped the slot before it could be. A writer that dies between W1 and W4 leaves slots that miss
// until any next commit reaches T. Nothing is ever repaired, so nothing can be repaired wrongly.

extension StoreCore {
  /// Runs one write transaction in a generation. One thread from begin to end.
  func transact<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, label: UInt64) {
    let timing = start(.commit)
    // The last of all: the turn is over.
    defer { timing?.end() }
    if generation.keeper != nil, generation.table.hasFailedSync {
      // What is on the disk is not known any more: everything is written anew.
      try copyGeneration(generation)
      throw EngineSignal.generationChanged
    }
    guard generation.acquireProcessWriterLock() else { throw EngineSignal.generationChanged }
    defer { generation.releaseProcessWriterLock() }
    if generation.isClosing { throw EngineSignal.generationChanged }
    try takeTicket(in: generation)
    defer { generation.table.releaseTicket(process: generation.process) }
    let inside = SharedTableLayout.insideCount - 1
    generation.table.markInsideLMDB(process: generation.process, index: inside, true)
    defer { generation.table.markInsideLMDB(process: generation.process, index: inside, false) }
    return try performWithRoom(in: generation, body)
  }

  /// Through the map, where that is allowed; and with `pwrite`, from the beginning, when the disk has
  /// no room for what it may need.
  private func performWithRoom<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, label: UInt64) {
    let environment = generation.environment
    environment.selectWriteMode(
      throughMap: options.usesWriteMap && options.durability == .cache)
    if environment.usesWriteMap {
      do {
        return try perform(in: generation, body)
      } catch {
        // What was given up has changed the file through the map all the same, where nothing lives.
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

  private func perform<R>(
    in generation: Generation, _ body: (inout StoreTransaction) throws -> R
  ) throws -> (result: R, label: UInt64) {
    let table = generation.table
    do {
      let transaction = try WriteTransaction(in: generation.environment)
      try fault(throwing: .begin)
      let label = generation.base &+ transaction.id
      try generation.resolveInterruptedCompaction()
      if table.isFenced { throw EngineSignal.generationChanged }
      let milliseconds = Clocks.wallMilliseconds()
      // Through the map a transaction takes no longer than asking for the status of the file does:
      // there it is asked once a millisecond. Its size changes with what is reserved only.
      let isLooking = generation.shouldCheckFileStatus(at: milliseconds)
      if isLooking {
        let size = UInt64(generation.dataSize)
        guard size >= table.dataBytes else {
          throw LMDBError(.corrupted, during: "the size of data.mdb (it shrank)")
        }
        table.raiseDataBytes(to: size)
      }
      let hasMissedStamps = table.lastStamped < label &- 1
      if hasMissedStamps { table.raiseFloor(to: label) }
      let now = options.clock.now()
      table.announceWriter(label: label)
      // After the announcement: a lease that is not seen here is of a leader that sees the label, and
      // whose snapshot contains the commit without stamps.
      if hasMissedStamps, !Mutant.fillIgnoresCancel.isActive { table.cancelAllLeases() }
      try fault(throwing: .afterWriterLabel)
      try markDirty(generation)
      try generation.keeper?.pin(for: transaction.id, in: generation)

      var context = try StoreTransaction(transaction, in: generation, label: label, now: now)
      let result = try body(&context)
      guard context.hasChanges else { return (result, label) }
      try context.finish()
      try fault(throwing: .beforeStamps)
      if !Mutant.stampsAfterCommit.isActive { stamp(context, table) }
      table.lastStamped = label
      let afterwards = PostCommitWork(context, label: label)
      try commit(context)
      fault(.afterCommit)
      // LMDB's lock is free: the next writer need not wait for the rest.
      table.releaseTicket(process: generation.process)
      // Now, not with the next commit: a file cut short after this one is to be recognised.
      if isLooking || generation.hasReservedMore, let status = generation.dataStatus {
        table.raiseDataBytes(to: UInt64(status.size))
        table.raiseDataChanged(to: status.changed)
        generation.noteGrowth(to: status.size, self)
        if let keeper = generation.keeper {
          syncer.noteCommit(isUrgent: keeper.noteCommit(size: status.size))
        }
      }
      afterwards.publish(in: generation)
      // Its ticks bring the store to the disk when it is idle.
      if options.durability != .durable, !worker.hasStarted { worker.start(self) }
      if table.isFenced, !table.isSuperseded {
        if options.durability == .cache { throw EngineSignal.generationChanged }
        throw StoreError(
          .outcomeUnknown, during: "commit", path: directory.path,
          "The store was replaced during the commit. Read the value again to see what it holds.")
      }
      fault(.beforeWake)
      table.advanceWakeWord()
      return (result, label)
    } catch let error as LMDBError {
      let explained = generation.explained(error)
      guard explained is LMDBError else { throw explained }
      // A file that is too large, where nothing limits it, has a page number that is none.
      let isHuge = error.code.rawValue == 27 && ResourceLimits.fileSize == nil
      if error.isDamage || isHuge { try fence(generation, because: error) }
      throw error
    }
  }

  private func stamp(_ context: borrowing StoreTransaction, _ table: SharedTable) {
    let label = Mutant.stampsOneLow.isActive ? context.label - 1 : context.label
    context.touchedSlots.forEach { slot in
      table.stamp(slot: slot, label: label)
      fault(.betweenStamps)
    }
    for number in context.clearedNamespaces { table.stampNamespace(number, label: label) }
    if context.raisesFloor { table.raiseFloor(to: label) }
    fault(.afterStamps)
  }

  private func commit(_ context: consuming StoreTransaction) throws {
    do {
      try fault(throwing: .beforeCommit)
      try context.transaction.commit()
    } catch {
      // The stamps are out and the transaction is not: those slots miss until the next commit.
      needsNoOpCommit.store(true, ordering: .releasing)
      worker.wake(self)
      throw error
    }
  }

  /// What is left to do once the transaction is published.
  private struct PostCommitWork {
    let learn: [() -> Void]
    let books: CachedTotals
    let slots: TouchedSlots
    let label: UInt64
    let evicted: UInt64
    let expired: UInt64
    let bytes: UInt64

    init(_ context: borrowing StoreTransaction, label: UInt64) {
      learn = context.postCommitUpdates()
      books = context.knownBooks
      slots = Mutant.stampsAfterCommit.isActive ? context.touchedSlots : TouchedSlots()
      self.label = label
      evicted = context.evicted
      expired = context.expired
      bytes = context.bytesWritten
    }

    func publish(in generation: Generation) {
      slots.forEach { generation.table.stamp(slot: $0, label: label) }
      for body in learn { body() }
      generation.books.withLock { $0 = books }
      generation.count(.commits)
      if evicted > 0 { generation.count(.evictions, by: evicted) }
      if expired > 0 { generation.count(.expirations, by: expired) }
      if bytes > 0 { generation.count(.bytesWritten, by: bytes) }
    }
  }

  /// Before the first commit of a boot: `state` says dirty, on the disk.
  private func markDirty(_ generation: Generation) throws {
    guard !generation.table.isDirty else { return }
    let state = StoreState(
      isDirty: true, bootID: ProcessIdentity.bootID, storeID: generation.meta.storeID,
      durability: generation.meta.durability)
    try state.write(to: generation.path + "/state")
    try fault(throwing: .stateDirty)
    generation.table.isDirty = true
  }

  // MARK: Whole transactions

  /// An empty transaction with stamps: what a killed writer's labels wait for.
  func bump() throws {
    _ = try withGeneration { generation in
      try transact(in: generation) { $0.force() }
    }
  }

  /// Writes the store's own record with a change. The caller has the writer's role.
  private func putMeta(in generation: Generation, _ change: (inout StoreMeta) -> Void) throws {
    _ = try transact(in: generation) { transaction in
      var meta = generation.meta
      // These two may have been changed since the store was opened here.
      meta.budget = generation.table.budget
      meta.syncInterval = generation.table.syncInterval
      change(&meta)
      try transaction.transaction.put(meta.bytes(), forKey: StoreMeta.key, in: .main)
      transaction.force()
    }
  }

  /// Changes what the store is, for everybody.
  func changeMeta(_ change: @escaping @Sendable (inout StoreMeta) -> Void) throws {
    try runExclusively { core in
      try core.withGeneration { try core.putMeta(in: $0, change) }
    }
  }

  /// Changes the budget for everybody, evicting down to it.
  func setBudget(_ budget: ByteCount) throws {
    let bytes = UInt64(budget.bytes)
    guard try generation().table.budget != bytes else { return }
    let isDone: Bool = try runExclusively { core in
      try core.withGeneration { generation in
        guard bytes <= generation.meta.mapSize / 2 else {
          throw StoreError(
            .invalidOption, during: "open", path: self.directory.path,
            "The store's map holds budgets up to \(ByteCount(bytes: Int(generation.meta.mapSize / 2)))"
              + "; \(budget) needs a new store in another directory.")
        }
        try core.putMeta(in: generation) { $0.budget = bytes }
        generation.table.budget = bytes
        while try !core.transact(in: generation, { try $0.trim(limit: 1000) }).result {}
        return true
      }
    }
    _ = isDone
  }
}
