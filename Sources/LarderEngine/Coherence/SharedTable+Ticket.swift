// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// THE WRITER TICKET
//
// LMDB's writer lock has no time limit: a thread that waits for it while its holder is stopped waits
// until the holder continues. So every writer of a store acquires the ticket first, one word of the
// shared-memory table, and asks for LMDB's lock only when it holds the ticket: the lock is free then.
// The wait for the ticket is a bounded sleep on the word, so a caller can stop waiting at any time.
//
// The ticket orders the requests; the right to write is LMDB's lock alone. So a word that is
// damaged or zeroed can cost a wait, and no data.
//
// The word holds the process slot of the holder, which names its pid. A process has one thread at a
// time that may hold it (the writer's turn of its `Generation`). A holder that was killed is detected
// by its presence lock, which the kernel has released; the next waiter takes the ticket from it. A
// waiter sleeps for 10 ms at most before it checks: that bounds a wake-up that was lost with a killed
// waiter as well.

extension SharedTable {
  private static var awaited: UInt32 { 1 << 31 }
  /// The longest sleep of a waiter before it checks whether the holder lives.
  private static var napNanoseconds: Int64 { 10_000_000 }

  private static func word(of process: Int) -> UInt32 { UInt32(process) + 1 }

  /// Acquires the ticket if it is free.
  @inline(__always)
  func tryTakeTicket(process: Int) -> Bool {
    unsafe half(SharedTableLayout.ticket).pointee.compareExchange(
      expected: 0, desired: Self.word(of: process), ordering: .acquiringAndReleasing
    ).exchanged
  }

  /// Waits for the ticket, for one nap.
  ///
  /// - Parameter isAlive: Whether the process in a slot lives.
  /// - Returns: Whether this process holds the ticket now.
  func awaitTicket(process: Int, isAlive: (Int) -> Bool) -> Bool {
    let word = unsafe half(SharedTableLayout.ticket)
    // Others may wait as well: the holder that comes from a wait wakes the next.
    let own = Self.word(of: process) | Self.awaited
    let found = unsafe word.pointee.load(ordering: .acquiring)
    if Self.holder(found) == nil {
      return unsafe word.pointee.compareExchange(
        expected: found, desired: own, ordering: .acquiringAndReleasing
      ).exchanged
    }
    let marked = found | Self.awaited
    if found != marked {
      let (isMarked, _) = unsafe word.pointee.compareExchange(
        expected: found, desired: marked, ordering: .acquiringAndReleasing)
      if !isMarked { return false }
    }
    unsafe Futex.wait(
      base + SharedTableLayout.ticket, while: marked, nanoseconds: Self.napNanoseconds)
    // Unchanged after a nap: its holder may have been killed.
    guard
      unsafe word.pointee.load(ordering: .relaxed) == marked,
      let holder = Self.holder(marked), holder == process || !isAlive(holder)
    else { return false }
    return unsafe word.pointee.compareExchange(
      expected: marked, desired: own, ordering: .acquiringAndReleasing
    ).exchanged
  }

  /// Releases the ticket, if this process holds it.
  @inline(__always)
  func releaseTicket(process: Int) {
    let word = unsafe half(SharedTableLayout.ticket)
    let found = unsafe word.pointee.load(ordering: .relaxed)
    guard found & ~Self.awaited == Self.word(of: process) else { return }
    // Only a waiter's mark can have come in between.
    let last = unsafe word.pointee.exchange(0, ordering: .acquiringAndReleasing)
    if last & Self.awaited != 0 { unsafe Futex.wakeOne(base + SharedTableLayout.ticket) }
  }

  /// The process slot of the ticket's holder; `nil` when the ticket is free. A slot that does not
  /// exist, of a damaged word, counts as one of a process that was killed.
  package var ticketHolder: Int? {
    Self.holder(
      unsafe half(SharedTableLayout.ticket).pointee.load(ordering: .sequentiallyConsistent))
  }

  /// Whether a process waits for the ticket, or has waited.
  package var isTicketAwaited: Bool {
    let word = unsafe half(SharedTableLayout.ticket).pointee.load(ordering: .relaxed)
    return word & Self.awaited != 0
  }

  private static func holder(_ word: UInt32) -> Int? {
    let number = word & ~awaited
    return number == 0 ? nil : Int(number) - 1
  }
}
