// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// COMPACTION
//
// `data.mdb` never shrinks, and a reader that is stopped inside a read keeps every page that was
// freed since from reuse. So a generation can be copied into the next one, without its free pages,
// while all processes continue to read. Then every process switches to the copy, as after a fence,
// but nothing is lost.
//
//     K1  begin a write transaction: no process commits during the copy, and all commits are in it
//     K2  lock `copying`: a live process writes g-<n+1>.copy
//     K3  copy g-n to g-<n+1>.copy, give it its number, its table, its state; sync it unless it
//         is a cache
//     K4  acquire the open lock; is g-n still current? successor = n + 1, in the old table
//     K5  rename g-<n+1>.copy; write CURRENT
//     K6  condemned = 2 ("superseded"), floor = infinity, in the old table
//     K7  release the open lock, end the write transaction, switch
//
// The open lock is held for the switch only: during the copy, processes open and close g-n.
//
// If the process is killed before it writes CURRENT, the copy is a directory that CURRENT does not
// name, and the lock of `copying` is free: the next opener, or the next copy, removes it, and the
// next writer finds that `successor` differs from CURRENT and clears it. A generation that is
// fenced during the copy gets no successor: K4 detects that, and the copy is removed. If the
// process is killed between K5 and K6, two rules keep the old generation from further use: a writer
// that finds `successor` equal to CURRENT supersedes the generation itself before it writes
// anything; and an opener fences every generation that is still in use and that CURRENT does not
// name, before it permits any write. So nothing is committed in the old generation once any process
// can have written to the new one, and no older value is served from memory.
//
// A writer that committed before K1 and finds the generation superseded at its next check (W4) can
// conclude that its commit was copied. If the generation is fenced, it writes once more.
//
// The shared table of the copy has the size for the budgets of that time; what the old one knows of uses
// and of the order of eviction is kept, as far as it fits.
//
// Commit versions grow with the number of the generation, so whatever a process has cached from the
// old generation does not validate in the new one. The entries keep the versions of their commits.

extension GenerationBuilder {
  /// Runs K2 to K6. The caller holds the writer lock of `old`, and not the open lock.
  func copy(_ old: Generation) throws {
    let number = old.number + 1
    let target = directory.generation(number)
    let temporary = target + CopyLock.suffix
    let lock = try CopyLock.acquire(directory)
    defer { lock.release() }
    FileSystem.removeTree(temporary)
    do {
      try GenerationBuilder.makeDirectory(temporary)
      try old.environment.copy(to: temporary)
      var meta = old.meta
      meta.generation = number
      meta.update(from: old.table)
      meta.shape = meta.shape.adapted(budget: meta.budget, entries: meta.entryBudget)
      try complete(meta, in: temporary, inheriting: old.table)
      try fault(throwing: .copyWritten)
    } catch {
      FileSystem.removeTree(temporary)
      throw error
    }
    let gate: OpenLock
    do {
      // Every writer waits, so the copy is given up if a process is stopped in there. The next growth of the
      // file tries again.
      gate = try OpenLock.enter(directory, timeout: min(options.openTimeout, .seconds(2)))
    } catch {
      FileSystem.removeTree(temporary)
      throw error
    }
    defer { gate.leave() }
    do {
      // Fenced, or replaced by an opener, while the copy was written.
      let named = try CurrentPointer.read(in: directory)
      if old.table.isFenced || (named ?? old.number) != old.number {
        throw EngineSignal.generationChanged
      }
      FileSystem.removeTree(target)
      old.table.successor = number
      try put(temporary, inForceAs: number)
    } catch {
      FileSystem.removeTree(temporary)
      // CURRENT may name the copy nevertheless. If that cannot be read here, the next writer
      // resolves it.
      try? old.resolveInterruptedCompaction()
      throw error
    }
    old.table.supersede()
  }

  /// Copies one snapshot of `old` into this builder's directory, which contains no generation. The
  /// caller holds the open lock of that directory and keeps `environment` open.
  func duplicate(_ old: Generation, _ environment: EnvironmentHandle) throws {
    let temporary = directory.generation(old.number) + ".tmp"
    FileSystem.removeTree(temporary)
    do {
      try GenerationBuilder.makeDirectory(temporary)
      try environment.copy(to: temporary)
      var meta = old.meta
      meta.update(from: old.table)
      try complete(meta, in: temporary, inheriting: old.table)
      try put(temporary, inForceAs: old.number)
    } catch {
      FileSystem.removeTree(temporary)
      throw error
    }
  }

