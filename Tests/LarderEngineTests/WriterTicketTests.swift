// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// The order of the writers that wait for the ticket of a store.
@Suite(.timeLimit(.minutes(60))) struct WriterTicketTests {
  struct Left: Error {}

  let directory: TemporaryDirectory
  let store: SharedStore
  let ticket: WriterTicket
  let deadline = Clocks.deadline(after: .seconds(600))

  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
    ticket = try store.core.generation().table.ticket
  }

  @Test func `A ticket released after an urgent wait goes to the waiter, not to its last holder`()
    throws
  {
    #expect(ticket.tryTake(as: 1))
    let waiter = JoinableThread { [ticket, deadline] in
      try? ticket.wait(
        as: 2, isHeld: false, until: deadline, isAlive: { _ in true }, isLockFree: { true },
        proceed: {})
    }
    try eventually("the wait is urgent") { ticket.urgentWaiters > 0 }
    ticket.release(as: 1)
    #expect(!ticket.tryTake(as: 1))
    #expect(waiter.join() == true)
    #expect(ticket.holder == 2)
    ticket.release(as: 2)
    #expect(ticket.holder == nil)
  }

  @Test func `A ticket left to a waiter that does not come is free again after a moment`() throws {
    #expect(ticket.tryTake(as: 1))
    let (isStopped, goOn) = (Event(), Event())
    let stop: @Sendable () -> Void = { [ticket] in
      guard ticket.urgentWaiters > 0 else { return }
      isStopped.set()
      goOn.wait(nanoseconds: 800_000_000_000)
    }
    let waiter = JoinableThread { [ticket, deadline] in
      try? ticket.wait(
        as: 2, isHeld: false, until: deadline, isAlive: { _ in true }, isLockFree: { true },
        proceed: stop)
    }
    isStopped.wait(nanoseconds: 800_000_000_000)
    ticket.release(as: 1)
    #expect(ticket.holder == nil)
    #expect(!ticket.tryTake(as: 3))
    let isTaken = try ticket.wait(
      as: 3, isHeld: false, until: deadline, isAlive: { _ in true }, isLockFree: { true },
      proceed: {})
    #expect(isTaken)
    ticket.release(as: 3)
    #expect(ticket.tryTake(as: 1))
    ticket.release(as: 1)
    goOn.set()
    #expect(waiter.join() == true)
    #expect(ticket.holder == 2)
    ticket.release(as: 2)
  }

  @Test func `A waiter that leaves is not waited for`() throws {
    #expect(ticket.tryTake(as: 1))
    let waiter = JoinableThread { [ticket, deadline] in
      Result {
        try ticket.wait(
          as: 2, isHeld: false, until: deadline, isAlive: { _ in true }, isLockFree: { true },
          proceed: { if ticket.urgentWaiters > 0 { throw Left() } })
      }
    }
    #expect(throws: Left.self) { try waiter.join().get() }
    ticket.release(as: 1)
    #expect(ticket.tryTake(as: 3))
    ticket.release(as: 3)
  }

  @Test func `All urgent waiters are served, and leave the ticket free`() throws {
    #expect(ticket.tryTake(as: 1))
    let waiters = (2..<6).map { number in
      JoinableThread { [ticket, deadline] in
        let isTaken = try? ticket.wait(
          as: number, isHeld: false, until: deadline, isAlive: { _ in true },
          isLockFree: { true }, proceed: {})
        ticket.release(as: number)
        return isTaken
      }
    }
    try eventually("all are urgent") { ticket.urgentWaiters == 4 }
    ticket.release(as: 1)
    for waiter in waiters { #expect(waiter.join() == true) }
    #expect(ticket.holder == nil && ticket.urgentWaiters == 0)
    #expect(ticket.tryTake(as: 1))
    ticket.release(as: 1)
  }
}
