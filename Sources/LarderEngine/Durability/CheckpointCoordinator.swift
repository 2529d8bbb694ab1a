// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// RELAXED DURABILITY
//
// A relaxed store commits without waiting for the disk (MDB_NOSYNC). The kernel writes its pages back
// in any order, and LMDB uses pages again that older transactions freed: after a loss of power
// neither meta page can be believed, and what the last synced snapshot reached may be written over.
// So three things are kept:
//
//   record   "Snapshot S is on the disk", with its meta page, in `synced` (`CheckpointRecord.swift`). It is
//            written after a sync of data.mdb that began when S was committed, and counts from when
//            it is synced itself.
//   pin      Each process that writes holds a snapshot P, P <= S for the S recorded last, from before
//            its first write on: a reader of its own in LMDB's table.
//   restore  After a crash of the system, before anybody opens the file, the meta page of the newest
//            record is put into both metas (`StoreOpener+Restore.swift`).
//
// Argument. Let S be the newest record at a crash. Its pages were synced. A page of S's tree was
// freed, if at all, by a transaction F > S. A writer T uses a page again that F freed only if F is
// older than every snapshot that is held, and it holds P <= S < F itself: records only grow, so a pin
// that was once no newer than the record never is. So nothing T wrote, to the disk or not, in any
// order, is in a page of S; only the metas are, and those are written anew. S is one committed
// snapshot: the prefix of commits that ends with it.
//
// A pin is taken inside the writer lock, by the transaction that finds none: the newest snapshot N is
// kept, and if the record is older, data.mdb is synced and N recorded, before the first page is
// asked for. Later it moves on:
//
//   - Who has synced N, with N kept meanwhile, keeps N instead of P once N is recorded.
//   - The others keep the newest snapshot N' beside P, and let P go once a record >= N' is there.
//
// A writer that looks through the reader table while the two change places may find neither. Then N
// was taken after it had begun to look, within its transaction T, so that N = T - 1, which is what it
// takes the oldest to be when it finds none.
//
// The pin of a process that is killed goes with it, and protects nothing but what that process would
// have written. Whoever is stopped keeps its pin, and the file grows, as with any reader that is
// stopped; `checkGrowth()` sees to that.
//
// Reading the meta page of N beside writers: N + 2 writes over it. N is kept, its page read, and
// `writerLabel` looked at afterwards: while that says N + 1 at most, N + 2 has not begun.
//
// A sync that fails leaves nobody knowing what is on the disk, and later ones say that all is well:
// the kernel reports a page it could not write once. So nothing is recorded in this generation any
// more (`syncFailed`), and the next write copies what is stored into a new one.

/// A process's share in bringing one generation of a relaxed store to the disk.
final class CheckpointCoordinator: Sendable {
  private struct Pins {
    var held: PinnedSnapshot?
    /// What will be held once it is recorded.
    var next: PinnedSnapshot?
    var isClosed = false
  }

  private let pins = Mutex(Pins())
  private let isPinned = Atomic<Bool>(false)
  /// Held from the beginning of a sync to its record: one at a time in a process.
  private let turn = Mutex<Void>(())

  /// This process's commits since its last sync, and how large the file was then.
  private let commits = Atomic<Int>(0)
  private let sizeThen = Atomic<Int>(.max)
  /// Whether to sync before the interval is over, so that the pages that are kept from being used
  /// again do not become too many.
  let isUrgent = Atomic<Bool>(false)

  /// So many commits, or so much growth, are synced early.
  static let commitLimit = 8192
  static let growthLimit = 32 << 20

  // MARK: Writers

  /// Whether this process keeps pages of an older snapshot from being used again.
  var holdsPin: Bool { isPinned.load(ordering: .acquiring) }

  /// Sees to it that this process holds a pin. Inside the writer lock, before the first change.
  func pin(for transaction: UInt64, in generation: Generation) throws {
    if isPinned.load(ordering: .acquiring) { return }
    let snapshot = try PinnedSnapshot(clearingReadersIn: generation)
    guard snapshot.id == transaction &- 1 else {
      throw LMDBError(.corrupted, during: "mdb_txn_begin (another snapshot than the newest)")
    }
    if generation.table.checkpointVersion < generation.base &+ snapshot.id {
      try turn.withLock { _ in
        guard let page = try generation.environment.metaPage(of: snapshot.id) else {
          throw LMDBError(.corrupted, during: "reading the meta page")
        }
        try record(page, of: snapshot, in: generation, began: CheckpointCoordinator.now)
      }
    }
    if !Mutant.recordUnpinned.isActive {
      pins.withLock { pins in
        pins.held = snapshot
        pins.next = nil
      }
    }
    isPinned.store(true, ordering: .releasing)
  }

  /// After a commit, with the size the file has now.
  ///
  /// - Returns: Whether so much is not synced that it should be soon.
  func noteCommit(size: Int) -> Bool {
    let count = commits.wrappingAdd(1, ordering: .relaxed).newValue
    let then = sizeThen.load(ordering: .relaxed)
    if then == .max { sizeThen.store(size, ordering: .relaxed) }
    guard
      count >= CheckpointCoordinator.commitLimit
        || size &- then >= CheckpointCoordinator.growthLimit, then != .max
    else { return false }
    return !isUrgent.exchange(true, ordering: .acquiringAndReleasing)
  }

  // MARK: Syncing

  /// Whether there are commits that are newer than the record.
  func hasUnsynced(in generation: Generation) throws -> Bool {
    try minimumValidReadVersion(in: generation) > generation.table.checkpointVersion
  }

