// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// One core per store per process, however often and by whatever path it is opened.
extension StoreCore {
  private struct Registered {
    let core: StoreCore
    var handles: Int
  }

  private static let registry = Mutex<[FileIdentityKey: Registered]>([:])
  private static let exitHandler: Void = atProcessExit { StoreCore.flushAll() }

  /// Opens a store, or finds it open.
  package static func open(
    at path: String, options: StoreOptions
  ) throws(StoreError) -> StoreCore {
    ForkGuard.activate()
    if ForkGuard.isForkedChild { throw .usedAfterFork("open") }
    if let budget = options.budget,
      !(4096...GenerationBuilder.maximumBudget).contains(budget.bytes)
    {
      throw StoreError(
        .invalidOption, during: "open", path: path,
        "The budget is \(budget.bytes) bytes; it is from 4,096 bytes to 8 TiB. Pass a budget in this "
          + "range, or none.")
    }
    #if canImport(Darwin)
      guard options.allowNonRobustLocks else {
        throw StoreError(
          .invalidOption, during: "open", path: path,
          "On this system LMDB's locks outlive a killed writer, and all others would wait for ever. "
            + "Set allowNonRobustLocks for development; the promises hold on Linux.")
      }
    #endif
    _ = exitHandler
    let directory = try StoreDirectory.prepare(path, durability: options.durability)
    let notices = StoreNotices(options)
    notices.hold()
    let outcome: Result<StoreCore, StoreError> = registry.withLock { registry in
      do throws(StoreError) {
        let status: FileStatus?
        do throws(SystemError) {
          status = try FileSystem.status(of: directory.root)
        } catch {
          throw StoreError(error, during: "open", path: directory.root)
        }
        guard let status else {
          throw StoreError(
            .directory, during: "open", path: directory.root, "The directory disappeared.")
        }
        let identity = FileIdentityKey(
          device: status.identity.device, inode: status.identity.inode)
        if let core = try join(identity, options.durability, in: &registry) {
          return .success(core)
        }
        // Deleted and created again: another directory, which the open store moves to.
        if let (identity, _) = registry.first(where: { $0.value.core.directory == directory }),
          let core = try join(identity, options.durability, in: &registry)
        {
          return .success(core)
        }
        let core = try StoreCore(
          directory: directory, identity: identity, options: options, notices: notices)
        registry[identity] = Registered(core: core, handles: 1)
        return .success(core)
      } catch {
        return .failure(error)
      }
    }
    notices.endHold()
    notices.deliver()
    let core = try outcome.get()
    do {
      try core.verifyAfterDeaths()
      if options.durability == .relaxed { try core.syncer.start(core) }
      if let budget = options.budget { try core.setBudget(budget) }
      if let interval = options.syncInterval { try core.setSyncInterval(interval) }
    } catch {
      core.release()
      throw StoreError(wrapping: error, during: "open", path: path)
    }
    return core
  }

  /// Adds a handle to a store that this process has open.
  ///
  /// - Returns: The store, or `nil` if this process has not opened it.
  /// - Throws: ``StoreError/Code/durabilityMismatch`` if it is open with another durability level: the
  ///   caller would get other guarantees than those it asked for.
  private static func join(
    _ identity: FileIdentityKey, _ durability: Durability,
    in registry: inout [FileIdentityKey: Registered]
  ) throws(StoreError) -> StoreCore? {
    guard let core = registry[identity]?.core else { return nil }
    guard core.options.durability == durability else {
      throw StoreDirectory.mismatch(
        core.directory.path, wanted: durability, found: core.options.durability)
    }
    registry[identity]!.handles += 1
    return core
  }

  /// Gives a handle back; the last one closes the store.
  package func release() {
    if ForkGuard.isForkedChild { return }
    notices.hold()
    StoreCore.registry.withLock { registry in
      guard var registered = registry[identity], registered.core === self else { return }
      registered.handles -= 1
      if registered.handles > 0 {
        registry[identity] = registered
        return
      }
      registry[identity] = nil
      // Inside the lock: the next opener must find the environment closed.
      shutDown()
    }
    notices.endHold()
    deliverNotices()
  }

  /// An orderly exit commits what waits, and brings a relaxed store to the disk; it does not close, which the kernel does as well.
  private static func flushAll() {
    if ForkGuard.isForkedChild { return }
    let cores = registry.withLock { $0.values.map(\.core) }
    for core in cores where core.bodyThread.load(ordering: .relaxed) != OSThread.token {
      try? core.synchronize()
    }
  }
}
