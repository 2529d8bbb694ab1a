// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// What a process that stands for a command does with its own descriptors and its own end.
package enum CommandProxy {
  /// Writes a result where the command would have written it. A reader that has gone ends this
  /// process, as it would have ended the command.
  package static func replay(_ result: MemoResult) {
    result.forEachSegment { descriptor, bytes in write(bytes, to: CInt(descriptor)) }
  }

  private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: CInt) {
    do {
      try RawDescriptor.write(bytes, to: descriptor)
    } catch {
      // Ignored by whoever started us, or not ours to write to: the end is the same.
      if RawDescriptor.isBrokenPipe(error) { SignalPipe.die(of: SignalPipe.brokenPipe) }
      SignalPipe.end(1)
    }
  }

  /// See ``Descriptor/openMissing()``.
  package static func openMissingDescriptors() { RawDescriptor.openMissing() }

  /// Whether there are the descriptors that Swift's runtime takes when it first goes to another thread
  /// or waits: libdispatch opens an epoll, two event and a timer descriptor, and traps if it cannot.
  package static var hasDescriptorsForRuntime: Bool { RawDescriptor.canOpen(4) }

  /// Whether there are descriptors for the runtime and for everything a command opens.
  package static var hasDescriptorsToSpare: Bool { RawDescriptor.canOpen(64) }

  package static func isSuccess(_ end: TerminationStatus) -> Bool { end.isSuccess }

  /// Ends as the command ended: with its exit status, or by the same signal.
  package static func end(as end: TerminationStatus) -> Never {
    switch end {
    case .exited(let code): SignalPipe.end(CInt(code))
    case .killed(let signal): SignalPipe.die(of: CInt(signal))
    }
  }

  /// The columns of the terminal standard output goes to; `nil`: it is none, or does not say.
  package static var terminalColumns: Int? { RawDescriptor.columns(1) }

  /// The columns of the terminal standard error goes to.
  package static var errorColumns: Int? { RawDescriptor.columns(2) }

  /// Gives a file another name, in place of what has it.
  package static func rename(_ path: String, to other: String) throws {
    try FileSystem.rename(path, to: other)
  }

  /// Removes a file when this process is interrupted, terminated or hung up on, and then ends as it
  /// would have. A signal that is ignored stays ignored.
  package static func removeWhenInterrupted(_ path: String) throws {
    let inbox = try SignalPipe.open([
      SignalPipe.interrupt, SignalPipe.terminate, SignalPipe.hangUp,
    ])
    try OSThread.start {
      while (try? RawDescriptor.wait(for: [.init(inbox)])) != nil {
        guard let arrival = SignalPipe.take().first else { continue }
        FileSystem.removeTree(path)
        SignalPipe.die(of: arrival.signal)
      }
    }
  }

  /// Becomes the command, without a store.
  ///
  /// - Returns: Why it could not be started.
  package static func become(_ call: CommandInvocation) -> String {
    "\(call.program.replaceThisProcess())"
  }

  /// Starts this program once more with other arguments, in a session of its own, without any of
  /// this process's descriptors: nobody waits for it.
  ///
  /// - Parameters:
  ///   - first: Its first arguments.
  ///   - count: How many of this process's last arguments follow.
  package static func detach(_ first: [String], lastArguments count: Int) -> Bool {
    guard let own = ExecutableSearch.own else { return false }
    var program = SpawnConfiguration(
      path: Array(own.utf8), arguments: first.map { Array($0.utf8) } + lastArguments(count))
    program.isDetached = true
    return (try? program.start()) != nil
  }
}
