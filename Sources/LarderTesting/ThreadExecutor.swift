// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
import Synchronization

// Laws are written once, as asynchronous functions, and must run where nobody waits for Swift's
// pool: from plain functions, and on several threads that truly run side by side, however few the
// pool has. So each of these threads is an executor of its own, with the thread itself as its pump.

/// Runs a task on the calling thread.
final class ThreadExecutor: TaskExecutor {
  private struct State {
    var jobs: [UnownedJob] = []
    var isDone = false
  }

  private final class Box<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
  }

  private let state = Mutex(State())
  private let news = Event()

  /// Runs `body` to its end; the calling thread does the work and waits in between.
  static func run<Result: Sendable>(
    _ body: @escaping @Sendable () async -> Result
  ) -> Result {
    let executor = ThreadExecutor()
    let box = Box<Result>()
    Task(executorPreference: executor) {
      let value = await body()
      box.value.withLock { $0 = value }
      executor.finish()
    }
    executor.pump()
    return box.value.withLock { $0.take()! }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    state.withLock { $0.jobs.append(job) }
    news.set()
  }

  private func finish() {
    state.withLock { $0.isDone = true }
    news.set()
  }

  private func pump() {
    while true {
      let (jobs, isDone) = state.withLock { state in
        defer { state.jobs = [] }
        return (state.jobs, state.isDone)
      }
      for job in jobs { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
      if !jobs.isEmpty { continue }
      if isDone { return }
      news.wait(nanoseconds: 1_000_000_000)
      news.reset()
    }
  }
}
