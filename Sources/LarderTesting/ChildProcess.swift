// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A child is spawned, never forked: a fork copies locks that other threads hold and, worse here,
// an open LMDB environment. Parent and child speak in lines, one request and one answer at a time
// or as the test likes. Every wait is a `poll` with a deadline, so a child that hangs is a failed
// expectation with a sentence, not a hung test run.
//
// Three locks: the input, the output, and what is known of the child's state. Nobody waits while
// holding the last two, so a thread that waits for a line keeps no other from its own deadline, nor
// from killing the child. The input is held until a line is through, or lines would mix.

import Synchronization

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Another process, spoken with in lines, that can be killed, stopped and continued.
///
/// ```swift
/// let worker = try TestExecutable("worker").start(["--store", store.path])
/// try worker.wait(for: "ready")
/// try worker.send("store salt")
/// try worker.stop()                                 // as a debugger or a laptop's lid would
/// worker.continue()
/// worker.kill()
/// #expect(try worker.wait() == .killed)
/// ```
///
/// It is spawned, never forked, and never outlives this process by intention: dropping the last
/// reference kills and reaps it. Its side of the conversation is ``ParentProcess``, or plain
/// `readLine()` and flushed output.
///
/// All calls may be made from any thread. They block it, for at most their deadline, and a child
/// that hangs becomes a ``ChildProcessError`` that says in which call; use an ``JoinableThread`` where
/// a thread of Swift's pool must not wait. Of two threads that wait for a line, either gets it.
public final class ChildProcess: Sendable {
  /// What becomes of the child's standard error.
  public enum StandardError: Sendable {
    /// It goes where this process's own goes.
    case inherited
    /// It is kept, and found in ``ChildProcess/standardErrorText`` and in errors.
    case captured
  }

  private enum State {
    case running
    case stopped
    case ended(ExitStatus)
  }

  /// Its pid. A child that was waited for has none any more.
  public let processIdentifier: Int32
  private let name: String
  private let outputDescriptor: Int32
  private let errorDescriptor: Int32?
  private let input: Mutex<Int32?>
  private let output = Mutex(LineBuffer())
  private let state = Mutex(State.running)

  /// Starts `executable` (searched in `PATH` unless it contains a slash).
  ///
  /// The child gets this process's environment with `environment` on top, and no backtracer: a
  /// child that is killed for a living must not print stories. No signal is blocked or ignored in
  /// it, and of this process's files it has only the three standard ones.
  ///
  /// - Parameters:
  ///   - executable: A path, or a name to be found in `PATH`. See ``TestExecutable`` for those that
  ///     are built together with the test.
  ///   - arguments: The arguments of the process.
  ///   - environment: What to add or replace, such as ``FaultPlan/environment``.
  ///   - workingDirectory: Where it runs; this process's own directory unless given. Give a path
  ///     of an `executable` absolutely then.
  ///   - standardError: Whether the standard error is captured or inherited.
  /// - Throws: `notStarted` when there is no such executable or directory, or it may not be run.
  public init(
    _ executable: String,
    _ arguments: [String] = [],
    environment: [String: String] = [:],
    workingDirectory: String? = nil,
    standardError: StandardError = .inherited
  ) throws(ChildProcessError) {
    do {
      let spawned = try SpawnedProcess(
        executable, arguments, environment: environment, workingDirectory: workingDirectory,
        capturesStandardError: standardError == .captured)
      processIdentifier = spawned.processIdentifier
      name = executable.split(separator: "/").last.map(String.init) ?? executable
      outputDescriptor = spawned.output
      errorDescriptor = spawned.error
      input = Mutex(spawned.input)
    } catch {
      throw ChildProcessError(
        code: .notStarted, operation: "start \(executable)", status: nil,
        message: "\(error). Check the paths, and that it has been built.", standardError: "")
    }
  }

  deinit {
    kill(SIGKILL)
    state.withLock { state in
      if case .ended = state { return }
      var status: Int32 = 0
      while unsafe waitpid(processIdentifier, &status, 0) < 0 && errno == EINTR {}
    }
    close(outputDescriptor)
    if let errorDescriptor { close(errorDescriptor) }
    closeInput()
  }

  // MARK: - Lines

