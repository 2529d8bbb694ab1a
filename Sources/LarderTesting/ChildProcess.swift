// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A child is spawned, never forked: a fork copies locks that other threads hold and, worse here,
// an open LMDB environment. Parent and child exchange lines. Every wait is a `poll` with a deadline,
// so a child that hangs is a failed expectation with a message, and not a hung test run.
//
// There are three locks: for the input, the output, and the child's state. No thread waits while it
// holds the last two, so a thread that waits for a line delays no other thread's deadline or kill.
// The input lock is held until a line is written completely, so that lines do not mix.

import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A child process that exchanges lines with this process and can be killed, stopped and resumed.
///
/// ```swift
/// let worker = try TestExecutable("worker").start(["--store", store.path])
/// try worker.wait(for: "ready")
/// try worker.send("store salt")
/// try worker.stop()                                 // as a debugger does
/// worker.continue()
/// worker.kill()
/// #expect(try worker.wait() == .killed)
/// ```
///
/// It is spawned, never forked. Releasing the last reference kills and reaps it. In the child, use
/// ``ParentProcess``, or `readLine()` and flushed output.
///
/// Any thread may make any call. A call blocks its thread until its deadline at most; if the child
/// hangs, the call throws a ``ChildProcessError`` that names the call. Use a ``JoinableThread`` where a
/// thread of Swift's cooperative pool must not wait. If two threads wait for a line, one of them gets
/// it.
public final class ChildProcess: Sendable {
  /// The destination of the child's standard error.
  public enum StandardError: Sendable {
    /// The standard error of this process.
    case inherited
    /// A buffer, which ``ChildProcess/standardErrorText`` and errors contain.
    case captured
  }

  private enum State {
    case running
    case stopped
    case ended(ExitStatus)
  }

  /// The pid. It is invalid after the child was reaped.
  public let processIdentifier: Int32
  private let name: String
  private let outputDescriptor: Int32
  private let errorDescriptor: Int32?
  private let input: Mutex<Int32?>
  private let output = Mutex(LineBuffer())
  private let state = Mutex(State.running)

