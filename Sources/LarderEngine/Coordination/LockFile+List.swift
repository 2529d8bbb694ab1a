// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The ticket of a lock slot, and the list of requests that it protects: rules 1, 3 and 4 of
/// `LockFileLayout.swift`.
extension LockFile {
  // MARK: The ticket

  /// Acquires the ticket of a slot if it is free.
  func tryEnter(_ slot: Int) -> Bool {
    let offset = Layout.slot(slot)
    return words.ticket(at: offset + Layout.slotTicket).tryTake(as: ownNumber) && admit(slot)
  }

  /// Acquires the ticket of a slot if it is free soon: it is held for less than a microsecond.
  func enterSoon(_ slot: Int) -> Bool {
    for _ in 0..<100 where tryEnter(slot) { return true }
    return false
  }

  /// Waits for the ticket of a slot. The thread is blocked in naps of 10 ms.
  ///
  /// - Returns: `false` if the deadline passed.
  func enter(_ slot: Int, until deadline: UInt64, proceed: () throws -> Void) throws -> Bool {
    if enterSoon(slot) { return true }
    let offset = Layout.slot(slot)
    repeat {
      guard
        try waitForTicket(
          at: offset + Layout.slotTicket, inside: offset + Layout.slotInside, until: deadline,
          proceed)
      else { return false }
    } while !admit(slot)
    return true
  }

  /// Waits for a ticket of the file.
  func waitForTicket(
    at offset: Int, inside: Int, until deadline: UInt64, _ proceed: () throws -> Void
  ) throws -> Bool {
    let ticket = words.ticket(at: offset)
    while true {
      let soon = Clocks.monotonicNanoseconds() &+ Self.checkNanoseconds
      let isTaken = try ticket.wait(
        as: ownNumber, isHeld: false, until: min(deadline, soon), isAlive: isAlive(number:),
        isLockFree: { true }, proceed: proceed)
      if isTaken { return true }
      releaseDamaged(ticket, offset, inside)
      if Clocks.monotonicNanoseconds() >= deadline { return false }
    }
  }

  /// Releases a ticket whose word is damaged: its holder lives, and has not had its id in "inside" for
  /// half a second. A process can be stopped between the two stores, which `admit` detects.
  private func releaseDamaged(_ ticket: WriterTicket, _ offset: Int, _ inside: Int) {
    let now = Clocks.monotonicNanoseconds()
    let isDamaged = suspects.withLock { suspects in
      guard let holder = ticket.holder, holder < Layout.ownerCount,
        words.load(inside) != words.load(Layout.owner(holder))
      else {
        suspects[offset] = nil
        return false
      }
      if let suspect = suspects[offset], suspect.holder == holder {
        return now - suspect.since > Self.damageNanoseconds
      }
      suspects[offset] = (holder, now)
      return false
    }
    if isDamaged, let holder = ticket.holder { ticket.release(as: holder) }
  }

  private static let damageNanoseconds: UInt64 = 500_000_000

  /// Records that this process has the ticket of a slot, and rebuilds the list if the last process was
  /// killed with it.
  ///
  /// - Returns: `false` if another process has taken the ticket from this one, which was stopped.
  private func admit(_ slot: Int) -> Bool {
    let offset = Layout.slot(slot)
    let former = words.load(offset + Layout.slotInside)
    words.store(owner, at: offset + Layout.slotInside)
    guard words.ticket(at: offset + Layout.slotTicket).holder == ownNumber else { return false }
    if former != 0 { rebuild(slot) }
    fault(.lockEntered)
    return true
  }

  /// Settles a slot if that is due, and releases its ticket.
  func leave(_ slot: Int) {
    let offset = Layout.slot(slot)
    repeat {
      if words.exchange32(0, at: offset + Layout.slotChanged) != 0 { settle(slot) }
      words.store(0, at: offset + Layout.slotInside)
      words.ticket(at: offset + Layout.slotTicket).release(as: ownNumber)
      // A process that found the ticket taken has left its change to this one.
    } while words.load32(offset + Layout.slotChanged) != 0 && tryEnter(slot)
  }

