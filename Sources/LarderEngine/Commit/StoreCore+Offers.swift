// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// COMBINED WRITES
//
// Writes of one process are committed together by its commit leader. Those of several processes would
// have a transaction each. So a leader whose only request is an increment or, in a store with a redo log, a put
// of a small value, and that finds the writer ticket taken, offers the request to the holder for a moment
// (`SharedTable+Offers.swift`). Without a log, a commit takes less time than an offer.
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
// So a write is made once or not at all, if any of the processes is killed at any instruction. The owner waits
// for the ticket meanwhile, like all writers (`StoreCore+Ticket.swift`). When it has it, or after 5 ms, it
// withdraws its offer and executes the request itself. It cannot withdraw a claimed one: it waits for the end
// of that transaction, or of its process, as for its own commit, at most `writeTimeout`. Without a log, a
// transaction takes less time than two context switches, so the owner spins for 0.2 ms at first, or until the
// ticket stays free: the writer of a hot key usually comes back.
//
// An owner whose write was executed waits until that transaction is on the disk, if the store is durable.
//
// The writer's batch and the offers share their transaction and no result. A key of the batch that an offer
// has changed is not inserted into the memory tiers of this process, and neither is a value by its owner: a
// later offer may have replaced it in the same transaction. If the transaction fails, the batch is repeated
// without offers.

/// A request that the commit leader offers while it waits for the ticket.
final class Offering {
  let request: WriteRequest
  let offer: OfferedWrite
  /// Whether a writer has claimed the offer, and may have executed it.
  var isClaimed = false
  /// Whether the request is in the queue again, or complete.
  fileprivate var isQueued = false

  init(_ request: WriteRequest, _ offer: OfferedWrite) {
    self.request = request
    self.offer = offer
  }
}

/// Another process has executed the offer.
struct OfferExecuted: Error {
  let commitVersion: UInt64
  let outcome: OfferOutcome
}

extension StoreCore {
  private static let spinNanoseconds: UInt64 = 200_000
  private static let spinRounds = 16
  /// The number of looks in a row at which the ticket is free that end the spinning.
  private static let freeLooks = 4
  /// The longest wait of a transaction for offers: less than the sync that it saves.
  private static let gatherNanoseconds: UInt64 = 100_000
  /// Shorter than `OfferedWrite.longest`.
  private static let offerNanoseconds: UInt64 = 5_000_000

  /// Takes the only request from the queue, if the ticket is taken and the request can be offered.
  func takeOffering(in generation: Generation) -> Offering? {
    let table = generation.table
    // A monitor hears of the commit of every request, and of the wait for the ticket.
    guard monitors == nil, let holder = table.ticketHolder, holder != generation.process,
      generation.process < table.offerSlots, !generation.hasLostFiles.load(ordering: .acquiring)
    else { return nil }
    let now = options.clock.now()
    var offer: OfferedWrite?
    let request = queue.state.withLock { state in
      state.takeSole { request in
        guard request.isIncrement || generation.waitsForDisk && request.isPut else { return false }
        offer = OfferedWrite(request, now: now)
        return offer != nil
      }
    }
    return request.map { Offering($0, offer!) }
  }

  /// Completes a request that another process has executed.
  func complete(
    _ offering: Offering, _ done: OfferExecuted, in generation: Generation
  ) throws(EngineSignal) {
    let request = offering.request
    let result: WriteRequest.Result
    do {
      switch done.outcome {
      case .overflow(let pattern):
        request.setOutcome { .overflow($0.value(pattern)) }
        result = .done(commitVersion: done.commitVersion, changed: false)
      case .stored(let pattern):
        try awaitExecuted(done.commitVersion, in: generation)
        request.setOutcome { .stored($0.value(pattern)) }
        generation.count(.sets)
        noteCommit(changesData: true, in: generation.table)
        result = .done(commitVersion: done.commitVersion, changed: true)
      case .refused: return
      }
    } catch let signal as EngineSignal {
      throw signal
    } catch {
      result = .failed(StoreError(wrapping: error, during: "write", path: directory.path))
    }
    finish(offering, result)
  }

