// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// GROUP COMMIT
//
// The writes of one process are queued. A caller that finds no commit leader becomes the leader: it
// begins a transaction on its own thread, takes every request that is queued by then, commits them,
// gives each caller its result, and transfers leadership. Callers that find a leader wait for their
// result, or for leadership. Asynchronous callers and write-behind requests never lead: the store's
// own thread leads for them.
//
// LMDB has no savepoints. So the engine checks everything that can fail on content beforehand, and
// repeats a transaction that fails all the same request by request.
//
// In a durable store, a caller that has led its transaction transfers leadership before it waits for the
// disk; the store's thread runs the next closure while another thread waits for those of asynchronous callers
// (`DurableWait.swift`). A batch keeps the leadership until it is on the disk: the next batch collects meanwhile.
//
// A closure of an asynchronous caller runs only on the store's own thread. A waiting caller that
// finds one at the head of the queue transfers leadership to that thread.
//
// Every wait is bounded. A leading caller waits for writers of other processes until its own time
// limit (`StoreCore+Ticket.swift`), then withdraws its request and transfers leadership. A caller
// that does not lead withdraws its request. A timer withdraws the request of an asynchronous caller
// (`StoreCore+Async.swift`).

extension StoreCore {
  // MARK: Callers

  /// Queues a write request and waits until it is committed.
  ///
  /// - Returns: The result with the commit version.
  /// - Throws: ``StoreError`` if the request is rejected, fails, or times out.
  @discardableResult
  package func submit(_ record: WriteRequest) throws(StoreError) -> WriteRequest.Result {
    // One limit for the whole call: the wait for its result, for leadership, and as the leader.
    let deadline = Clocks.deadline(after: options.writeTimeout)
    // A monitor that writes to the store it observes would wait for its own thread.
    if leader.load(ordering: .relaxed) == OSThread.token {
      throw .insideTransaction(path: directory.path)
    }
    let generation = try checkCaller()
    try check(record, generation)
    if let monitors { record.setOrigin(monitors.origin()) }
    if let event = enqueue(record) {
      try wait(for: record, event, until: deadline)
    } else {
      lead(until: record, deadline: deadline)
      // Leadership was transferred to a closure that was queued before this request.
      if !record.isDone, let event = record.waiter.withLock({ $0.event }) {
        try wait(for: record, event, until: deadline)
      }
    }
    switch record.result {
    case .done(let commitVersion, let changed):
      return .done(commitVersion: commitVersion, changed: changed)
    case .failed(let error): throw error
    case nil:
      throw StoreError(.system, during: "write", "The write ended without a result.")
    }
  }

  /// Queues the request of a caller that waits.
  ///
  /// - Returns: The event that is set when the request is done or its caller becomes the commit
  ///   leader, or `nil` if the caller is the commit leader now.
  private func enqueue(_ record: WriteRequest) -> Event? {
    queue.state.withLock { state in
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
  }

  /// Queues a write request for the store's thread and returns at once. Blocks only while the
  /// write-behind queue is full.
  ///
  /// - Parameter isPatient: Whether it may wait while the store's thread lingers.
  package func enqueueWriteBehind(
    _ record: WriteRequest, isPatient: Bool = false
  ) throws(StoreError) {
    let generation = try checkCaller()
    try check(record, generation)
    if let monitors { record.setOrigin(monitors.origin()) }
    let slot = record.space.map { StampSlot(hash: $0.hash(of: record.key, in: generation)) }
    var deadline: UInt64?
    var wait: RunningWait?
    var crossing: CrossingWrites?
    defer {
      wait?.end()
      crossing?.end()
    }
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
          record.countPending(in: slot)
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
      if crossing == nil { crossing = try CrossingWrites.begin(waitingFor: self) }
      if wait == nil {
        wait = monitors.begin(MonitoredWait(.backpressure, holder: writer(in: generation)))
      }
      room.wait(nanoseconds: 100_000_000)
      _ = try self.generation()
      if Clocks.monotonicNanoseconds() >= end {
        let error = writerStalled()
        wait?.end(error)
        throw error
      }
    }
    // The generation may have changed in the meantime: then the counted slot belongs to the old
    // generation.
    guard let now = try? self.generation() else {
      // The store was closed in the meantime, and the thread that would have led has ended.
      leadIfNeeded()
      return
    }
    if now !== generation { queue.rehash(in: now) }
    worker.wake(self, isPatient: isPatient)
  }

  /// Throws ``StoreError/Code/insideTransaction`` on the thread that has the writer lock of this process:
  /// there, a wait for a write of another thread would not end.
  package func requireNoTransaction() throws(StoreError) {
    let token = OSThread.token
    if bodyThread.load(ordering: .relaxed) == token || leader.load(ordering: .relaxed) == token {
      throw .insideTransaction(path: directory.path)
    }
  }

  private func checkCaller() throws(StoreError) -> Generation {
    if bodyThread.load(ordering: .relaxed) == OSThread.token {
      throw .insideTransaction(path: directory.path)
    }
    let generation = try generation()
    // The writer would switch generations first, and that waits for this thread's read to end.
    if generation.table.isFenced, generation.isReadingOnCurrentThread {
      throw .generationReplacedDuringRead(path: directory.path)
    }
    return generation
  }