  /// Reports a change of a request, and settles the slot unless another process is about to do it.
  func signal(_ slot: Int) {
    _ = words.exchange32(1, at: Layout.slot(slot) + Layout.slotChanged)
    if tryEnter(slot) { leave(slot) }
  }

  // MARK: Requests

  func state(_ request: Int) -> (id: UInt32, state: LockState?) {
    let word = words.load32(Layout.request(request))
    return (word >> 3, LockState(rawValue: word & 7))
  }

  func id(_ request: Int) -> UInt64 { words.load(Layout.request(request) + Layout.requestID) }

  func owner(of request: Int) -> UInt64 {
    words.load(Layout.request(request) + Layout.requestOwner)
  }

  func mode(_ request: Int) -> LockMode? {
    LockMode(rawValue: words.load32(Layout.request(request) + Layout.requestMode) & 0xFF)
  }

  /// Exchanges the state of a request if it has the expected id and state.
  func exchange(_ request: Int, _ id: UInt64, _ old: LockState, _ new: LockState) -> Bool {
    words.replace32(
      LockState.word(id, old), by: LockState.word(id, new), at: Layout.request(request))
  }

  /// Returns the requests of a slot in order, or `nil` if its list is damaged. Without the ticket the
  /// result is a hint.
  func list(_ slot: Int) -> [Int]? {
    var result: [Int] = []
    var next = words.load32(Layout.slot(slot) + Layout.slotFirst)
    var last: UInt64 = 0
    while next != 0 {
      let request = Int(next) - 1
      guard request < Layout.requestCount, result.count < Layout.requestCount else { return nil }
      let offset = Layout.request(request)
      let id = words.load(offset + Layout.requestID)
      guard words.load32(offset + Layout.requestSlot) == UInt32(slot), id > last else { return nil }
      last = id
      result.append(request)
      next = words.load32(offset + Layout.requestNext)
    }
    return result
  }

  /// Returns the requests of a slot; a damaged list is rebuilt. The caller has the ticket.
  func members(_ slot: Int) -> [Int] {
    if let list = list(slot) { return list }
    rebuild(slot)
    return list(slot) ?? []
  }

  /// Links all requests of a slot in the order of their ids.
  func rebuild(_ slot: Int) {
    var found: [(id: UInt64, request: Int)] = []
    for request in 0..<Layout.requestCount
    where words.load32(Layout.request(request) + Layout.requestSlot) == UInt32(slot) {
      let owner = owner(of: request)
      switch state(request).state {
      case .waiting, .granted, .held, .released, .abandoned:
        if owner != 0, isAlive(owner) { found.append((id(request), request)) }
      case .idle, nil: break
      }
    }
    found.sort { $0.id < $1.id }
    link(slot, found.map(\.request))
  }

  /// Stores a list. Each store leaves a list that ends.
  private func link(_ slot: Int, _ requests: [Int]) {
    var next: UInt32 = 0
    for request in requests.reversed() {
      words.store32(next, at: Layout.request(request) + Layout.requestNext)
      next = UInt32(request) + 1
    }
    words.store32(next, at: Layout.slot(slot) + Layout.slotFirst)
  }

  /// Removes a request from a list, after its predecessor.
  func unlink(_ request: Int, after previous: Int?, in slot: Int) {
    let next = words.load32(Layout.request(request) + Layout.requestNext)
    if let previous {
      words.store32(next, at: Layout.request(previous) + Layout.requestNext)
    } else {
      words.store32(next, at: Layout.slot(slot) + Layout.slotFirst)
    }
  }

  /// Frees a request that is in no list.
  func free(_ request: Int) {
    if owner(of: request) == owner {
      words.store32(0, at: Layout.request(request))
      let isKept = idle.withLock { idle in
        if idle.count < Self.mostIdle { idle.append(request) }
        return idle.last == request
      }
      if isKept { return }
    }
    disown(request)
  }

  /// The most free requests that a process keeps.
  private static let mostIdle = 64

