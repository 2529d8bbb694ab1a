// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The single words of the table that are not part of the coherence protocol.
extension SharedTable {
  // MARK: Opening

  /// Whether the `state` file on the disk is dirty for this boot.
  package var isDirty: Bool {
    get { unsafe half(SharedTableLayout.dirty).pointee.load(ordering: .acquiring) != 0 }
    set {
      unsafe half(SharedTableLayout.dirty).pointee.store(newValue ? 1 : 0, ordering: .releasing)
    }
  }

  /// The number of consecutive openers that did not complete. Accessed under the open lock.
  package var openAttempts: UInt32 {
    get { unsafe half(SharedTableLayout.openAttempts).pointee.load(ordering: .acquiring) }
    set {
      unsafe half(SharedTableLayout.openAttempts).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// The number of processes that died inside LMDB since the last verification of the file. Written
  /// under the open lock.
  package var crashesInLMDB: UInt32 {
    get { unsafe half(SharedTableLayout.crashesInLMDB).pointee.load(ordering: .acquiring) }
    set {
      unsafe half(SharedTableLayout.crashesInLMDB).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Resets the count of processes that died inside LMDB, after the file was verified. Processes
  /// that an opener has counted since remain counted. Does not require the open lock.
  func acquit(deaths: UInt32) {
    _ = unsafe half(SharedTableLayout.crashesInLMDB).pointee.compareExchange(
      expected: deaths, desired: 0, ordering: .acquiringAndReleasing)
  }

  /// The largest size of `data.mdb` that any writer has observed.
  package var dataBytes: UInt64 {
    unsafe word(SharedTableLayout.dataBytes).pointee.load(ordering: .acquiring)
  }

  /// Raises ``dataBytes``. The caller holds the writer lock.
  package func raiseDataBytes(to size: UInt64) {
    if dataBytes < size {
      unsafe word(SharedTableLayout.dataBytes).pointee.store(size, ordering: .releasing)
    }
  }

  /// The time at which a process that uses this table last changed `data.mdb`, in nanoseconds.
  package var dataChanged: UInt64 {
    get { unsafe word(SharedTableLayout.dataChanged).pointee.load(ordering: .acquiring) }
    set {
      unsafe word(SharedTableLayout.dataChanged).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Raises ``dataChanged`` after a commit, without the writer lock. A later writer may have stored
  /// a newer time already.
  package func raiseDataChanged(to time: UInt64) {
    unsafe word(SharedTableLayout.dataChanged).pointee.max(time, ordering: .releasing)
  }

  /// The generation that this one is being copied into, or zero.
  package var successor: UInt64 {
    get {
      unsafe word(SharedTableLayout.successor).pointee.load(ordering: .sequentiallyConsistent)
    }
    set {
      unsafe word(SharedTableLayout.successor).pointee.store(
        newValue, ordering: .sequentiallyConsistent)
    }
  }

  /// The budget in bytes; zero means no budget.
  package var budget: UInt64 {
    get { unsafe word(SharedTableLayout.budget).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.budget).pointee.store(newValue, ordering: .releasing) }
  }

  /// The commit version of the newest removal by tag. Only the holder of the writer lock stores it.
  var tagsRemoved: UInt64 {
    get { unsafe word(SharedTableLayout.tagsRemoved).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.tagsRemoved).pointee.store(newValue, ordering: .releasing) }
  }

  /// The commit version up to which entries that were removed by tag are deleted.
  var tagsSwept: UInt64 {
    get { unsafe word(SharedTableLayout.tagsSwept).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.tagsSwept).pointee.store(newValue, ordering: .releasing) }
  }

  /// The time until which a process deletes such entries, in milliseconds of the monotonic clock.
  var tagSweeper: UInt64 {
    get { unsafe word(SharedTableLayout.tagSweeper).pointee.load(ordering: .relaxed) }
    set { unsafe word(SharedTableLayout.tagSweeper).pointee.store(newValue, ordering: .relaxed) }
  }

  /// A time in milliseconds since 1970 before which no committed entry expires; `Int64.max` if no
  /// entry expires, and zero if the time is unknown. Only the holder of the writer lock stores it.
  package var earliestExpiry: Int64 {
    get {
      Int64(
        bitPattern: unsafe word(SharedTableLayout.earliestExpiry).pointee.load(
          ordering: .acquiring))
    }
    set {
      unsafe word(SharedTableLayout.earliestExpiry).pointee.store(
        UInt64(bitPattern: newValue), ordering: .releasing)
    }
  }

  /// Whether the store is known to contain entries that expire.
  var hasExpiringEntries: Bool { ![0, Int64.max].contains(earliestExpiry) }

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

  // MARK: Wake-up word

  /// The wake-up word, which grows with every commit that may have waiters.
  package var wakeWord: UInt32 {
    unsafe half(SharedTableLayout.wakeWord).pointee.load(ordering: .acquiring)
  }

  /// Advances the wake-up word and wakes its waiters in every process, after a commit.
  package func advanceWakeWord() {
    unsafe half(SharedTableLayout.wakeWord).pointee.wrappingAdd(
      1, ordering: .sequentiallyConsistent)
    let waiters = unsafe half(SharedTableLayout.waiters).pointee.load(
      ordering: .sequentiallyConsistent)
    // The count includes waiters that were killed. The cost is a system call, never a lost wake-up.
    if waiters != 0 { unsafe Futex.wakeAll(base + SharedTableLayout.wakeWord) }
  }

  /// Sleeps until the wake-up word differs from `expected`, or until the timeout. A return is only
  /// a hint: the caller checks its condition again.
  package func sleep(whileWakeWordIs expected: UInt32, nanoseconds: Int64) {
    unsafe half(SharedTableLayout.waiters).pointee.wrappingAdd(
      1, ordering: .sequentiallyConsistent)
    unsafe Futex.wait(
      base + SharedTableLayout.wakeWord, while: expected, nanoseconds: nanoseconds)
    // If the page was zeroed during the sleep, the count must not wrap below zero.
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
