// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem
internal import Synchronization

/// The descriptors, signals and exit status of a process that replays a command.
package enum CommandProxy {
  /// Sets a variable of the environment for all commands of this process.
  package static func export(_ value: String, as name: String) {
    FileSystem.setEnvironment(name, to: value)
  }

  /// Writes a result to the descriptors that the command wrote to. A broken pipe ends this process,
  /// as it would end the command.
  package static func replay(_ result: MemoResult) {
    result.forEachSegment { descriptor, bytes in write(bytes, to: CInt(descriptor)) }
  }

  private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: CInt) {
    // As a command ends that cannot write.
    if descriptor == 1, isWithoutOutput, !bytes.isEmpty { SignalPipe.end(1) }
    do {
      try RawDescriptor.write(bytes, to: descriptor)
    } catch {
      // SIGPIPE is ignored, or the descriptor is not writable: the process ends in any case.
      if RawDescriptor.isBrokenPipe(error) { SignalPipe.die(of: SignalPipe.brokenPipe) }
      SignalPipe.end(1)
    }
  }

  /// Opens `/dev/null` for each missing standard descriptor.
  package static func openMissingDescriptors() {
    lacksOutput.store(RawDescriptor.openMissing().contains(1), ordering: .relaxed)
  }

  private static let lacksOutput = Atomic<Bool>(false)

  /// Whether this process was started without standard output.
  package static var isWithoutOutput: Bool { lacksOutput.load(ordering: .relaxed) }

  /// The exclusive lock of a file, held as long as this exists or until this process ends.
  package final class FileLock: Sendable {
    private let file: OwnedFile

    /// Returns nil if another process has the lock, or the file system has no locks.
    package init?(_ path: String) {
      guard let file = try? OwnedFile(path: path), (try? file.tryExclusiveLock()) == true else {
        return nil
      }
      self.file = file
    }
  }

  /// Removes a regular file that no process has locked.
  package static func removeUnlocked(_ path: String) {
    guard let status = (try? FileSystem.status(of: path, followingLinks: false)) ?? nil,
      status.isRegularFile, let lock = FileLock(path)
    else { return }
    withExtendedLifetime(lock) { _ = try? FileSystem.removeFile(path) }
  }

  /// Whether the runtime can open the descriptors that it needs for its first thread switch or
  /// wait: libdispatch opens an epoll, two event and a timer descriptor, and traps on failure. Another
  /// thread of the store may open files before that.
  package static var hasDescriptorsForRuntime: Bool { RawDescriptor.canOpen(8) }

  /// Whether the process can open the descriptors of the runtime and of a command.
  package static var hasDescriptorsToSpare: Bool { RawDescriptor.canOpen(64) }

  package static func isSuccess(_ end: TerminationStatus) -> Bool { end.isSuccess }

  /// The end of a command.
  package typealias End = TerminationStatus

  /// Returns whether a signal has ended the command.
  package static func isSignal(_ end: TerminationStatus) -> Bool {
    if case .killed = end { true } else { false }
  }

  /// Ends this process as the command ended: with its exit status, or by the same signal.
  package static func end(as end: TerminationStatus) -> Never {
    switch end {
    case .exited(let code): SignalPipe.end(CInt(code))
    case .killed(let signal): SignalPipe.die(of: CInt(signal))
    }
  }

  /// The columns of the terminal that standard output is, or nil if it is not a terminal or has no
  /// size.
  package static var terminalColumns: Int? { RawDescriptor.columns(1) }

  /// The columns of the terminal that standard error is, or nil.
  package static var errorColumns: Int? { RawDescriptor.columns(2) }

  /// Renames a file and replaces an existing file of that name; on the disk when this returns.
  package static func rename(_ path: String, to other: String) throws {
    try FileSystem.rename(path, to: other)
    try FileSystem.synchronizeName(of: other)
  }

  /// The position of the first argument of this process before `--` that is not UTF-8.
  package static var firstArgumentWithoutText: Int? { argumentWithoutText() }

  /// Removes a file or directory when this process gets SIGINT, SIGTERM or SIGHUP, and then ends by
  /// that signal. Helper processes are killed first. An ignored signal stays ignored.
  package static func removeWhenInterrupted(_ path: String) throws {
    let inbox = try SignalPipe.open([
      SignalPipe.interrupt, SignalPipe.terminate, SignalPipe.hangUp,
    ])
    try OSThread.start {
      while (try? RawDescriptor.wait(for: [.init(inbox)])) != nil {
        guard let arrival = SignalPipe.take().first else { continue }
        interruption.store(arrival.signal, ordering: .releasing)
        HelperProcess.killAll()
        // Other threads of this process may be creating files in it.
        for _ in 0..<1000 {
          FileSystem.removeTree(path)
          if case .some(.none) = try? FileSystem.status(of: path) { break }
        }
        SignalPipe.die(of: arrival.signal)
      }
    }
  }

  private static let interruption = Atomic<CInt>(0)

  /// Ends this process by the signal on which ``removeWhenInterrupted(_:)`` acts, if there is one.
  ///
  /// The death of a helper process makes the command fail, and an exit with that error would come
  /// before the end by the signal.
  package static func endIfInterrupted() {
    let signal = interruption.load(ordering: .acquiring)
    if signal != 0 { SignalPipe.die(of: signal) }
  }

  /// Runs a command with the input and output of this process until it has exited.
  ///
  /// Signals to this process are sent to the command, except those of a terminal, which the command
  /// gets from the terminal.
  package static func run(_ call: CommandInvocation) throws -> TerminationStatus {
    restoreDefaultSIGCHLD()
    let signals = try SignalPipe.open([
      SignalPipe.interrupt, SignalPipe.terminate, SignalPipe.hangUp, SignalPipe.quit,
      SignalPipe.childChanged,
    ])
    let pid = try call.program.start()
    while true {
      _ = try RawDescriptor.wait(for: [.init(signals)])
      for arrival in SignalPipe.take() where arrival.signal != SignalPipe.childChanged {
        lastSignal.store(arrival.signal, ordering: .relaxed)
        if !arrival.isFromTerminal { SpawnConfiguration.send(arrival.signal, to: pid) }
      }
      if let end = SpawnConfiguration.end(of: pid) { return end }
    }
  }

  /// The last signal that arrived while a command ran, for this process as well.
  private static let lastSignal = Atomic<CInt>(0)

  /// Whether a signal has arrived that would have ended this process if the signals of commands were
  /// not caught.
  package static var wasSignalled: Bool {
    for arrival in SignalPipe.take() where arrival.signal != SignalPipe.childChanged {
      lastSignal.store(arrival.signal, ordering: .relaxed)
    }
    return lastSignal.load(ordering: .relaxed) != 0
  }

  /// Ends this process by the signal of ``wasSignalled``.
  package static func endBySignal() -> Never {
    SignalPipe.die(of: lastSignal.load(ordering: .relaxed))
  }

  /// Replaces this process with the command.
  ///
  /// - Returns: The reason that the command could not be started.
  package static func become(_ call: CommandInvocation) -> String {
    "\(call.program.replaceThisProcess())"
  }

  /// Starts this program again with other arguments, in a separate session and without this
  /// process's descriptors. This process does not wait for it.
  ///
  /// - Parameters:
  ///   - first: The first arguments.
  ///   - count: The number of this process's last arguments that follow them.
  /// - Returns: Whether the process was started.
  package static func detach(_ first: [String], lastArguments count: Int) -> Bool {
    guard let own = ExecutableSearch.own else { return false }
    var program = SpawnConfiguration(
      path: Array(own.utf8), arguments: first.map { Array($0.utf8) } + lastArguments(count))
    program.isDetached = true
    return (try? program.start()) != nil
  }
}
