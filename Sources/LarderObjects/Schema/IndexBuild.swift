// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// BUILDING INDEXES IN THE BACKGROUND
//
// The first use of a type in a process compares its declared indexes with the catalog. If one is
// missing or incomplete, a thread of `BackgroundExecutor` builds it, in steps:
//
//   1. A snapshot: the record of the type, and the next objects behind `builtTo`.
//   2. No snapshot, no lock: the objects are decoded, and their keys made. This is the user's code.
//   3. A transaction: if `builtTo` is where it was in 1, the keys are stored and `builtTo`
//      advances. Objects that were saved since 1 have their keys: the index was declared before 1.
//      An import that stored some without (`deferrals`) makes the step void.
//
// A step that finds `builtTo` changed is dropped, so any number of processes may build; a lock that
// the kernel releases at process exit prevents all but one from doing so. If the lock holder makes
// no progress, because it is stopped, another process builds without the lock. Queries use an index
// only when it is complete: it has no `builtTo`, and no object has a note for it.
//
// An object that cannot be decoded gets a note instead of keys, and the index is not complete. A process
// tries such objects of others once, in the order of their sequences, after all else; `prepare(_:)` makes it
// try again.
//
// A program of the same version that does not declare an index saves objects without its keys, and
// notes them (`UnindexedNotes.swift` of LarderObjectEngine). When no index of the program has a
// `builtTo`, the same steps run over the noted objects. An object that changed since 1 keeps its
// note, and is the input of a later step.

/// The build of one type's indexes in this process.
final class IndexBuild: Sendable {
  /// The progress of a build.
  struct Status: Sendable, Hashable {
    let index: String
    let builtTo: UInt64
    let done: Int
    let total: Int
    /// The process that made the last step, if the catalog contains one.
    let builder: Int32?
  }

  private struct State {
    var isRunning = false
    /// Whether a build was requested of the running one, which may have read the catalog before the requester's commit.
    var isRequestedAgain = false
    /// The indexes whose undecoded objects this process has tried to decode.
    var tried: Set<UInt32> = []
    var status: Status?
    var since: UInt64 = 0
    var failure: (any Error)?
    var waiters: [Event] = []
  }

  /// The time without a step after which a builder counts as stopped.
  private static let stallNanoseconds: UInt64 = 2_000_000_000

  private let state = Mutex(State())
  /// The number of calls of `prepare(_:)` that declare the type now; see `ReplacedIndexes.swift`.
  let declarations = Atomic<Int>(0)

  /// The error that ended the last build of this process, or `nil` if none did.
  var failure: (any Error)? { state.withLock { $0.failure } }

  /// The last progress that this process observed.
  var status: Status? { state.withLock { $0.status } }

  /// Claims the build for the caller within this process.
  ///
  /// - Parameter again: Whether to retry a build that failed. One that is running then runs once more, because it
  ///   may end with what it has read already.
  /// - Returns: `false` if a build is running or has failed.
  func begin(again: Bool) -> Bool {
    state.withLock { state in
      if state.isRunning, again { state.isRequestedAgain = true }
      if state.isRunning || (state.failure != nil && !again) { return false }
      if again { state.tried = [] }
      state.isRunning = true
      state.failure = nil
      state.since = Clocks.monotonicNanoseconds()
      return true
    }
  }

  /// Returns whether this process has tried the undecoded objects of an index.
  func hasTried(_ number: UInt32) -> Bool { state.withLock { $0.tried.contains(number) } }

  /// Notes the indexes whose undecoded objects this process has tried.
  func noteTried(_ numbers: Set<UInt32>) { state.withLock { $0.tried = numbers } }

  /// Ends the build, unless it was requested again.
  ///
  /// - Returns: Whether a caller waits for the build and so receives the error; `nil` if it has to run again.
  func end(_ failure: (any Error)?) -> Bool? {
    let waiters: [Event]? = state.withLock { state in
      if state.isRequestedAgain {
        state.isRequestedAgain = false
        state.tried = []
        state.since = Clocks.monotonicNanoseconds()
        return nil
      }
      state.isRunning = false
      state.failure = failure
      return state.waiters
    }
    guard let waiters else { return nil }
    for event in waiters { event.set() }
    return !waiters.isEmpty
  }