  func disown(_ request: Int) {
    words.store32(0, at: Layout.request(request))
    words.store(0, at: Layout.request(request) + Layout.requestOwner)
  }

  /// Returns a request of this process that is in no list.
  ///
  /// - Throws: ``StoreError/Code/tooManyLocks`` if living processes use all.
  func claim() throws(StoreError) -> Int {
    if let request = idle.withLock({ $0.popLast() }) { return request }
    let start = ownNumber * 16
    for step in 0..<Layout.requestCount {
      let request = (start + step) % Layout.requestCount
      if words.replace(0, by: owner, at: Layout.request(request) + Layout.requestOwner) {
        return request
      }
    }
    var alive: [UInt64: Bool] = [:]
    for request in 0..<Layout.requestCount {
      let former = owner(of: request)
      let lives = alive[former] ?? isAlive(former)
      alive[former] = lives
      let slot = Int(words.load32(Layout.request(request) + Layout.requestSlot))
      if lives { continue }
      if slot < table.slotCount {
        guard tryEnter(slot) else { continue }
        reap(slot)
        leave(slot)
      }
      let word = Layout.request(request) + Layout.requestOwner
      if words.replace(0, by: owner, at: word) || words.replace(former, by: owner, at: word) {
        return request
      }
    }
    throw StoreError(
      .tooManyLocks, during: "lock", path: path,
      "\(Layout.requestCount) callers hold or wait for locks of this store. Try again later.")
  }

  // MARK: Checking

  /// Removes the requests of processes that have ended, and passes over grants that were not confirmed.
  /// The caller has the ticket.
  ///
  /// - Parameter own: The caller's request, which needs no wake-up.
  func reap(_ slot: Int, for own: Int? = nil) {
    var previous: Int?
    var known: [UInt64: Bool] = [owner: true]
    let now = Clocks.monotonicNanoseconds()
    let isMomentary = kind(of: slot)?.isMomentary ?? false
    for request in members(slot) {
      let owner = owner(of: request)
      let lives = known[owner] ?? isAlive(owner)
      known[owner] = lives
      guard lives else {
        unlink(request, after: previous, in: slot)
        disown(request)
        continue
      }
      previous = request
      let granted = words.load(Layout.request(request) + Layout.requestGranted)
      // The caller's own process runs: the thread that confirms may be this one. A grant that counts
      // already is not taken back.
      if !isMomentary, owner != self.owner, state(request).state == .granted, now > granted,
        now - granted > Self.confirmNanoseconds,
        exchange(request, id(request), .granted, .waiting)
      {
        words.store(.max, at: Layout.request(request) + Layout.requestGranted)
      }
    }
    settle(slot, for: own)
  }

  /// The time in which a waiter confirms its grant.
  private static let confirmNanoseconds: UInt64 = 20_000_000
  /// The time between two checks of the holders of a slot.
  static let checkNanoseconds: UInt64 = 10_000_000

  /// Returns whether no process has checked the holders of a slot within the last 10 ms, and records
  /// that the caller does.
  func mustCheck(_ slot: Int) -> Bool {
    let offset = Layout.slot(slot) + Layout.slotChecked
    let (now, checked) = (Clocks.monotonicNanoseconds(), words.load(offset))
    guard checked > now || now - checked >= Self.checkNanoseconds else { return false }
    words.store(now, at: offset)
    return true
  }

  /// Checks the holders of a slot, unless another waiter did within the last 10 ms. A ticket that is
  /// taken is waited for during one nap, which detects a process that was killed inside.
  func poll(_ slot: Int) {
    restoreOwner()
    let isDue = mustCheck(slot)
    guard
      isDue || words.load32(Layout.slot(slot) + Layout.slotChanged) != 0
        || kind(of: slot)?.isPaced == true
    else { return }
    let deadline = Clocks.monotonicNanoseconds() + Self.checkNanoseconds
    guard (try? enter(slot, until: deadline, proceed: {})) == true else { return }
    if isDue { reap(slot) } else { settle(slot) }
    leave(slot)
  }
}
