// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// COMBINING
//
// Writes of one process queue up. A caller that finds the writer's role free takes it: it begins a
// transaction on its own thread, takes everything that is queued by then, commits it, gives each
// caller a result, and hands the role on. Callers that find the role taken wait for their result,
// or for the role. Asynchronous callers and writes behind never lead: the store's own thread does
// it for them.
//
// LMDB has no savepoints, so what may fail on content is checked before, and a transaction that
// fails all the same is repeated record by record.
//
// A closure of an asynchronous caller runs on the store's own thread only: a waiting caller that finds
// one at the head of the queue hands the role to that thread.
//
// Every wait ends. A caller that leads waits for writers of other processes until its own time is up
// (`StoreCore+Ticket.swift`), takes its record back and passes the role to the next; one that does not lead
// takes its record back; the record of an asynchronous caller is taken back by a timer
// (`StoreCore+Async.swift`).

extension StoreCore {
  // MARK: Callers

  /// Queues a record and waits until it is committed.
  @discardableResult
  package func submit(_ record: WriteRequest) throws(StoreError) -> WriteRequest.Result {
    // One for the whole call, whether it waits for its result, for the writer's role or as the leader.
    let deadline = Clocks.deadline(after: options.writeTimeout)
    let generation = try checkCaller()
    try check(record, generation)
    let event: Event? = queue.state.withLock { state in
      let isOurs = !state.hasLeader
      if isOurs, state.records.isEmpty {
        state.alone = record
      } else {
        state.records.append(record)
      }
      if isOurs {
        state.hasLeader = true
        return nil
      }
      let event = Event()
      record.waiter.withLock { $0.event = event }
      return event
    }
    if let event {
      try wait(for: record, event, until: deadline)
    } else {
      lead(until: record, deadline: deadline)
      // The role went to a transaction that was queued before us.
      if !record.isDone, let event = record.waiter.withLock({ $0.event }) {
        try wait(for: record, event, until: deadline)
      }
    }
    switch record.result {
    case .done(let label, let changed): return .done(label: label, changed: changed)
    case .failed(let error): throw error
    case nil:
      throw StoreError(.system, during: "write", "The write was left without a result.")
    }
  }

  /// Queues a record for the store's thread and returns at once; waits only for room.
  package func enqueueWriteBehind(_ record: WriteRequest) throws(StoreError) {
    let generation = try checkCaller()
    try check(record, generation)
    let slot = record.space.map {
      slotIndex($0.hash(of: record.key, in: generation))
    }
    var deadline: UInt64?
    while true {
      let room: Event? = queue.state.withLock { state in
        if record.isWriteBehind,
          state.behindCount >= WriteQueue.behindLimitCount
            || state.behindBytes >= WriteQueue.behindLimitBytes
        {
          let event = Event()
          state.spaceWaiters.append(event)
          return event
        }
        if record.isWriteBehind, let slot, let space = record.space {
          queue.pending.add(slot: slot)
          record.slot.store(slot, ordering: .relaxed)
          state.behindCount += 1
          state.behindBytes += record.weight
          state.shadows[WriteQueue.PendingKey(space: space.name, key: record.key)] = record
        }
        state.records.append(record)
        return nil
      }
      guard let room else { break }
      worker.wake(self)
      let end = deadline ?? Clocks.deadline(after: options.writeTimeout)
      deadline = end
      room.wait(nanoseconds: 100_000_000)
      let now = try self.generation()
      if Clocks.monotonicNanoseconds() >= end { throw writerStalled(by: writer(in: now)) }
    }
    // Moved meanwhile: the slot it was booked under is of a generation nobody looks at any more.
    guard let now = try? self.generation() else {
      // Closed meanwhile: the thread that would have led is gone.
      leadIfNeeded()
      return
    }
    if now !== generation { queue.rehash(in: now) }
    worker.wake(self)
  }

  private func checkCaller() throws(StoreError) -> Generation {
    if bodyThread.load(ordering: .relaxed) == OSThread.token {
      throw .insideTransaction(path: directory.path)
    }
    let generation = try generation()
    // The writer moves first, and waits for this thread's read to end.
    if generation.table.isFenced, generation.isReadingOnCurrentThread {
      throw .generationReplacedDuringRead(path: directory.path)
    }
    return generation
  }

  /// What can be known of a write before it costs anybody else anything.
  private func check(_ record: WriteRequest, _ generation: Generation) throws(StoreError) {
    let content: EntryContent
    switch record.kind {
    case .put(let put): content = put
    case .fill(let fill, _): content = fill
    default: return
    }
    let budget = generation.table.budget
    try StoreCore.check(
      keyLength: record.key.bytes.count, payloadLength: content.payload.count, budget: budget)
  }

  package static func check(
    keyLength: Int, payloadLength: Int, budget: UInt64
  ) throws(StoreError) {
    let length = keyLength + payloadLength
    guard length <= EntryHeader.maximumContent else {
      throw StoreError(
        .valueTooLarge, during: "set",
        "Key and value have \(ByteCount(bytes: length)); the most is 1 GiB. Split the value.")
    }
    guard budget == 0 || UInt64(length + EntryHeader.size) <= budget else {
      throw StoreError(
        .valueTooLarge, during: "set",
        "The entry has \(ByteCount(bytes: length + EntryHeader.size)), the whole budget is "
          + "\(ByteCount(bytes: Int(budget))). Raise the budget or do not cache the value.")
    }
  }

