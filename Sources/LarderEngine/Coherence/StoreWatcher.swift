// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// WAITING FOR CHANGES
//
// An observer has read its data in a snapshot with a commit version. It reads again when one of its
// stamp slots contains a newer commit version, from any process. Every writer advances the wake-up
// word in the shared-memory table after its commit. One thread of this process sleeps on that word,
// checks the slots of all observers, and wakes the observers whose slots changed. The word is only
// a hint: the slots decide. While a slot is ahead of its observer, the sleep lasts a tenth of a second.
// Otherwise it lasts long: the store's thread, which wakes once a second in any case, looks whether an
// observer has missed anything, as the commit of a writer that was killed before it advanced the word.
// So a lost wake-up costs about a second and never a change, and a process that waits wakes once a
// second.
//
// Slots are stamped before the commit; the word is advanced after it. So a slot that is ahead of
// the observer's version counts at once only if the word has changed since the observer read it.
// Otherwise the commit may still be in progress, or its writer may be dead, and the observer is
// woken only after the next sleep.

/// The thread of a store that waits for commits of other processes.
final class StoreWatcher: Sendable {
  struct Waiter: Sendable {
    let slots: [StampSlot]
    let generation: Generation
    let commitVersion: UInt64
    /// The value of the wake-up word before the observer read its data.
    let word: UInt32
    let since: UInt64
    let interest: ObserverConditions
    let resume: @Sendable () -> Void
  }

  private struct State {
    var waiters: [UInt64: Waiter] = [:]
    var next: UInt64 = 0
    var isStarted = false
    var isStopped = false
    /// The time of the store's clock until which the thread sleeps unless a process commits.
    var sleepEnd = Int64.min
  }

  private let state = Mutex(State())
  private let hasWaiters = Event()
  private static let turnNanoseconds: Int64 = 100_000_000
  private static let idleMilliseconds: Int64 = 10_000

  /// Adds an observer.
  ///
  /// - Returns: The identifier of the waiter, or `nil` if there is nothing to wait for. In that
  ///   case `resume` has been called.
  func add(
    _ core: StoreCore, _ slots: [StampSlot], _ snapshot: ObservedSnapshot,
    _ interest: ObserverConditions, resume: @escaping @Sendable () -> Void
  ) -> UInt64? {
    let waiter = Waiter(
      slots: slots, generation: snapshot.generation, commitVersion: snapshot.commitVersion,
      word: snapshot.word,
      since: Clocks.monotonicNanoseconds(), interest: interest, resume: resume)
    let (id, mustStart, mustWake): (UInt64?, Bool, Bool) = state.withLock { state in
      // Checked under the lock that adds the waiter: every later commit wakes the thread, which
      // finds the waiter.
      if state.isStopped || isReady(waiter, snapshot.generation, core) {
        return (nil, false, false)
      }
      state.next += 1
      state.waiters[state.next] = waiter
      defer { state.isStarted = true }
      return (state.next, !state.isStarted, waiter.interest.deadline < state.sleepEnd)
    }
    guard let id else {
      resume()
      return nil
    }
    if mustStart {
      core.watchFiles()
      do {
        try OSThread.start { [self, core] in run(core) }
      } catch {
        state.withLock { $0.isStarted = false }
        remove(id)
        core.report(StoreError(error, during: "start the watching thread"))
      }
    }
    hasWaiters.set()
    // The thread sleeps for longer than this observer's data is valid.
    if mustWake { snapshot.generation.table.advanceWakeWord() }
    return id
  }

  var count: Int { state.withLock { $0.waiters.count } }

  func remove(_ id: UInt64) {
    let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
    waiter?.resume()
  }

  func stop() {
    let waiters = state.withLock { state in
      state.isStopped = true
      defer { state.waiters = [:] }
      return Array(state.waiters.values)
    }
    hasWaiters.set()
    for waiter in waiters { waiter.resume() }
  }

  private func isReady(
    _ waiter: Waiter, _ generation: Generation, _ core: StoreCore
  ) -> Bool {
    let table = generation.table
    if generation !== waiter.generation || table.isFenced { return true }
    if waiter.interest.isOver() { return true }
    if waiter.interest.deadline != .max, waiter.interest.deadline <= core.now { return true }
    guard isBehind(waiter, table) else { return false }
    return table.wakeWord != waiter.word
      || Clocks.monotonicNanoseconds() &- waiter.since
        >= UInt64(StoreWatcher.turnNanoseconds)
  }

  /// Returns whether a slot of an observer, or the store of an observer without slots, contains a newer
  /// commit version than it has read.
  private func isBehind(_ waiter: Waiter, _ table: SharedTable) -> Bool {
    if waiter.slots.isEmpty { return table.lastStamped > waiter.commitVersion }
    return waiter.slots.contains {
      table.minimumValidReadVersion(slot: $0) > waiter.commitVersion
    }
  }

  /// Wakes the thread if an observer is ready.
  func repeatWakeUp(_ core: StoreCore) {
    guard let generation = try? core.generation() else { return }
    let ready = state.withLock { state in
      state.waiters.values.filter { isReady($0, generation, core) }.map(\.generation)
    }
    guard !ready.isEmpty else { return }
    generation.table.advanceWakeWord()
    // The thread may sleep on the word of an older generation.
    for older in ready where older !== generation { older.table.advanceWakeWord() }
  }

