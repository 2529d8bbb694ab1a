// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// OPENING AND CLOSING IN ONE PROCESS
//
// There is one core for each store and process, however often and by whatever path it is opened.
// Opening and closing wait for other processes, for queued writes and for the disk, so neither
// happens under the registry's lock. Instead, the registry's entry records that the store is being
// opened or closed, and an opener of the same store waits for the end of that for at most
// `openTimeout`. Openers of other stores do not wait.
//
// Closing waits for certain threads: the store's own thread, the commit leader, and a thread inside
// a read. If one of them releases the last handle, another thread closes the store.

extension StoreCore {
  private enum Registered {
    case opening(StoreDirectory, ended: Event)
    case open(StoreCore, handles: Int)
    case closing(StoreCore, ended: Event)

    var directory: StoreDirectory {
      switch self {
      case .opening(let directory, _): directory
      case .open(let core, _), .closing(let core, _): core.directory
      }
    }
  }

  private static let registry = Mutex<[FileIdentityKey: Registered]>([:])
  private static let exitHandler: Void = atProcessExit { StoreCore.flushAll() }

  /// Opens a store, or returns the open core of this process.
  ///
  /// - Throws: ``StoreError``.
  package static func open(
    at path: String, options: StoreOptions
  ) throws(StoreError) -> StoreCore {
    ForkGuard.activate()
    if ForkGuard.isForkedChild { throw .usedAfterFork("open") }
    try requireValid(
      budget: options.budget, entryBudget: options.entryBudget, during: "open", path: path)
    #if canImport(Darwin)
    guard options.allowNonRobustLocks else {
      throw StoreError(
        .invalidOption, during: "open", path: path,
        "LMDB's locks are not robust on this system: after a writer is killed, all other writers "
          + "would wait forever. Set allowNonRobustLocks for development; use Linux in "
          + "production.")
    }
    #endif
    _ = exitHandler
    let directory = try StoreDirectory.prepare(
      path, durability: options.durability, isWritten: !options.readsOnly)
    let core = try find(directory, options)
    do {
      if options.durability.survivesSystemCrash, try core.generation().hasForeignFiles {
        throw StoreError.filesRemoved(during: "open", path: path)
      }
      try core.verifyAfterDeaths()
      try core.watchQuietView()
      if options.durability == .relaxed, !options.readsOnly { try core.syncer.start(core) }
      try core.applyLimits(of: options)
      if let interval = options.syncInterval { try core.setSyncInterval(interval) }
    } catch {
      core.release()
      throw StoreError(wrapping: error, during: "open", path: path)
    }
    return core
  }

  private enum Step {
    case found(StoreCore)
    case wait(Event)
    case open(FileIdentityKey, ended: Event)
    case differs(Durability)
  }

  /// Returns the core of a directory, and opens it if this process does not have it open.
  private static func find(
    _ directory: StoreDirectory, _ options: StoreOptions
  ) throws(StoreError) -> StoreCore {
    let deadline = Clocks.deadline(after: options.openTimeout)
    while true {
      let (identity, root) = try identity(of: directory)
      switch step(directory, options.durability, identity) {
      case .found(let core): return core
      // The caller would get a different durability than it requested.
      case .differs(let found):
        throw StoreDirectory.mismatch(directory.path, wanted: options.durability, found: found)
      case .open(let identity, let ended):
        return try openCore(directory, options, (identity, root), ended)
      case .wait(let event):
        let now = Clocks.monotonicNanoseconds()
        guard now < deadline, event.wait(nanoseconds: deadline - now) else {
          // The other thread may wait for another process.
          if let holder = OpenLock.holder(of: directory), holder != ProcessIdentity.pid {
            throw OpenLock.timedOut(directory, after: options.openTimeout)
          }
          throw StoreError(
            .openTimeout, during: "open", path: directory.path,
            "Another thread of this process (\(ProcessIdentity.pid)) did not finish opening or "
              + "closing the store within \(options.openTimeout). Open it again later.",
            pid: ProcessIdentity.pid)
        }
      }
    }
  }

  /// Returns the identity of a root directory, and the open directory: while it is open, no other
  /// directory gets its inode number, even if it is deleted.
  private static func identity(
    of directory: StoreDirectory
  ) throws(StoreError) -> (FileIdentityKey, OwnedFile) {
    do throws(SystemError) {
      // The root of a durable store is a link to a descriptor.
      let root = try OwnedFile(path: directory.root + "/.", writable: false)
      let identity = try root.status.identity
      return (FileIdentityKey(device: identity.device, inode: identity.inode), root)
    } catch {
      guard error.isNoSuchFile else {
        throw StoreError(error, during: "open", path: directory.root)
      }
      throw StoreError(
        .directory, during: "open", path: directory.root,
        "The directory was deleted while the store was being opened. Open it again.")
    }
  }

