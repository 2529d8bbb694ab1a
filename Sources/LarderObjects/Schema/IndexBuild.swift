// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderSystem
internal import Synchronization

// BUILDING INDEXES IN THE BACKGROUND
//
// The first use of a type in a process compares its declared indexes with the catalog. If one is
// missing or incomplete, a thread of `BackgroundExecutor` builds it, in steps:
//
//   1. A snapshot: the record of the type, and the next objects behind `builtTo`.
//   2. No snapshot, no lock: the objects are decoded, and their keys made. This is the user's code.
//   3. A transaction: if `builtTo` is where it was in 1, the keys are stored and `builtTo` advances.
//      Objects that were saved since 1 have their keys: the index was declared before 1. An import that
//      stored some without (`deferrals`) makes the step void.
//
// A step that does not find `builtTo` where it was is dropped, so any number of processes may build;
// a lock that the kernel releases with its holder keeps all but one from doing so. If the holder makes
// no progress, because it is stopped, another process builds without the lock. Queries use an index
// only when `builtTo` is gone.

/// The build of one type's indexes in this process.
final class IndexBuild: Sendable {
  /// How far the build is.
  struct Stand: Sendable, Hashable {
    let index: String
    let builtTo: UInt64
    let done: Int
    let total: Int
    /// The process that made the last step, if the catalog has one.
    let builder: Int32?
  }

  private struct State {
    var isRunning = false
    var stand: Stand?
    var since: UInt64 = 0
    var failure: (any Error)?
    var waiters: [Event] = []
  }

  /// A builder that makes no step for so long is taken for a stopped one.
  private static let stallNanoseconds: UInt64 = 2_000_000_000

  private let state = Mutex(State())

  /// Why the last build of this process ended early; `nil` while none did.
  var failure: (any Error)? { state.withLock { $0.failure } }

  /// How far the build was when this process last saw it.
  var stand: Stand? { state.withLock { $0.stand } }

  /// Makes the caller the one that runs the build in this process.
  ///
  /// - Parameter again: Whether a build that failed is tried again.
  /// - Returns: `false` if a build runs, or failed.
  func begin(again: Bool) -> Bool {
    state.withLock { state in
      if state.isRunning || (state.failure != nil && !again) { return false }
      state.isRunning = true
      state.failure = nil
      state.since = Clocks.monotonicNanoseconds()
      return true
    }
  }

  /// Ends the build.
  ///
  /// - Returns: Whether a caller waits for the build, and so receives the error.
  func end(_ failure: (any Error)?) -> Bool {
    let waiters = state.withLock { state in
      state.isRunning = false
      state.failure = failure
      return state.waiters
    }
    for event in waiters { event.set() }
    return !waiters.isEmpty
  }

  /// Records how far the build is.
  ///
  /// - Returns: Whether the build has made no step for so long that its builder counts as stopped.
  func note(_ stand: Stand) -> Bool {
    let now = Clocks.monotonicNanoseconds()
    let (isStalled, waiters) = state.withLock { state -> (Bool, [Event]) in
      guard state.stand != stand else {
        return (now &- state.since > Self.stallNanoseconds, [])
      }
      state.stand = stand
      state.since = now
      return (false, state.waiters)
    }
    for event in waiters { event.set() }
    return isStalled
  }

  /// Whether a caller waits for the build.
  var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

  /// Waits for the end of the build that runs, if one does.
  ///
  /// - Parameters:
  ///   - limit: The longest wait; `nil`: as long as the build makes steps.
  ///   - progress: Called on this thread with what was reached.
  ///   - expired: The error of a wait that is over.
  func wait(
    within limit: Duration?, _ progress: (Stand) -> Void, expired: (Stand?) -> any Error
  ) throws {
    let event = Event()
    state.withLock { $0.waiters.append(event) }
    defer { state.withLock { $0.waiters.removeAll { $0 === event } } }
    let start = Clocks.monotonicNanoseconds()
    var seen: Stand?
    while true {
      let (isRunning, stand, failure) = state.withLock { ($0.isRunning, $0.stand, $0.failure) }
      if let stand, stand != seen {
        seen = stand
        progress(stand)
      }
      guard isRunning else {
        if let failure { throw failure }
        return
      }
      try Task.checkCancellation()
      let waited = Clocks.monotonicNanoseconds() &- start
      if let limit, waited >= limit.nanoseconds { throw expired(stand) }
      let left = limit.map { $0.nanoseconds &- waited } ?? .max
      event.wait(nanoseconds: Swift.min(left, 100_000_000))
      event.reset()
    }
  }
}

extension ObjectTypeDescriptor {
  /// Builds the indexes of a record in the background if the program declares one that is missing or
  /// incomplete.
  func buildIfNeeded(_ record: ObjectTypeRecord) {
    if record.version == version, record.migration == nil, record.movedTo == nil,
      isUnbuilt(record)
    {
      startBuild()
    }
  }

  /// Whether a declared index is missing or incomplete.
  func isUnbuilt(_ record: ObjectTypeRecord) -> Bool {
    if let references = record.references, references.builtTo != nil { return true }
    return declared.contains { index in
      guard let stored = record.indexes.first(where: { index.isStored(as: $0) }) else {
        return true
      }
      return stored.builtTo != nil
    }
  }

  /// Starts the build unless one runs in this process.
  ///
  /// - Parameter again: Whether a build that failed is tried again.
  func startBuild(again: Bool = false) {
    guard build.begin(again: again) else { return }
    let (build, core, name) = (build, core, name)
    // Detached: the build belongs to no caller, and runs under none of a caller's task-local values.
    Task.detached(executorPreference: BackgroundExecutor.shared) { [weak self] in
      var builder = IndexBuilder()
      while true {
        // The type is held while a step runs only: a store that is released ends the build.
        guard let pause = self?.buildTurn(&builder) else { break }
        if pause > 0 { Event().wait(nanoseconds: pause) }
      }
      if builder.isLocked { core.unlockIndexBuild(of: name) }
      if !build.end(builder.failure), let failure = builder.failure { core.report(failure) }
    }
  }
}

/// What one run of a build keeps from step to step.
struct IndexBuilder {
  /// The error the run ended with.
  var failure: (any Error)?
  var isLocked = false
  /// Failures in a row that may pass.
  var retries: UInt64 = 0
  /// Unique indexes that stored objects contradict.
  var broken: Set<UInt32> = []
}
