// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// CHECKPOINTS
//
// A relaxed or durable store commits without a sync of its data (MDB_NOSYNC): its redo log is synced (`RedoLog.swift`).
// The kernel writes its pages
// back in any order, and LMDB reuses pages that older transactions freed. After a power failure
// neither meta page is reliable, and pages of the last synced snapshot can have been overwritten.
// So the store keeps three things:
//
//   record   The statement that snapshot S is on the disk, with the meta page of S, in `synced`
//            (`CheckpointRecord.swift`). A process writes it after a sync of data.mdb that began
//            when S was committed. It is effective once it is synced itself.
//   pin      Each process that writes holds a snapshot P, with P <= S for the last recorded S,
//            since before its first write: a reader slot in LMDB's table.
//   restore  After a system crash, before any process opens the file, the meta page of the newest
//            record is written to both metas (`StoreOpener+CrashRecovery.swift`).
//
// Argument. Let S be the newest record at a crash. The pages of S were synced. If a page of the
// tree of S was freed, then by a transaction F > S. A writer T reuses a page that F freed only if F
// is older than every snapshot that is held. T itself holds P <= S < F, because records only grow:
// a pin that was once not newer than the record never is. So nothing that T wrote, to the disk or
// not, in any order, is in a page of S. Only the metas are, and recovery rewrites those. S is one
// committed snapshot: the prefix of commits that ends with it.
//
// A transaction that finds no pin acquires one under the writer lock: it pins the newest snapshot
// N. If the record is older, it syncs data.mdb and records N before it allocates its first page.
// Later the pin advances:
//
//   - A process that has synced N, with N pinned during the sync, holds N instead of P once N is
//     recorded.
//   - Every other process pins the newest snapshot N' in addition to P, and releases P once a
//     record >= N' exists.
//
// A writer that scans the reader table while the two are exchanged may find neither. Then N was
// pinned after the scan began, within the writer's transaction T, so N = T - 1. That is the value
// the writer assumes for the oldest snapshot when it finds none.
//
// The pin of a killed process is released with it, and protected only against that process's own
// writes. A stopped process keeps its pin, and the file grows, as with any stopped reader;
// `checkGrowth()` handles that case.
//
// Reading the meta page of N while other processes write: N + 2 overwrites it. N is pinned, its
// page is read, and `writerVersion` is read afterwards: while it is at most N + 1, N + 2 has not
// begun.
//
// After a sync fails, the state of the disk is unknown, and later syncs succeed nevertheless: the
// kernel reports a page that it could not write once. So nothing more is recorded in this
// generation (`syncFailed`), and the next write copies the stored data to a new one.

/// The part of one process in the checkpoints of one generation of a store that survives system crashes.
final class CheckpointCoordinator: Sendable {
  private struct Pins {
    var held: PinnedSnapshot?
    /// The snapshot that becomes the pin once it is recorded.
    var next: PinnedSnapshot?
    var isClosed = false
  }

  private let pins = Mutex(Pins())
  private let isPinned = Atomic<Bool>(false)
  /// Held from the beginning of a sync to its record: a process runs one sync at a time.
  private let turn = Mutex<Void>(())

  /// The newest checkpoint at the last commit of this process, and the size of the file at the first commit after it.
  private let seen = Atomic<UInt64>(0)
  private let sizeThen = Atomic<Int>(.max)
  /// Whether to sync before the interval ends, to limit the number of pages that pins keep from reuse; and the
  /// checkpoint after which.
  private let isUrgent = Atomic<Bool>(false)
  private let urgentAfter = Atomic<UInt64>(0)

  /// The oldest reader at the last check of the file's growth, and the checkpoints since it was first seen.
  private struct SeenReader {
    var transaction: UInt64 = 0
    var since: UInt64 = 0
    var checkpoint: UInt64 = 0
    var count = 0
  }
  private let seenReader = Mutex(SeenReader())

  // MARK: Writers

  /// Whether the oldest reader, which has the snapshot of a transaction, has had it during several checkpoints.
  ///
  /// A pin moves to a snapshot that was taken after the first of them, within a quarter of a second, once the next one
  /// or the one after is recorded.
  func outlastsCheckpoints(_ transaction: UInt64, in generation: Generation) -> Bool {
    let recorded = generation.table.checkpointVersion
    let now = CheckpointCoordinator.now
    return seenReader.withLock { seen in
      if transaction != seen.transaction {
        seen = SeenReader(transaction: transaction, since: now, checkpoint: recorded)
      } else if recorded != seen.checkpoint {
        (seen.checkpoint, seen.count) = (recorded, seen.count + 1)
      }
      return seen.count >= 3 && now &- seen.since >= 2000
    }
  }

