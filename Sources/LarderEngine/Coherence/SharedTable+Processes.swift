// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The process slots of the generation: pid, start time, counters, and whether one of the process's
/// threads is inside LMDB.
///
/// A slot is acquired, released and cleaned only under the open lock. A byte-range lock in
/// `presence` proves that the owner is alive; the pid does not.
extension SharedTable {
  func offset(process: Int) -> Int {
    precondition(process >= 0 && process < shape.processSlots, "no such process slot")
    return SharedTableLayout.processes + process * SharedTableLayout.processSize
  }

  /// Returns the pid in a slot, or `nil` if the slot is free.
  package func pid(process: Int) -> Int32? {
    let pid = unsafe word(offset(process: process)).pointee.load(ordering: .acquiring)
    return pid == 0 ? nil : Int32(truncatingIfNeeded: pid)
  }

  /// Returns the slot of a process, or `nil` if it has none.
  func slot(ofProcess pid: Int32) -> Int? {
    if let holder = ticketHolder, holder < shape.processSlots, self.pid(process: holder) == pid {
      return holder
    }
    return (0..<shape.processSlots).first { self.pid(process: $0) == pid }
  }

  /// Returns the start time of the process in a slot.
  package func startTime(process: Int) -> UInt64 {
    unsafe word(offset(process: process) + 8).pointee.load(ordering: .acquiring)
  }

  /// Registers this process in a free slot. The caller holds the open lock.
  package func enter(process: Int) {
    let offset = offset(process: process)
    for index in 0..<Counter.allCases.count {
      unsafe word(offset + SharedTableLayout.processCounters + index * 8).pointee.store(
        0, ordering: .relaxed)
    }
    for index in 0..<SharedTableLayout.insideCount {
      unsafe short(offset + SharedTableLayout.processInside + 2 * index).pointee.store(
        0, ordering: .relaxed)
    }
    clearCommitTimes(process: process)
    discardOffer(process: process)
    unsafe word(offset + 8).pointee.store(ProcessIdentity.startTime, ordering: .relaxed)
    unsafe word(offset).pointee.store(
      UInt64(UInt32(bitPattern: ProcessIdentity.pid)), ordering: .releasing)
  }

  /// Frees the slot of a process that has exited or is closing, and keeps its counters. The caller
  /// holds the open lock.
  ///
  /// - Parameter isDead: Whether the process has ended. The pid cannot show that: another process
  ///   may have reused it.
  /// - Returns: Whether the process died inside LMDB.
  @discardableResult
  package func leave(process: Int, isDead: Bool = false) -> Bool {
    let offset = offset(process: process)
    var inside = false
    for index in 0..<SharedTableLayout.insideCount {
      let address = unsafe short(offset + SharedTableLayout.processInside + 2 * index)
      if unsafe address.pointee.exchange(0, ordering: .relaxed) != 0 { inside = true }
    }
    for counter in Counter.allCases {
      let own = unsafe word(offset + SharedTableLayout.processCounters + counter.rawValue * 8)
      let count = unsafe own.pointee.exchange(0, ordering: .relaxed)
      unsafe word(SharedTableLayout.retired + counter.rawValue * 8).pointee.wrappingAdd(
        count, ordering: .relaxed)
    }
    discardOffer(process: process)
    freeLeases(ofProcess: process, isAlive: !isDead)
    releaseTicket(process: process)
    unsafe word(offset).pointee.store(0, ordering: .releasing)
    return inside
  }

  /// Marks one of this process's readers, or its writer, as inside LMDB or outside it.
  ///
  /// Each index belongs to one pooled transaction, so plain stores suffice.
  @inline(__always)
  package func markInsideLMDB(process: Int, index: Int, _ inside: Bool) {
    let offset =
      SharedTableLayout.processes + process * SharedTableLayout.processSize
      + SharedTableLayout.processInside + 2 * min(index, SharedTableLayout.insideCount - 1)
    unsafe short(offset).pointee.store(inside ? max(coarseNow, 1) : 0, ordering: .relaxed)
  }

  /// The recency clock in units of 16.384 s.
  @inline(__always)
  private var coarseNow: UInt16 {
    let tick = unsafe word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    return UInt16(truncatingIfNeeded: tick >> 34)
  }

  /// Returns the age of a process's oldest read in milliseconds, or `nil` if none of its threads
  /// reads.
  ///
  /// The result is exact to 16.384 s plus the time since the recency clock last advanced. A read of
  /// more than twelve days appears shorter.
  package func readingMilliseconds(process: Int, now: Int64) -> Int64? {
    let start = offset(process: process) + SharedTableLayout.processInside
    let now = UInt16(truncatingIfNeeded: now >> 14)
    return (0..<SharedTableLayout.insideCount - 1).compactMap { index in
      let since = unsafe short(start + 2 * index).pointee.load(ordering: .relaxed)
      guard since != 0 else { return nil }
      // The stored time may be later than this process's clock.
      let age = now &- since
      return age > UInt16.max - 4 ? 0 : Int64(age) << 14
    }.max()
  }

  /// Adds to one of this process's counters.
  @inline(__always)
  package func count(_ counter: Counter, process: Int, by amount: UInt64 = 1) {
    let offset =
      SharedTableLayout.processes + process * SharedTableLayout.processSize
      + SharedTableLayout.processCounters + counter.rawValue * 8
    unsafe word(offset).pointee.wrappingAdd(amount, ordering: .relaxed)
  }

  /// Returns a counter of the process in a slot.
  package func counter(_ counter: Counter, process: Int) -> UInt64 {
    unsafe word(offset(process: process) + SharedTableLayout.processCounters + counter.rawValue * 8)
      .pointee.load(ordering: .relaxed)
  }

  /// Returns the sum of a counter over all processes, including those that have exited.
  package func total(_ counter: Counter) -> UInt64 {
    var sum = unsafe word(SharedTableLayout.retired + counter.rawValue * 8).pointee.load(
      ordering: .relaxed)
    for process in 0..<shape.processSlots where pid(process: process) != nil {
      sum &+= self.counter(counter, process: process)
    }
    return sum
  }
}
