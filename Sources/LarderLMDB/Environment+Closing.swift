// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

extension Environment {
  /// Closes the environment, once the transactions that other threads are in have ended.
  ///
  /// What is used later throws ``LMDBError/Code/closed``. Closing again does nothing. A process that
  /// closes as the last one waits until everything is on the disk.
  ///
  /// - Throws: ``LMDBError/Code/insideTransaction`` inside one of its transactions;
  ///   ``LMDBError/Code/writerStalled`` when one of them does not end within
  ///   ``EnvironmentOptions/writeTimeout``;
  ///   ``LMDBError/Code/openTimeout`` when another process does not let the gate go. It stays open
  ///   then.
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
    // Before the gate: nobody else shall wait for a long write of this process.
    let pause = Event()
    let deadline = Clocks.deadline(after: options.writeTimeout)
    do throws(LMDBError) {
      while users.load(ordering: .sequentiallyConsistent) > 0 {
        if Clocks.monotonicNanoseconds() >= deadline { throw stalled("close") }
        pause.wait(nanoseconds: 200_000)
      }
      guard pool.close(until: deadline) else { throw stalled("close") }
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
    // Of a sync that failed the next boot learns: the record does not say "closed".
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
      // It must not be opened a second time while LMDB has it open: whoever opens it next closes it.
      DeferredEnvironmentCloses.add(handle, gate)
    }
  }
}

/// Environments whose last reference went while another process held up the gate.
enum DeferredEnvironmentCloses {
  private static let all = Mutex<[(handle: EnvironmentHandle, gate: EnvironmentOpenLock)]>([])

  static func add(_ handle: EnvironmentHandle, _ gate: EnvironmentOpenLock) {
    all.withLock { $0.append((handle, gate)) }
  }

  static func contains(_ identity: FileIdentity) -> Bool {
    all.withLock { $0.contains { $0.handle.identity == identity } }
  }

  /// Closes one, by whoever holds the gate.
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