  /// Stores the number in a copied data file and creates the other files of the generation.
  private func complete(_ meta: StoreMeta, in path: String, inheriting old: SharedTable) throws {
    try GenerationBuilder.prepareLockFile(in: path, meta.shape)
    let environment = try EnvironmentHandle(
      path: path,
      options: .init(
        mapSize: nil, minimumMapSize: GenerationBuilder.minimumMapSize,
        maximumReaders: meta.shape.readerSlots,
        synchronous: meta.durability.survivesSystemCrash))
    do {
      var transaction = try WriteTransaction(in: environment)
      try transaction.put(meta.bytes(), forKey: StoreMeta.key, in: .main)
      try transaction.commit()
      if meta.durability.survivesSystemCrash { try environment.synchronize() }
    } catch {
      environment.close()
      throw error
    }
    try createSupportFiles(path, meta, closing: environment, inheriting: old)
  }
}

extension Generation {
  /// Resolves a compaction whose process exited. The caller holds the writer lock.
  ///
  /// - Throws: `SystemError` or `StoreError` if the outcome cannot be determined. The caller must
  /// not
  ///   commit in this generation then.
  func resolveInterruptedCompaction() throws {
    let successor = table.successor
    guard successor != 0, !table.isFenced else { return }
    switch try CurrentPointer.read(in: directory) {
    case number: table.successor = 0
    case successor: table.supersede()
    case nil where meta.durability.survivesSystemCrash:
      throw StoreError(
        .damaged, during: "write", path: directory.path,
        "CURRENT is missing or damaged. Close the store everywhere and run `larder repair`.")
    default: table.fence()
    }
  }

  /// Whether a compaction has made its copy current and has not yet marked this generation.
  var hasSuccessorInForce: Bool {
    let successor = table.successor
    guard successor != 0 else { return false }
    return ((try? CurrentPointer.read(in: directory)) ?? nil) == successor
  }

  /// Makes every process switch to the current generation. Commits of this one may be lost with its
  /// files.
  func supersedeOrFence() {
    if hasSuccessorInForce { table.supersede() } else { table.fence() }
  }
}

extension StoreCore {
  /// Copies the stored data into a new generation, without the free pages, and switches to it.
  package func compact() throws {
    let box = ResultBox<Generation>()
    try runExclusively { core in
      if let old = try core.copyGeneration() { box.value.withLock { $0 = .success(old) } }
    }
    if let old = try box.value.withLock({ $0 })?.get() { try switchGeneration(from: old) }
  }

  /// Copies one snapshot of the store into a directory without a store, while all processes
  /// continue.
  package func copy(to path: String) throws {
    let target = try StoreDirectory.prepare(path, durability: options.durability)
    let gate = try OpenLock.enter(target, timeout: options.openTimeout)
    defer { gate.leave() }
    do {
      guard try CurrentPointer.generations(in: target).isEmpty,
        try CurrentPointer.read(in: target) == nil
      else {
        throw StoreError(
          .directory, during: "copy", path: path,
          "There is a store already, and nothing of it was touched. Name another directory.")
      }
      try withGeneration { generation in
        let builder = GenerationBuilder(directory: target, options: options)
        try generation.whileOpen { environment in
          try OSThread.blockingSIGXFSZ { () throws(any Error) in
            try builder.duplicate(generation, environment)
          }
        }
      }
    } catch {
      throw StoreError(wrapping: error, during: "copy", path: path)
    }
  }

  /// Runs K1 to K7. The caller is the commit leader and does not hold the open lock.
  ///
  /// - Parameter wanted: The generation to copy; another process may have copied it already.
  /// - Returns: The generation that was left, or `nil` if `wanted` was not the current one.
  @discardableResult
  func copyGeneration(_ wanted: Generation? = nil) throws -> Generation? {
    try withGeneration { generation in
      if let wanted, generation !== wanted { return nil }
      guard generation.acquireProcessWriterLock() else { throw EngineSignal.generationChanged }
      defer { generation.releaseProcessWriterLock() }
      if generation.isClosing { throw EngineSignal.generationChanged }
      // Before the open lock: other processes open and close the store while this waits for a
      // writer.
      try takeTicket(in: generation)
      generation.table.beginWriting(process: generation.process)
      defer {
        generation.table.endWriting(process: generation.process)
        generation.table.releaseTicket(process: generation.process)
      }
      _ = try? generation.environment.clearDeadReaders()
      let transaction = try WriteTransaction(in: generation.environment)
      try generation.resolveInterruptedCompaction()
      if generation.table.isFenced { throw EngineSignal.generationChanged }
      // After a copy of moved files this process would use the store that has their path now.
      if options.durability.survivesSystemCrash, generation.searchForLostFiles() {
        throw StoreError.filesRemoved(during: "copy", path: directory.path)
      }
      let commitVersion = generation.versionBase &+ transaction.id
      generation.table.announceWriter(commitVersion: commitVersion)
      generation.table.settleOffers(commitVersion: commitVersion, isEnd: false)  // O4
      let builder = GenerationBuilder(directory: directory, options: options)
      do {
        // LMDB's copying thread inherits the mask: a limit on files is an error, not a signal.
        try generation.waitingForDisk {
          try OSThread.blockingSIGXFSZ { () throws(any Error) in try builder.copy(generation) }
        }
      } catch EngineSignal.generationChanged {
        throw EngineSignal.generationChanged
      } catch {
        throw StoreError(wrapping: error, during: "compact", path: directory.path)
      }
      _ = consume transaction
      return generation
    }
  }

