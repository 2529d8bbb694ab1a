// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A thread of a store: started when it is first needed, asleep until it is woken or its time is up.
final class BackgroundThread: Sendable {
  private let hasStopped = Mutex(false)
  private let work = Event()
  private let ended = Event()
  private let isRunning = Atomic<Bool>(false)
  private let isAwake = Atomic<Bool>(false)
  private let token = Atomic<UInt64>(0)

  var hasStarted: Bool { isRunning.load(ordering: .acquiring) }
  /// Whether the calling thread is this one.
  var isCurrent: Bool { token.load(ordering: .relaxed) == OSThread.token }
  var isStopped: Bool { hasStopped.withLock { $0 } }

  /// Starts the thread, once; after ``stop()`` never. If the system gives none, it may be tried again.
  ///
  /// - Parameters:
  ///   - pause: The nanoseconds until the first look, unless it is woken.
  ///   - turn: Looks what there is to do, also once after it was stopped; gives the nanoseconds until
  ///     the next look.
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

  /// Makes the thread look, if it is not about to. One system call an idle period, not one a call.
  func wake() {
    guard !isAwake.load(ordering: .relaxed) else { return }
    if !isAwake.exchange(true, ordering: .acquiringAndReleasing) { wakeAnyway() }
  }

  func wakeAnyway() { work.set() }

  /// From here on ``wake()`` wakes: for the thread itself, before it looks for the last time.
  func rest() { isAwake.store(false, ordering: .sequentiallyConsistent) }

  /// Ends the thread, and waits for it unless called on it: it ends when that returns.
  func stop() {
    let mustWait = hasStopped.withLock { hasStopped in
      defer { hasStopped = true }
      return hasStarted && !hasStopped
    }
    guard mustWait else { return }
    wakeAnyway()
    if token.load(ordering: .relaxed) == OSThread.token { return }
    // A thread that waits for a stopped writer of another process cannot be waited for.
    ended.wait(nanoseconds: 5_000_000_000)
  }
}
