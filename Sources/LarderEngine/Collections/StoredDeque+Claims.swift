// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// CLAIMS
//
// A claim belongs to a process, by its id in the file `locks`: the kernel tells whether that process
// lives. A claim ends when its caller completes it or releases it, when its lease ends, or when its
// process has ended. The next caller that claims or pops, in any process, ends the claims of the last two
// kinds: it searches for processes that have ended if nothing else is ready, and otherwise once a second.
// No system call is made under the writer lock.

extension StoredDeque {
  /// Claims the first element that is due.
  package func claim(lease: Duration) throws -> Claimed? {
    let owner = try owner()
    return try take("claim") { try claiming(lease, owner, $0) }
  }

  /// Claims the first element that is due, without blocking a thread of Swift's pool.
  package func claim(lease: Duration) async throws -> Claimed? {
    let owner = try owner()
    return try await take("claim") { try claiming(lease, owner, $0) }
  }

  private func claiming(
    _ lease: Duration, _ owner: UInt64, _ deadOwners: Set<UInt64>
  ) throws -> Step<Taken<Claimed>> {
    let space = try space.get()
    return { [self] state, transaction in
      try endClaims(of: deadOwners, &state, &transaction)
      let now = try time(of: state, in: transaction, isClaiming: true)
      var taken = Taken<Claimed>()
      while taken.result == nil, let next = state.takeFirst(now: now) {
        switch try transaction.element(at: next.place, in: space) {
        case .damaged: taken.damaged.append(next.place)
        case .missing: break
        case .found(let element):
          let claim = state.claim(
            next, owner: owner, deadline: Self.deadline(of: lease, from: now))
          taken.result = Claimed(element: element, claim: claim)
        }
      }
      return taken
    }
  }

  /// Ends the claims whose lease or process has ended.
  func endClaims(
    of deadOwners: Set<UInt64>, _ state: inout DequeState, _ transaction: inout StoreTransaction
  ) throws {
    let now = try time(of: state, in: transaction)
    for claim in state.endClaims(where: { $0.deadline <= now || deadOwners.contains($0.owner) }) {
      try giveBack(claim, due: .min, limit: maximumAttempts, &state, &transaction)
    }
  }

  private static func deadline(of lease: Duration, from now: Int64) -> Int64 {
    EntryHeader.deadline(of: max(lease.milliseconds, 1), from: now)
  }

  /// Makes the element of an ended claim available again, or moves it to the failed elements if it has
  /// had as many attempts as `limit`. A failed element stays where it is.
  private func giveBack(
    _ claim: DequeState.Claim, due: Int64, limit: Int, _ state: inout DequeState,
    _ transaction: inout StoreTransaction
  ) throws {
    guard claim.attempt >= limit, !isFailed else { return state.giveBack(claim, due: due) }
    let (space, failed) = (try space.get(), try failedSpace.get())
    guard case .found(let element) = try transaction.element(at: claim.place, in: space) else {
      transaction.generation.count(.damagedEntries)
      return
    }
    transaction.exceedsPinLimit = true
    defer { transaction.exceedsPinLimit = false }
    _ = try transaction.unset(EncodedKey(claim.place), in: space)
    _ = try transaction.changeDeque(failed) { state, transaction in
      try transaction.setElement(element, at: state.append(), in: failed)
    }
  }

  // MARK: The end of a claim

  /// Ends a claim and removes its element.
  ///
  /// - Returns: `false` if the claim had ended.
  package func complete(_ claim: DequeState.Claim) throws -> Bool {
    try run("complete", completing(claim))
  }

  package func complete(_ claim: DequeState.Claim) async throws -> Bool {
    try await run("complete", completing(claim))
  }

  private func completing(_ claim: DequeState.Claim) throws -> Step<Bool> {
    let space = try space.get()
    return { state, transaction in
      guard let claim = state.endClaim(claim) else { return false }
      _ = try transaction.unset(EncodedKey(claim.place), in: space)
      return true
    }
  }

  /// The end of a claim without success.
  package enum Release: Sendable {
    /// The attempt has failed.
    case failed
    /// The attempt does not count.
    case unused
    /// No further attempt can succeed.
    case hopeless
  }

  /// Ends a claim and keeps its element.
  ///
  /// - Returns: `false` if the claim had ended.
  package func release(
    _ claim: DequeState.Claim, after delay: Duration, _ release: Release
  ) throws -> Bool {
    try run("release", releasing(claim, delay, release))
  }

  package func release(
    _ claim: DequeState.Claim, after delay: Duration, _ release: Release
  ) async throws -> Bool {
    try await run("release", releasing(claim, delay, release))
  }

  private func releasing(
    _ claim: DequeState.Claim, _ delay: Duration, _ release: Release
  ) -> Step<Bool> {
    { [self] state, transaction in
      guard var ended = state.endClaim(claim) else { return false }
      // A failed element that cannot be used is not claimed again at once.
      let pause = release == .hopeless && isFailed ? Duration.seconds(60) : delay
      let now = try time(of: state, in: transaction, isClaiming: true)
      let due = EntryHeader.deadline(of: max(pause.milliseconds, 0), from: now)
      if release == .unused { ended.attempt -= 1 }
      let limit = release == .hopeless ? 0 : release == .unused ? .max : maximumAttempts
      try giveBack(ended, due: due, limit: limit, &state, &transaction)
      return true
    }
  }

