// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The contexts of the task that queued a write, one for each monitor of the store.
final class WriteOrigin: Sendable {
  let contexts: [(any Sendable)?]
  init(_ contexts: [(any Sendable)?]) { self.contexts = contexts }
}

/// The monitors of an open store.
package final class StoreMonitors: Sendable {
  private let all: [any StoreMonitor]
  private let durability: Durability
  private let readInterval: UInt64
  private let readCounters: [ReadCounter]
  /// The transaction that this process runs now.
  private let running = Mutex<RunningCommit?>(nil)
  /// The request whose closure the commit leader runs now, and whose transactions it begins.
  private let exclusive = Mutex<(origin: WriteOrigin?, isRunning: Bool)>((nil, false))

  /// A counter of reads. Threads use different ones, so that they do not share a cache line.
  private final class ReadCounter: Sendable { let reads = Atomic<UInt64>(0) }

  /// The properties of a transaction, as far as they are known while it runs.
  private struct RunningCommit {
    var origins: [WriteOrigin]?
    var requests = 0
    var namespaces: [String] = []
    var writes = 0
    var bytes = 0
    var hasChanges = false
    var isWaiting = false
    var wait: WaitReport?
  }

  init?(_ options: StoreOptions, path: String) {
    if options.monitors.isEmpty { return nil }
    all = options.monitors.map { $0(path) }
    durability = options.durability
    readInterval = UInt64(all.map(\.readInterval).filter { $0 > 0 }.min() ?? 0)
    readCounters = (0..<16).map { _ in ReadCounter() }
  }

  // MARK: Reads

  /// Returns the time at which a read begins, or zero if it is not timed.
  func beginRead() -> UInt64 {
    if readInterval == 0 { return 0 }
    if readInterval > 1 {
      // The upper bits of the identity of a thread differ between threads.
      let counter = readCounters[Int((OSThread.token &* 0x9E37_79B9_7F4A_7C15) >> 60)]
      let number = counter.reads.wrappingAdd(1, ordering: .relaxed).oldValue
      if number % readInterval != 0 { return 0 }
    }
    return Clocks.monotonicNanoseconds()
  }

  func endRead(_ start: UInt64) {
    let time = OperationTime(start: start, end: Clocks.monotonicNanoseconds())
    for monitor in all where monitor.readInterval > 0 { monitor.ended(read: time) }
  }

  // MARK: Computations

  /// Runs a computation, and reports its beginning and end.
  fileprivate func run<R>(
    _ computation: MonitoredComputation, _ outcome: (R) -> ComputationReport.Outcome,
    _ body: () async throws -> R
  ) async throws -> R {
    let start = Clocks.monotonicNanoseconds()
    let open = all.compactMap { $0.begin(computation) }
    func end(_ outcome: ComputationReport.Outcome, servedStale: Bool) {
      let report = ComputationReport(
        time: OperationTime(start: start, end: Clocks.monotonicNanoseconds()), outcome: outcome,
        servedStale: servedStale)
      for monitor in open { monitor.end(report) }
    }
    let isStale = computation.reason == .stale
    do {
      let result = try await run(in: open[...], body)
      end(outcome(result), servedStale: isStale)
      return result
    } catch {
      let isCancelled = error is CancellationError
      end(
        isCancelled ? .cancelled : .failed(error),
        servedStale: isStale || (!isCancelled && computation.servesAfterError()))
      throw error
    }
  }

  private func run<R>(
    in open: ArraySlice<any ComputationMonitor>, _ body: () async throws -> R
  ) async throws -> R {
    guard let first = open.first else { return try await body() }
    return try await first.withContext { try await run(in: open.dropFirst(), body) }
  }

  // MARK: Waits and syncs

  fileprivate func report(_ report: WaitReport) { for monitor in all { monitor.ended(report) } }

  func endSync(_ start: UInt64) {
    let time = OperationTime(start: start, end: Clocks.monotonicNanoseconds())
    for monitor in all { monitor.ended(sync: time) }
  }

  // MARK: Commits

  /// Returns the contexts of the calling task, or `nil` if it has none.
  func origin() -> WriteOrigin? {
    let contexts = all.map { $0.taskContext() }
    return contexts.contains { $0 != nil } ? WriteOrigin(contexts) : nil
  }

  /// Runs the closure of a request, whose transactions have the request's origin.
  func runExclusive(_ origin: WriteOrigin?, _ body: () -> Void) {
    exclusive.withLock { $0 = (origin, true) }
    defer { exclusive.withLock { $0 = (nil, false) } }
    body()
  }

  /// Runs a transaction, and reports it after its end.
  func runCommit<R>(_ body: () throws -> R) throws -> R {
    let start = Clocks.monotonicNanoseconds()
    var new = RunningCommit()
    exclusive.withLock { exclusive in
      if exclusive.isRunning {
        (new.origins, new.requests) = (exclusive.origin.map { [$0] } ?? [], 1)
      }
    }
    running.withLock { $0 = new }
    let result = Result { try body() }
    let commit = running.withLock { running in
      defer { running = nil }
      return running ?? RunningCommit()
    }
    let outcome: CommitReport.Outcome
    switch result {
    case .success: outcome = commit.hasChanges ? .committed : .unchanged
    case .failure(EngineSignal.generationChanged): outcome = .repeated
    case .failure(let error): outcome = .failed(error)
    }
    let report = CommitReport(
      time: OperationTime(start: start, end: Clocks.monotonicNanoseconds()), outcome: outcome,
      namespaces: commit.namespaces, requests: commit.requests, writes: commit.writes,
      bytes: commit.bytes, durability: durability, wait: commit.wait)
    for (index, monitor) in all.enumerated() {
      monitor.ended(report, contexts: commit.origins.map { $0.compactMap { $0.contexts[index] } })
    }
    return try result.get()
  }

  /// Notes the requests of the transaction that runs.
  func note(_ batch: [WriteRequest]) {
    running.withLock { running in
      running?.origins = batch.compactMap(\.origin)
      running?.requests = batch.count
    }
  }

  /// Notes the changes of the transaction that runs, before its commit.
  func note(_ transaction: borrowing StoreTransaction) {
    let removed = Int(transaction.evicted + transaction.expired)
    let (namespaces, bytes) = (transaction.writtenSpaces ?? [], transaction.bytesWritten)
    let writes = max(0, transaction.touchedSlots.count - removed)
    running.withLock { running in
      running?.namespaces = namespaces.map(\.name)
      running?.writes = writes
      running?.bytes = Int(clamping: bytes)
      running?.hasChanges = true
    }
  }

  /// Runs the wait of a transaction for other writers. It is part of the report of the commit.
  func waitingForWriter(_ holder: Int32, _ body: () throws -> Void) throws {
    let start = Clocks.monotonicNanoseconds()
    running.withLock { $0?.isWaiting = true }
    let result = Result { try body() }
    var failure: (any Error)?
    if case .failure(let error) = result { failure = error }
    let report = WaitReport(
      wait: MonitoredWait(.writer, holder: (failure as? StoreError)?.pid ?? holder),
      time: OperationTime(start: start, end: Clocks.monotonicNanoseconds()), error: failure)
    running.withLock { running in
      running?.isWaiting = false
      running?.wait = report
    }
    try result.get()
  }

  /// Whether a transaction of this process waits for other writers. For tests.
  package var isWaitingForWriter: Bool { running.withLock { $0?.isWaiting ?? false } }
}

