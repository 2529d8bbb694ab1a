// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// Control flow inside the engine: the operation has to start again in another generation.
package enum EngineSignal: Error { case generationChanged }

/// One generation of a store, open in this process: the environment, its tables and the
/// shared-memory table.
///
/// It does not change until it is closed. When it is fenced, `StoreCore` opens the current
/// generation, and every operation that received ``EngineSignal`` starts again there.
package final class Generation: Sendable {
  package let directory: StoreDirectory
  package let number: UInt64
  package let meta: StoreMeta
  package let table: SharedTable
  package let process: Int
  package let entries: TableHandle
  package let chunks: TableHandle
  package let expiries: TableHandle
  package let tags: TableHandle
  package let members: TableHandle
  package let changes: TableHandle
  package let objects: TableHandle
  package let ids: TableHandle
  package let indexes: TableHandle
  let environment: EnvironmentHandle
  let presence: OwnedFile
  let pool: ReaderPool
  /// The location cache, or `nil` if its memory could not be allocated.
  let places: RecordLocationCache?
  /// The checkpoint coordinator of a relaxed or durable store.
  let keeper: CheckpointCoordinator?
  /// The redo log of a relaxed or durable store.
  let log: RedoLog?
  /// The generation base: commit versions are LMDB's transaction ids plus this value.
  package let versionBase: UInt64

  /// The process writer lock. A writer holds it from begin to commit, and close holds it.
  let writerTurn = Atomic<Bool>(false)
  private let isClosed = Atomic<Bool>(false)
  /// Whether this process must reopen the same generation, which other processes continue to use.
  let mustReopen = Atomic<Bool>(false)
  /// Whether the files of a store that survives system crashes were found deleted or replaced: every
  /// later write fails.
  let hasLostFiles = Atomic<Bool>(false)
  let hasReportedLoss = Atomic<Bool>(false)
  /// The time of the monotonic clock until which the disk is not asked for room.
  let roomyUntil = Atomic<UInt64>(0)
  package let growth: FileGrowth
  /// Whether a transaction of this process that stored entries has searched for expired ones.
  let hasSearchedExpiries = Atomic<Bool>(false)
  /// The totals after the last commit of this process.
  let books = Mutex<CachedTotals?>(nil)
  /// An object that the layer above caches; see ``layer(_:)``.
  let layerCache = Mutex<(any AnyObject & Sendable)?>(nil)
  /// The time, in milliseconds, at which a transaction last read the status of `data.mdb` (write map), or the time
  /// of its last change (stores that survive system crashes).
  let lastLook = Atomic<Int64>(0)
  /// Whether the time of the last change of `data.mdb` is not recorded.
  let hasUnrecordedChange = Atomic<Bool>(false)

  /// The number of threads that wait for the disk after a commit (`DurableWait.swift`).
  let durableWaits = Atomic<Int>(0)

  var isClosing: Bool { isClosed.load(ordering: .acquiring) }

  /// The bits of a commit version that count the transactions of a generation.
  static var versionBits: UInt64 { 40 }

  package static func versionBase(ofGeneration number: UInt64) -> UInt64 {
    Mutant.labelsWithoutBase.isActive ? 0 : number << versionBits
  }

  /// Returns the commit version of the last transaction in a generation's environment.
  static func newestVersion(
    ofGeneration number: UInt64, in environment: EnvironmentHandle
  ) -> UInt64 {
    versionBase(ofGeneration: number) + environment.information.lastTransaction
  }

  /// The process slot of this process, whose byte in `presence` it has locked.
  struct ProcessSlot {
    let index: Int
    let table: SharedTable
    let presence: OwnedFile
  }

  init(
    directory: StoreDirectory, meta: StoreMeta, environment: EnvironmentHandle, tables: Tables,
    slot: ProcessSlot
  ) {
    self.directory = directory
    number = meta.generation
    self.meta = meta
    table = slot.table
    process = slot.index
    presence = slot.presence
    self.environment = environment
    entries = tables.entries
    chunks = tables.chunks
    expiries = tables.expiries
    tags = tables.tags
    members = tables.members
    changes = tables.changes
    objects = tables.objects
    ids = tables.ids
    indexes = tables.indexes
    keeper = meta.durability.survivesSystemCrash ? CheckpointCoordinator() : nil
    log =
      meta.durability.survivesSystemCrash
      ? RedoLog(
        path: directory.generation(meta.generation), storeID: meta.storeID,
        durability: meta.durability, tables: tables.all)
      : nil
    growth = FileGrowth(
      of: FileSystem.status(ofDescriptor: environment.dataDescriptor)?.size ?? 0)
    versionBase = Generation.versionBase(ofGeneration: meta.generation)
    places = try? RecordLocationCache()
    pool = ReaderPool(usual: 2 * OSThread.coreCount, capacity: SharedTableLayout.insideCount - 1)
    let (table, process, lockFile) = (table, process, directory.generation(number) + "/lock.mdb")
    environment.judgeWriters {
      Generation.canHoldWriterLock($0, table, process, lockFile: lockFile)
    }
  }

  /// The identity of this generation for values cached in memory.
  ///
  /// Cached values are bound to it and not to ``number``, because commit versions of two stores
  /// are not comparable, even if both stores used one directory.
  package var incarnation: UInt64 { table.incarnation }

  /// The path for system calls.
  package var path: String { directory.generation(number) }
  /// The path for messages.
  package var realPath: String { directory.realGeneration(number) }

  // MARK: Reading (R1 and R2 of the protocol)

  /// Runs `body` in one snapshot of this generation.
  ///
  /// The transaction belongs to the pool and returns to it at the end: `body` must not wait.
  @inline(__always)
  package func withSnapshot<R>(_ body: (borrowing Snapshot) throws -> R) throws -> R {
    let reader = try takeReader()
    table.markInsideLMDB(process: process, index: reader.index, true)
    defer {
      table.markInsideLMDB(process: process, index: reader.index, false)
      pool.giveBack(reader)
    }
    do {
      let commitVersion = try renew(reader)
      defer { reader.reset() }
      return try reader.withTransaction {
        try body(Snapshot(SnapshotView(generation: self, commitVersion: commitVersion), $0))
      }
    } catch let error as LMDBError {
      // A transaction that failed is not used again.
      reader.drop()
      throw error
    }
  }

  @inline(__always)
  private func takeReader() throws -> PooledReader {
    do throws(ReaderPool.Exhausted) {
      if let reader = try pool.take() { return reader }
    } catch {
      throw StoreError.tooManyReaders(error, path: path)
    }
    throw EngineSignal.generationChanged
  }

  /// Whether this thread is inside a read of this generation. Such a thread must not wait for the
  /// end of all reads.
  var isReadingOnCurrentThread: Bool { pool.isHeldByCurrentThread }

  private func renew(_ reader: PooledReader) throws -> UInt64 {
    do {
      return try versionBase
        &+ pool.renew(reader, in: environment) { id in
          try fault(throwing: .afterRenew, during: "read", path: path)
          atomicMemoryFence(ordering: .sequentiallyConsistent)
          if table.isFenced { throw EngineSignal.generationChanged }
          return table.writerVersion <= versionBase &+ id &+ 1 || Mutant.noRenewCheck.isActive
        }
    } catch let error as LMDBError where error.code == .problem {
      throw StoreError(
        .damaged, during: "read", path: path,
        "shared.table names a writer's label no commit reaches. Run `larder verify`.")
    } catch let error as LMDBError {
      throw explained(error)
    }
  }

  /// Maps the error of a failed transaction begin to the error to throw. Such an error is not
  /// evidence of damage.
  func explained(_ error: LMDBError) -> any Error {
    switch error.code {
    case .panic:
      reopening()
    case .mapFull
    where meta.durability.survivesSystemCrash
      && UInt64(environment.information.mapSize) < meta.mapSize,
      .mapResized where dataSize > environment.information.mapSize:
      StoreError.outgrown(error, during: "use", path: directory.path)
    default: error
    }
  }

  /// Requests a reopen: LMDB rejects this environment after a commit failed to write its meta page.
  private func reopening() -> any Error {
    mustReopen.store(true, ordering: .releasing)
    return EngineSignal.generationChanged
  }

  // MARK: Counters

  @inline(__always)
  package func count(_ counter: Counter, by amount: UInt64 = 1) {
    table.count(counter, process: process, by: amount)
  }

  /// The present status of `data.mdb`. The caller holds the process writer lock or runs in
  /// ``whileOpen(_:)``.
  var dataStatus: FileStatus? { FileSystem.status(ofDescriptor: environment.dataDescriptor) }

  /// The present size of `data.mdb` in bytes and the number of its names. Same precondition as ``dataStatus``.
  var dataExtent: (size: Int, links: UInt64)? {
    FileSystem.extent(ofDescriptor: environment.dataDescriptor)
  }

  /// The present size of `data.mdb` in bytes. Same precondition as ``dataStatus``.
  var dataSize: Int { dataExtent?.size ?? 0 }

  /// Whether a transaction must read the file's status. The caller holds the process writer lock.
  func shouldCheckFileStatus(at milliseconds: Int64) -> Bool {
    guard environment.usesWriteMap else { return true }
    return lastLook.exchange(milliseconds, ordering: .relaxed) != milliseconds
  }

  /// Whether the file is longer than the table records. Same precondition as ``dataStatus``.
  var hasReservedMore: Bool { UInt64(environment.reservedBytes) > table.dataBytes }

  /// Whether the last transaction of this process used the write map. For tests in which no other
  /// thread or process writes.
  package var usesWriteMap: Bool { environment.usesWriteMap }

  /// Keeps the environment open while `body` runs. `body` must not wait.
  ///
  /// Close waits for the readers of the pool: this call counts as one, without a snapshot.
  package func whileOpen<R>(_ body: (EnvironmentHandle) throws -> R) throws -> R {
    let reader = try takeReader()
    defer { pool.giveBack(reader) }
    return try body(environment)
  }

  package func information() throws -> EnvironmentHandle.Information {
    try whileOpen { $0.information }
  }

  package func readers() throws -> [EnvironmentHandle.Reader] { try whileOpen { try $0.readers() } }

  /// The pids of the processes that have this generation open.
  package var presentProcesses: [Int32] {
    (0..<table.shape.processSlots).compactMap { process in
      guard let pid = table.pid(process: process) else { return nil }
      if process == self.process { return pid }
      let lives = try? presence.isLockedElsewhere(at: PresenceLocks.slotOffset(process))
      return lives == true ? pid : nil
    }
  }

  // MARK: Closing

  /// Acquires the process writer lock.
  ///
  /// - Returns: `false` if the time has passed, or if the generation closes and `toClose` is
  /// `false`.
  package func acquireProcessWriterLock(nanoseconds: UInt64 = .max / 4, toClose: Bool = false)
    -> Bool
  {
    var deadline: UInt64?
    while !writerTurn.compareExchange(
      expected: false, desired: true, ordering: .acquiring
    ).exchanged {
      // Close never releases the lock, so a waiting writer must switch generations.
      if !toClose, isClosing { return false }
      let now = Clocks.monotonicNanoseconds()
      if now > deadline ?? .max { return false }
      if deadline == nil { deadline = now &+ nanoseconds }
      OSThread.yield()
    }
    return true
  }

  package func releaseProcessWriterLock() { writerTurn.store(false, ordering: .releasing) }

  /// Closes a generation that was opened and never used. The caller holds the open lock.
  func closeUnused() {
    guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
    pool.close()
    keeper?.close()
    environment.close()
    table.leave(process: process)
    _ = try? presence.tryLock(.none, at: 0, count: 0)
  }

  /// Closes the environment while it holds the open lock. Idempotent.
  ///
  /// The last process to close first makes everything durable and marks `state` clean, so that the
  /// next boot can trust the file.
  ///
  /// - Parameter deadline: The time of the monotonic clock until which reads of this process that are in
  ///   progress are waited for.
  /// - Returns: `false` if such a read has not ended: nothing was closed.
  @discardableResult
  func close(gateTimeout: Duration, readsUntil deadline: UInt64 = .max) -> Bool {
    guard
      isClosed.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing)
        .exchanged
    else { return true }
    if ForkGuard.isForkedChild { return true }
    // Before the open lock: no other process may wait for a long read of this process.
    guard pool.close(until: deadline) else {
      isClosed.store(false, ordering: .releasing)
      return false
    }
    if let view = QuietView.of(self) {
      table.fence()
      environment.close()
      view.end()
      return true
    }
    // Without a name, no process can open the files any more: there is nothing to wait for, and no
    // later opening would close them.
    let gate = hasNoName ? nil : try? OpenLock.enter(directory, timeout: gateTimeout)
    defer { gate?.leave() }
    if gate == nil && !hasNoName || !closeInGate() { DeferredGenerationCloses.add(self) }
    return true
  }

  /// Whether the files were removed from the directory, with or without it.
  private var hasNoName: Bool { (try? presence.status)?.links == 0 }

  /// Closes the environment after its readers have ended. The caller holds the open lock.
  ///
  /// - Returns: `false` if the process writer lock cannot be acquired within one second, because
  ///   another process stalls the writer, or if a sync lasts longer. Nothing was changed then.
  func closeInGate() -> Bool {
    // An injected error stands for a failed sync below: data that may be unsynced stays dirty.
    let canSynchronize = (try? fault(throwing: .closeGateTaken)) != nil
    guard acquireProcessWriterLock(nanoseconds: 1_000_000_000, toClose: true) else { return false }
    guard awaitDurableWaits() else {
      releaseProcessWriterLock()
      return false
    }
    let alone = (try? presence.tryLock(.exclusive, at: PresenceLocks.openOffset)) == true
    if alone, canSynchronize, table.isDirty, !table.isFenced {
      if synchronizeToClose() { try? markClean(newest: environment.information.lastTransaction) }
    }
    fault(.closeSynced)
    if environment.usesWriteMap { recordChange() }
    keeper?.close()
    environment.close()
    table.leave(process: process)
    _ = try? presence.tryLock(.none, at: 0, count: 0)
    fault(.closeDone)
    return true
  }
}

extension Generation {
  /// Synchronizes all commits, and records a checkpoint of a relaxed store.
  ///
  /// - Returns: Whether that succeeded.
  private func synchronizeToClose() -> Bool {
    if table.hasFailedSync { return false }
    guard let keeper else { return (try? environment.synchronize()) != nil }
    return (try? keeper.synchronize(self)) != nil
  }
}

/// The bytes of `presence` and the meaning of a lock on each.
package enum PresenceLocks {
  /// Read-locked by every process that has the generation open.
  package static let openOffset: Int64 = 0
  /// Write-locked by the process in a slot of the shared table.
  package static func slotOffset(_ process: Int) -> Int64 { 1000 + Int64(process) }
  /// Write-locked by each process under its own pid: a second copy of the library in one process
  /// finds it taken.
  static func pidOffset(_ pid: Int32) -> Int64 { 1 << 40 + Int64(pid) }
}
