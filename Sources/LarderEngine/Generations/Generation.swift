// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// Control flow inside the engine: the operation has to start again in another generation.
package enum EngineSignal: Error { case generationChanged }

/// One generation of a store, open in this process: the environment, its tables, the shared table.
///
/// It stays what it is until it is closed. When it is condemned, `StoreCore` opens its successor
/// and every operation that met the signal starts again there.
package final class Generation: Sendable {
  // Fixed at open.
  package let directory: StoreDirectory
  package let number: UInt64
  package let meta: StoreMeta
  package let table: SharedTable
  package let process: Int
  package let entries: TableHandle
  package let chunks: TableHandle
  package let expiries: TableHandle
  package let objects: TableHandle
  package let ids: TableHandle
  package let indexes: TableHandle
  let environment: EnvironmentHandle
  let presence: OwnedFile
  let pool: ReaderPool
  /// Where entries that were read lie in the map; `nil`: there was no memory for that.
  let places: RecordLocationCache?
  /// Of a relaxed store.
  let keeper: CheckpointCoordinator?
  /// Labels are LMDB's transaction ids plus this.
  package let versionBase: UInt64

  /// Held by this process's writer from begin to commit, and by whoever closes.
  let writerTurn = Atomic<Bool>(false)
  private let isClosed = Atomic<Bool>(false)
  /// Whether this process has to open the same generation again, which other processes use on.
  let mustReopen = Atomic<Bool>(false)
  /// The size of `data.mdb` at which to look who keeps it from being used again.
  let growthCheckSize: Atomic<Int>
  let isGrowthNoted = Atomic<Bool>(false)
  /// The books as the last commit of this process left them.
  let books = Mutex<CachedTotals?>(nil)
  /// When the status of `data.mdb` was last asked for by a transaction through the map.
  private let lastLook = Atomic<Int64>(0)

  var isClosing: Bool { isClosed.load(ordering: .acquiring) }

  package static func versionBase(ofGeneration number: UInt64) -> UInt64 {
    Mutant.labelsWithoutBase.isActive ? 0 : number << 40
  }

  package static let entriesName = "entries"
  package static let chunksName = "chunks"
  package static let expiriesName = "expiries"

  /// The tables of an environment, opened once.
  package struct Tables {
    package let entries: TableHandle
    package let chunks: TableHandle
    package let expiries: TableHandle
    package let objects: TableHandle
    package let ids: TableHandle
    package let indexes: TableHandle

    /// Makes them in a new environment.
    package init(in transaction: inout WriteTransaction) throws(LMDBError) {
      entries = try transaction.makeTable(Generation.entriesName, keys: .integers)
      chunks = try transaction.makeTable(Generation.chunksName, keys: .integers)
      expiries = try transaction.makeTable(Generation.expiriesName, keys: .bytes)
      objects = try transaction.makeTable(ObjectFormat.objectsName, keys: .bytes)
      ids = try transaction.makeTable(ObjectFormat.idsName, keys: .integers)
      indexes = try transaction.makeTable(ObjectFormat.indexesName, keys: .bytes)
    }

    /// Opens them; `nil`: one is missing. The handles are good once the caller keeps them.
    init?(in transaction: borrowing ReadTransaction) throws(LMDBError) {
      guard
        let entries = try transaction.table(Generation.entriesName, keys: .integers),
        let chunks = try transaction.table(Generation.chunksName, keys: .integers),
        let expiries = try transaction.table(Generation.expiriesName, keys: .bytes),
        let objects = try transaction.table(ObjectFormat.objectsName, keys: .bytes),
        let ids = try transaction.table(ObjectFormat.idsName, keys: .integers),
        let indexes = try transaction.table(ObjectFormat.indexesName, keys: .bytes)
      else { return nil }
      self.entries = entries
      self.chunks = chunks
      self.expiries = expiries
      self.objects = objects
      self.ids = ids
      self.indexes = indexes
    }
  }

  init(
    directory: StoreDirectory, number: UInt64, meta: StoreMeta, table: SharedTable, process: Int,
    environment: EnvironmentHandle, presence: OwnedFile, tables: Tables
  ) {
    self.directory = directory
    self.number = number
    self.meta = meta
    self.table = table
    self.process = process
    self.environment = environment
    self.presence = presence
    entries = tables.entries
    chunks = tables.chunks
    expiries = tables.expiries
    objects = tables.objects
    ids = tables.ids
    indexes = tables.indexes
    keeper = meta.durability == .relaxed ? CheckpointCoordinator() : nil
    growthCheckSize = Atomic(
      (FileSystem.status(ofDescriptor: environment.dataDescriptor)?.size ?? 0)
        + Generation.growthStep)
    versionBase = Generation.versionBase(ofGeneration: number)
    places = try? RecordLocationCache()
    pool = ReaderPool(usual: 2 * OSThread.coreCount, capacity: SharedTableLayout.insideCount - 1)
  }

  /// What is kept in memory under commit versions of this generation is bound to this, not to
  /// ``number``: commit versions of two stores say nothing of each other, even in one directory.
  package var incarnation: UInt64 { table.incarnation }

  /// The path for system calls.
  package var path: String { directory.generation(number) }
  /// The path that users know.
  package var realPath: String { directory.realGeneration(number) }

  // MARK: Reading (R1 and R2 of the protocol)

  /// Runs `body` in one snapshot, with the snapshot's label.
  ///
  /// The transaction comes from the pool and is given back at the end: nothing may wait in `body`.
  @inline(__always)
  package func withSnapshot<R>(
    _ body: (borrowing ReadTransaction, UInt64) throws -> R
  ) throws -> R {
    let reader = try takeReader()
    table.markInsideLMDB(process: process, index: reader.index, true)
    defer {
      table.markInsideLMDB(process: process, index: reader.index, false)
      pool.giveBack(reader)
    }
    do {
      let commitVersion = try renew(reader)
      defer { reader.reset() }
      return try reader.withTransaction { try body($0, commitVersion) }
    } catch let error as LMDBError {
      // A transaction that met an error is not used again.
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

  /// Whether this thread is inside a read of it: then it cannot wait until all reads are over.
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

  /// Returns what a failed begin of a transaction means, which says nothing about the file.
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

  /// Notes that LMDB refuses this environment: a commit of this process could not write its meta page.
  private func reopening() -> any Error {
    mustReopen.store(true, ordering: .releasing)
    return EngineSignal.generationChanged
  }

  // MARK: Counters

  @inline(__always)
  package func count(_ counter: Counter, by amount: UInt64 = 1) {
    table.count(counter, process: process, by: amount)
  }

  // MARK: Health

  /// Whether somebody removed or replaced the files of this generation.
  package var isOrphaned: Bool {
    guard let mapped = table.fileStatus, mapped.links > 0 else { return true }
    guard
      // By the path that the next process takes, not through the directory that is held.
      let onDisk = (try? FileSystem.status(of: realPath + "/shared.table")) ?? nil,
      onDisk.identity == mapped.identity,
      (try? presence.status)?.links ?? 0 > 0
    else { return true }
    // What cannot be read, for want of a descriptor perhaps, says nothing.
    guard let named = (try? CurrentPointer.read(in: directory)) ?? nil else { return false }
    return named != number
  }

  /// The status of `data.mdb` now, for whoever holds the writer's turn or ``whileOpen(_:)``.
  var dataStatus: FileStatus? { FileSystem.status(ofDescriptor: environment.dataDescriptor) }

  /// The size of `data.mdb` now, for the same.
  var dataSize: Int { dataStatus?.size ?? 0 }

  /// Whether a transaction has to look at the file's status, in whose hands the writer's turn is.
  func shouldCheckFileStatus(at milliseconds: Int64) -> Bool {
    guard environment.usesWriteMap else { return true }
    return lastLook.exchange(milliseconds, ordering: .relaxed) != milliseconds
  }

  /// Whether the file is longer by now than the table knows, for the same.
  var hasReservedMore: Bool { UInt64(environment.reservedBytes) > table.dataBytes }

  /// Makes known that the file was changed by this process, for the same.
  func recordChange() {
    guard let status = dataStatus else { return }
    table.raiseDataChanged(to: status.changed)
  }

  /// Whether the last transaction of this process was written through the map. For tests, which know
  /// that nobody else writes at the moment.
  package var usesWriteMap: Bool { environment.usesWriteMap }

  /// Keeps the environment open for as long as `body` runs, which may wait for nothing.
  ///
  /// Whoever closes waits for the readers of the pool: this counts as one, without a snapshot.
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

  /// Takes the writer's turn of this process; `false`: not within the time.
  package func acquireProcessWriterLock(nanoseconds: UInt64 = .max / 4, toClose: Bool = false)
    -> Bool
  {
    var deadline: UInt64?
    while !writerTurn.compareExchange(
      expected: false, desired: true, ordering: .acquiring
    ).exchanged {
      // Who closes keeps the turn: whoever came for it has to move.
      if !toClose, isClosing { return false }
      let now = Clocks.monotonicNanoseconds()
      if now > deadline ?? .max { return false }
      if deadline == nil { deadline = now &+ nanoseconds }
      OSThread.yield()
    }
    return true
  }

  package func releaseProcessWriterLock() { writerTurn.store(false, ordering: .releasing) }

  /// Closes what was opened and never used, by whoever holds the gate.
  func closeUnused() {
    guard !isClosed.exchange(true, ordering: .acquiringAndReleasing) else { return }
    pool.close()
    keeper?.close()
    environment.close()
    table.leave(process: process)
    _ = try? presence.tryLock(.none, at: 0, count: 0)
  }

  /// Closes the environment, under the gate. Idempotent.
  ///
  /// A closer that is alone makes everything durable first and says so in `state`, so that the
  /// next boot may trust the file.
  func close(gateTimeout: Duration) {
    guard
      isClosed.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing)
        .exchanged
    else { return }
    if ForkGuard.isForkedChild { return }
    // Before the gate: nobody else shall wait for a long read of this process.
    pool.close()
    guard let gate = try? OpenLock.enter(directory, timeout: gateTimeout) else {
      return DeferredGenerationCloses.add(self)
    }
    defer { gate.leave() }
    if !closeInGate() { DeferredGenerationCloses.add(self) }
  }

  /// Closes the environment, whose readers have left, by whoever holds the gate.
  ///
  /// - Returns: `false` if the writer is stuck in another process's hands; nothing was touched then.
  func closeInGate() -> Bool {
    // An error is one of the sync below: what is not known to be on the disk stays dirty.
    let canSynchronize = (try? fault(throwing: .closeGateTaken)) != nil
    guard acquireProcessWriterLock(nanoseconds: 1_000_000_000, toClose: true) else { return false }
    let alone = (try? presence.tryLock(.exclusive, at: PresenceLocks.everybody)) == true
    if alone, canSynchronize, table.isDirty, !table.isFenced {
      if synchronizeToClose() { try? markClean() }
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
  /// Whether everything committed is on the disk, and of a relaxed store recorded.
  private func synchronizeToClose() -> Bool {
    if table.hasFailedSync { return false }
    guard let keeper else { return (try? environment.synchronize()) != nil }
    return (try? keeper.synchronize(self)) != nil
  }
}

/// The bytes of `presence` and what a lock on each says.
package enum PresenceLocks {
  /// Read-locked by every process that has the generation open.
  package static let everybody: Int64 = 0
  /// Write-locked by the process in a slot of the shared table.
  package static func slotOffset(_ process: Int) -> Int64 { 1000 + Int64(process) }
  /// Write-locked by each process under its own pid: a second copy of the library in one process
  /// finds it taken.
  static func pidOffset(_ pid: Int32) -> Int64 { 1 << 40 + Int64(pid) }
}
