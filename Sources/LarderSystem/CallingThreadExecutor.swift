// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// Code that is written once, as an asynchronous function, must also run where no thread may wait
// for Swift's pool: from synchronous functions, from threads of that pool themselves, and on
// several threads that run in parallel, however small the pool is. So each of these threads is an
// executor, and runs its jobs itself.

/// Runs a task on the calling thread.
package final class CallingThreadExecutor: TaskExecutor {
  private struct State {
    var jobs: [UnownedJob] = []
    var isDone = false
    /// The thread has returned to its caller: later jobs run elsewhere.
    var isLeft = false
  }

  private final class Box<Value: Sendable>: Sendable {
    let value = Mutex<Value?>(nil)
  }

  private let state = Mutex(State())
  private let news = Event()

  private init() {}

  /// Runs `body` to its end; the calling thread does the work and waits in between.
  package static func run<Result: Sendable>(
    _ body: @escaping @Sendable () async -> Result
  ) -> Result {
    let executor = CallingThreadExecutor()
    let box = Box<Result>()
    Task(executorPreference: executor) {
      let value = await body()
      box.value.withLock { $0 = value }
      executor.finish()
    }
    executor.pump()
    return box.value.withLock { $0.take()! }
  }

  /// Enqueues a job; Swift's runtime calls it.
  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let isLate = state.withLock { state in
      if state.isLeft { return true }
      state.jobs.append(job)
      // With the lock: once the thread has the job, it may end the task, and with that the executor.
      news.set()
      return false
    }
    guard isLate else { return }
    BackgroundExecutor.shared.add {
      unsafe job.runSynchronously(on: self.asUnownedTaskExecutor())
    }
  }

  private func finish() {
    state.withLock { $0.isDone = true }
    news.set()
  }

  private func pump() {
    while true {
      let (jobs, isDone) = state.withLock { state in
        defer { state.jobs = [] }
        if state.jobs.isEmpty, state.isDone { state.isLeft = true }
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
