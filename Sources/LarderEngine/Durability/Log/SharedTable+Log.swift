// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The words of the redo log of a relaxed or durable store.
///
/// A writer stores the end of the log after its record, in one of two places in turn, before it commits. If it is
/// killed before the commit, its successor has the same commit version, finds the end of the record before in
/// the other place, and writes over the record. The last word of a place is a hash of the others: a reader
/// detects a place that is being written, and one that is damaged.
extension SharedTable {
  /// Returns the end of the log after a commit version, if it is known.
  package func logEnd(after version: UInt64) -> LogPosition? {
    let start = SharedTableLayout.logEnds + Int(version & 1) * 32
    func load(_ index: Int) -> UInt64 {
      unsafe word(start + index * 8).pointee.load(ordering: .acquiring)
    }
    let (place, chain) = (load(1), load(2))
    guard load(0) == version, place >> 24 != 0, load(3) == Self.logHash(version, place, chain)
    else { return nil }
    return LogPosition(segment: place >> 24, offset: (place & 0xFF_FFFF) * 8, chain: chain)
  }

  /// Stores the end of the log after a commit version. The caller has the writer lock.
  package func setLogEnd(_ position: LogPosition, after version: UInt64) {
    let start = SharedTableLayout.logEnds + Int(version & 1) * 32
    let place = position.segment << 24 | position.offset / 8
    func store(_ value: UInt64, _ index: Int) {
      unsafe word(start + index * 8).pointee.store(value, ordering: .releasing)
    }
    store(version, 0)
    store(place, 1)
    store(position.chain, 2)
    store(Self.logHash(version, place, position.chain), 3)
  }

  private static func logHash(_ first: UInt64, _ second: UInt64 = 0, _ third: UInt64 = 0) -> UInt64
  {
    var hash: UInt64 = 0x9E37_79B9_7F4A_7C15
    func mix(_ word: UInt64) {
      hash = (hash ^ word) &* 0xBF58_476D_1CE4_E5B9
      hash ^= hash >> 32
    }
    mix(first)
    mix(second)
    mix(third)
    return hash
  }

  /// The commit version up to which every transaction is on the disk, in the log or in a checkpoint.
  package var durableVersion: UInt64 {
    unsafe word(SharedTableLayout.durable).pointee.load(ordering: .acquiring)
  }

  func raiseDurable(to version: UInt64) {
    unsafe word(SharedTableLayout.durable).pointee.max(version, ordering: .releasing)
  }

  /// The time at which the last sync of the log, or the last checkpoint, began; in milliseconds of the monotonic clock.
  package var logSyncedAt: UInt64 {
    unsafe word(SharedTableLayout.logSyncedAt).pointee.load(ordering: .acquiring)
  }

  func raiseLogSynced(at milliseconds: UInt64) {
    unsafe word(SharedTableLayout.logSyncedAt).pointee.max(milliseconds, ordering: .releasing)
  }

  /// The newest commit version whose transaction is committed and has its record in the log.
  var loggedVersion: UInt64 {
    unsafe word(SharedTableLayout.logged).pointee.load(ordering: .acquiring)
  }

  func raiseLogged(to version: UInt64) {
    unsafe word(SharedTableLayout.logged).pointee.max(version, ordering: .sequentiallyConsistent)
  }

  /// The commit version of the newest transaction that has no record: it needs a checkpoint.
  package internal(set) var logGap: UInt64 {
    get { unsafe word(SharedTableLayout.logGap).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.logGap).pointee.store(newValue, ordering: .releasing) }
  }

  /// Whether a transaction has no record and is in no checkpoint: no sync of the log makes it durable.
  var isLogInterrupted: Bool { checkpointVersion < logGap }

  /// The sequence number of the segment in which recovery begins; zero if it is not known. The highest 24 bits of the
  /// word are a hash of the others: a damaged one would release segments that recovery reads.
  package var logStart: UInt64 {
    Self.logStart(unsafe word(SharedTableLayout.logStart).pointee.load(ordering: .acquiring))
  }

  package func raiseLogStart(to segment: UInt64) {
    let address = unsafe word(SharedTableLayout.logStart)
    var found = unsafe address.pointee.load(ordering: .acquiring)
    while Self.logStart(found) < segment {
      let (done, now) = unsafe address.pointee.compareExchange(
        expected: found, desired: segment | (Self.logHash(segment) >> 40) << 40,
        ordering: .acquiringAndReleasing)
      if done { return }
      found = now
    }
  }

  private static func logStart(_ word: UInt64) -> UInt64 {
    let segment = word & (1 << 40 - 1)
    return logHash(segment) >> 40 == word >> 40 ? segment : 0
  }

  /// The word that is advanced after each sync of the log.
  var logSyncWord: UInt32 {
    unsafe half(SharedTableLayout.logSyncWord).pointee.load(ordering: .acquiring)
  }

  func advanceLogSyncWord() {
    unsafe half(SharedTableLayout.logSyncWord).pointee.wrappingAdd(1, ordering: .releasing)
    unsafe Futex.wakeAll(UnsafeMutableRawPointer(half(SharedTableLayout.logSyncWord)))
  }

  func sleep(whileLogSyncWordIs word: UInt32, nanoseconds: Int64) {
    unsafe Futex.wait(
      UnsafeMutableRawPointer(half(SharedTableLayout.logSyncWord)), while: word,
      nanoseconds: nanoseconds)
  }
}