  // MARK: Waiting

  /// Waits for the end of a record, or for the writer's role, until the deadline of the call.
  private func wait(
    for record: WriteRequest, _ event: Event, until deadline: UInt64
  ) throws(StoreError) {
    var end = deadline
    var patience = 0
    while true {
      let isSet = event.wait(nanoseconds: StoreCore.nanoseconds(until: end))
      if record.isDone { return }
      if record.waiter.withLock({ $0.takePromotion() }) {
        event.reset()
        lead(until: record, deadline: deadline)
        if record.isDone { return }
        continue
      }
      if isSet {
        event.reset()
        if record.isDone { return }
        continue
      }
      // Time is up. Still queued: take it back. Already in a transaction: its end is near.
      let writer = (try? generation()).map { self.writer(in: $0) } ?? ProcessIdentity.pid
      if queue.withdraw(record) { throw writerStalled(by: writer) }
      patience += 1
      if patience > 2 { throw outcomeUnknown(by: writer) }
      end = Clocks.deadline(after: options.writeTimeout)
    }
  }

  // MARK: Leading

  /// Commits what is queued until `own` is done (all of it, when there is none), then hands the
  /// writer's role on. The caller has the role.
  ///
  /// - Parameter deadline: When `own` stops waiting for writers of other processes; see
  ///   ``leaderDeadline``. Without `own` the wait has no end but the store's: writes behind wait for
  ///   as long as it takes, and asynchronous callers have timers.
  func lead(until own: WriteRequest?, deadline: UInt64 = .max) {
    leader.store(OSThread.token, ordering: .relaxed)
    leaderDeadline.store(deadline, ordering: .relaxed)
    leadQueued(until: own)
    deliverNotices()
  }

  private func leadQueued(until own: WriteRequest?) {
    while true {
      let head: WriteRequest? = queue.state.withLock { $0.head }
      if let head, case .exclusive(let body) = head.kind {
        if head === own {
          run(body, of: head)
        } else if head.hasWaiter {
          // It belongs to a caller that waits: its thread runs it, and waits with its time limit.
          expectResult(of: own)
          if promote(head) { return }
        } else if own == nil || worker.isCurrentThread {
          let deadline = leaderDeadline.exchange(head.deadline, ordering: .relaxed)
          run(body, of: head)
          leaderDeadline.store(deadline, ordering: .relaxed)
        } else {
          // Closures of asynchronous callers run on the store's own thread only.
          expectResult(of: own)
          return passToWorker()
        }
      } else if head != nil, let stall = commitQueued(), let own, queue.withdraw(own) {
        own.finish(.failed(stall))
      }
      if own == nil {
        let isEmpty = queue.state.withLock { state in
          if state.records.isEmpty { resignLeadership(&state) }
          return state.records.isEmpty
        }
        if isEmpty { return }
        // Somebody has to be told something, and whoever has the role tells nobody.
        if notices.areHeld { return transferLeadership() }
      } else if own!.isDone {
        transferLeadership()
        return
      }
    }
  }

  private func run(_ body: @Sendable (StoreCore) -> Void, of head: WriteRequest) {
    // Taken back by its caller, whose time was up, it is not run.
    guard queue.state.withLock({ $0.removeHead(head) }) else { return }
    body(self)
    head.finish(.done(label: 0, changed: true))
    head.announce()
  }

  private func expectResult(of own: WriteRequest?) {
    guard let own, !own.isDone else { return }
    own.waiter.withLock { $0.event = $0.event ?? Event() }
  }

  /// Hands the writer's role to a waiting caller; `false`: it has given up meanwhile.
  private func promote(_ record: WriteRequest) -> Bool {
    queue.state.withLock { state in
      guard state.records.contains(where: { $0 === record }) else { return false }
      promoteQueued(record)
      return true
    }
  }

  /// Under the queue's lock, which whoever gives up takes as well: the role is never lost.
  private func promoteQueued(_ record: WriteRequest) {
    leader.store(0, ordering: .relaxed)
    record.waiter.withLock { waiter in
      waiter.isPromoted = true
      waiter.event?.set()
    }
  }

  private func resignLeadership(_ state: inout WriteQueue.State) {
    leader.store(0, ordering: .relaxed)
    state.hasLeader = false
  }

  private func passToWorker() {
    queue.state.withLock { resignLeadership(&$0) }
    if (try? generation()) == nil { leadIfNeeded() } else { worker.wake(self) }
  }

  private func transferLeadership() {
    let isWaiting = queue.state.withLock { state in
      if !state.isHeadForWorker,
        let waiting = state.records.first(where: { $0.hasWaiter })
      {
        promoteQueued(waiting)
        return false
      }
      resignLeadership(&state)
      return !state.records.isEmpty
    }
    guard isWaiting else { return }
    if (try? generation()) == nil { leadIfNeeded() } else { worker.wake(self) }
  }

  /// The store's thread leads when nobody does.
  func leadIfNeeded() {
    let mine = queue.state.withLock { state in
      guard !state.hasLeader, !state.records.isEmpty else { return false }
      state.hasLeader = true
      return true
    }
    if mine { lead(until: nil) }
  }
}
