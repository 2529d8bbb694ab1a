// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// THE WRITER TICKET
//
// LMDB's writer lock has no time limit: a thread that waits for it while its holder is stopped
// waits until the holder continues. So every writer acquires the ticket first, one word of shared
// memory, and waits for LMDB's lock only when it holds the ticket: the lock is free then. The wait
// for the ticket is a bounded sleep on the word, so a caller can stop waiting at any time.
//
// The ticket orders the requests; the right to write is LMDB's lock alone. So a word that is
// damaged or zeroed can cost a wait, and no data.
//
// The word holds a number of the holder, which leads to its process: a slot of the process table,
// or a pid. A process has one thread at a time that may acquire it. A holder that was killed is
// detected by a file lock, which the kernel has released; the next waiter takes the ticket from it.
// A waiter sleeps for 10 ms at most before it checks: that bounds a wake-up that was lost with a
// killed waiter as well.
//
// A holder that releases the ticket and acquires it again is faster than a waiter that must wake up
// first. That is good for throughput, and unfair. So the word counts the waiters of more than 2 ms.
// While there are any, a release leaves the ticket to them for a millisecond: all of them are served
// before a thread that comes later. A waiter that was killed or stopped costs the others that
// millisecond once: the thread that takes the ticket then sets the count to zero, and those that still
// wait count themselves again.
//
//     bits  0 to 22   the number of the holder plus one, or zero
//     bits 23 to 30   the number of urgent waiters, at most 255
//     bit  31         whether a thread waits, or has waited