  /// Completes a request that other processes may have executed.
  func finish(_ offering: Offering, _ result: WriteRequest.Result) {
    offering.isQueued = true
    // Another process may have replaced its value in the same transaction.
    offering.request.finish(result, isFinal: false)
    notifyCallers([offering.request])
  }

  /// Waits until a transaction that another process has committed for this one is on the disk: that process waits
  /// for its own caller only.
  private func awaitExecuted(_ version: UInt64, in generation: Generation) throws {
    // A fenced generation of a cache is abandoned as a whole, and the request is repeated.
    try requireSuccession(of: generation)
    do {
      if generation.waitsForDisk { try DurableWait(ofAny: version, in: generation).end(self) }
    } catch EngineSignal.generationChanged {
      // A copy of the generation contains it, and is synced before it is used.
      if !generation.table.isSuperseded { throw outcomeUnknown(by: writer(in: generation)) }
    }
  }

  /// Waits for the ticket, and offers a request to the writers before (O1).
  ///
  /// - Throws: `OfferExecuted` if one of them has executed it; otherwise as `takeTicket`.
  func waitForTicket(in generation: Generation, offering: Offering) throws {
    let (table, slot) = (generation.table, generation.process)
    guard table.offer(offering.offer, slot: slot) else {
      return try waitWithoutOffer(offering, in: generation)
    }
    fault(.writeOffered)
    do {
      if try awaitTurn(in: generation, offering) { return }
    } catch {
      table.releaseTicket(process: slot)
      if error is OfferExecuted || table.withdrawOffer(slot) { throw error }
      offering.isClaimed = true
      throw explained(error, after: offering, in: generation)
    }
    try waitWithoutOffer(offering, in: generation)
  }

  /// Returns what an error means for the caller of a request that was claimed, and was in no transaction of this
  /// process: it may be executed.
  func explained(
    _ error: any Error, after offering: Offering, in generation: Generation
  ) -> any Error {
    guard offering.isClaimed else { return error }
    let table = generation.table
    // In this order: a claimed offer may be executed between two looks.
    guard table.offerState(generation.process).isClaimed else {
      do { try requireUnexecuted(in: generation) } catch { return error }
      return error
    }
    // A generation of a cache that is fenced is abandoned as a whole, and the request is repeated.
    let isAbandoned =
      error is EngineSignal && options.durability == .cache && table.isFenced
      && !table.isSuperseded
    return isAbandoned ? error : outcomeUnknown(by: writer(in: generation))
  }

  /// Waits for the ticket with an offer.
  ///
  /// - Returns: `false` if the offer is withdrawn or refused, and this process does not have the ticket.
  private func awaitTurn(in generation: Generation, _ offering: Offering) throws -> Bool {
    let (table, slot) = (generation.table, generation.process)
    var isHeld = false
    if !generation.waitsForDisk {
      spinWhileOffered(in: generation)
    } else {
      let end = Clocks.monotonicNanoseconds() &+ Self.offerNanoseconds
      isHeld = try waitForTicket(in: generation, offering, until: min(end, ticketDeadline))
    }
    if table.withdrawOffer(slot) { return isHeld }
    // In this order: a claimed offer may be executed between two looks.
    guard table.offerState(slot).isClaimed else {
      try requireUnexecuted(in: generation)
      return isHeld
    }
    offering.isClaimed = true
    // Until its transaction or its process has ended: the own transaction settles it then (O4).
    if try !isHeld && !waitForTicket(in: generation, offering, until: ticketDeadline) {
      throw outcomeUnknown(by: writer(in: generation))
    }
    return true
  }

  private func waitWithoutOffer(_ offering: Offering, in generation: Generation) throws {
    // Its caller can withdraw it there.
    requeue(offering)
    try waitForTicket(in: generation, isHeld: false)
  }

