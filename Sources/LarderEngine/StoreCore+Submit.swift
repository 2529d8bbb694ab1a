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

extension StoreCore {
  // MARK: Callers

  /// Queues a record and waits until it is committed.
  @discardableResult
  package func submit(_ record: WriteRecord) throws(StoreError) -> WriteRecord.Result {
    let generation = try checkCaller()
    try check(record, generation)
    // A writer of another process that does not go on may be stopped: then the store's thread
    // waits for it, and we can give up.
    let isStalled = writerStalls(in: generation)
    let event: Event? = queue.state.withLock { state in
      let isOurs = !state.roleTaken && !isStalled
      if isOurs, state.records.isEmpty {
        state.alone = record
      } else {
        state.records.append(record)
      }
      if isOurs {
        state.roleTaken = true
        return nil
      }
      let event = Event()
      record.waiter.withLock { $0.event = event }
      return event
    }
    if let event {
      if isStalled { worker.wake(self) }
      try wait(for: record, event)
    } else {
      lead(until: record)
      // The role went to a transaction that was queued before us.
      if !record.isDone, let event = record.waiter.withLock({ $0.event }) {
        try wait(for: record, event)
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
  package func submitBehind(_ record: WriteRecord) throws(StoreError) {
    let generation = try checkCaller()
    try check(record, generation)
    let slot = record.space.map {
      slotIndex($0.hash(of: record.key, in: generation))
    }
    while true {
      let room: Event? = queue.state.withLock { state in
        if record.isBehind,
          state.behindCount >= WriteQueue.behindLimitCount
            || state.behindBytes >= WriteQueue.behindLimitBytes
        {
          let event = Event()
          state.spaceWaiters.append(event)
          return event
        }
        if record.isBehind, let slot, let space = record.space {
          queue.pending.add(slot: slot)
          record.slot.store(slot, ordering: .relaxed)
          state.behindCount += 1
          state.behindBytes += record.weight
          state.shadows[WriteQueue.Shadow(space: space.name, key: record.key)] = record
        }
        state.records.append(record)
        return nil
      }
      guard let room else { break }
      worker.wake(self)
      room.wait(nanoseconds: 100_000_000)
      _ = try self.generation()
    }
    // Moved meanwhile: the slot it was booked under is of a generation nobody looks at any more.
    guard let now = try? self.generation() else {
      // Closed meanwhile: the thread that would have led is gone.
      leadIfFree()
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
    if generation.table.isCondemned, generation.isReadHere {
      throw .insideSnapshot(path: directory.path)
    }
    return generation
  }

  /// What can be known of a write before it costs anybody else anything.
  private func check(_ record: WriteRecord, _ generation: Generation) throws(StoreError) {
    let content: Content
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

  /// Whether a writer of another process is inside and seems to stay there.
  ///
  /// LMDB's lock cannot be waited for with a time limit, so a caller must not wait in it for a
  /// process that is stopped. A commit takes far less than the time this waits for its end.
  private func writerStalls(in generation: Generation) -> Bool {
    let table = generation.table
    var label: UInt64?
    while let writer = table.writerInside, writer.pid != ProcessIdentity.pid {
      // Another transaction than before: they go on.
      let current = table.writerLabel
      if let label, label != current { return false }
      label = current
      // Far in the future: the clock was set back, or the table is damaged.
      if !(-1000...3).contains(Clocks.wallMilliseconds() &- writer.since) { return true }
      OSThread.yield()
    }
    return false
  }

  private func wait(for record: WriteRecord, _ event: Event) throws(StoreError) {
    let limit = options.writeTimeout.nanoseconds
    var patience = 0
    while true {
      let isSet = event.wait(nanoseconds: limit)
      if record.isDone { return }
      if record.waiter.withLock({ $0.takePromotion() }) {
        event.reset()
        lead(until: record)
        if record.isDone { return }
        continue
      }
      if isSet {
        event.reset()
        if record.isDone { return }
        continue
      }
      // Time is up. Still queued: take it back. Already in a transaction: its end is near.
      let withdrawn = queue.state.withLock { state in
        if record.waiter.withLock({ $0.isPromoted }) { return false }
        guard let index = state.records.firstIndex(where: { $0 === record }) else { return false }
        state.records.remove(at: index)
        return true
      }
      let holder = (try? generation())?.table.writerInside?.pid
      if withdrawn {
        throw StoreError(
          .writerStalled, during: "write", path: directory.path,
          "Process \(holder.map(String.init) ?? "(unknown)") holds the writer lock and has not gone "
            + "on for \(options.writeTimeout). Nothing was written. If it is stopped, continue it or "
            + "end it.", pid: holder)
      }
      patience += 1
      if patience > 2 {
        throw StoreError(
          .outcomeUnknown, during: "write", path: directory.path,
          "The commit has not ended. Read the value again to see what the store holds.",
          pid: holder)
      }
    }
  }

  // MARK: Leading

  /// Commits what is queued until `own` is done (all of it, when there is none), then hands the
  /// writer's role on. The caller has the role.
  func lead(until own: WriteRecord?) {
    leader.store(OSThread.token, ordering: .relaxed)
    leadQueued(until: own)
    deliverNotices()
  }

  private func leadQueued(until own: WriteRecord?) {
    while true {
      let head: WriteRecord? = queue.state.withLock { $0.head }
      if let head, case .exclusive(let body) = head.kind {
        if head === own || head.waiter.withLock({ $0.event == nil }) {
          queue.state.withLock { $0.removeHead() }
          body(self)
          head.finish(.done(label: 0, changed: true))
          head.announce()
        } else {
          // It belongs to a caller that waits: its thread runs it. For a stopped writer of another
          // process we wait in its place, so that it can still give up.
          if own == nil, let generation = try? generation(), writerStalls(in: generation) {
            _ = try? withGeneration { try transact(in: $0) { _ in } }
          }
          if let own, !own.isDone { own.waiter.withLock { $0.event = $0.event ?? Event() } }
          if promote(head) { return }
        }
      } else if head != nil {
        commitQueued()
      }
      if own == nil {
        let isEmpty = queue.state.withLock { state in
          if state.records.isEmpty { freeRole(&state) }
          return state.records.isEmpty
        }
        if isEmpty { return }
        // Somebody has to be told something, and whoever has the role tells nobody.
        if notices.areHeld { return handOver() }
      } else if own!.isDone {
        handOver()
        return
      }
    }
  }

  /// Hands the writer's role to a waiting caller; `false`: it has given up meanwhile.
  private func promote(_ record: WriteRecord) -> Bool {
    queue.state.withLock { state in
      guard state.records.contains(where: { $0 === record }) else { return false }
      promoteQueued(record)
      return true
    }
  }

  /// Under the queue's lock, which whoever gives up takes as well: the role is never lost.
  private func promoteQueued(_ record: WriteRecord) {
    leader.store(0, ordering: .relaxed)
    record.waiter.withLock { waiter in
      waiter.isPromoted = true
      waiter.event?.set()
    }
  }

  private func freeRole(_ state: inout WriteQueue.State) {
    leader.store(0, ordering: .relaxed)
    state.roleTaken = false
  }

  private func handOver() {
    let isWaiting = queue.state.withLock { state in
      if let waiting = state.records.first(where: { $0.waiter.withLock { $0.event != nil } }) {
        promoteQueued(waiting)
        return false
      }
      freeRole(&state)
      return !state.records.isEmpty
    }
    guard isWaiting else { return }
    if (try? generation()) == nil { leadIfFree() } else { worker.wake(self) }
  }

  /// The store's thread leads when nobody does.
  func leadIfFree() {
    let mine = queue.state.withLock { state in
      guard !state.roleTaken, !state.records.isEmpty else { return false }
      state.roleTaken = true
      return true
    }
    if mine { lead(until: nil) }
  }
}