  /// Writes one line to the child's standard input.
  ///
  /// - Throws: `inputClosed` when the child has gone or closed it, `timedOut` when it does not
  ///   read and the pipe is full. It may have got a part of the line then.
  public func send(
    _ line: String, deadline: Duration = .seconds(30)
  ) throws(ChildProcessError) {
    let limit = ContinuousClock.now + deadline
    var pause = Backoff()
    while true {
      let result = input.withLockIfAvailable { descriptor in
        write(Array("\(line)\n".utf8)[...], to: descriptor, until: limit)
      }
      switch result {
      case .success?: return
      case .failure(let reason)?: throw failure(reason.code, "send \"\(line)\"", reason.message)
      case nil: break
      }
      if ContinuousClock.now >= limit {
        throw failure(.timedOut, "send \"\(line)\"", "Another thread is still sending.")
      }
      pause.take()
    }
  }

  private struct Reason: Error {
    let code: ChildProcessError.Code
    let message: String
  }

  private func write(
    _ bytes: ArraySlice<UInt8>, to descriptor: Int32?, until limit: ContinuousClock.Instant
  ) -> Result<Void, Reason> {
    guard let descriptor else {
      return .failure(Reason(code: .inputClosed, message: "Its input was closed by this process."))
    }
    var rest = bytes
    do throws(SystemCallError) {
      while true {
        rest.removeFirst(try POSIX.write(rest, to: descriptor))
        if rest.isEmpty { return .success(()) }
        if try POSIX.poll(descriptor, POLLOUT, until: limit) == 0 {
          return .failure(
            Reason(code: .timedOut, message: "It reads nothing and the pipe is full."))
        }
      }
    } catch  where error.errno == EPIPE {
      return .failure(Reason(code: .inputClosed, message: "Nobody reads its input any more."))
    } catch {
      return .failure(Reason(code: .system, message: "\(error)."))
    }
  }

  /// The next line the child writes to its standard output, without its end.
  ///
  /// - Throws: `timedOut` when none comes in time; what has arrived of it stays for the next call.
  ///   `endOfOutput` when none can come, with the exit status if the child has ended.
  public func nextLine(deadline: Duration = .seconds(30)) throws(ChildProcessError) -> String {
    let limit = ContinuousClock.now + deadline
    while true {
      let (line, isAtEnd, partial) = try output.withLock { buffer throws(ChildProcessError) in
        if let line = buffer.takeLine() { return (line as String?, false, "") }
        try fill(&buffer)
        return (buffer.takeLine(), buffer.isAtEnd, buffer.unfinishedLine)
      }
      if let line { return line }
      if isAtEnd {
        throw failure(.endOfOutput, "read a line", "It closed its output.", awaitingEnd: true)
      }
      try waitForOutput(until: limit, partial: partial)
    }
  }

  /// Reads one line and demands that it is `line`; ``wait(for:deadline:)`` skips others.
  ///
  /// - Throws: `unexpectedLine` when it is another, and what ``nextLine(deadline:)`` throws.
  public func expect(
    _ line: String, deadline: Duration = .seconds(30)
  ) throws(ChildProcessError) {
    let found = try nextLine(deadline: deadline)
    if found != line {
      throw failure(.unexpectedLine, "expect \"\(line)\"", "It said \"\(found)\".")
    }
  }

  /// Sends a line and returns the answer.
  public func ask(
    _ line: String, deadline: Duration = .seconds(30)
  ) throws(ChildProcessError) -> String {
    try send(line, deadline: deadline)
    return try nextLine(deadline: deadline)
  }

  /// All lines until the child closes its output, which it does at the latest when it ends.
  ///
  /// - Throws: `timedOut`; what has arrived stays for the next call.
  public func remainingLines(
    deadline: Duration = .seconds(30)
  ) throws(ChildProcessError) -> [String] {
    let limit = ContinuousClock.now + deadline
    while true {
      let lines = try output.withLock { buffer throws(ChildProcessError) -> [String]? in
        try fill(&buffer)
        if !buffer.isAtEnd { return nil }
        var lines: [String] = []
        while let line = buffer.takeLine() { lines.append(line) }
        return lines
      }
      if let lines { return lines }
      try waitForOutput(until: limit, partial: "")
    }
  }

  /// Ends the child's standard input. Doing so twice is fine.
  public func closeInput() {
    input.withLock { descriptor in
      if let descriptor { close(descriptor) }
      descriptor = nil
    }
  }