  /// Queues an offered request again, before all others, unless it is queued or complete.
  func requeue(_ offering: Offering) {
    if offering.isQueued { return }
    offering.isQueued = true
    queue.state.withLock { $0.putBack(offering.request) }
  }

  /// - Throws: `OfferExecuted` if the offer of this process is settled, and not refused.
  func requireUnexecuted(in generation: Generation) throws {
    let (table, slot) = (generation.table, generation.process)
    guard case .settled(let version) = table.offerState(slot) else { return }
    let outcome = table.offerOutcome(slot)
    if outcome == .refused { return }
    throw OfferExecuted(commitVersion: version, outcome: outcome)
  }

  /// Waits for as many offers as the transaction before has executed (O2): a sync has woken their owners as well as
  /// this process. Called with the writer lock.
  func awaitOffers(in generation: Generation) {
    let table = generation.table
    let expected = table.combined
    guard expected > 0 else { return }
    let end = Clocks.monotonicNanoseconds() &+ Self.gatherNanoseconds
    while table.offerCount < expected, Clocks.monotonicNanoseconds() < end { OSThread.yield() }
  }

  private func spinWhileOffered(in generation: Generation) {
    let (table, slot) = (generation.table, generation.process)
    let end = Clocks.monotonicNanoseconds() + Self.spinNanoseconds
    var (rounds, free) = (0, 0)
    while free < Self.freeLooks {
      switch table.offerState(slot) {
      case .offered: free = table.ticketHolder == nil ? free + 1 : 0
      case .claimed: free = 0
      case .settled, .free: return
      }
      // A process that was not scheduled meanwhile has not waited.
      rounds += 1
      if rounds > Self.spinRounds, Clocks.monotonicNanoseconds() >= end { return }
      OSThread.yield()
    }
  }
}

extension StoreTransaction {
  /// Claims the writes that other processes offer now (O2).
  ///
  /// - Returns: Whether there may be some.
  @inline(__always)
  mutating func claimOffers() -> Bool {
    guard generation.table.hasOffers else { return false }
    offers += generation.table.claimOffers(commitVersion: commitVersion)
    fault(.offersClaimed)
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
      let own = OfferedWrite(increment, key: key, space: space, now: now)
    {
      group = takeOffers(like: own)
    }
    return try execute([increment], group, forKey: key, in: space).map { $0[0] }
  }

  /// Executes the claimed offers.
  ///
  /// - Throws: An error after which the transaction cannot be committed.
  mutating func executeOffers() throws {
    while let claim = offers.first {
      guard let target = claim.offer.target else {
        offers.removeFirst()
        continue
      }
      do {
        // An error is a refusal: the owner gets it when it executes the write.
        if let content = claim.offer.content(for: target.key) {
          offers.removeFirst()
          try set(content, forKey: target.key, in: target.space)
          noteExecuted(claim, .stored(0), target.space.hash(of: target.key, in: generation))
        } else {
          _ = try execute([], takeOffers(like: claim.offer), forKey: target.key, in: target.space)
        }
      } catch  where failure == nil && error is StoreError {
        // Nothing was changed.
        continue
      }
    }
  }

  private mutating func noteExecuted(_ claim: ClaimedOffer, _ outcome: OfferOutcome, _ hash: UInt64)
  {
    replacedOwn.insert(hash)
    generation.table.setOutcome(outcome, slot: claim.slot)
  }

  /// Removes and returns the offers for one counter, which are one change of it.
  private mutating func takeOffers(like offer: OfferedWrite) -> [ClaimedOffer] {
    let group = offers.filter { $0.offer.addsToTarget(of: offer) }
    offers.removeAll { $0.offer.addsToTarget(of: offer) }
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
    let hash = space.hash(of: key, in: generation)
    for (claim, outcome) in zip(group, outcomes[own.count...]) {
      let pattern = CounterIncrement.IntegerType.pattern
      switch outcome {
      case .stored(let sum): noteExecuted(claim, .stored(pattern(sum)), hash)
      case .overflow(let old): noteExecuted(claim, .overflow(pattern(old)), hash)
      }
    }
    return result
  }
}
