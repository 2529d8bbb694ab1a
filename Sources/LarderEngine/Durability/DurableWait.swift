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
  let commitVersion: UInt64

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
      try log.waitUntilDurable(commitVersion, in: generation)
    } catch {
      throw .committedUnsynced(error, path: core.directory.path)
    }
  }
}

extension Generation {
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

/// The requests of asynchronous callers that wait for the disk, and the store's thread with them: one sync for all.
struct HeldRequests {
  private var held: [(request: WriteRequest, wait: DurableWait)] = []
  private var since: UInt64 = 0

  /// More are not held back, nor longer.
  private static let limit = 64
  private static let nanoseconds: UInt64 = 1_000_000

  var isDue: Bool {
    !held.isEmpty
      && (held.count >= Self.limit || Clocks.monotonicNanoseconds() &- since > Self.nanoseconds)
  }

  mutating func hold(_ request: WriteRequest, _ wait: DurableWait) {
    if held.isEmpty { since = Clocks.monotonicNanoseconds() }
    held.append((request, wait))
  }

  /// Waits, and completes the requests.
  mutating func complete(_ core: StoreCore) {
    // The wait for the last one ends those for the others.
    for (request, wait) in held.reversed() {
      var result = WriteRequest.Result.done(commitVersion: 0, changed: true)
      do throws(StoreError) { try wait.end(core) } catch { result = .failed(error) }
      request.finish(result)
    }
    for (request, _) in held { request.announce() }
    held = []
  }
}
