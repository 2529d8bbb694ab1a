// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
package import LarderSystem

/// Remembers the results of commands, for all processes of the machine.
package struct Memo: Sendable {
  /// What may be answered from the store, and what is kept.
  package struct Policy: Sendable {
    /// How old a result may be, in milliseconds; `nil`: any age.
    package var freshFor: Int64?
    /// How much older it may be while another process runs the command anew, in milliseconds.
    package var staleFor: Int64 = 0
    /// Whether a result that is neither success nor fresh counts.
    package var keepsFailures = false
    /// The most bytes of output that are kept.
    package var limit = 64 << 20
    /// How long to wait for another process that runs the command.
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

  /// - Throws: ``StoreError``, also for a call whose result could be taken for another's.
  package init(_ call: CommandInvocation, _ policy: Policy, in store: SharedStore) throws {
    guard call.isNamed else {
      throw StoreError(
        .directory, during: "memo",
        "The working directory was removed, so that results of commands in it cannot be told apart. "
          + "Change into one that exists.")
    }
    self.call = call
    self.policy = policy
    core = try store.openCore("memo")
    space = try NamespaceHandle(name: CommandInvocation.namespace)
    key = call.key
  }

  /// How a result was come by.
  package enum Answer: Sendable {
    case fresh(MemoResult)
    /// Too old, but allowed for; it is to be renewed by somebody.
    case stale(MemoResult)
    /// The command was run by this process; everything was passed on already, if that was wanted.
    case ran(MemoResult?, TerminationStatus, Storing)
  }

  /// What became of a result.
  package enum Storing: Sendable {
    case stored
    /// It failed, and failures are not kept.
    case failure
    /// Its reader went before its end.
    case cut
    /// It could not be passed on, for another reason; nobody has got the whole.
    case notPassedOn(String)
    case tooLarge
    /// It was removed or written by somebody while the command ran.
    case overtaken
    case error(String)
  }

  /// What the store holds, if the policy allows for it.
  package func find() throws -> Answer? {
    let lookup = try core.lookup(key, in: space)
    guard case .found(let stored) = lookup.outcome, let result = MemoResult(stored.payload) else {
      return nil
    }
    guard result.end.isSuccess || policy.keepsFailures else { return nil }
    guard let freshFor = policy.freshFor else { return .fresh(result) }
    // A clock that was set back makes nothing older than it is.
    let age = max(core.now &- stored.created, 0)
    if age < freshFor { return .fresh(result) }
    return age &- freshFor < policy.staleFor ? .stale(result) : nil
  }

  /// Removes the result, whatever its age.
  ///
  /// - Returns: Whether there was one.
  /// - Throws: ``StoreError``.
  package func forget() throws -> Bool {
    if case .done(_, true) = try core.submit(WriteRequest(.remove, space: space, key: key)) {
      return true
    }
    return false
  }

  /// Whether another process runs the command right now.
  package func isRunningElsewhere() -> Bool {
    (try? core.isLeaseHeldElsewhere(key, in: space)) ?? true
  }

  /// Finds a result that is fresh, waits for the process that runs the command, or runs it.
  ///
  /// A process that is killed while it runs it is replaced by one of those who wait, at once. When
  /// the result is not kept, they run it one after the other.
  ///
  /// - Parameters:
  ///   - force: Run it in any case.
  ///   - waits: Whether to wait for whoever runs it; otherwise `nil` is the answer then.
  ///   - relays: Whether what the command writes goes to this process's own output at once.
  /// - Throws: ``StoreError``; ``StoreError/Code/computationStalled`` with the process that runs the
  ///   command when it has not ended within ``Policy/waitsFor``.
  package func answer(force: Bool, waits: Bool = true, relays: Bool) async throws -> Answer? {
    let deadline = Clocks.deadline(after: policy.waitsFor)
    while true {
      if let leadership = try await core.acquireComputationLease(key, in: space) {
        // Whoever ran it before us has committed by now.
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
      "\(pid.map { "Process \($0)" } ?? "Another process") runs the command and has not ended within "
        + "\(policy.waitsFor). If it is stopped, continue it or end it; or wait longer with --wait.",
      pid: pid)
  }

  /// A command that could not be started.
  package struct NotStarted: Error, Sendable { package let message: String }

  private func run(_ leadership: ComputationLease, relays: Bool) throws -> Answer {
    defer { core.release(leadership) }
    let start = Clocks.monotonicNanoseconds()
    var run = CommandExecution(call, relays: relays, limit: policy.limit)
    let end: TerminationStatus
    do {
      end = try run.run()
    } catch {
      // What the store takes may be what the command lacks.
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
