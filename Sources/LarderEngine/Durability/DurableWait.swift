// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The wait for the disk that follows a commit to a durable store, with no lock held.
///
/// A thread that has committed transfers leadership before it waits, so that the next transaction of the
/// process is committed meanwhile, and several share a sync. The generation stays open until the wait has ended.
final class DurableWait: Sendable {
  private let generation: Generation
  private let commitVersion: UInt64

  /// Creates the wait of a transaction that was committed. The caller has the process writer lock: the generation
  /// is open.
  init(for commitVersion: UInt64, in generation: Generation) {
    self.generation = generation
    self.commitVersion = commitVersion
    generation.durableWaits.add(1, ordering: .sequentiallyConsistent)
  }

  /// Creates the wait for a commit of any process.
  ///
  /// - Throws: `EngineSignal.generationChanged` if the generation is closed.
  init(ofAny commitVersion: UInt64, in generation: Generation) throws {
    self.generation = generation
    self.commitVersion = commitVersion
    generation.durableWaits.add(1, ordering: .sequentiallyConsistent)
    // Closing looks at the number after it has set this.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if generation.isClosing { throw EngineSignal.generationChanged }
  }

  deinit { generation.durableWaits.subtract(1, ordering: .sequentiallyConsistent) }

  /// Waits until the transaction is on the disk.
  ///
  /// - Throws: ``StoreError/Code/outcomeUnknown`` only: the changes are visible.
  func end(_ core: StoreCore) throws(StoreError) {
    guard let log = generation.log else { return }
    do {
      try withExtendedLifetime(self) { try log.waitUntilDurable(commitVersion, in: generation) }
    } catch {
      throw .committedUnsynced(error, path: core.directory.path)
    }
  }
}

extension Generation {
  /// Whether a commit is on the disk when its call returns.
  var waitsForDisk: Bool { meta.durability.syncsEachCommit }

  /// Waits for the threads that wait for the disk, for a second at most.
  func awaitDurableWaits() -> Bool {
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    let deadline = Clocks.monotonicNanoseconds() + 1_000_000_000
    while durableWaits.load(ordering: .acquiring) > 0 {
      if Clocks.monotonicNanoseconds() > deadline { return false }
      Event().wait(nanoseconds: 100_000)
    }
    return true
  }
}

extension StoreError {
  /// Returns the error of a commit that is visible, and perhaps not on the disk.
  fileprivate static func committedUnsynced(_ error: any Error, path: String) -> StoreError {
    if let error = error as? StoreError, error.code == .outcomeUnknown { return error }
    let cause = StoreError(wrapping: error, during: "commit", path: path)
    return StoreError(
      .outcomeUnknown, during: "commit", path: path,
      "The commit is visible, and it is not known whether it is on the disk: \(cause.message)",
      errorNumber: cause.errorNumber)
  }
}

/// The thread that completes the requests of asynchronous callers once their transactions are on the disk. The store's
/// thread runs the next closure meanwhile.
final class DurableCompletions: Sendable {
  private typealias Held = (request: WriteRequest, wait: DurableWait)

  private let thread = BackgroundThread()
  private let held = Mutex<[Held]>([])

  /// Completes a request when its wait has ended.
  func add(_ request: WriteRequest, _ wait: DurableWait, _ core: StoreCore) {
    held.withLock { $0.append((request, wait)) }
    do {
      // Strong: `stop()` ends the thread before the core is released.
      try thread.start { [self, core] in
        thread.rest()
        completeAll(core)
        return .max / 4
      }
    } catch {
      core.report(StoreError(error, during: "start the thread of commits"))
    }
    if thread.hasStarted, !thread.isStopped { thread.wake() } else { completeAll(core) }
  }

  /// Ends the thread, and completes all requests.
  func stop(_ core: StoreCore) {
    thread.stop()
    // Its last turn may have been over before the last request came.
    completeAll(core)
  }

  private func completeAll(_ core: StoreCore) {
    while true {
      var batch = held.withLock { held in
        defer { held = [] }
        return held
      }
      if batch.isEmpty { return }
      // The wait for the last one ends those for the others.
      for (request, wait) in batch.reversed() {
        var result = WriteRequest.Result.done(commitVersion: 0, changed: true)
        do throws(StoreError) { try wait.end(core) } catch { result = .failed(error) }
        request.finish(result)
      }
      let requests = batch.map(\.request)
      // The callers may run on this thread, and close the store.
      batch = []
      for request in requests { request.announce() }
    }
  }
}
