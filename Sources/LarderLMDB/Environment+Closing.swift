// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

extension Environment {
  /// Closes the environment after the transactions of other threads have ended.
  ///
  /// Later calls on the environment throw ``LMDBError/Code/closed``. A second call has no effect.
  /// The last process to close the environment waits until all commits are on disk.
  ///
  /// - Throws: ``LMDBError/Code/insideTransaction`` inside a transaction of this environment;
  ///   ``LMDBError/Code/writerStalled`` if another thread's transaction does not end within
  ///   ``EnvironmentOptions/writeTimeout``;
  ///   ``LMDBError/Code/openTimeout`` if another process holds the open lock too long. After an
  ///   error the environment stays open.
  public func close() throws(LMDBError) {
    if ForkGuard.isForkedChild { throw LMDBError(.usedAfterFork, during: "close \(path)") }
    guard !isWriting, !pool.isHeldByCurrentThread else {
      throw LMDBError(.insideTransaction, during: "close \(path)")
    }
    while true {
      let (began, found) = state.compareExchange(
        expected: .open, desired: .closing, ordering: .sequentiallyConsistent)
      if began { break }
      if found == .closed { return }
      OSThread.yield()
    }
    // Wait before acquiring the open lock: other processes must not wait for a long write of this
    // one.
    let pause = Event()
    let deadline = Clocks.deadline(after: options.writeTimeout)
    do throws(LMDBError) {
      while users.load(ordering: .sequentiallyConsistent) > 0 {
        if Clocks.monotonicNanoseconds() >= deadline { throw stalled("close") }
        pause.wait(nanoseconds: 200_000)
      }
      guard pool.close(until: deadline) else {
        throw LMDBError(
          .writerStalled,
          during: "close \(path) (process \(ProcessIdentity.pid) is inside a read)",
          pid: ProcessIdentity.pid)
      }
      try gate.reacquire(path, timeout: options.openTimeout)
    } catch {
      pool.reopen()
      state.store(.open, ordering: .sequentiallyConsistent)
      throw error
    }
    closeInGate()
    gate.leave()
  }

  private func closeInGate() {
    tables.withLock { $0 = [:] }
    // After a failed sync, the record does not mark the file closed, so the next boot verifies it.
    if (try? gate.isAlone()) == true,
      options.durability == .everyCommit || (try? handle.synchronize()) != nil,
      var record = (try? gate.record()) ?? nil
    {
      record.flags.insert(.closed)
      let size = FileSystem.status(ofDescriptor: handle.dataDescriptor)?.size ?? 0
      record.dataBytes = max(record.dataBytes, UInt64(size))
      try? gate.write(record, synchronously: record.flags.contains(.onDemand))
    }
    handle.close()
    gate.unlockAll()
    state.store(.closed, ordering: .sequentiallyConsistent)
  }

  func closeWithLastReference() {
    if ForkGuard.isForkedChild || state.load(ordering: .relaxed) == .closed { return }
    do throws(LMDBError) {
      try close()
    } catch {
      // The file must not be opened twice in a process: the next holder of the open lock closes it.
      DeferredEnvironmentCloses.add(handle, gate)
    }
  }
}

/// Environments whose last reference was released while another process held the open lock.
enum DeferredEnvironmentCloses {
  private static let all = Mutex<[(handle: EnvironmentHandle, gate: EnvironmentOpenLock)]>([])

  static func add(_ handle: EnvironmentHandle, _ gate: EnvironmentOpenLock) {
    all.withLock { $0.append((handle, gate)) }
  }

  static func contains(_ identity: FileIdentity) -> Bool {
    all.withLock { $0.contains { $0.handle.identity == identity } }
  }

  /// Closes the deferred environment with `identity`. The caller holds the open lock.
  static func close(_ identity: FileIdentity) {
    let found = all.withLock { all in
      let found = all.filter { $0.handle.identity == identity }
      all.removeAll { $0.handle.identity == identity }
      return found
    }
    for (handle, gate) in found {
      handle.close()
      gate.unlockAll()
    }
  }
}
