// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The wait for writers of other processes. No other code blocks a thread for them.
extension StoreCore {
  /// Acquires the writer ticket of a generation; LMDB's writer lock is free then.
  ///
  /// The caller holds the process writer lock of the generation, and releases the ticket after its
  /// transaction has ended.
  ///
  /// - Parameter offering: A request that another writer may execute meanwhile.
  /// - Throws: ``StoreError/Code/writerStalled`` if ``leaderDeadline`` passes first;
  ///   `EngineSignal.generationChanged` if the generation is closed or fenced first; `OfferExecuted`.
  @inline(__always)
  func takeTicket(in generation: Generation, offering: Offering? = nil) throws {
    let isTaken = generation.table.ticket.tryTake(as: generation.process)
    if isTaken, generation.environment.writerThread == nil { return }
    if let offering {
      if !isTaken { return try waitForTicket(in: generation, offering: offering) }
      // Its caller can withdraw it there.
      requeue(offering)
    }
    try waitForTicket(in: generation, isHeld: isTaken)
  }

  /// The time at which the leader stops waiting for the ticket.
  var ticketDeadline: UInt64 {
    let limit = leaderDeadline.load(ordering: .relaxed)
    return limit == 0 ? Clocks.deadline(after: options.writeTimeout) : limit
  }

  @inline(never)
  func waitForTicket(in generation: Generation, isHeld: Bool) throws {
    func wait() throws {
      if try !waitForTicket(in: generation, isHeld, until: ticketDeadline) {
        throw writerStalled()
      }
    }
    guard let monitors else { return try wait() }
    try monitors.waitingForWriter(writer(in: generation)) { try wait() }
  }

  /// Waits for the ticket while a request is offered, or claimed.
  ///
  /// - Returns: `false` if the deadline passed.
  /// - Throws: `OfferExecuted` if the request was executed; otherwise as `takeTicket`.
  func waitForTicket(
    in generation: Generation, _ offering: Offering, until deadline: UInt64
  ) throws -> Bool {
    guard
      try waitForTicket(
        in: generation, false, until: deadline,
        check: {
          try requireUnexecuted(in: generation)
          if generation.table.offerState(generation.process).isClaimed { fault(.claimAwaited) }
        })
    else { return false }
    // Only the holder of the ticket settles: what is not settled by now is settled by this process.
    try requireUnexecuted(in: generation)
    return true
  }

  private func waitForTicket(
    in generation: Generation, _ isHeld: Bool, until deadline: UInt64, check: () throws -> Void = {}
  ) throws -> Bool {
    let (table, process) = (generation.table, generation.process)
    var wait = WriterLockWait()
    // The turn is this thread's: what the word says of this process is its own.
    return try table.ticket.wait(
      as: process, isHeld: isHeld || table.ticketHolder == process, until: deadline,
      isAlive: { $0 != process && generation.isPresent(process: $0) },
      isLockFree: {
        generation.environment.isWriterLockFree(for: &wait) { generation.canHoldWriterLock($0) }
      },
      proceed: {
        if isShuttingDown.load(ordering: .acquiring) { throw StoreError.closed("write") }
        if generation.isClosing || table.isFenced { throw EngineSignal.generationChanged }
        try check()
      })
  }

  /// The time that is left until a deadline; zero when it is over.
  static func nanoseconds(until deadline: UInt64) -> UInt64 {
    let now = Clocks.monotonicNanoseconds()
    return now < deadline ? min(deadline - now, .max / 4) : 0
  }

  func writer(in generation: Generation) -> Int32 { generation.writer }
}

extension Generation {
  /// Whether a thread can have LMDB's writer lock, according to what its process says of itself. Without the ticket
  /// nothing is known.
  func canHoldWriterLock(_ thread: Int32) -> Bool {
    Self.canHoldWriterLock(thread, table, process, lockFile: path + "/lock.mdb")
  }

  static func canHoldWriterLock(
    _ thread: Int32, _ table: SharedTable, _ process: Int, lockFile: String
  ) -> Bool {
    guard table.ticketHolder == process, let pid = ProcessIdentity.process(ofThread: thread) else {
      return true
    }
    let slots = (0..<table.shape.processSlots).filter { table.pid(process: $0) == pid }
    // A process that uses this table says that it writes before it asks for the lock, and has the ticket.
    if !slots.isEmpty { return slots.contains { table.isWriting(process: $0) } }
    // A program without tickets, that has mapped the file.
    guard let inode = (try? FileSystem.status(of: lockFile))??.inode else { return true }
    return ProcessIdentity.hasMapped(inode: inode, pid) ?? true
  }

  /// The process that other writers wait for: another one that is between begin and commit, otherwise this
  /// one.
  ///
  /// The holder of LMDB's lock comes first: the holder of the ticket may wait for it, if it is that of a
  /// program without tickets.
  var writer: Int32 {
    if let pid = environment.writerThread.flatMap(ProcessIdentity.process(ofThread:)),
      pid != ProcessIdentity.pid
    {
      return pid
    }
    if let holder = table.ticketHolder, holder != process, holder < table.shape.processSlots,
      let pid = table.pid(process: holder)
    {
      return pid
    }
    if let thread = environment.writerThread {
      return ProcessIdentity.process(ofThread: thread) ?? thread
    }
    return ProcessIdentity.pid
  }

  /// The process slot of the ticket's holder, if that process is alive.
  var livingWriter: Int? {
    guard let holder = table.ticketHolder, holder == process || isPresent(process: holder) else {
      return nil
    }
    return holder
  }

  /// Returns whether the process in a slot of the table is alive.
  func isPresent(process: Int) -> Bool {
    guard process < table.shape.processSlots else { return false }
    return (try? presence.isLockedElsewhere(at: PresenceLocks.slotOffset(process))) ?? true
  }
}