  /// What the child has written to its standard error so far, if that is captured.
  public var standardErrorText: String {
    guard let errorDescriptor, let bytes = try? POSIX.contents(errorDescriptor) else { return "" }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Takes what has arrived, without waiting.
  private func fill(_ buffer: inout LineBuffer) throws(ChildProcessError) {
    if buffer.isAtEnd { return }
    do {
      if let bytes = try POSIX.read(outputDescriptor) { buffer.append(bytes) }
    } catch {
      throw failure(.system, "read a line", "\(error).")
    }
  }

  /// Waits until something may have arrived. Another thread may be faster and take it.
  private func waitForOutput(
    until limit: ContinuousClock.Instant, partial: String
  ) throws(ChildProcessError) {
    do {
      if try POSIX.poll(outputDescriptor, POLLIN, until: limit) != 0 { return }
    } catch {
      throw failure(.system, "read a line", "\(error).")
    }
    throw failure(
      .timedOut, "read a line",
      "Nothing came in time" + (partial.isEmpty ? "." : ", but for \"\(partial)\"."))
  }

  // MARK: - Life and death

  /// How the child ended, or `nil` while it lives.
  public var exitStatus: ExitStatus? {
    if case .ended(let status) = refresh() { status } else { nil }
  }

  /// Sends a signal, `SIGKILL` unless told otherwise, and returns at once.
  ///
  /// A child that has ended is left alone, and so is whoever got its pid. ``wait(deadline:)`` tells
  /// when it is gone.
  public func kill(_ signal: Int32 = 9) {
    state.withLock { state in
      // The process is reaped under this lock only, so the identifier is still the child's.
      refresh(&state)
      if case .ended = state { return }
      _ = signalProcess(processIdentifier, signal)
    }
  }

  /// Stops the child as a debugger or a laptop's lid would, and returns once it stands still.
  ///
  /// - Throws: `ended` when there is nobody to stop.
  public func stop(deadline: Duration = .seconds(30)) throws(ChildProcessError) {
    kill(SIGSTOP)
    try waitUntilStopped(deadline: deadline)
  }

  /// Waits until the child stands still, which it may have brought about itself.
  ///
  /// - Throws: `ended` when it ended instead, `timedOut` when it runs on.
  public func waitUntilStopped(
    deadline: Duration = .seconds(30)
  ) throws(ChildProcessError) {
    let limit = ContinuousClock.now + deadline
    var pause = Backoff()
    while true {
      switch refresh() {
      case .stopped: return
      case .ended: throw failure(.ended, "stop", "There is nobody to stop.")
      case .running: break
      }
      if ContinuousClock.now >= limit { throw failure(.timedOut, "stop", "It runs on.") }
      pause.take()
    }
  }

  /// Lets a stopped child go on. One that runs is left alone.
  public func `continue`() {
    state.withLock { state in
      refresh(&state)
      if case .ended = state { return }
      _ = signalProcess(processIdentifier, SIGCONT)
      state = .running
    }
  }

  /// Waits until the child has ended, and reaps it.
  ///
  /// - Throws: `timedOut` when it is still alive; it stays so.
  @discardableResult
  public func wait(deadline: Duration = .seconds(30)) throws(ChildProcessError) -> ExitStatus {
    let limit = ContinuousClock.now + deadline
    var pause = Backoff()
    while true {
      if let status = exitStatus { return status }
      if ContinuousClock.now >= limit {
        throw failure(.timedOut, "wait for its end", "It is still alive.")
      }
      // The end of its output usually is its end. If not (it closed it, or left it to a child of
      // its own), short pauses find out.
      let soon = min(limit, .now + .milliseconds(20))
      let events = (try? POSIX.poll(outputDescriptor, 0, until: soon)) ?? 0
      if events != 0 { pause.take() }
    }
  }

  private func refresh() -> State {
    state.withLock { state in
      refresh(&state)
      return state
    }
  }

  private func refresh(_ state: inout State) {
    while true {
      if case .ended = state { return }
      var status: Int32 = 0
      let result = unsafe waitpid(processIdentifier, &status, WNOHANG | WUNTRACED)
      if result == 0 { return }
      if result < 0 && errno == EINTR { continue }
      if result < 0 {
        // Somebody else reaped our child. Its status is lost, and saying "running" would hang.
        state = .ended(.exited(-1))
      } else if let ended = ExitStatus(waitStatus: status) {
        state = .ended(ended)
      } else {
        state = .stopped
      }
    }
  }

  func failure(
    _ code: ChildProcessError.Code, _ operation: String, _ message: String,
    awaitingEnd: Bool = false
  ) -> ChildProcessError {
    // Output closes a moment before the process can be reaped.
    let status = awaitingEnd ? try? wait(deadline: .seconds(1)) : exitStatus
    return ChildProcessError(
      code: code, operation: "\(name) [\(processIdentifier)]: \(operation)", status: status,
      message: message, standardError: String(standardErrorText.suffix(4000)))
  }
}