  /// Gives a claim a new lease, which begins now.
  ///
  /// - Returns: `false` if the claim had ended.
  package func extend(_ claim: DequeState.Claim, lease: Duration) throws -> Bool {
    try run("extend", extending(claim, lease))
  }

  package func extend(_ claim: DequeState.Claim, lease: Duration) async throws -> Bool {
    try await run("extend", extending(claim, lease))
  }

  private func extending(_ claim: DequeState.Claim, _ lease: Duration) -> Step<Bool> {
    { [self] state, transaction in
      let now = try time(of: state, in: transaction, isClaiming: true)
      return state.extendClaim(claim, to: Self.deadline(of: lease, from: now))
    }
  }

  /// Ends a claim and removes its element in a transaction of the user.
  package func complete(
    _ claim: DequeState.Claim, in transaction: inout StoreTransaction
  ) throws -> Bool {
    try transaction.changeDeque(space.get(), completing(claim)).0
  }

  // MARK: Owners

  private func owner() throws -> UInt64 {
    let file = try store.openCore("claim").lockFiles.locks.file()
    file.restoreOwner()
    return file.owner
  }

  /// Returns the processes of claims that have ended.
  ///
  /// - Parameter isDue: Whether the result may be empty because this process has looked a second ago.
  func deadOwners(isDue: Bool) throws -> Set<UInt64> {
    guard checks.begin() || !isDue else { return [] }
    do {
      return try deadOwners(in: state().state)
    } catch let error as StoreError where error.code == .unreadableEntry {
      // The step makes the state again.
      return []
    }
  }

  /// Returns the processes of claims that have ended.
  func deadOwners(in state: DequeState) throws -> Set<UInt64> {
    if state.claims.isEmpty { return [] }
    let locks = try store.openCore("claim").lockFiles.locks
    let file = try locks.file()
    return Set(state.claims.map(\.owner)).filter {
      !file.isAlive($0) && !locks.formerOwners.contains($0)
    }
  }

  /// Returns the claims with their processes; `nil` for one that has ended.
  /// The deadlines are those of the store's clock, as it is now.
  package func claimStatus(
    in state: DequeState
  ) throws -> [(process: LockProcess?, deadline: Int64, attempt: Int)] {
    let claims = state.claims
    guard !claims.isEmpty else { return [] }
    let core = try store.openCore("claim")
    let file = try core.lockFiles.locks.file()
    let (now, time) = (core.now, file.milliseconds)
    return claims.map { claim in
      let isAlive = file.isAlive(claim.owner)
      let process = isAlive ? file.process(number: LockFile.ownerNumber(claim.owner)) : nil
      return (process, now &+ (claim.deadline &- time), claim.attempt)
    }
  }

  /// Returns the number of elements in a state that can only be claimed later.
  package func delayedCount(in state: DequeState) throws -> Int {
    try state.delayedCount(at: time(of: state, now: store.openCore("claim").now))
  }

  // MARK: Time

  /// Returns the time with which leases and delays are compared: that of `LockFile+Time.swift`, so that a
  /// change of the machine's clock neither ends nor prolongs them.
  ///
  /// - Parameter isClaiming: Whether a time is stored. Without claims and released elements there is none
  ///   to compare, and the file of locks need not exist.
  /// - Throws: ``StoreError`` if the file of locks cannot be used: by another clock, claims would end early.
  private func time(of state: DequeState, now: Int64, isClaiming: Bool = false) throws -> Int64 {
    guard isClaiming || state.hasTimes else { return now }
    return try store.core.lockFiles.locks.file().milliseconds
  }

  func time(
    of state: DequeState, in transaction: borrowing StoreTransaction, isClaiming: Bool = false
  ) throws -> Int64 {
    try time(of: state, now: transaction.now, isClaiming: isClaiming)
  }

  // MARK: Waiting

  /// Returns the time of the monotonic clock after a duration.
  package func deadline(after timeout: Duration) -> UInt64 { Clocks.deadline(after: timeout) }

  /// Suspends until an element may be ready, until a time of the monotonic clock, or until the task is
  /// cancelled or the store is closed.
  ///
  /// - Returns: `false` if the time has passed.
  package func waitForElement(until end: UInt64) async throws -> Bool {
    guard Clocks.monotonicNanoseconds() < end else { return false }
    let core = try store.openCore("claim")
    let space = try space.get()
    let mark = try core.observationMark()
    let generation = try core.generation()
    let (state, commitVersion) = try state()
    let time = try time(of: state, now: core.now)
    if state.isReady(at: time) { return true }
    let left = max(state.nextTime &- time, 0)
    // With a clock of the program, the time comes when that says so.
    let isSystem = core.options.clock.isSystem
    let due = isSystem ? Clocks.deadline(after: .milliseconds(min(left, 1 << 40))) : .max
    var wait = core.monitors.begin(MonitoredWait(.element, name: name))
    await core.change(
      of: [StampSlot(hash: space.hash(of: Self.stateKey, in: generation))],
      after: core.observed(generation, commitVersion: commitVersion, mark: mark),
      ObserverConditions(
        until: min(end, due), deadline: isSystem ? .max : state.nextTime, core
      ) {
        [self, hasDeadOwner = StickyCheck()] in
        // An error is that of the claim which follows.
        store.hasClosed
          || hasDeadOwner.isTrue { (try? deadOwners(in: state).isEmpty) != true }
      })
    wait?.end(Task.isCancelled ? CancellationError() : nil)
    return true
  }
}