  /// Checks a request before it is queued, so that an invalid one does not fail a group commit.
  private func check(_ record: WriteRequest, _ generation: Generation) throws(StoreError) {
    let content: EntryContent
    switch record.kind {
    case .put(let put): content = put
    case .fill(let fill, _): content = fill
    default: return
    }
    let budget = generation.table.budget
    try StoreCore.check(
      keyLength: record.key.bytes.count, content: content, budget: budget)
  }

  /// Checks the size of an entry against the limit of 1 GiB and the budget (zero means no budget).
  ///
  /// - Throws: ``StoreError/Code/valueTooLarge``.
  package static func check(
    keyLength: Int, content: EntryContent, budget: UInt64
  ) throws(StoreError) {
    let length = keyLength + content.payload.count
    guard length <= EntryHeader.maximumContent else {
      throw StoreError(
        .valueTooLarge, during: "set",
        "Key and value have \(ByteCount(bytes: length)); the limit is 1 GiB. Split the value.")
    }
    let cost = length + content.overhead
    guard budget == 0 || UInt64(cost) <= budget else {
      throw StoreError(
        .valueTooLarge, during: "set",
        "The entry has \(ByteCount(bytes: cost)), but the budget is "
          + "\(ByteCount(bytes: Int(budget))). Raise the budget or do not cache the value.")
    }
  }

  // MARK: Waiting

  /// Waits until a request is done or its caller becomes the commit leader, at most until the
  /// deadline of the call.
  private func wait(
    for record: WriteRequest, _ event: Event, until deadline: UInt64
  ) throws(StoreError) {
    let crossing = try CrossingWrites.begin(waitingFor: self) { queue.withdraw(record) }
    defer { crossing?.end() }
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
      // The time limit has passed. A queued request is withdrawn; one in a transaction ends soon.
      // What it has waited for may be over when it is withdrawn.
      let error = writerStalled()
      if queue.withdraw(record) { throw error }
      patience += 1
      if patience == StoreCore.patience { throw outcomeUnknown() }
      end = Clocks.deadline(after: options.writeTimeout)
    }
  }

  // MARK: Leading

  /// Commits the queue until `own` is done, or completely if `own` is `nil`, then transfers
  /// leadership. The caller is the commit leader.
  ///
  /// - Parameter deadline: The time at which `own` stops waiting for writers of other processes;
  ///   see ``leaderDeadline``. Without `own` the wait ends only when the store closes: write-behind
  ///   requests have no time limit, and asynchronous callers have timers.
  func lead(until own: WriteRequest?, deadline: UInt64 = .max) {
    leader.store(OSThread.token, ordering: .relaxed)
    leaderDeadline.store(deadline, ordering: .relaxed)
    leadQueued(until: own)
    // Before code of the user runs, which may close the generation that the wait keeps open.
    own?.endWait(self)
    deliverNotices()
  }

  private func leadQueued(until own: WriteRequest?) {
    while true {
      let head: WriteRequest? = queue.state.withLock { $0.head }
      if let head, case .exclusive(let body) = head.kind {
        if head === own {
          run(body, of: head)
        } else if !head.hasWaiter, own == nil || worker.isCurrentThread {
          let deadline = leaderDeadline.exchange(head.deadline, ordering: .relaxed)
          run(body, of: head)
          leaderDeadline.store(deadline, ordering: .relaxed)
        } else {
          // The thread of a waiting caller runs its closure, with its time limit. Closures of
          // asynchronous callers run only on the store's own thread.
          expectResult(of: own)
          return transferLeadership()
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
        // Callbacks are pending, and the commit leader must not run user code: transfer leadership
        // first.
        if notices.areHeld { return transferLeadership() }
      } else if own!.isDone {
        transferLeadership()
        return
      }
    }
  }

  private func run(_ body: @Sendable (StoreCore) -> Void, of head: WriteRequest) {
    // A request that its caller withdrew after its time limit is not run.
    guard queue.state.withLock({ $0.removeHead(head) }) else { return }
    if let monitors { monitors.runExclusive(head.origin) { body(self) } } else { body(self) }
    if let wait = deferredWait.withLock({ $0.take() }) {
      if head.hasCompletion { return completions.add(head, wait, self) }
      head.setWait(wait)
    }
    head.finish(.done(commitVersion: 0, changed: true))
    head.announce()
  }

  private func expectResult(of own: WriteRequest?) {
    guard let own, !own.isDone else { return }
    own.waiter.withLock { $0.event = $0.event ?? Event() }
  }

  /// Transfers leadership under the queue's lock. A withdrawal acquires the same lock, so
  /// leadership is never lost.
  private func promote(_ record: WriteRequest) {
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

  /// Transfers leadership to the first waiting caller, or to the store's own thread if no caller
  /// waits or only that thread runs the head of the queue.
  private func transferLeadership() {
    let isWaiting = queue.state.withLock { state in
      if !state.isHeadForWorker,
        let waiting = state.records.first(where: { $0.hasWaiter })
      {
        promote(waiting)
        return false
      }
      resignLeadership(&state)
      return !state.records.isEmpty
    }
    guard isWaiting else { return }
    if (try? generation()) == nil { leadIfNeeded() } else { worker.wake(self) }
  }

  /// Leads on the store's thread if there is no leader.
  func leadIfNeeded() {
    let mine = queue.state.withLock { state in
      guard !state.hasLeader, !state.records.isEmpty else { return false }
      state.hasLeader = true
      return true
    }
    if mine { lead(until: nil) }
  }
}