  private static func step(
    _ directory: StoreDirectory, _ durability: Durability, _ identity: FileIdentityKey
  ) -> Step {
    registry.withLock { registry in
      // The directory was deleted and created again: the open store switches to it.
      let known =
        registry[identity] != nil
        ? identity : registry.first { $0.value.directory == directory }?.key
      guard let known, let registered = registry[known] else {
        let ended = Event()
        registry[identity] = .opening(directory, ended: ended)
        return .open(identity, ended: ended)
      }
      switch registered {
      case .open(let core, let handles):
        guard core.options.durability == durability else {
          return .differs(core.options.durability)
        }
        registry[known] = .open(core, handles: handles + 1)
        return .found(core)
      case .opening(_, let ended), .closing(_, let ended): return .wait(ended)
      }
    }
  }

  private static func openCore(
    _ directory: StoreDirectory, _ options: StoreOptions,
    _ root: (identity: FileIdentityKey, directory: OwnedFile), _ ended: Event
  ) throws(StoreError) -> StoreCore {
    let notices = DeferredCallbacks(options)
    // Delivered once the store is open, because a callback may use it.
    notices.hold()
    let outcome: Result<StoreCore, StoreError>
    do throws(StoreError) {
      let core = try StoreCore(
        directory: directory, root, options: options, notices: notices)
      registry.withLock { $0[root.identity] = .open(core, handles: 1) }
      outcome = .success(core)
    } catch {
      registry.withLock { $0[root.identity] = nil }
      outcome = .failure(error)
    }
    ended.set()
    notices.endHold()
    notices.deliver()
    return try outcome.get()
  }

  /// Returns the open stores of which a thread is inside a user's transaction.
  static func coresInTransaction(on thread: UInt64) -> [StoreCore] {
    registry.withLock { registry in
      registry.values.compactMap { registered in
        switch registered {
        case .opening: nil
        case .open(let core, _), .closing(let core, _):
          core.bodyThread.load(ordering: .relaxed) == thread ? core : nil
        }
      }
    }
  }

  // MARK: Closing

  /// Releases a handle; the last one closes the store.
  package func release() {
    if ForkGuard.isForkedChild { return }
    let ended = Event()
    let isLast = StoreCore.registry.withLock { registry in
      guard case .open(let core, let handles)? = registry[identity], core === self else {
        return false
      }
      registry[identity] =
        handles > 1 ? .open(core, handles: handles - 1) : .closing(core, ended: ended)
      return handles <= 1
    }
    guard isLast else { return }
    if canCloseOnCurrentThread { return close(ended) }
    do throws(SystemError) {
      try OSThread.start { self.close(ended) }
    } catch {
      // The store stays open for the next opener, or until the process exits and commits the rest.
      StoreCore.registry.withLock { $0[identity] = .open(self, handles: 0) }
      ended.set()
      report(StoreError(error, during: "close", path: directory.path))
    }
  }

  /// Whether closing the store on this thread does not wait for this thread itself.
  private var canCloseOnCurrentThread: Bool {
    let token = OSThread.token
    return leader.load(ordering: .relaxed) != token && bodyThread.load(ordering: .relaxed) != token
      && !worker.isCurrentThread && !DeadlineTimer.shared.isCurrentThread
      && (try? generation())?.isReadingOnCurrentThread != true
  }

  private func close(_ ended: Event) {
    notices.hold()
    shutDown()
    // The next opener requires that the environment is closed.
    StoreCore.registry.withLock { $0[identity] = nil }
    ended.set()
    notices.endHold()
    deliverNotices()
  }

  /// Commits the queued writes at an orderly exit, and syncs a relaxed store to the disk. The
  /// kernel closes the files.
  private static func flushAll() {
    if ForkGuard.isForkedChild { return }
    for registered in registry.withLock({ Array($0.values) }) {
      switch registered {
      case .opening: break
      case .open(let core, _) where core.options.readsOnly: break
      case .open(let core, _) where core.bodyThread.load(ordering: .relaxed) != OSThread.token:
        core.commitQueue()
        try? core.synchronize()
      case .closing(let core, let ended) where core.canCloseOnCurrentThread:
        ended.wait(nanoseconds: core.options.writeTimeout.nanoseconds)
      case .open, .closing: break
      }
    }
  }
}
