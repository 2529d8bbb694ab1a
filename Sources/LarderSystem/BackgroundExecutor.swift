// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

// Work for which blocked threads wait must make progress, however many threads are blocked: all
// threads of Swift's pool may wait, and work here may wait for more work here, to any depth. A pool
// with a fixed number of threads cannot provide that. So this executor has its own threads:
//
// * A job that finds no idle thread gets a new one while there are few; that costs some
//   microseconds.
// * Beyond that, it is unknown whether the busy threads work or wait. A separate thread, the
//   keeper, checks every millisecond: if jobs wait and none has started since its last check, it
//   adds threads. So load alone does not create hundreds of them, and a chain of blocked calls gets
//   one each.
// * A thread without work ends after two seconds.
//
// The maximum is far above what a chain of calls can need before its stacks do harm. If the system
// refuses more threads, jobs wait for the existing ones.

/// An executor for tasks, and for functions that block, with threads outside Swift's pool.
package final class BackgroundExecutor: TaskExecutor {
  package static let shared = BackgroundExecutor()

  private struct State {
    var jobs: [@Sendable () -> Void] = []
    /// The first of the jobs that has not begun.
    var head = 0
    /// The jobs begun so far.
    var begun: UInt64 = 0
    var threads = 0
    /// The events of the idle threads; the last to become idle is the first to work again.
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

  /// The number of threads that are started without a check of the others.
  private static let few = max(2 * OSThread.coreCount, 8)
  private static let most = 4096
  private static let idleNanoseconds: UInt64 = 2_000_000_000

  private let state = Mutex(State())

  private init() {}

  /// Enqueues a job; Swift's runtime calls it.
  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    add { unsafe job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }

  /// Runs what may block, so that no thread of the pool does. Task-local values are kept.
  package func run<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
  ) async throws -> Result {
    // Its threads are not there. Every operation of the store throws at once.
    if ForkGuard.isForkedChild { return try body() }
    return try await withTaskExecutorPreference(self) { try body() }
  }

  /// The threads there are, for tests.
  package var threadCount: Int { state.withLock { $0.threads } }

  /// Runs a job, which may block, on a thread outside Swift's pool.
  package func add(_ job: @escaping @Sendable () -> Void) {
    if ForkGuard.isForkedChild { return job() }
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
      // No thread can be created: the calling thread runs the jobs.
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
        // Another thread is about to set the event.
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
