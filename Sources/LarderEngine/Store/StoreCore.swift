// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// A store as one process has it open: shared by all handles and caches of the process.
@usableFromInline
package final class StoreCore: Sendable {
  package let directory: StoreDirectory
  package let identity: FileIdentityKey
  package let options: StoreOptions
  let queue = WriteQueue()
  /// What waits in the queue, for readers that look without its lock.
  package let pending: PendingWriteCounters
  /// Computations of this process, by key.
  package let flights = SingleFlightGroup()
  let leases: LeaseLockFile
  let sleepers = CommitWaiters()
  private let current: Mutex<Generation?>
  /// The thread that runs a user's transaction right now; zero: none.
  let bodyThread = Atomic<UInt64>(0)
  let needsNoOpCommit = Atomic<Bool>(false)
  let stuckSince = Atomic<UInt64>(0)
  let worker = StoreWorker()
  let watcher = StoreWatcher()
  let syncer = Checkpointer()
  let lastTick = Atomic<UInt64>(0)
  let idleWatch = IdleWatch()
  private let movingThread = Mutex<Void>(())
  let notices: DeferredCallbacks
  let followers = GenerationFollowers()
  /// The thread that has the writer's role; zero: none.
  let leader = Atomic<UInt64>(0)
  /// When that thread stops waiting for writers of other processes, in nanoseconds of the monotonic
  /// clock. Zero: `writeTimeout` after a wait begins.
  let leaderDeadline = Atomic<UInt64>(0)
  /// Whether the store is being closed and nothing is written any more.
  let isShuttingDown = Atomic<Bool>(false)

  /// The identity of a store's root directory.
  package struct FileIdentityKey: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
  }

  init(
    directory: StoreDirectory, identity: FileIdentityKey, options: StoreOptions,
    notices: DeferredCallbacks
  ) throws(StoreError) {
    let generation = try StoreOpener(
      directory: directory, options: notices.adopting(options)
    ).open()
    self.notices = notices
    self.directory = generation.directory
    self.identity = identity
    self.options = options
    self.current = Mutex(generation)
    self.pending = queue.pending
    self.leases = LeaseLockFile(directory: generation.directory)
  }

  // MARK: Generations

  /// The generation in force, as far as this process knows.
  package func generation() throws(StoreError) -> Generation {
    // Before the lock: a thread that does not exist in a forked child may hold it there.
    if ForkGuard.isForkedChild { throw .usedAfterFork("use") }
    guard let generation = current.withLock({ $0 }) else { throw .closed("use") }
    return generation
  }

  /// Leaves a condemned generation for its successor. Safe to call from many threads.
  @discardableResult
  package func move(from old: Generation) throws(StoreError) -> Generation {
    if ForkGuard.isForkedChild { throw .usedAfterFork("use") }
    // Leaving waits for readers, of whom this thread is one.
    if old.isReadingOnCurrentThread { throw .generationReplacedDuringRead(path: directory.path) }
    // Told when the lock is free: whoever is told may use the store.
    notices.hold()
    let outcome: Result<Generation, StoreError> = movingThread.withLock { _ in
      do throws(StoreError) {
        let now = try generation()
        if now !== old { return .success(now) }
        // Nothing of the old generation is valid in any memory tier from here on, even if it was
        // deleted behind our back and nobody else knows.
        if !old.mustReopen.load(ordering: .acquiring) { old.supersedeOrFence() }
        old.close(gateTimeout: options.openTimeout)
        try restoreDirectory()
        // Labels only grow, also when everything was deleted: what is in memory is older.
        let new = try StoreOpener(
          directory: directory, options: notices.adopting(options), firstNumber: old.number + 1
        ).open()
        current.withLock { $0 = new }
        queue.rehash(in: new)
        if new.number != old.number { notify(.generationChanged(generation: new.number)) }
        return .success(new)
      } catch {
        return .failure(error)
      }
    }
    notices.endHold()
    deliverNotices()
    let new = try outcome.get()
    for follower in followers.all { follower.leave(for: new.table) }
    return new
  }

  /// The directory itself may have been deleted together with the store.
  private func restoreDirectory() throws(StoreError) {
    directory.follow(
      try StoreDirectory.prepare(directory.path, durability: options.durability))
    do throws(SystemError) {
      // Of a PID namespace's own store; any other was made just now.
      if try FileSystem.status(of: directory.root) == nil {
        try FileSystem.makeDirectory(directory.root)
      }
    } catch {
      throw StoreError(error, during: "open", path: directory.root)
    }
  }

  /// Runs an operation, again in the next generation whenever it meets the signal to move.
  package func withGeneration<R>(_ body: (Generation) throws -> R) throws -> R {
    var generation = try generation()
    var moves = 0
    var firstMove: UInt64 = 0
    while true {
      do {
        return try body(generation)
      } catch EngineSignal.generationChanged {
        moves += 1
        let now = Clocks.monotonicNanoseconds()
        if moves == 1 { firstMove = now }
        // Compactions and repairs in a row are no reason to fail.
        guard moves < 8 || now &- firstMove < 2_000_000_000 else {
          throw StoreError(
            .damaged, during: "use", path: directory.path,
            "The store's files were replaced \(moves) times in a row. Check the disk.")
        }
        generation = try move(from: generation)
      }
    }
  }

  /// Condemns the generation because of what LMDB said about its file; a durable store throws.
  func fence(_ generation: Generation, because error: any Error) throws -> Never {
    if options.durability.survivesSystemCrash {
      throw StoreError(wrapping: error, during: "use", path: directory.path)
    }
    generation.table.fence()
    throw EngineSignal.generationChanged
  }

  // MARK: Closing

  /// Commits what waits, ends the store's thread, closes the files.
  func shutDown() {
    if ForkGuard.isForkedChild { return }
    // Of all callers, also those that do not wait in a thread.
    if queue.isBusy { _ = try? submit(WriteRequest(.barrier)) }
    isShuttingDown.store(true, ordering: .releasing)
    worker.stop()
    watcher.stop()
    syncer.stop()
    let generation = current.withLock { current in
      defer { current = nil }
      return current
    }
    generation?.close(gateTimeout: options.openTimeout)
    // What came too late is told so: nobody waits for a store that is gone.
    leadIfNeeded()
  }

  /// The writes that wait for a transaction, of callers that wait and of those that do not.
  package var queuedWrites: Int { queue.state.withLock { $0.count } }

  /// Waits until every write queued so far is committed or failed.
  package func flush() throws(StoreError) {
    guard !queue.pending.isEmpty else {
      _ = try generation()
      return
    }
    _ = try submit(WriteRequest(.barrier))
  }
}
