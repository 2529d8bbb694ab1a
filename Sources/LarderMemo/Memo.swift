// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
package import LarderSystem

/// The stored result of a command, shared by all processes of the machine.
package struct Memo: Sendable {
  /// The rules for replaying and storing results.
  package struct Policy: Sendable {
    /// The time to live of a result in milliseconds, or nil for any age.
    package var freshFor: Int64?
    /// The time in milliseconds that an expired result is served while a process refreshes it.
    package var staleFor: Int64 = 0
    /// Whether results of failed commands are stored and replayed.
    package var keepsFailures = false
    /// The maximum number of stored bytes of output.
    package var limit = 64 << 20
    /// The time to wait for another process that runs the command.
    package var waitsFor = Duration.seconds(3600)

    package init() {}

    var keptUntil: Int64 {
      guard let freshFor else { return .max }
      let (fresh, isEndless) = Clocks.wallMilliseconds().addingReportingOverflow(freshFor)
      let (until, isAlso) = fresh.addingReportingOverflow(staleFor)
      return isEndless || isAlso ? .max : until
    }
  }

  let core: StoreCore
  let call: CommandInvocation
  let policy: Policy
  private let space: NamespaceHandle
  private let key: EncodedKey

  /// Opens the result of an invocation.
  ///
  /// - Throws: ``StoreError``, also for an invocation without a unique key.
  package init(_ call: CommandInvocation, _ policy: Policy, in store: SharedStore) throws {
    guard call.isNamed else {
      throw StoreError(
        .directory, during: "memo",
        "The working directory was removed, so the result has no unique key. Change into an "
          + "existing directory.")
    }
    self.call = call
    self.policy = policy
    core = try store.openCore("memo")
    space = try NamespaceHandle(name: CommandInvocation.namespace)
    key = call.key
  }

  /// The outcome of a look-up or a run.
  package enum Answer: Sendable {
    case fresh(MemoResult)
    /// Expired, but within the stale time; a process should refresh it.
    case stale(MemoResult)
    /// This process ran the command and relayed its output, if requested.
    case ran(MemoResult?, TerminationStatus, Storing)
  }

  /// The outcome of storing a result.
  package enum Storing: Sendable {
    case stored
    /// The command failed, and failures are not stored.
    case failure
    /// The reader closed the output before its end.
    case cut
    /// The output could not be relayed for another reason; no reader has all of it.
    case notPassedOn(String)
    case tooLarge
    /// Another process removed or stored the result during the run.
    case overtaken
    case error(String)
  }

  /// Returns the stored result, or nil if it is missing or the policy excludes it.
  package func find() throws -> Answer? {
    let lookup = try core.lookup(key, in: space)
    guard case .found(let stored) = lookup.outcome, let result = MemoResult(stored.payload) else {
      return nil
    }
    guard result.end.isSuccess || policy.keepsFailures else { return nil }
    guard let freshFor = policy.freshFor else { return .fresh(result) }
    // If the clock was set back, the age is zero.
    let age = max(core.now &- stored.created, 0)
    if age < freshFor { return .fresh(result) }
    return age &- freshFor < policy.staleFor ? .stale(result) : nil
  }

  /// Removes the stored result.
  ///
  /// - Returns: Whether a result was stored.
  /// - Throws: ``StoreError``.
  package func forget() throws -> Bool {
    if case .done(_, true) = try core.submit(WriteRequest(.remove, space: space, key: key)) {
      return true
    }
    return false
  }

  /// Returns whether another process runs the command.
  package func isRunningElsewhere() -> Bool {
    (try? core.isLeaseHeldElsewhere(key, in: space)) ?? true
  }

  /// Returns a fresh result, waits for the process that runs the command, or runs it.
  ///
  /// If the process that runs the command is killed, one of the waiting processes runs it at once.
  /// If the result is not stored, the waiting processes run the command one after the other.
  ///
  /// - Parameters:
  ///   - force: Whether to run the command even if a fresh result is stored.
  ///   - waits: Whether to wait for another process that runs the command.
  ///   - relays: Whether to write the output of the command to this process's output at once.
  /// - Returns: The outcome, or nil if another process runs the command and `waits` is false.
  /// - Throws: ``StoreError``; ``StoreError/Code/computationStalled`` with the pid of the process
  ///   that runs the command if the run exceeds ``Policy/waitsFor``.
  package func answer(force: Bool, waits: Bool = true, relays: Bool) async throws -> Answer? {
    let deadline = Clocks.deadline(after: policy.waitsFor)
    while true {
      if let leadership = try await core.acquireComputationLease(key, in: space) {
        // A process that held the lease before has committed its result.
        if !force, case .fresh(let result)? = try find() {
          core.release(leadership)
          return .fresh(result)
        }
        return try run(leadership, relays: relays)
      }
      if !waits { return nil }
      if Clocks.monotonicNanoseconds() >= deadline { throw stalled() }
      await core.waitForNextCommit()
      try Task.checkCancellation()
      if !force, case .fresh(let result)? = try find() { return .fresh(result) }
    }
  }

  private func stalled() -> StoreError {
    let pid = core.computingProcess(key, in: space)
    return StoreError(
      .computationStalled, during: "memo",
      "\(pid.map { "Process \($0)" } ?? "Another process") runs the command and has not finished "
        + "within \(policy.waitsFor). Resume or terminate it, or pass a longer --wait.",
      pid: pid)
  }

  /// The error of a command that could not be started.
  package struct NotStarted: Error, Sendable { package let message: String }

  private func run(_ leadership: ComputationLease, relays: Bool) throws -> Answer {
    defer { core.release(leadership) }
    let start = Clocks.monotonicNanoseconds()
    var run = CommandExecution(call, relays: relays, limit: policy.limit)
    let end: TerminationStatus
    do {
      end = try run.run()
    } catch {
      // The store's descriptors may be those that the command lacks.
      if error.isOutOfFiles, !run.hasStarted { throw StoreError(error, during: "run a command") }
      throw NotStarted(message: "\(error)")
    }
    let cut = run.cut
    if run.recording.isTooLarge { return .ran(nil, end, cut ?? .tooLarge) }
    let milliseconds = (Clocks.monotonicNanoseconds() - start) / 1_000_000
    let result = run.recording.finish(end, milliseconds: milliseconds)
    if let cut { return .ran(result, end, cut) }
    guard end.isSuccess || policy.keepsFailures else { return .ran(result, end, .failure) }
    core.countComputation()
    return .ran(result, end, store(result, leadership))
  }

  private func store(_ result: MemoResult, _ leadership: ComputationLease) -> Storing {
    let content = EntryContent(
      key: key, codec: CodecIdentifier.plainBytes.rawValue, payload: result.bytes,
      expires: policy.keptUntil)
    do {
      let outcome = try core.submit(
        WriteRequest(.fill(content, leadership.permit), space: space, key: key))
      if case .done(_, let changed) = outcome, !changed { return .overtaken }
      return .stored
    } catch {
      return error.code == .valueTooLarge ? .tooLarge : .error(error.message)
    }
  }
}
