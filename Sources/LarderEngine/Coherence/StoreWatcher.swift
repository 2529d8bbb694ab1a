// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// WAITING FOR CHANGES
//
// Whoever observes something has looked at it in a snapshot, with a label, and wants to look again
// when a stamp slot of it says that something newer was written, by any process. The wake word in
// the shared table is advanced after every commit; one thread of this process sleeps on it, looks at
// the slots of all who wait, and wakes those it concerns. The word is a hint only: the slots decide,
// and the sleep is bounded, so that a lost wake-up costs a tenth of a second and never a change.
//
// Slots are stamped before the commit, the word is advanced after it. So a slot that is ahead of the
// label is believed at once only if the word has moved since the observer looked; otherwise the
// commit may still be under way, or its writer be dead, and the observer is let go only with the
// next turn.

/// The one thread of a store that waits for other processes' commits.
final class StoreWatcher: Sendable {
  struct Waiter: Sendable {
    let slots: [StampSlot]
    let generation: Generation
    let label: UInt64
    /// The wake word before the observer looked.
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
  }

  private let state = Mutex(State())
  private let hasWaiters = Event()
  private static let turnNanoseconds: Int64 = 100_000_000

  /// - Returns: `nil`: there is nothing to wait for any more, `resume` has been called.
  func add(
    _ core: StoreCore, _ slots: [StampSlot], _ snapshot: ObservedSnapshot,
    _ interest: ObserverConditions, resume: @escaping @Sendable () -> Void
  ) -> UInt64? {
    let waiter = Waiter(
      slots: slots, generation: snapshot.generation, label: snapshot.label, word: snapshot.word,
      since: Clocks.monotonicNanoseconds(), interest: interest, resume: resume)
    let (id, mustStart): (UInt64?, Bool) = state.withLock { state in
      // Checked after it can be found: what is committed from here on wakes the thread.
      if state.isStopped || isReady(waiter, snapshot.generation, core) { return (nil, false) }
      state.next += 1
      state.waiters[state.next] = waiter
      defer { state.isStarted = true }
      return (state.next, !state.isStarted)
    }
    guard let id else {
      resume()
      return nil
    }
    if mustStart {
      do {
        try OSThread.start { [self, core] in run(core) }
      } catch {
        state.withLock { $0.isStarted = false }
        remove(id)
        core.report(StoreError(error, during: "start the watching thread"))
      }
    }
    hasWaiters.set()
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
    guard
      waiter.slots.contains(where: { table.minimumValidReadVersion(slot: $0.index) > waiter.label })
    else {
      return false
    }
    return table.wakeWord != waiter.word
      || Clocks.monotonicNanoseconds() &- waiter.since
        >= UInt64(StoreWatcher.turnNanoseconds)
  }

  private func run(_ core: StoreCore) {
    while true {
      hasWaiters.wait(nanoseconds: 1_000_000_000)
      hasWaiters.reset()
      while true {
        guard let generation = try? core.generation() else { return stop() }
        let word = generation.table.wakeWord
        let (ready, isEmpty, isStopped, deadline): ([Waiter], Bool, Bool, Int64) = state.withLock {
          state in
          let ids = state.waiters.filter { isReady($0.value, generation, core) }.map(\.key)
          let ready = ids.compactMap { state.waiters.removeValue(forKey: $0) }
          let deadline = state.waiters.values.lazy.map(\.interest.deadline).min() ?? .max
          return (ready, state.waiters.isEmpty, state.isStopped, deadline)
        }
        for waiter in ready { waiter.resume() }
        if isStopped { return }
        if isEmpty { break }
        let turn = StoreWatcher.turnNanoseconds
        let left = deadline == .max ? turn : max(deadline - core.now, 1)
        generation.table.sleep(
          whileWakeWordIs: word, nanoseconds: left < 100 ? left * 1_000_000 : turn)
      }
    }
  }
}

/// What an observer has looked at, and when.
package struct ObservedSnapshot: Sendable {
  package let generation: Generation
  package let label: UInt64
  let word: UInt32
}

/// What else than a commit lets an observer look again.
package struct ObserverConditions: Sendable {
  /// When what was seen expires, by the store's clock.
  let deadline: Int64
  /// Whether the observer's own handle was closed.
  let isOver: @Sendable () -> Bool

  package init(deadline: Int64 = .max, isOver: @escaping @Sendable () -> Bool) {
    self.deadline = deadline
    self.isOver = isOver
  }
}

extension StoreCore {
  /// How many observers wait.
  package var observerCount: Int { watcher.count }

  /// The wake word, to be read before looking at what is observed.
  package func observationMark() throws -> UInt32 { try generation().table.wakeWord }

  package func observed(_ generation: Generation, label: UInt64, mark: UInt32) -> ObservedSnapshot {
    ObservedSnapshot(generation: generation, label: label, word: mark)
  }

  /// Returns when something newer than a snapshot was written in one of the slots, by any process;
  /// when what was seen expires; or when the task is cancelled or the store closed.
  package func change(
    of slots: [StampSlot], after snapshot: ObservedSnapshot, _ interest: ObserverConditions
  ) async {
    let pass = OnceCallback()
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        pass.arm { continuation.resume() }
        let id = watcher.add(self, slots, snapshot, interest) { pass.fire() }
        // Without an identifier it has been called already.
        if let id { pass.setOnCancel { [watcher] in watcher.remove(id) } }
      }
    } onCancel: {
      pass.cancel()
    }
  }
}

/// An action that runs once: for the first of several that may happen, a cancellation among them.
///
/// After that it refers to nothing, so that what refers to it may be captured.
package final class OnceCallback: Sendable {
  private struct State {
    var action: (@Sendable () -> Void)?
    var onCancel: (@Sendable () -> Void)?
    var isCancelled = false
    var isFired = false
  }

  private let state = Mutex(State())

  package init() {}

  package func arm(_ action: @escaping @Sendable () -> Void) {
    let isFired = state.withLock { state in
      state.action = action
      return state.isFired
    }
    if isFired { fire() }
  }

  package func fire() {
    let action = state.withLock { state in
      state.isFired = true
      // It refers to what refers to this object.
      state.onCancel = nil
      defer { state.action = nil }
      return state.action
    }
    action?()
  }

  /// Sets what a cancellation runs, or runs it at once if the task has been cancelled. Dropped with
  /// the first ``fire()``.
  package func setOnCancel(_ action: @escaping @Sendable () -> Void) {
    let isCancelled = state.withLock { state in
      guard !state.isFired else { return false }
      if !state.isCancelled { state.onCancel = action }
      return state.isCancelled
    }
    if isCancelled { action() }
  }

  package func cancel() {
    let action = state.withLock { state in
      state.isCancelled = true
      defer { state.onCancel = nil }
      return state.onCancel
    }
    action?()
  }
}
