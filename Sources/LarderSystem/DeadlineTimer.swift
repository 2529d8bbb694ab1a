// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

/// The thread of this process that ends waits at their deadlines.
///
/// It starts with the first deadline and sleeps until the earliest. A deadline that is later than
/// the one it sleeps for wakes no thread, so deadlines of one length cost a lock and a dictionary
/// entry.
package final class DeadlineTimer: Sendable {
  package static let shared = DeadlineTimer()

  private struct Entry {
    let deadline: UInt64
    let action: @Sendable () -> Void
  }

  private struct State {
    var entries: [UInt64: Entry] = [:]
    var last: UInt64 = 0
    /// The time of the thread's next check; `.max` while it sleeps without a limit.
    var wakesAt = UInt64.max
    var isRunning = false
  }

  private let state = Mutex(State())
  private let news = Event()
  private let token = Atomic<UInt64>(0)

  private init() {}

  /// Whether the calling thread is the timer's.
  package var isCurrentThread: Bool { token.load(ordering: .relaxed) == OSThread.token }

  /// Calls `action` once, on the timer's thread, unless it is cancelled before.
  ///
  /// - Parameter action: A closure that must not wait.
  /// - Returns: The identifier for ``cancel(_:)``.
  package func schedule(
    after nanoseconds: UInt64, _ action: @escaping @Sendable () -> Void
  ) -> UInt64 {
    let (sum, isEndless) = Clocks.monotonicNanoseconds().addingReportingOverflow(nanoseconds)
    let deadline = isEndless ? .max - 1 : sum
    let (id, mustWake, mustStart) = state.withLock { state in
      state.last += 1
      state.entries[state.last] = Entry(deadline: deadline, action: action)
      let isEarlier = deadline < state.wakesAt
      if isEarlier { state.wakesAt = deadline }
      defer { state.isRunning = true }
      return (state.last, isEarlier, !state.isRunning)
    }
    if mustStart {
      do throws(SystemError) { try OSThread.start { self.run() } } catch {
        // The next deadline tries again.
        state.withLock { $0.isRunning = false }
      }
    } else if mustWake {
      news.set()
    }
    return id
  }

  /// Removes a deadline. The action may be running, or have run.
  package func cancel(_ id: UInt64) {
    let entry = state.withLock { $0.entries.removeValue(forKey: id) }
    _ = consume entry
  }

  /// Suspends the task for a time, or until it is cancelled.
  ///
  /// `Task.sleep` of libdispatch needs a file descriptor and ends the process if there is none.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  package func sleep(nanoseconds: UInt64) async throws(CancellationError) {
    // The continuation and whether the task was cancelled before there was one.
    let waiter = Mutex<(continuation: CheckedContinuation<Void, Never>?, isOver: Bool)>(
      (nil, false))
    let end: @Sendable () -> Void = {
      let continuation = waiter.withLock { waiter in
        waiter.isOver = true
        return waiter.continuation.take()
      }
      continuation?.resume()
    }
    await withTaskCancellationHandler {
      let id = schedule(after: nanoseconds, end)
      await withCheckedContinuation { continuation in
        let isOver = waiter.withLock { waiter in
          if !waiter.isOver { waiter.continuation = continuation }
          return waiter.isOver
        }
        if isOver { continuation.resume() }
      }
      cancel(id)
    } onCancel: {
      end()
    }
    if Task.isCancelled { throw CancellationError() }
  }

  /// The number of deadlines, for tests.
  package var count: Int { state.withLock { $0.entries.count } }

  private func run() {
    token.store(OSThread.token, ordering: .relaxed)
    while true {
      let now = Clocks.monotonicNanoseconds()
      let (due, pause) = state.withLock { state -> ([Entry], UInt64?) in
        var due: [Entry] = []
        for (id, entry) in state.entries where entry.deadline <= now {
          due.append(entry)
          state.entries[id] = nil
        }
        let earliest = state.entries.values.lazy.map(\.deadline).min()
        state.wakesAt = earliest ?? .max
        // Deadlines that are close are met together.
        return (due, earliest.map { min(max($0 &- now, 1_000_000), 3_600_000_000_000) })
      }
      for entry in due { entry.action() }
      news.wait(nanoseconds: pause)
      news.reset()
    }
  }
}