  /// Whether this process keeps pages of an older snapshot from reuse.
  var holdsPin: Bool { isPinned.load(ordering: .acquiring) }

  /// Ensures that this process holds a pin. Called under the writer lock, before the first change.
  func pin(for transaction: UInt64, in generation: Generation) throws {
    if isPinned.load(ordering: .acquiring) { return }
    let snapshot = try PinnedSnapshot(clearingReadersIn: generation)
    guard snapshot.id == transaction &- 1 else {
      throw LMDBError(.corrupted, during: "mdb_txn_begin (another snapshot than the newest)")
    }
    if generation.table.checkpointVersion < generation.versionBase &+ snapshot.id {
      try generation.waitingForDisk {
        try turn.withLock { _ in
          guard let page = try generation.environment.metaPage(of: snapshot.id) else {
            throw LMDBError(.corrupted, during: "reading the meta page")
          }
          let version = generation.versionBase &+ snapshot.id
          try record(
            (page, generation.table.logEnd(after: version) ?? .none), of: snapshot, in: generation,
            began: CheckpointCoordinator.now)
        }
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

  /// Counts a commit.
  ///
  /// - Returns: Whether the thread has work now: an early checkpoint, or the pin of this process to advance after a
  ///   checkpoint of another one.
  func noteCommit(size: Int, in generation: Generation) -> Bool {
    let recorded = generation.table.checkpointVersion
    let isNew = seen.exchange(recorded, ordering: .relaxed) != recorded
    if isNew { sizeThen.store(size, ordering: .relaxed) }
    guard
      generation.table.writerVersion &- recorded >= generation.commitLimit
        || size &- sizeThen.load(ordering: .relaxed) >= generation.growthLimit
        // Transactions without a record; those of a durable store wait for the checkpoint themselves.
        || (!generation.waitsForDisk && generation.table.logGap > recorded)
    else { return isNew }
    urgentAfter.store(recorded, ordering: .relaxed)
    return !isUrgent.exchange(true, ordering: .acquiringAndReleasing) || isNew
  }

  /// Whether a limit for an early sync is reached, and no process has synced since.
  func needsEarlySync(in generation: Generation) -> Bool {
    guard isUrgent.load(ordering: .acquiring) else { return false }
    if urgentAfter.load(ordering: .relaxed) == generation.table.checkpointVersion { return true }
    isUrgent.store(false, ordering: .releasing)
    return false
  }

  // MARK: Syncing

  /// Returns the commit version of the newest transaction.
  func newestVersion(in generation: Generation) throws -> UInt64 {
    try pins.withLock { pins in
      if pins.isClosed { throw EngineSignal.generationChanged }
      return generation.versionBase &+ generation.environment.information.lastTransaction
    }
  }

  /// Syncs everything committed before the call, and records it.
  ///
  /// - Parameter log: The place of a log that begins after the newest snapshot, which is recorded with it even if
  ///   there is a record of it. The caller has the writer lock.
  func synchronize(_ generation: Generation, beginning log: LogPosition? = nil) throws {
    let wanted = try newestVersion(in: generation)
    try turn.withLock { _ in
      // The previous holder of the turn may have recorded it.
      if generation.table.checkpointVersion >= wanted, log == nil { return }
      // Before the snapshot is taken: later commits belong to the next interval.
      let began = CheckpointCoordinator.now
      let (snapshot, state) = try newestSnapshot(in: generation)
      try record((state.meta, log ?? state.log), of: snapshot, in: generation, began: began)
      adopt(snapshot)
    }
  }

  /// Pins the newest snapshot, and reads its meta page.
  private func newestSnapshot(
    in generation: Generation
  ) throws -> (PinnedSnapshot, (meta: MetaPage, log: LogPosition)) {
    // Under the turn, which a thread that closes the environment acquires first.
    if pins.withLock({ $0.isClosed }) { throw EngineSignal.generationChanged }
    for _ in 0..<100_000 {
      let snapshot = try PinnedSnapshot(clearingReadersIn: generation)
      let page = try generation.environment.metaPage(of: snapshot.id)
      let end = generation.table.logEnd(after: generation.versionBase &+ snapshot.id)
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if let page, generation.table.writerVersion <= generation.versionBase &+ snapshot.id &+ 1 {
        return (snapshot, (page, end ?? .none))
      }
      OSThread.yield()
    }
    throw StoreError(
      .damaged, during: "sync", path: generation.directory.path,
      "The meta page of no snapshot can be read. Run `larder verify`.")
  }

  /// Syncs and records a pinned snapshot. Called under the turn.
  private func record(
    _ state: (meta: MetaPage, log: LogPosition), of snapshot: PinnedSnapshot,
    in generation: Generation, began: UInt64
  ) throws {
    let table = generation.table
    if table.hasFailedSync { throw CheckpointCoordinator.failure(generation, nil) }
    let record = CheckpointRecord(
      storeID: generation.meta.storeID, generation: generation.number,
      time: Clocks.wallMilliseconds(), dataBytes: UInt64(generation.dataSize),
      meta: state.meta, log: (state.log, generation.versionBase &+ snapshot.id &+ 1))
    sizeThen.store(generation.dataSize, ordering: .relaxed)
    isUrgent.store(false, ordering: .releasing)
    try fault(throwing: .syncBegun)
    do {
      if !Mutant.recordedUnsynced.isActive { try generation.environment.synchronize() }
      try fault(throwing: .beforeRecord)
      guard try write(record, in: generation) else {
        throw StoreError(
          .writerStalled, during: "sync", path: generation.directory.path,
          "Stopped processes hold every place in which to record the sync. Let them go on, or end "
            + "them.")
      }
    } catch let error as LMDBError {
      table.noteFailedSync()
      throw CheckpointCoordinator.failure(generation, error.code.rawValue)
    } catch let error as SystemError where error.isRefusedSync {
      table.noteFailedSync()
      throw CheckpointCoordinator.failure(generation, error.errno)
    }
    fault(.afterRecord)
    // First: a process that finds the snapshot recorded does not record it again.
    table.raiseLogStart(to: state.log.segment)
    table.raiseDurable(to: generation.versionBase &+ snapshot.id)
    table.raiseRecorded(to: generation.versionBase &+ snapshot.id, at: began)
    table.advanceLogSyncWord()
  }

  /// Writes a record, but creates no file in a directory that is being deleted: that would keep it from deletion.
  ///
  /// - Returns: `false` if stopped processes hold all places for records.
  private func write(_ record: CheckpointRecord, in generation: Generation) throws -> Bool {
    func write(_ creation: OwnedFile.Creation) throws -> Bool {
      if generation.searchForLostFiles() {
        throw StoreError.filesRemoved(during: "sync", path: generation.directory.path)
      }
      return try CheckpointFile.write(
        record, in: generation.path, presence: generation.presence, creation: creation)
    }
    do { return try write(.mustExist) } catch let error as SystemError where error.isNoSuchFile {
      // The first of many files that are being deleted, or the only one.
      Event().wait(nanoseconds: 200_000_000)
      return try write(.createIfMissing)
    }
  }

  /// The time of the clock that all processes share, in milliseconds.
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
      // A process that does not write needs no pin.
      guard let held = pins.held, !pins.isClosed, held.id < snapshot.id else { return }
      pins.held = snapshot
      pins.next = nil
    }
  }

  /// Advances the pin after other processes have recorded a newer snapshot. Called periodically, and at the first
  /// commit after it.
  func advance(in generation: Generation) throws {
    try pins.withLock { pins in
      guard let held = pins.held, !pins.isClosed else { return }
      let recorded = generation.table.checkpointVersion
      if let next = pins.next, generation.versionBase &+ next.id <= recorded {
        pins.held = next
        pins.next = nil
      }
      if pins.next == nil, generation.versionBase &+ (pins.held ?? held).id < recorded {
        pins.next = try PinnedSnapshot(clearingReadersIn: generation)
      }
    }
  }

  /// Releases the pin of a process that does not write now; its next transaction acquires one. Then the process need
  /// not advance it.
  func releaseIfIdle(_ generation: Generation) {
    guard holdsPin, generation.acquireProcessWriterLock(nanoseconds: 0) else { return }
    defer { generation.releaseProcessWriterLock() }
    isPinned.store(false, ordering: .releasing)
    pins.withLock { ($0.held, $0.next) = (nil, nil) }
  }

  /// Waits for a running sync and releases the pins: this process writes nothing here any more.
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

extension Generation {
  private var isSmall: Bool { table.shape.recencySlots <= SharedTableShape.small.recencySlots }

  /// The growth of the file in bytes that causes an early sync.
  fileprivate var growthLimit: Int { isSmall ? 256 << 10 : waitsForDisk ? 8 << 20 : 32 << 20 }
  /// The number of commits that causes an early sync. No page that they replace is used again before it, so
  /// the file has room for about 30 kB for each of twice as many.
  var commitLimit: UInt64 { isSmall ? 32 : waitsForDisk ? 1024 : 2048 }
}

extension PinnedSnapshot {
  /// Pins the newest snapshot. If no reader slot is free, clears those of dead and idle readers
  /// first.
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
  /// Write-locked by the process that syncs a relaxed store, or makes a checkpoint, for all.
  package static let syncer: Int64 = 2
  /// Write-locked by the process that writes to a lane of `synced`.
  static func laneOffset(_ lane: Int) -> Int64 { 16 + Int64(lane) }
}
