// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// COMBINED INCREMENTS
//
// Increments of one process are committed together by its commit leader. Those of several processes would
// have a transaction each. So a leader whose only request is an increment, and that finds the writer
// ticket taken, offers the request to the holder for a moment (`SharedTable+Increments.swift`):
//
//   O1  The owner takes its request from the queue, writes the offer and marks it as offered.
//   O2  A writer with LMDB's lock claims the offers, executes its own requests and those offers, and
//       stores the outcomes of the offers in the slots. All of that is one transaction with the commit
//       version V.
//   O3  After the commit, and before it releases the ticket, it settles the offers: their owners return.
//   O4  Every writer, after it has acquired LMDB's lock and before it changes anything, settles the offers
//       that are still claimed: their transaction was aborted, or its process was killed. The commit
//       version shows the outcome. LMDB numbers its commits, so the transaction V was committed if the new
//       one is later than V. If the new one is V again, nothing was committed, and the owner executes its
//       request itself.
//
// So an increment counts once or not at all, if any of the processes is killed at any instruction. After
// 0.2 ms, or when the ticket stays free (the writer of a hot key usually comes back), the owner withdraws its offer, queues the request again and waits for
// the ticket like all writers. It cannot withdraw a claimed one: it waits for the end of that transaction,
// or of its process, as for its own commit, at most `writeTimeout`.
//
// The writer's batch and the offers share their transaction and no result. A key of the batch that an offer
// has changed is not inserted into the memory tiers of this process. If the transaction fails, the batch is
// repeated without offers.

extension StoreCore {
  private static let offerNanoseconds: UInt64 = 200_000
  private static let offerRounds = 16
  /// The number of looks in a row at which the ticket is free that end the wait.
  private static let freeLooks = 4

  private enum Answer {
    case withdrawn
    case settled(UInt64, OfferOutcome)
    /// Claimed by a transaction that no process runs any more.
    case abandoned
    /// Claimed by a transaction that has not ended in time.
    case late
  }

  /// Offers the only request of the queue to the process that writes now, if the request is an increment.
  ///
  /// - Returns: Whether the request is complete. Otherwise it is in the queue.
  func offerIncrement(in generation: Generation) throws -> Bool {
    let table = generation.table
    // A monitor hears of the commit of every request, and of the wait for the ticket.
    guard monitors == nil, let holder = table.ticketHolder, holder != generation.process,
      generation.process < table.offerSlots,
      let record = queue.state.withLock({ $0.takeSoleIncrement() })
    else { return false }
    var isQueued = true
    defer { if isQueued { queue.state.withLock { $0.putBack(record) } } }
    guard case .increment(let increment, let box) = record.kind, let space = record.space,
      let offer = OfferedIncrement(
        increment, key: record.key, space: space, now: options.clock.now())
    else { return false }
    let result: WriteRequest.Result
    do {
      switch try answer(to: offer, in: generation) {
      case .withdrawn, .settled(_, .refused): return false
      case .settled(let version, .overflow(let pattern)):
        box.set(.success(.overflow(increment.type.value(pattern))))
        result = .done(commitVersion: version, changed: false)
      case .settled(let version, .stored(let pattern)):
        try requireSuccession(of: generation)
        // The process that executed it does not wait for this one.
        do {
          try whileOpen(generation) { try waitUntilDurable(version, in: generation) }
        } catch EngineSignal.generationChanged {
          // A copy of the generation contains it, and is synced before it is used.
          if !table.isSuperseded { throw outcomeUnknown(by: writer(in: generation)) }
        }
        box.set(.success(.stored(increment.type.value(pattern))))
        generation.count(.sets)
        noteCommit(changesData: true, in: table)
        result = .done(commitVersion: version, changed: true)
      case .abandoned, .late:
        // A fenced generation of a cache is abandoned as a whole, and the request is repeated.
        try requireSuccession(of: generation)
        throw outcomeUnknown(by: writer(in: generation))
      }
    } catch let error as StoreError {
      result = .failed(error)
    }
    isQueued = false
    complete(record, result)
    return true
  }

  private func answer(to offer: OfferedIncrement, in generation: Generation) throws -> Answer {
    let table = generation.table
    let limit = leaderDeadline.load(ordering: .relaxed)
    let end = min(limit == 0 ? .max : limit, Clocks.deadline(after: options.writeTimeout))
    var answer = try whileOpen(generation) { () throws -> Answer in
      if table.isFenced { throw EngineSignal.generationChanged }
      guard !generation.hasLostFiles.load(ordering: .acquiring),
        table.offer(offer, slot: generation.process)
      else { return .withdrawn }
      fault(.incrementOffered)
      return awaitAnswer(in: generation, until: end)
    }
    while case .abandoned = answer {
      // Any transaction settles it (O4); this one changes nothing. If another writer comes first, that one
      // settles it, and may last.
      leaderDeadline.store(
        min(end, Clocks.deadline(after: .milliseconds(20))), ordering: .relaxed)
      let isOver = (try? transact(in: generation) { _ in }) != nil
      leaderDeadline.store(limit, ordering: .relaxed)
      answer =
        (try? whileOpen(generation) {
          isOver ? settlement(in: generation) : awaitClaim(in: generation, until: end)
        }) ?? settlement(in: generation)
    }
    return answer
  }