  // MARK: Growth

  /// Checks whether a stopped reader keeps the pages by which the file has grown, and if so
  /// compacts the store into a new generation.
  func checkGrowth() {
    guard let generation = try? generation(), generation.growth.needsCheck else { return }
    guard
      let (size, oldest) = try? generation.whileOpen({ environment in
        _ = try? environment.clearDeadReaders()
        return (generation.dataSize, environment.oldestSnapshot)
      })
    else { return }
    generation.growth.setMark(size + max(size / 4, FileGrowth.step))
    guard let (stalled, transaction) = oldest, isStalled(stalled, transaction, in: generation)
    else { return }
    do {
      // A reader that is not stopped will end: `verify()` holds a snapshot for as long as it reads.
      let isStopped = ProcessIdentity.isStopped(stalled.pid) == true
      let limit = (3 * (try statistics().bytes) + FileGrowth.step) * (isStopped ? 1 : 8)
      guard isStopped || size > limit else { return }
      notify(.readerStalled(pid: stalled.pid, transactionsBehind: stalled.transactionsBehind))
      guard size > limit else { return }
      try enqueueWriteBehind(
        WriteRequest(
          .exclusive { core in
            do { try core.copyGeneration(generation) } catch { core.report(error) }
          }))
    } catch {
      report(error)
    }
  }

  /// Whether a reader keeps pages from reuse that it will not release soon.
  ///
  /// In a store with checkpoints each process that writes has an old snapshot as well, until the second checkpoint
  /// after it. If the disk is slow, that is what lets the file grow, and a copy would wait for the same disk, with all
  /// writers. So a reader counts that stays while checkpoints are made, or whose process is stopped.
  private func isStalled(
    _ reader: StoreStatistics.Reader, _ transaction: UInt64, in generation: Generation
  ) -> Bool {
    guard let keeper = generation.keeper else { return reader.transactionsBehind >= 256 }
    guard reader.transactionsBehind >= max(256, 2 * Int(generation.commitLimit)) else {
      return false
    }
    return ProcessIdentity.isStopped(reader.pid) == true
      || keeper.outlastsCheckpoints(transaction, in: generation)
  }
}

/// The observations of one process about the growth of a generation's `data.mdb`.
package final class FileGrowth: Sendable {
  static let step = 16 << 20

  /// The size above which a check searches for a stalled reader.
  private let checkSize: Atomic<Int>
  private let isNoted = Atomic<Bool>(false)
  package let wait = GrowthWait()

  init(of size: Int) { checkSize = Atomic(size + Self.step) }

  /// Requests a check after a commit, if the file has grown so far.
  func note(_ size: Int, _ core: StoreCore) {
    guard size > checkSize.load(ordering: .relaxed) else { return }
    if !isNoted.exchange(true, ordering: .acquiringAndReleasing) { core.worker.wake(core) }
  }

  var needsCheck: Bool { isNoted.load(ordering: .acquiring) }

  /// Ends a check. The next one is at a larger size.
  func setMark(_ size: Int) {
    checkSize.store(size, ordering: .relaxed)
    isNoted.store(false, ordering: .releasing)
  }
}

extension EnvironmentHandle {
  /// Returns the reader with the oldest snapshot, unless that is the newest snapshot.
  var oldestReader: StoreStatistics.Reader? { oldestSnapshot?.reader }

  /// Returns the reader with the oldest snapshot, and the transaction of that.
  var oldestSnapshot: (reader: StoreStatistics.Reader, transaction: UInt64)? {
    let last = information.lastTransaction
    let readers = (try? self.readers()) ?? []
    let held = readers.compactMap { reader in
      reader.transaction.map { (pid: reader.pid, transaction: $0) }
    }
    guard let oldest = held.min(by: { $0.transaction < $1.transaction }) else { return nil }
    guard oldest.transaction < last else { return nil }
    let behind = Int(clamping: last - oldest.transaction)
    return (.init(pid: oldest.pid, transactionsBehind: behind), oldest.transaction)
  }
}
