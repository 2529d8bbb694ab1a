// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The words of the redo log of a relaxed or durable store.
///
/// A writer stores the end of the log after its record, in one of two places in turn, before it commits. If it is
/// killed before the commit, its successor has the same commit version, finds the end of the record before in
/// the other place, and writes over the record.
extension SharedTable {
  /// Returns the end of the log after a commit version, if it is known.
  package func logEnd(after version: UInt64) -> LogPosition? {
    let start = SharedTableLayout.logEnds + Int(version & 1) * 32
    func load(_ index: Int) -> UInt64 {
      unsafe word(start + index * 8).pointee.load(ordering: .acquiring)
    }
    func position() -> LogPosition {
      LogPosition(segment: load(1), offset: load(2), chain: load(3))
    }
    guard load(0) == version else { return nil }
    let found = position()
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    // Twice: one writer after the other may store a place for the same commit version.
    return load(0) == version && found != .none && position() == found ? found : nil
  }

  /// Stores the end of the log after a commit version. The caller has the writer lock.
  func setLogEnd(_ position: LogPosition, after version: UInt64) {
    let start = SharedTableLayout.logEnds + Int(version & 1) * 32
    func store(_ value: UInt64, _ index: Int) {
      unsafe word(start + index * 8).pointee.store(value, ordering: .releasing)
    }
    store(0, 0)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    store(position.segment, 1)
    store(position.offset, 2)
    store(position.chain, 3)
    store(version, 0)
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

  /// The sequence number of the segment in which recovery begins.
  var logStart: UInt64 {
    unsafe word(SharedTableLayout.logStart).pointee.load(ordering: .acquiring)
  }

  func raiseLogStart(to segment: UInt64) {
    unsafe word(SharedTableLayout.logStart).pointee.max(segment, ordering: .releasing)
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