  /// Runs a closure while the generation stays open, and with it the process slot.
  private func whileOpen<R>(_ generation: Generation, _ body: () throws -> R) throws -> R {
    guard generation.acquireProcessWriterLock() else { throw EngineSignal.generationChanged }
    defer { generation.releaseProcessWriterLock() }
    if generation.isClosing { throw EngineSignal.generationChanged }
    return try body()
  }

  private func settlement(in generation: Generation) -> Answer {
    let (table, slot) = (generation.table, generation.process)
    guard case .settled(let version) = table.offerState(slot) else { return .late }
    return .settled(version, table.offerOutcome(slot))
  }

  /// Waits until the offer of this process is settled or withdrawn.
  private func awaitAnswer(in generation: Generation, until limit: UInt64) -> Answer {
    let (table, slot) = (generation.table, generation.process)
    let end = Clocks.monotonicNanoseconds() + Self.offerNanoseconds
    var (rounds, free) = (0, 0)
    while true {
      // A process that was not scheduled meanwhile has not waited.
      rounds += 1
      let isLate = rounds > Self.offerRounds && Clocks.monotonicNanoseconds() >= end
      switch table.offerState(slot) {
      case .offered:
        free = table.ticketHolder == nil ? free + 1 : 0
        if isLate || free == Self.freeLooks, table.withdrawOffer(slot) { return .withdrawn }
      case .claimed: if isLate { return awaitClaim(in: generation, until: limit) }
      case .settled, .free: return settlement(in: generation)
      }
      OSThread.yield()
    }
  }

  /// Waits until the transaction that has claimed the offer has ended, or its process.
  private func awaitClaim(in generation: Generation, until end: UInt64) -> Answer {
    let (table, slot) = (generation.table, generation.process)
    while true {
      // Each commit advances the word after it has settled its offers.
      let word = table.wakeWord
      guard case .claimed = table.offerState(slot) else { return settlement(in: generation) }
      if generation.isClosing || table.isFenced || Clocks.monotonicNanoseconds() >= end {
        // A compaction settles offers before its fence.
        return settlement(in: generation)
      }
      guard let holder = generation.livingWriter, holder != slot else { return .abandoned }
      table.sleep(whileWakeWordIs: word, nanoseconds: 10_000_000)
    }
  }
}

extension StoreTransaction {
  /// Claims the increments that other processes offer now (O2).
  ///
  /// - Returns: Whether there may be some.
  @inline(__always)
  mutating func claimOffers() -> Bool {
    guard generation.table.hasOffers else { return false }
    offers += generation.table.claimOffers(commitVersion: commitVersion)
    fault(.incrementClaimed)
    return true
  }

  /// Executes an increment of this process, together with the offers for the same counter.
  ///
  /// - Throws: An error after which the transaction cannot be committed.
  mutating func execute(
    _ increment: CounterIncrement, forKey key: EncodedKey, in space: NamespaceHandle
  ) throws -> Result<CounterIncrement.Outcome, any Error> {
    var group: [ClaimedOffer] = []
    if !offers.isEmpty,
      let own = OfferedIncrement(increment, key: key, space: space, now: now)
    {
      group = takeOffers(like: own)
    }
    return try execute([increment], group, forKey: key, in: space).map { $0[0] }
  }

  /// Executes the claimed offers.
  ///
  /// - Throws: An error after which the transaction cannot be committed.
  mutating func executeOffers() throws {
    while let offer = offers.first?.offer {
      let group = takeOffers(like: offer)
      guard let target = offer.target else { continue }
      do {
        // An error is a refusal: the owner gets it when it executes the increment.
        _ = try execute([], group, forKey: target.key, in: target.space)
      } catch  where failure == nil && error is StoreError {
        // Nothing was changed.
        continue
      }
    }
  }

  /// Removes and returns the offers for one counter, which are one change of it.
  private mutating func takeOffers(like offer: OfferedIncrement) -> [ClaimedOffer] {
    let group = offers.filter { $0.offer.hasTarget(of: offer) }
    offers.removeAll { $0.offer.hasTarget(of: offer) }
    return group
  }

  /// Executes increments and then offers of one counter.
  ///
  /// - Returns: The outcomes of the increments, and then those of the offers, which the owners have.
  private mutating func execute(
    _ own: [CounterIncrement], _ group: [ClaimedOffer], forKey key: EncodedKey,
    in space: NamespaceHandle
  ) throws -> Result<[CounterIncrement.Outcome], any Error> {
    let increments = group.compactMap(\.offer.increment)
    // An offer that no process can have made stays refused, with all of its counter.
    let isSound = increments.count == group.count
    let all = isSound ? own + increments : own
    if all.isEmpty { return .success([]) }
    let result = try CounterIncrement.apply(all, to: key, in: space, &self)
    guard isSound, !group.isEmpty, case .success(let outcomes) = result else { return result }
    replacedOwn.insert(space.hash(of: key, in: generation))
    for (claim, outcome) in zip(group, outcomes[own.count...]) {
      let pattern = CounterIncrement.IntegerType.pattern
      switch outcome {
      case .stored(let sum): generation.table.setOutcome(.stored(pattern(sum)), slot: claim.slot)
      case .overflow(let old):
        generation.table.setOutcome(.overflow(pattern(old)), slot: claim.slot)
      }
    }
    return result
  }
}
