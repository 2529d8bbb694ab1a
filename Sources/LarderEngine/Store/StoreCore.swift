// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// An open store in one process, shared by all handles and caches of the process.
@usableFromInline
package final class StoreCore: Sendable {
  package let directory: StoreDirectory
  package let identity: FileIdentityKey
  /// Held open, so that ``identity`` is of no other directory.
  private let rootDirectory: OwnedFile
  package let options: StoreOptions
  let queue = WriteQueue()
  /// The counters of pending writes, for readers that do not acquire the queue's lock.
  package let pending: PendingWriteCounters
  /// The computations of this process, by key.
  package let flights = SingleFlightGroup()
  package let leases: LeaseLockFile
  /// The file of locks, semaphores, limiters, leaders and barriers.
  let lockFiles: LockFiles
  let sleepers = CommitWaiters()
  private let current: Mutex<Generation?>
  /// The thread that runs a user's transaction now, or zero.
  let bodyThread = Atomic<UInt64>(0)
  let needsNoOpCommit = Atomic<Bool>(false)
  let stuckSince = Atomic<UInt64>(0)
  /// Whether this process has committed a change of an entry or object.
  let hasWritten = Atomic<Bool>(false)
  /// Whether a step of the removal of expired entries is queued.
  let isSweeping = Atomic<Bool>(false)
  /// The time, in milliseconds of the monotonic clock, before which no such step begins.
  let sweepPause = Atomic<UInt64>(0)
  let tagSweep = Mutex(TagSweepState())
  let removalInterest = Mutex(RemovalInterest())
  let worker = StoreWorker()
  let watcher = StoreWatcher()
  let syncer = Checkpointer()
  let completions = DurableCompletions()
  let lastTick = Atomic<UInt64>(0)
  /// The time at which a commit of a durable store last checked for replaced files. Apart from
  /// `lastTick`, so that constant commits do not keep the thread from its ticks.
  let lastFileCheck = Atomic<UInt64>(0)
  /// The work of the object layer on the store's thread, about once a second.
  let maintenance = Mutex<(@Sendable (StoreCore) -> Void)?>(nil)
  let idleWatch = IdleWatch()
  private let switching = Mutex<GenerationSwitch?>(nil)
  let notices: DeferredCallbacks
  let followers = GenerationFollowers()
  /// The monitors of slow operations, or `nil` if the options have none.
  package let monitors: StoreMonitors?
  /// The thread of the commit leader, or zero.
  let leader = Atomic<UInt64>(0)
  /// The time at which the commit leader stops waiting for writers of other processes, in
  /// nanoseconds of the monotonic clock. Zero means `writeTimeout` after a wait begins.
  let leaderDeadline = Atomic<UInt64>(0)
  /// The wait for the disk of the user's transaction that the commit leader has run.
  let deferredWait = Mutex<DurableWait?>(nil)
  /// Whether the store is being closed, so that no more writes begin.
  let isShuttingDown = Atomic<Bool>(false)

  /// The identity of a store's root directory.
  package struct FileIdentityKey: Hashable, Sendable {
    let device: UInt64
    let inode: UInt64
  }

  init(
    directory: StoreDirectory, _ root: (identity: FileIdentityKey, directory: OwnedFile),
    options: StoreOptions, notices: DeferredCallbacks
  ) throws(StoreError) {
    let generation = try StoreOpener(
      directory: directory, options: notices.adopting(options)
    ).open()
    self.notices = notices
    self.directory = generation.directory
    self.identity = root.identity
    rootDirectory = root.directory
    self.options = options
    monitors = StoreMonitors(options, path: generation.directory.path)
    self.current = Mutex(generation)
    self.pending = queue.pending
    self.leases = LeaseLockFile(directory: generation.directory)
    self.lockFiles = LockFiles(directory: generation.directory, clock: options.clock)
  }

  // MARK: Generations

  /// Returns the generation that this process has open.
  package func generation() throws(StoreError) -> Generation {
    // Checked before the lock, which a thread of the parent may hold in a forked child.
    if ForkGuard.isForkedChild { throw .usedAfterFork("use") }
    guard let generation = current.withLock({ $0 }) else { throw .closed("use") }
    return generation
  }

  /// Switches from a fenced generation to its successor. Safe to call from any number of threads: one
  /// switches, and the others wait for it, at most as long as for an opening, and get its error.
  @discardableResult
  package func switchGeneration(from old: Generation) throws(StoreError) -> Generation {
    if ForkGuard.isForkedChild { throw .usedAfterFork("use") }
    // Closing waits for readers, and this thread is one of them.
    if old.isReadingOnCurrentThread { throw .generationReplacedDuringRead(path: directory.path) }
    let new = try successor(of: old)
    for follower in followers.all { follower.leave(for: new.table) }
    return new
  }

  private func successor(of old: Generation) throws(StoreError) -> Generation {
    let deadline = Clocks.deadline(after: options.openTimeout)
    while true {
      let now = try generation()
      if now !== old { return now }
      let (step, isOwn) = switching.withLock { current in
        if let current { return (current, false) }
        let step = GenerationSwitch()
        current = step
        return (step, true)
      }
      if isOwn { return try runSwitch(step, from: old, until: deadline) }
      try step.wait(until: deadline, in: self)
    }
  }

  /// Switches, and ends the step for which other threads wait.
  private func runSwitch(
    _ step: GenerationSwitch, from old: Generation, until deadline: UInt64
  ) throws(StoreError) -> Generation {
    // Callbacks are deferred until the step has ended, because they may use the store.
    notices.hold()
    var failure: StoreError?
    defer {
      switching.withLock { $0 = nil }
      step.end(failure)
      notices.endHold()
      deliverNotices()
    }
    do throws(StoreError) { return try openSuccessor(of: old, until: deadline) } catch {
      failure = error
      throw error
    }
  }

  /// Closes a generation and opens its successor. The caller has the step of the switch.
  private func openSuccessor(
    of old: Generation, until deadline: UInt64
  ) throws(StoreError) -> Generation {
    // Another thread may have switched before this one had the step.
    let now = try generation()
    if now !== old { return now }
    // From here on, no value of the old generation validates in any memory tier, even if its
    // files were deleted without a fence.
    if let view = QuietView.of(old) {
      if view.isOnItsThread, let new = try join(view, from: old) { return new }
      old.table.fence()
    } else if !old.mustReopen.load(ordering: .acquiring) {
      old.supersedeOrFence()
    }
    guard old.close(gateTimeout: options.openTimeout, readsUntil: deadline) else {
      throw .readNotEnded(options.openTimeout, path: directory.path)
    }
    try restoreDirectory()
    // Commit versions only grow, even if everything was deleted: cached values are older.
    var options = notices.adopting(options)
    // A view has a thread that lets openers in, which only the opening of the store starts.
    options.awaitsOthers = true
    let new = try StoreOpener(
      directory: directory, options: options, firstNumber: old.number + 1
    ).open()
    guard publish(new, after: old) else {
      new.close(gateTimeout: options.openTimeout)
      throw .closed("use")
    }
    return new
  }

  /// Makes the successor of a generation the one that this process uses.
  ///
  /// - Returns: `false` if the store was closed meanwhile.
  func publish(_ new: Generation, after old: Generation) -> Bool {
    let isOpen = current.withLock { current in
      let isOpen = current === old
      if isOpen { current = new }
      return isOpen
    }
    guard isOpen else { return false }
    queue.rehash(in: new)
    if new.number != old.number { notify(.generationChanged(generation: new.number)) }
    return true
  }

  /// Creates the directory again if it was deleted together with the store.
  private func restoreDirectory() throws(StoreError) {
    directory.follow(
      try StoreDirectory.prepare(
        directory.path, durability: options.durability, isWritten: !options.readsOnly))
    if options.readsOnly { return }
    do throws(SystemError) {
      // The directory of a PID namespace's separate store; `prepare` has created any other.
      if try FileSystem.status(of: directory.root) == nil {
        try FileSystem.makeDirectory(directory.root)
      }
    } catch {
      throw StoreError(error, during: "open", path: directory.root)
    }
  }

  /// Runs an operation, and repeats it in the next generation after each generation switch.
  package func withGeneration<R>(_ body: (Generation) throws -> R) throws -> R {
    var generation = try generation()
    var switches = 0
    var firstSwitch: UInt64 = 0
    while true {
      do {
        return try body(generation)
      } catch EngineSignal.generationChanged {
        switches += 1
        let now = Clocks.monotonicNanoseconds()
        if switches == 1 { firstSwitch = now }
        // Consecutive compactions and repairs do not make an operation fail, on a busy machine neither.
        guard switches < 8 || now &- firstSwitch < 10_000_000_000 else {
          throw StoreError(
            .damaged, during: "use", path: directory.path,
            "The store switched generations \(switches) times in a row. Check the disk.")
        }
        generation = try switchGeneration(from: generation)
      }
    }
  }

  /// Fences the generation because of an LMDB error about its file; a durable store throws the
  /// error.
  func fence(_ generation: Generation, because error: any Error) throws -> Never {
    if options.durability.survivesSystemCrash {
      throw StoreError(wrapping: error, during: "use", path: directory.path)
    }
    if options.readsOnly {
      let cause = (error as? LMDBError)?.cause ?? "\(error)"
      throw StoreError.unchanged("data.mdb is damaged: \(cause)", path: directory.path)
    }
    generation.table.fence()
    throw EngineSignal.generationChanged
  }

  // MARK: Closing

  /// Commits the queued writes, ends the store's threads, and closes the files.
  func shutDown() {
    if ForkGuard.isForkedChild { return }
    // This includes writes of callers that do not wait in a thread.
    commitQueue()
    isShuttingDown.store(true, ordering: .releasing)
    worker.stop()
    completions.stop(self)
    watcher.stop()
    (try? generation()).flatMap(QuietView.of)?.stopWatching()
    // The thread may sleep for seconds, and keep the files mapped.
    (try? generation())?.table.advanceWakeWord()
    syncer.stop()
    let generation = current.withLock { current in
      defer { current = nil }
      return current
    }
    // A switch that has begun closes what it opens, or has left the old generation open.
    switching.withLock { $0 }?.awaitEnd(after: options.openTimeout * 3)
    generation?.close(gateTimeout: options.openTimeout)
    // Requests that were queued too late fail now, so no caller waits for a closed store.
    leadIfNeeded()
  }

  /// Commits the queued writes before the store closes. Only another process, or a closure that does not return, makes
  /// them wait in vain: a slow disk ends in time.
  func commitQueue() {
    while queue.isBusy {
      do throws(StoreError) {
        _ = try submit(WriteRequest(.barrier))
        return
      } catch {
        guard error.code == .writerStalled || error.code == .outcomeUnknown, case .disk = stall()
        else { return }
      }
    }
  }

  /// The number of queued writes of all callers, waiting or not.
  package var queuedWrites: Int { queue.state.withLock { $0.count } }

  /// Waits until every write queued so far is committed or has failed.
  package func flush() throws(StoreError) {
    guard !queue.pending.isEmpty else {
      _ = try generation()
      return
    }
    _ = try submit(WriteRequest(.barrier))
  }
}
