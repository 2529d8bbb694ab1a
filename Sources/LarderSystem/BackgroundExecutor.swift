// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// Work that others wait for with blocked threads must go on, however many threads are blocked: all of
// Swift's pool may wait, and what runs here may wait for more work here, to any depth. A pool with a
// fixed number of threads cannot give that. So these threads are our own:
//
// * A job that finds no idle thread gets a new one while there are few; that costs some microseconds.
// * Beyond that, whether the busy threads work or wait cannot be seen. A thread of its own, the keeper,
//   looks every millisecond: when jobs wait and none was begun since it last looked, it adds threads. So
//   mere load does not make hundreds of them, and a chain of blocked calls gets one each.
// * A thread without work ends after two seconds.
//
// The most there can be is far above what a chain of calls can need before its stacks do harm. If the
// system gives no more threads, jobs wait for those there are.

/// Runs tasks, and functions that block, on threads that are none of Swift's pool.
package final class BackgroundExecutor: TaskExecutor {
  package static let shared = BackgroundExecutor()

  private struct State {
    var jobs: [@Sendable () -> Void] = []
    /// The first of the jobs that has not begun.
    var head = 0
    /// The jobs begun so far.
    var begun: UInt64 = 0
    var threads = 0
    /// What wakes the idle threads; the last to become idle is the first to work again.
    var idle: [Event] = []
    var hasKeeper = false

    mutating func next() -> (@Sendable () -> Void)? {
      guard head < jobs.count else { return nil }
      defer {
        begun &+= 1
        head += 1
        if head == jobs.count || head == 1024 {
          jobs.removeFirst(head)
          head = 0
        }
      }
      return jobs[head]
    }
  }

  /// So many threads are started without a look at what the others do.
  private static let few = max(2 * OSThread.coreCount, 8)
  private static let most = 4096
  private static let idleNanoseconds: UInt64 = 2_000_000_000

  private let state = Mutex(State())

  private init() {}

  /// Takes a job in; for Swift's runtime.
  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    add { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }

  /// Runs what may block, so that no thread of the pool does. Task-local values are kept.
  package func run<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
  ) async throws -> Result {
    try await withTaskExecutorPreference(self) { try body() }
  }

  /// The threads there are, for tests.
  package var threadCount: Int { state.withLock { $0.threads } }

  func add(_ job: @escaping @Sendable () -> Void) {
    enum Step { case wake(Event), start, keep, none }
    let step: Step = state.withLock { state in
      state.jobs.append(job)
      if let event = state.idle.popLast() { return .wake(event) }
      if state.threads < Self.few {
        state.threads += 1
        return .start
      }
      if state.hasKeeper { return .none }
      state.hasKeeper = true
      return .keep
    }
    switch step {
    case .wake(let event): event.set()
    case .start: start()
    case .keep:
      do throws(SystemError) { try OSThread.start { self.keep() } } catch {
        state.withLock { $0.hasKeeper = false }
      }
    case .none: break
    }
  }

  /// Starts a thread that is counted already.
  private func start() {
    do throws(SystemError) { try OSThread.start { self.work() } } catch {
      let isNone = state.withLock { state in
        state.threads -= 1
        return state.threads == 0
      }
      // Not one thread to be had: the caller is one.
      if isNone { while let job = state.withLock({ $0.next() }) { job() } }
    }
  }

  private func work() {
    let event = Event()
    while true {
      let job = state.withLock { state in
        let job = state.next()
        if job == nil { state.idle.append(event) }
        return job
      }
      if let job {
        job()
        continue
      }
      if !event.wait(nanoseconds: Self.idleNanoseconds) {
        let isOver = state.withLock { state in
          guard let index = state.idle.firstIndex(where: { $0 === event }) else { return false }
          state.idle.remove(at: index)
          state.threads -= 1
          return true
        }
        if isOver { return }
        // Somebody is about to set it.
        event.wait()
      }
      event.reset()
    }
  }

  /// Adds threads while jobs wait and none begins.
  private func keep() {
    let pause = Event()
    var (last, quiet) = (UInt64.max, 0)
    while true {
      pause.wait(nanoseconds: 1_000_000)
      let (added, isOver) = state.withLock { state -> (Int, Bool) in
        guard state.head < state.jobs.count else {
          quiet += 1
          if quiet > 1000 { state.hasKeeper = false }
          return (0, quiet > 1000)
        }
        quiet = 0
        defer { last = state.begun }
        guard state.begun == last else { return (0, false) }
        let added = min(max(state.threads / 8, 1), Self.most - state.threads)
        state.threads += added
        return (added, false)
      }
      if isOver { return }
      for _ in 0..<added { start() }
    }
  }
}