  private func run(_ core: StoreCore) {
    while true {
      hasWaiters.wait(nanoseconds: 60_000_000_000)
      hasWaiters.reset()
      while true {
        guard let generation = try? core.generation() else { return stop() }
        let word = generation.table.wakeWord
        let (ready, isEmpty, isStopped, pause): ([Waiter], Bool, Bool, Int64) = state.withLock {
          state in
          let ids = state.waiters.filter { isReady($0.value, generation, core) }.map(\.key)
          let ready = ids.compactMap { state.waiters.removeValue(forKey: $0) }
          let pause = longestPause(state, generation, core)
          state.sleepEnd = EntryHeader.deadline(of: pause / 1_000_000, from: core.now)
          return (ready, state.waiters.isEmpty, state.isStopped, pause)
        }
        for waiter in ready { waiter.resume() }
        if isStopped { return }
        if isEmpty { break }
        generation.table.sleep(whileWakeWordIs: word, nanoseconds: pause)
      }
    }
  }

  /// Returns the time in nanoseconds after which the observers are checked although no process commits.
  private func longestPause(_ state: State, _ generation: Generation, _ core: StoreCore) -> Int64 {
    if state.waiters.values.contains(where: { isBehind($0, generation.table) }) {
      return StoreWatcher.turnNanoseconds
    }
    let deadline = state.waiters.values.lazy.map(\.interest.deadline).min() ?? .max
    let left = deadline == .max ? Self.idleMilliseconds : max(deadline - core.now, 1)
    // An injected clock may advance at any time.
    let longest = deadline == .max || core.options.clock.isSystem ? Self.idleMilliseconds : 100
    return min(left, longest) * 1_000_000
  }
}

/// The snapshot that an observer has read, and the wake-up word from before that read.
package struct ObservedSnapshot: Sendable {
  package let generation: Generation
  package let commitVersion: UInt64
  let word: UInt32
}

/// The conditions other than a commit that end an observer's wait.
package struct ObserverConditions: Sendable {
  /// The expiration time of the observed data, by the store's clock.
  let deadline: Int64
  /// A closure that returns whether the observer's handle was closed.
  let isOver: @Sendable () -> Bool

  /// Creates conditions; by default the observed data never expires.
  package init(deadline: Int64 = .max, isOver: @escaping @Sendable () -> Bool) {
    self.deadline = deadline
    self.isOver = isOver
  }

  /// Creates conditions of a wait that ends at a time of the monotonic clock, also if the clock of the
  /// store stands still.
  init(
    until end: UInt64, deadline: Int64 = .max, _ core: StoreCore,
    isOver: @escaping @Sendable () -> Bool
  ) {
    let left = StoreCore.nanoseconds(until: end)
    let last = EntryHeader.deadline(of: Int64(clamping: left / 1_000_000 + 1), from: core.now)
    self.init(deadline: min(deadline, last)) {
      Clocks.monotonicNanoseconds() >= end || isOver()
    }
  }
}

extension StoreCore {
  /// The number of waiting observers.
  package var observerCount: Int { watcher.count }

  /// Returns the wake-up word. The caller reads it before it reads the data to observe.
  package func observationMark() throws -> UInt32 { try generation().table.wakeWord }

  /// Returns a snapshot description for ``change(of:after:_:)``.
  package func observed(_ generation: Generation, commitVersion: UInt64, mark: UInt32)
    -> ObservedSnapshot
  {
    ObservedSnapshot(generation: generation, commitVersion: commitVersion, word: mark)
  }

  /// Suspends until any process writes something newer than a snapshot in one of the slots, until
  /// the observed data expires, until the task is cancelled, or until the store is closed.
  package func change(
    of slots: [StampSlot], after snapshot: ObservedSnapshot, _ interest: ObserverConditions
  ) async {
    let pass = OnceCallback()
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        pass.arm { continuation.resume() }
        let id = watcher.add(self, slots, snapshot, interest) { pass.fire() }
        // Without an identifier, the watcher has called the closure already.
        if let id { pass.setOnCancel { [watcher] in watcher.remove(id) } }
      }
    } onCancel: {
      pass.cancel()
    }
  }
}

/// An action that runs once, for the first of several events, one of which may be a cancellation.
///
/// It drops its references after that, so objects that refer to it may be captured.
package final class OnceCallback: Sendable {
  private struct State {
    var action: (@Sendable () -> Void)?
    var onCancel: (@Sendable () -> Void)?
    var isCancelled = false
    var isFired = false
  }

  private let state = Mutex(State())

  package init() {}

  /// Sets the action, or runs it at once if ``fire()`` was called before.
  package func arm(_ action: @escaping @Sendable () -> Void) {
    let isFired = state.withLock { state in
      state.action = action
      return state.isFired
    }
    if isFired { fire() }
  }

  /// Runs the action once, and drops the cancellation action.
  package func fire() {
    let action = state.withLock { state in
      state.isFired = true
      // The cancellation handler captures objects that refer to this one.
      state.onCancel = nil
      defer { state.action = nil }
      return state.action
    }
    action?()
  }

  /// Sets the action that a cancellation runs, or runs it at once if the task has been cancelled.
  /// The first ``fire()`` drops it.
  package func setOnCancel(_ action: @escaping @Sendable () -> Void) {
    let isCancelled = state.withLock { state in
      guard !state.isFired else { return false }
      if !state.isCancelled { state.onCancel = action }
      return state.isCancelled
    }
    if isCancelled { action() }
  }

  /// Runs the cancellation action, or makes ``setOnCancel(_:)`` run it.
  package func cancel() {
    let action = state.withLock { state in
      state.isCancelled = true
      defer { state.onCancel = nil }
      return state.onCancel
    }
    action?()
  }
}