  /// Records the progress of the build.
  ///
  /// - Returns: Whether the build has made no step for so long that its builder counts as stopped.
  func note(_ status: Status) -> Bool {
    let now = Clocks.monotonicNanoseconds()
    let (isStalled, waiters) = state.withLock { state -> (Bool, [Event]) in
      guard state.status != status else {
        return (now &- state.since > Self.stallNanoseconds, [])
      }
      state.status = status
      state.since = now
      return (false, state.waiters)
    }
    for event in waiters { event.set() }
    return isStalled
  }

  /// Whether a caller waits for the build.
  var isAwaited: Bool { state.withLock { !$0.waiters.isEmpty } }

  /// Waits for the end of the running build, if there is one.
  ///
  /// - Parameters:
  ///   - limit: The longest wait, or `nil` to wait as long as the build makes steps.
  ///   - progress: Called on this thread with the progress.
  ///   - expired: Returns the error of a wait that timed out.
  func wait(
    within limit: Duration?, _ progress: (Status) -> Void, expired: (Status?) -> any Error
  ) throws {
    let event = Event()
    state.withLock { $0.waiters.append(event) }
    defer { state.withLock { $0.waiters.removeAll { $0 === event } } }
    let start = Clocks.monotonicNanoseconds()
    var seen: Status?
    while true {
      let (isRunning, status, failure) = state.withLock { ($0.isRunning, $0.status, $0.failure) }
      if let status, status != seen {
        seen = status
        progress(status)
      }
      guard isRunning else {
        if let failure { throw failure }
        return
      }
      try Task.checkCancellation()
      let waited = Clocks.monotonicNanoseconds() &- start
      if let limit, waited >= limit.nanoseconds { throw expired(status) }
      let left = limit.map { $0.nanoseconds &- waited } ?? .max
      event.wait(nanoseconds: Swift.min(left, 100_000_000))
      event.reset()
    }
  }
}

extension ObjectTypeDescriptor {
  /// Builds the indexes of a record in the background if a declared index is missing or incomplete.
  func buildIfNeeded(_ record: ObjectTypeRecord) {
    if record.version == version, record.migration == nil, record.movedTo == nil,
      isUnbuilt(record)
    {
      startBuild()
    }
  }

  /// Returns whether a declared index is missing or incomplete.
  func isUnbuilt(_ record: ObjectTypeRecord) -> Bool {
    if let references = record.references, isUnbuilt(references) { return true }
    return declared.contains { index in
      guard let stored = record.indexes.first(where: { index.isStored(as: $0) }) else {
        return !index.isReplaced(in: record)
      }
      return isUnbuilt(stored)
    }
  }

  /// Returns whether this process may be able to complete an index.
  private func isUnbuilt(_ index: ObjectTypeRecord.Index) -> Bool {
    !index.isBuilt || (!index.isComplete && !build.hasTried(index.number))
  }

  /// Returns the identifiers of the indexes whose keys this program computes.
  func buildable(_ record: ObjectTypeRecord) -> Set<UInt32> {
    Set(
      record.indexes.filter { stored in
        stored.name == ReferenceIndex.name || declared.contains { $0.isStored(as: stored) }
      }.map(\.number))
  }

  /// Starts the build unless one is running in this process.
  ///
  /// - Parameter again: Whether to retry a build that failed.
  func startBuild(again: Bool = false) {
    guard build.begin(again: again) else { return }
    let (build, core, name) = (build, core, name)
    // Detached: the build belongs to no caller and inherits no task-local values.
    Task.detached(executorPreference: BackgroundExecutor.shared) { [weak self] in
      while true {
        var builder = IndexBuilder()
        // Holds the descriptor only during a step: releasing the store ends the build.
        while let pause = self?.runBuildStep(&builder) {
          if pause > 0 { Event().wait(nanoseconds: pause) }
        }
        if builder.isLocked { core.unlockIndexBuild(of: name) }
        guard let isAwaited = build.end(builder.failure) else { continue }
        if !isAwaited, let failure = builder.failure { core.report(failure) }
        break
      }
    }
  }
}

/// The state of one build run between its steps.
struct IndexBuilder {
  /// The error that ended the run.
  var failure: (any Error)?
  var isLocked = false
  /// The number of consecutive transient failures.
  var retries: UInt64 = 0
  /// Unique indexes that stored objects violate.
  var broken: Set<UInt32> = []
  /// The last object that the run has tried to decode although another program could not.
  var triedTo: UInt64 = 0
}
