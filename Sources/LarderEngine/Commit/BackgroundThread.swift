// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A thread of a store. It starts when it is first needed, and sleeps until it is woken or its
/// timeout passes.
final class BackgroundThread: Sendable {
  private let hasStopped = Mutex(false)
  private let work = Event()
  private let ended = Event()
  private let isRunning = Atomic<Bool>(false)
  private let state = Atomic<UInt8>(asleep)
  private static let asleep: UInt8 = 0
  /// Sleeps for a short time, and looks for patient work then.
  private static let lingering: UInt8 = 1
  private static let awake: UInt8 = 2
  private let token = Atomic<UInt64>(0)

  var hasStarted: Bool { isRunning.load(ordering: .acquiring) }
  /// Whether the calling thread is this one.
  var isCurrent: Bool { token.load(ordering: .relaxed) == OSThread.token }
  var isStopped: Bool { hasStopped.withLock { $0 } }

  /// Starts the thread once, and never after ``stop()``. If the system cannot create a thread, a
  /// later call may try again.
  ///
  /// - Parameters:
  ///   - pause: The nanoseconds until the first turn, unless the thread is woken.
  ///   - turn: A closure that does pending work, and runs once more after the thread was stopped.
  ///     It returns the nanoseconds until the next turn.
  /// - Throws: `SystemError` if the system cannot create a thread.
  func start(
    after pause: UInt64 = 0, _ turn: @escaping @Sendable () -> UInt64
  ) throws(SystemError) {
    if hasStarted { return }
    let mustStart = hasStopped.withLock { hasStopped in
      !hasStopped && !isRunning.exchange(true, ordering: .acquiringAndReleasing)
    }
    guard mustStart else { return }
    do {
      try OSThread.start { [self] in
        token.store(OSThread.token, ordering: .relaxed)
        var pause = pause
        repeat {
          work.wait(nanoseconds: pause)
          work.reset()
          pause = turn()
        } while !isStopped
        ended.set()
      }
    } catch {
      isRunning.store(false, ordering: .releasing)
      throw error
    }
  }

  /// Wakes the thread unless it is about to run. Costs one system call per idle period.
  ///
  /// - Parameter isPatient: Whether the work may wait while the thread lingers.
  func wake(isPatient: Bool = false) {
    let present = state.load(ordering: .relaxed)
    if present == Self.awake || isPatient && present == Self.lingering { return }
    let old = state.exchange(Self.awake, ordering: .acquiringAndReleasing)
    if old != Self.awake { wakeAnyway() }
  }

  func wakeAnyway() { work.set() }

  /// Makes later calls of ``wake(isPatient:)`` wake the thread. The thread calls this before its last check
  /// for work.
  ///
  /// - Parameter isShort: Whether patient work waits for the next turn, which comes soon.
  func rest(isShort: Bool = false) {
    state.store(isShort ? Self.lingering : Self.asleep, ordering: .sequentiallyConsistent)
  }

  /// Ends the thread and waits for its end. On the thread itself it does not wait: the thread ends
  /// when the current turn returns.
  ///
  /// - Parameter waits: Whether to wait for its end.
  func stop(waits: Bool = true) {
    let mustWait = hasStopped.withLock { hasStopped in
      defer { hasStopped = true }
      return hasStarted && !hasStopped
    }
    guard mustWait else { return }
    wakeAnyway()
    if !waits || token.load(ordering: .relaxed) == OSThread.token { return }
    // The wait is bounded: the thread may wait for a stopped writer of another process.
    ended.wait(nanoseconds: 5_000_000_000)
  }
}