  /// Starts `executable` (searched in `PATH` unless it contains a slash).
  ///
  /// The child gets this process's environment with the changes of `environment`, and no
  /// backtracer, because tests kill children deliberately. It starts with no signal blocked or
  /// ignored, and inherits only the three standard files.
  ///
  /// - Parameters:
  ///   - executable: A path, or a name that is searched in `PATH`. ``TestExecutable`` finds
  ///     executables that are built together with the test.
  ///   - arguments: The arguments of the process.
  ///   - environment: Variables to add or replace, such as ``FaultPlan/environment``.
  ///   - workingDirectory: The working directory, or `nil` for that of this process. With a
  ///     directory, pass the path of `executable` as an absolute path.
  ///   - standardError: Whether the standard error is captured or inherited.
  /// - Throws: `notStarted` if the executable or the directory does not exist, or cannot be run.
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
  /// - Throws: `inputClosed` if the child has exited or closed its input; `timedOut` if it does not
  ///   read and the pipe is full. In that case the child may have received a part of the line.
  public func send(
    _ line: String, deadline: Duration = .seconds(600)
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
            Reason(code: .timedOut, message: "The child does not read, and the pipe is full."))
        }
      }
    } catch  where error.errno == EPIPE {
      return .failure(
        Reason(code: .inputClosed, message: "The child has exited or closed its input."))
    } catch {
      return .failure(Reason(code: .system, message: "\(error)."))
    }
  }

  /// Reads the next line of the child's standard output, without its line break.
  ///
  /// - Throws: `timedOut` if no line arrives in time; a partial line is kept for the next call.
  ///   `endOfOutput` if the output is closed, with the exit status if the child has exited.
  public func nextLine(deadline: Duration = .seconds(600)) throws(ChildProcessError) -> String {
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

  /// Reads one line and checks that it equals `line`; ``wait(for:deadline:)`` skips other lines.
  ///
  /// - Throws: `unexpectedLine` if it differs, and the errors of ``nextLine(deadline:)``.
  public func expect(
    _ line: String, deadline: Duration = .seconds(600)
  ) throws(ChildProcessError) {
    let found = try nextLine(deadline: deadline)
    if found != line {
      throw failure(.unexpectedLine, "expect \"\(line)\"", "The line was \"\(found)\".")
    }
  }

  /// Sends a line and returns the answer.
  public func ask(
    _ line: String, deadline: Duration = .seconds(600)
  ) throws(ChildProcessError) -> String {
    try send(line, deadline: deadline)
    return try nextLine(deadline: deadline)
  }

  /// Reads all lines until the child closes its output, at the latest by its exit.
  ///
  /// - Throws: `timedOut`; the lines that arrived are kept for the next call.
  public func remainingLines(
    deadline: Duration = .seconds(600)
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

  /// Closes the child's standard input. A second call has no effect.
  public func closeInput() {
    input.withLock { descriptor in
      if let descriptor { close(descriptor) }
      descriptor = nil
    }
  }

  /// The child's standard error so far, if it is captured.
  public var standardErrorText: String {
    guard let errorDescriptor, let bytes = try? POSIX.contents(errorDescriptor) else { return "" }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Reads the available output without waiting.
  private func fill(_ buffer: inout LineBuffer) throws(ChildProcessError) {
    if buffer.isAtEnd { return }
    do {
      if let bytes = try POSIX.read(outputDescriptor) { buffer.append(bytes) }
    } catch {
      throw failure(.system, "read a line", "\(error).")
    }
  }

  /// Waits until output may be available. Another thread may read it first.
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
      "No line arrived in time" + (partial.isEmpty ? "." : ", only \"\(partial)\"."))
  }

  // MARK: - Signals and exit

  /// The exit status, or `nil` while the child runs.
  public var exitStatus: ExitStatus? {
    if case .ended(let status) = refresh() { status } else { nil }
  }

  /// Sends a signal and returns immediately.
  ///
  /// The call has no effect on a child that has exited, or on a process that has reused its pid.
  /// ``wait(deadline:)`` waits for the exit.
  public func kill(_ signal: Int32 = 9) {
    state.withLock { state in
      // The process is reaped under this lock only, so the identifier is still the child's.
      refresh(&state)
      if case .ended = state { return }
      _ = signalProcess(processIdentifier, signal)
    }
  }

  /// Stops the child with `SIGSTOP`, and returns when it is stopped.
  ///
  /// - Throws: `ended` if the child has exited.
  public func stop(deadline: Duration = .seconds(600)) throws(ChildProcessError) {
    kill(SIGSTOP)
    try waitUntilStopped(deadline: deadline)
  }

  /// Waits until the child is stopped, for example by a fault point.
  ///
  /// - Throws: `ended` if it exits instead; `timedOut` if it keeps running.
  public func waitUntilStopped(
    deadline: Duration = .seconds(600)
  ) throws(ChildProcessError) {
    let limit = ContinuousClock.now + deadline
    var pause = Backoff()
    while true {
      switch refresh() {
      case .stopped: return
      case .ended: throw failure(.ended, "stop", "The child has exited.")
      case .running: break
      }
      if ContinuousClock.now >= limit {
        throw failure(.timedOut, "stop", "The child keeps running.")
      }
      pause.take()
    }
  }

  /// Resumes a stopped child. The call has no effect on a running one.
  public func `continue`() {
    state.withLock { state in
      refresh(&state)
      if case .ended = state { return }
      _ = signalProcess(processIdentifier, SIGCONT)
      state = .running
    }
  }

  /// Waits until the child exits, and reaps it.
  ///
  /// - Throws: `timedOut` if it still runs; the child is not ended.
  @discardableResult
  public func wait(deadline: Duration = .seconds(600)) throws(ChildProcessError) -> ExitStatus {
    let limit = ContinuousClock.now + deadline
    var pause = Backoff()
    while true {
      if let status = exitStatus { return status }
      if ContinuousClock.now >= limit {
        throw failure(.timedOut, "wait for its end", "It is still alive.")
      }
      // The end of its output usually means its exit. If the child closed its output or left it to
      // another process, short pauses detect the exit.
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
        // Other code reaped the child. Its status is lost, and waiting for it would hang.
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
    // The output closes shortly before the process can be reaped.
    let status = awaitingEnd ? try? wait(deadline: .seconds(1)) : exitStatus
    return ChildProcessError(
      code: code, operation: "\(name) [\(processIdentifier)]: \(operation)", status: status,
      message: message, standardError: String(standardErrorText.suffix(4000)))
  }
}
