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
// first. That is good for throughput, and unfair. So a waiter of 2 ms marks the ticket urgent: its
// release then leaves the mark, with which only an urgent waiter may take it within the next
// millisecond. A waiter that was killed or stopped costs the others that millisecond.

/// One word of memory that orders the writers of all processes.
@safe
package struct WriterTicket: Sendable {
  // Its memory is mapped for as long as the ticket is used; all access is atomic.
  private nonisolated(unsafe) let word: UnsafeMutablePointer<Atomic<UInt32>>

  private static let awaited: UInt32 = 1 << 31
  private static let urgent: UInt32 = 1 << 30
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
    let number = value & ~(awaited | urgent)
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
  ///   - number: The caller's, less than 2^30 - 1.
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
    let urgency = Clocks.monotonicNanoseconds() + Self.patienceNanoseconds
    do {
      while true {
        try proceed()
        if !isHeld { isHeld = nap(as: number, urgentFrom: urgency, isAlive: isAlive) }
        if isHeld {
          if isLockFree() { return true }
          Event().wait(nanoseconds: 1_000_000)
        }
        if Clocks.monotonicNanoseconds() >= deadline { break }
      }
    } catch {
      if isHeld { release(as: number) }
      throw error
    }
    if isHeld { release(as: number) }
    return false
  }

  /// Waits for the ticket, for one nap.
  ///
  /// - Parameter urgency: The time of the monotonic clock from which the wait is urgent.
  /// - Returns: Whether the caller holds the ticket now.
  private func nap(as number: Int, urgentFrom urgency: UInt64, isAlive: (Int) -> Bool) -> Bool {
    // Others may wait as well: the holder that comes from a wait wakes the next.
    let own = Self.value(of: number) | Self.awaited
    let now = Clocks.monotonicNanoseconds()
    let isUrgent = now >= urgency
    let found = unsafe word.pointee.load(ordering: .acquiring)
    if Self.holder(found) == nil {
      if found & Self.urgent != 0, !isUrgent {
        unsafe Futex.wait(word, while: found, nanoseconds: Self.reserveNanoseconds)
      }
      return unsafe word.pointee.compareExchange(
        expected: found, desired: own, ordering: .acquiringAndReleasing
      ).exchanged
    }
    let marked = found | Self.awaited | (isUrgent ? Self.urgent : 0)
    if found != marked {
      let (isMarked, _) = unsafe word.pointee.compareExchange(
        expected: found, desired: marked, ordering: .acquiringAndReleasing)
      if !isMarked { return false }
    }
    let patience = isUrgent ? Self.napNanoseconds : Int64(urgency - now)
    unsafe Futex.wait(word, while: marked, nanoseconds: min(patience, Self.napNanoseconds))
    // Unchanged after a nap: its holder may have been killed.
    guard
      unsafe word.pointee.load(ordering: .relaxed) == marked,
      let holder = Self.holder(marked), !isAlive(holder)
    else { return false }
    return unsafe word.pointee.compareExchange(
      expected: marked, desired: own, ordering: .acquiringAndReleasing
    ).exchanged
  }

  /// Releases the ticket, if the caller holds it.
  @inline(__always)
  package func release(as number: Int) {
    let found = unsafe word.pointee.load(ordering: .relaxed)
    let marks = Self.awaited | Self.urgent
    guard found & ~marks == Self.value(of: number) else { return }
    // Only marks of waiters can have come in between: one that this exchange removes is set again
    // after the next nap.
    let left = found & Self.urgent == 0 ? 0 : marks
    let last = unsafe word.pointee.exchange(left, ordering: .acquiringAndReleasing)
    if left != 0 {
      unsafe Futex.wakeAll(word)
    } else if last & Self.awaited != 0 {
      unsafe Futex.wakeOne(word)
    }
  }

  /// The number of the holder, or `nil` when the ticket is free. A damaged word yields any number.
  package var holder: Int? {
    Self.holder(unsafe word.pointee.load(ordering: .sequentiallyConsistent))
  }

  /// Whether a thread waits for the ticket, or has waited.
  package var isAwaited: Bool {
    unsafe word.pointee.load(ordering: .relaxed) & Self.awaited != 0
  }

  /// Whether a thread has waited so long that the next release leaves the ticket to it.
  package var isUrgentlyAwaited: Bool {
    unsafe word.pointee.load(ordering: .relaxed) & Self.urgent != 0
  }
}