  func minimumValidReadVersion(in generation: Generation) throws -> UInt64 {
    try pins.withLock { pins in
      if pins.isClosed { throw EngineSignal.generationChanged }
      return generation.base &+ generation.environment.information.lastTransaction
    }
  }

  /// Brings everything committed before the call to the disk, and records it.
  func synchronize(_ generation: Generation) throws {
    let wanted = try minimumValidReadVersion(in: generation)
    try turn.withLock { _ in
      // Whoever had the turn before may have done it.
      if generation.table.checkpointVersion >= wanted { return }
      // Before the snapshot is taken: what is committed from here on is of the next interval.
      let began = CheckpointCoordinator.now
      let (snapshot, page) = try newestSnapshot(in: generation)
      try record(page, of: snapshot, in: generation, began: began)
      adopt(snapshot)
    }
  }

  /// The newest snapshot, kept, and its meta page.
  private func newestSnapshot(
    in generation: Generation
  ) throws -> (PinnedSnapshot, MetaPage) {
    // Inside the turn, which whoever closes the environment takes first.
    if pins.withLock({ $0.isClosed }) { throw EngineSignal.generationChanged }
    for _ in 0..<100_000 {
      let snapshot = try PinnedSnapshot(clearingReadersIn: generation)
      let page = try generation.environment.metaPage(of: snapshot.id)
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if let page, generation.table.writerLabel <= generation.base &+ snapshot.id &+ 1 {
        return (snapshot, page)
      }
      OSThread.yield()
    }
    throw StoreError(
      .damaged, during: "sync", path: generation.directory.path,
      "The meta page of no snapshot can be read. Run `larder verify`.")
  }

  /// Syncs and records a snapshot that is kept. Inside the turn.
  private func record(
    _ page: MetaPage, of snapshot: PinnedSnapshot, in generation: Generation, began: UInt64
  ) throws {
    let table = generation.table
    if table.hasFailedSync { throw CheckpointCoordinator.failure(generation, nil) }
    let record = CheckpointRecord(
      storeID: generation.meta.storeID, generation: generation.number,
      time: Clocks.wallMilliseconds(), dataBytes: UInt64(generation.dataSize), meta: page)
    commits.store(0, ordering: .relaxed)
    sizeThen.store(generation.dataSize, ordering: .relaxed)
    isUrgent.store(false, ordering: .releasing)
    try fault(throwing: .syncBegun)
    do {
      if !Mutant.recordedUnsynced.isActive { try generation.environment.synchronize() }
      try fault(throwing: .beforeRecord)
      guard
        try CheckpointFile.write(record, in: generation.path, presence: generation.presence)
      else {
        throw StoreError(
          .writerStalled, during: "sync", path: generation.directory.path,
          "Stopped processes hold every place in which to record the sync. Let them go on, or end "
            + "them.")
      }
    } catch let error as LMDBError {
      table.noteFailedSync()
      throw CheckpointCoordinator.failure(generation, error.code.rawValue)
    } catch let error as SystemError where error.operation.hasSuffix("sync") {
      table.noteFailedSync()
      throw CheckpointCoordinator.failure(generation, error.errno)
    }
    fault(.afterRecord)
    table.raiseRecorded(to: generation.base &+ snapshot.id, at: began)
  }

  /// Milliseconds of the clock that all processes share.
  private static var now: UInt64 { Clocks.monotonicNanoseconds() / 1_000_000 }

  static func failure(_ generation: Generation, _ code: Int32?) -> StoreError {
    StoreError(
      .system, during: "sync", path: generation.directory.path,
      "The disk refused a sync of the store\(code.map { " (error \($0))" } ?? ""). Nothing is lost "
        + "while the system runs. The next write copies what is stored into new files; check the "
        + "disk.", errorNumber: code)
  }

  // MARK: Pins

  private func adopt(_ snapshot: PinnedSnapshot) {
    pins.withLock { pins in
      // Who does not write needs none.
      guard let held = pins.held, !pins.isClosed, held.id < snapshot.id else { return }
      pins.held = snapshot
      pins.next = nil
    }
  }

  /// Moves the pin on as others record what is newer. Now and then.
  func advance(in generation: Generation) throws {
    try pins.withLock { pins in
      guard let held = pins.held, !pins.isClosed else { return }
      let recorded = generation.table.checkpointVersion
      if let next = pins.next, generation.base &+ next.id <= recorded {
        pins.held = next
        pins.next = nil
      } else if pins.next == nil, generation.base &+ held.id < recorded {
        pins.next = try PinnedSnapshot(clearingReadersIn: generation)
      }
    }
  }

  /// Waits for a sync that is under way and lets the pins go: nothing is written here any more.
  func close() {
    turn.withLock { _ in
      pins.withLock { pins in
        pins.isClosed = true
        pins.held = nil
        pins.next = nil
      }
    }
  }
}

extension PinnedSnapshot {
  /// Takes the newest snapshot, if need be after the slots of dead readers and resting ones.
  fileprivate convenience init(clearingReadersIn generation: Generation) throws(LMDBError) {
    do {
      try self.init(in: generation.environment)
    } catch {
      guard error.code == .readersFull else { throw error }
      try generation.environment.clearDeadReaders()
      generation.pool.releaseIdle()
      try self.init(in: generation.environment)
    }
  }
}

extension PresenceLocks {
  /// Write-locked by the process that brings a relaxed store to the disk for all.
  static let syncer: Int64 = 2
  /// Write-locked by whoever writes in a lane of `synced`.
  static func laneOffset(_ lane: Int) -> Int64 { 16 + Int64(lane) }
}