/// A wait that has begun.
package struct RunningWait {
  private let monitors: StoreMonitors
  private let start = Clocks.monotonicNanoseconds()
  private var isEnded = false
  package var wait: MonitoredWait

  fileprivate init(_ monitors: StoreMonitors, _ wait: MonitoredWait) {
    self.monitors = monitors
    self.wait = wait
  }

  /// Reports the wait, unless it was reported.
  package mutating func end(_ error: (any Error)? = nil) {
    if isEnded { return }
    isEnded = true
    if let pid = (error as? StoreError)?.pid { wait.holder = pid }
    monitors.report(
      WaitReport(
        wait: wait, time: OperationTime(start: start, end: Clocks.monotonicNanoseconds()),
        error: error))
  }
}

extension Optional where Wrapped == StoreMonitors {
  /// Begins a wait, or returns `nil` without monitors.
  package func begin(_ wait: @autoclosure () -> MonitoredWait) -> RunningWait? {
    map { RunningWait($0, wait()) }
  }

  /// Runs a closure that waits in the calling thread.
  package func waiting<R>(
    _ wait: @autoclosure () -> MonitoredWait, _ body: () throws -> R
  ) throws -> R {
    guard var running = begin(wait()) else { return try body() }
    do {
      let result = try body()
      running.end()
      return result
    } catch {
      running.end(error)
      throw error
    }
  }

  /// Runs a closure that suspends the calling task.
  package func waiting<R>(
    _ wait: @autoclosure () -> MonitoredWait, _ body: () async throws -> R
  ) async throws -> R {
    guard var running = begin(wait()) else { return try await body() }
    do {
      let result = try await body()
      running.end()
      return result
    } catch {
      running.end(error)
      throw error
    }
  }

  /// Runs a computation.
  ///
  /// - Parameters:
  ///   - computation: The description of the computation.
  ///   - outcome: Returns the outcome of a result.
  ///   - body: The computation.
  package func computing<R>(
    _ computation: @autoclosure () -> MonitoredComputation,
    outcome: (R) -> ComputationReport.Outcome, _ body: () async throws -> R
  ) async throws -> R {
    guard let self else { return try await body() }
    return try await self.run(computation(), outcome, body)
  }
}
