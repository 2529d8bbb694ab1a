// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The single words of the table that are not part of the coherence protocol.
extension SharedTable {
  // MARK: Opening

  package var isDirty: Bool {
    get { unsafe half(SharedTableLayout.dirty).pointee.load(ordering: .acquiring) != 0 }
    set {
      unsafe half(SharedTableLayout.dirty).pointee.store(newValue ? 1 : 0, ordering: .releasing)
    }
  }

  /// Openers in a row that have not got through; under the gate.
  package var openAttempts: UInt32 {
    get { unsafe half(SharedTableLayout.openAttempts).pointee.load(ordering: .acquiring) }
    set {
      unsafe half(SharedTableLayout.openAttempts).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Processes that died inside LMDB since the file was last verified; under the gate.
  package var crashesInLMDB: UInt32 {
    get { unsafe half(SharedTableLayout.crashesInLMDB).pointee.load(ordering: .acquiring) }
    set {
      unsafe half(SharedTableLayout.crashesInLMDB).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Forgets processes that died inside LMDB, after the file was verified; those that an opener counted
  /// meanwhile stay counted. Without the gate.
  func acquit(deaths: UInt32) {
    _ = unsafe half(SharedTableLayout.crashesInLMDB).pointee.compareExchange(
      expected: deaths, desired: 0, ordering: .acquiringAndReleasing)
  }

  /// The largest size of `data.mdb` any writer has seen.
  package var dataBytes: UInt64 {
    unsafe word(SharedTableLayout.dataBytes).pointee.load(ordering: .acquiring)
  }

  /// Under the writer lock.
  package func raiseDataBytes(to size: UInt64) {
    if dataBytes < size {
      unsafe word(SharedTableLayout.dataBytes).pointee.store(size, ordering: .releasing)
    }
  }

  /// When `data.mdb` was last changed by a process that went through this table; nanoseconds.
  package var dataChanged: UInt64 {
    get { unsafe word(SharedTableLayout.dataChanged).pointee.load(ordering: .acquiring) }
    set {
      unsafe word(SharedTableLayout.dataChanged).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// After a commit, without the writer lock: a later writer may have been faster.
  package func raiseDataChanged(to time: UInt64) {
    unsafe word(SharedTableLayout.dataChanged).pointee.max(time, ordering: .releasing)
  }

  /// The generation this one is being copied into; zero: none.
  package var successor: UInt64 {
    get {
      unsafe word(SharedTableLayout.successor).pointee.load(ordering: .sequentiallyConsistent)
    }
    set {
      unsafe word(SharedTableLayout.successor).pointee.store(
        newValue, ordering: .sequentiallyConsistent)
    }
  }

  /// The budget in bytes; zero: none.
  package var budget: UInt64 {
    get { unsafe word(SharedTableLayout.budget).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.budget).pointee.store(newValue, ordering: .releasing) }
  }

  /// Claims the search for dead readers for this process when the last one is `interval` old.
  package func claimReaderCheck(now: Int64, interval: Int64) -> Bool {
    let address = unsafe word(SharedTableLayout.readerCheck)
    let last = unsafe address.pointee.load(ordering: .relaxed)
    let age = now &- Int64(bitPattern: last)
    guard age < 0 || age >= interval else { return false }
    return unsafe address.pointee.compareExchange(
      expected: last, desired: UInt64(bitPattern: now), ordering: .relaxed
    ).exchanged
  }

  // MARK: Wake word

  package var wakeWord: UInt32 {
    unsafe half(SharedTableLayout.wakeWord).pointee.load(ordering: .acquiring)
  }

  /// Tells sleepers, in every process, that something was committed.
  package func advanceWakeWord() {
    unsafe half(SharedTableLayout.wakeWord).pointee.wrappingAdd(
      1, ordering: .sequentiallyConsistent)
    let waiters = unsafe half(SharedTableLayout.waiters).pointee.load(
      ordering: .sequentiallyConsistent)
    // A sleeper that died still counts: the price is a system call, not a lost wake-up.
    if waiters != 0 { unsafe Futex.wakeAll(base + SharedTableLayout.wakeWord) }
  }

  /// Sleeps until the wake word differs from `expected`, or the time is up. A hint: look again.
  package func sleep(whileWakeWordIs expected: UInt32, nanoseconds: Int64) {
    unsafe half(SharedTableLayout.waiters).pointee.wrappingAdd(
      1, ordering: .sequentiallyConsistent)
    unsafe Futex.wait(
      base + SharedTableLayout.wakeWord, while: expected, nanoseconds: nanoseconds)
    // A table whose page was zeroed under a sleeper must not wrap below zero.
    let address = unsafe half(SharedTableLayout.waiters)
    var count = unsafe address.pointee.load(ordering: .relaxed)
    while count > 0 {
      let (done, now) = unsafe address.pointee.compareExchange(
        expected: count, desired: count - 1, ordering: .relaxed)
      if done { break }
      count = now
    }
  }
}