/// One word of memory that orders the writers of all processes.
@safe
package struct WriterTicket: Sendable {
  // Its memory is mapped for as long as the ticket is used; all access is atomic.
  private nonisolated(unsafe) let word: UnsafeMutablePointer<Atomic<UInt32>>

  private static let awaited: UInt32 = 1 << 31
  private static let holderMask: UInt32 = 1 << 23 - 1
  private static let oneUrgent: UInt32 = 1 << 23
  private static let urgentMask: UInt32 = ~(awaited | holderMask)
  /// The longest sleep of a waiter before it checks whether the holder lives.
  private static let napNanoseconds: Int64 = 10_000_000
  /// The wait after which a waiter goes first: many times the two context switches that it costs.
  private static let patienceNanoseconds: UInt64 = 2_000_000
  /// The time that a free ticket is left to an urgent waiter.
  private static let reserveNanoseconds: Int64 = 1_000_000

  /// - Parameter word: Four bytes, aligned, that stay mapped for as long as this is used.
  @unsafe
  package init(at word: UnsafeMutableRawPointer) {
    unsafe self.word = word.assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  private static func value(of number: Int) -> UInt32 { UInt32(number) + 1 }

  private static func holder(_ value: UInt32) -> Int? {
    let number = value & holderMask
    return number == 0 ? nil : Int(number) - 1
  }

  /// Acquires the ticket if it is free.
  @inline(__always)
  package func tryTake(as number: Int) -> Bool {
    unsafe word.pointee.compareExchange(
      expected: 0, desired: Self.value(of: number), ordering: .acquiringAndReleasing
    ).exchanged
  }

  /// Waits until this caller holds the ticket and LMDB's lock is free.
  ///
  /// - Parameters:
  ///   - number: The caller's, less than 2^23 - 1.
  ///   - isHeld: Whether the caller holds the ticket already.
  ///   - deadline: A time of the monotonic clock, in nanoseconds.
  ///   - isAlive: Whether the holder with a number can still release the ticket.
  ///   - isLockFree: Whether no thread holds LMDB's lock: a program without tickets may.
  ///   - proceed: Called every 10 ms at least; throws to end the wait.
  /// - Returns: `false` if the deadline passed. The ticket is released then, and after an error.
  package func wait(
    as number: Int, isHeld: Bool, until deadline: UInt64, isAlive: (Int) -> Bool,
    isLockFree: () -> Bool, proceed: () throws -> Void
  ) throws -> Bool {
    var isHeld = isHeld
    var wait = Wait(number: number)
    do {
      while true {
        try proceed()
        if !isHeld { isHeld = nap(&wait, isAlive: isAlive) }
        if isHeld {
          if isLockFree() { return true }
          Event().wait(nanoseconds: 1_000_000)
        }
        if Clocks.monotonicNanoseconds() >= deadline { break }
      }
    } catch {
      leave(wait, isHeld: isHeld)
      throw error
    }
    leave(wait, isHeld: isHeld)
    return false
  }

  /// The state of one wait.
  private struct Wait {
    let own: UInt32
    /// The time of the monotonic clock from which the wait is urgent.
    let urgency = Clocks.monotonicNanoseconds() + patienceNanoseconds
    /// Whether the word counts the waiter as urgent, as far as it knows.
    var isCounted = false

    // Others may wait as well: the holder that comes from a wait wakes the next.
    init(number: Int) { own = value(of: number) | awaited }
  }

  /// Waits for the ticket, for one nap.
  ///
  /// - Returns: Whether the caller holds the ticket now.
  private func nap(_ wait: inout Wait, isAlive: (Int) -> Bool) -> Bool {
    let now = Clocks.monotonicNanoseconds()
    let isUrgent = now >= wait.urgency
    let found = unsafe word.pointee.load(ordering: .acquiring)
    let urgent = found & Self.urgentMask
    // A thread that took a ticket for which no urgent waiter came has reset the count.
    if urgent == 0 { wait.isCounted = false }
    if Self.holder(found) == nil {
      if isUrgent || urgent == 0 {
        let rest = wait.isCounted ? urgent - Self.oneUrgent : urgent
        return exchange(found, wait.own | rest)
      }
      unsafe Futex.wait(word, while: found, nanoseconds: Self.reserveNanoseconds)
      return exchange(found, wait.own)
    }
    var marked = found | Self.awaited
    let counts = isUrgent && !wait.isCounted && urgent != Self.urgentMask
    if counts { marked += Self.oneUrgent }
    if found != marked {
      if !exchange(found, marked) { return false }
      if counts { wait.isCounted = true }
    }
    let patience = isUrgent ? Self.napNanoseconds : Int64(wait.urgency - now)
    unsafe Futex.wait(word, while: marked, nanoseconds: min(patience, Self.napNanoseconds))
    // Unchanged after a nap: its holder may have been killed.
    guard
      unsafe word.pointee.load(ordering: .relaxed) == marked,
      let holder = Self.holder(marked), !isAlive(holder)
    else { return false }
    let left = marked & Self.urgentMask
    return exchange(marked, wait.own | (wait.isCounted ? left - Self.oneUrgent : left))
  }

  private func exchange(_ found: UInt32, _ new: UInt32) -> Bool {
    unsafe word.pointee.compareExchange(
      expected: found, desired: new, ordering: .acquiringAndReleasing
    ).exchanged
  }

  /// Ends a wait without the ticket.
  private func leave(_ wait: Wait, isHeld: Bool) {
    if isHeld { return release(as: Int(wait.own & Self.holderMask) - 1) }
    while wait.isCounted {
      let found = unsafe word.pointee.load(ordering: .relaxed)
      if found & Self.urgentMask == 0 || exchange(found, found - Self.oneUrgent) { break }
    }
    // A release may have woken this thread alone.
    if holder == nil { unsafe Futex.wakeOne(word) }
  }

  /// Releases the ticket, if the caller holds it.
  ///
  /// - Parameter wakingAll: Whether all waiters have a reason to look.
  @inline(__always)
  package func release(as number: Int, wakingAll: Bool = false) {
    var found = unsafe word.pointee.load(ordering: .relaxed)
    guard found & Self.holderMask == Self.value(of: number) else { return }
    // Waiters may count themselves in between.
    while true {
      let left = found & Self.urgentMask == 0 ? 0 : found & ~Self.holderMask
      let (isDone, newest) = unsafe word.pointee.compareExchange(
        expected: found, desired: left, ordering: .acquiringAndReleasing)
      if isDone {
        if left != 0 || wakingAll {
          unsafe Futex.wakeAll(word)
        } else if found & Self.awaited != 0 {
          unsafe Futex.wakeOne(word)
        }
        return
      }
      found = newest
      guard found & Self.holderMask == Self.value(of: number) else { return }
    }
  }

  /// Wakes all waiters, which look whether they still have to wait.
  package func wakeAll() { unsafe Futex.wakeAll(word) }

  /// The number of the holder, or `nil` when the ticket is free. A damaged word yields any number.
  package var holder: Int? {
    Self.holder(unsafe word.pointee.load(ordering: .sequentiallyConsistent))
  }

  /// Whether a thread waits for the ticket, or has waited.
  package var isAwaited: Bool {
    unsafe word.pointee.load(ordering: .relaxed) & Self.awaited != 0
  }

  /// The number of waiters to which the next release leaves the ticket.
  package var urgentWaiters: Int {
    unsafe Int((word.pointee.load(ordering: .relaxed) & Self.urgentMask) / Self.oneUrgent)
  }
}
