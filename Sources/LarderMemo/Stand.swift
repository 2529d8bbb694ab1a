// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// What a process that stands for a command does with its own descriptors and its own end.
package enum Stand {
  /// Writes a result where the command would have written it. A reader that has gone ends this
  /// process, as it would have ended the command.
  package static func replay(_ result: MemoResult) {
    result.forEachSegment { descriptor, bytes in write(bytes, to: CInt(descriptor)) }
  }

  private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: CInt) {
    do {
      try Descriptor.write(bytes, to: descriptor)
    } catch {
      // Ignored by whoever started us, or not ours to write to: the end is the same.
      if Descriptor.isBrokenPipe(error) { SignalInbox.die(of: SignalInbox.brokenPipe) }
      SignalInbox.end(1)
    }
  }

  /// See ``Descriptor/openMissing()``.
  package static func openMissingDescriptors() { Descriptor.openMissing() }

  /// Whether there are the descriptors that Swift's runtime takes when it first goes to another thread
  /// or waits: libdispatch opens an epoll, two event and a timer descriptor, and traps if it cannot.
  package static var hasDescriptorsForRuntime: Bool { Descriptor.canOpen(4) }

  /// Whether there are descriptors for the runtime and for everything a command opens.
  package static var hasDescriptorsToSpare: Bool { Descriptor.canOpen(64) }

  package static func isSuccess(_ end: ProcessEnd) -> Bool { end.isSuccess }

  /// Ends as the command ended: with its exit status, or by the same signal.
  package static func end(as end: ProcessEnd) -> Never {
    switch end {
    case .exited(let code): SignalInbox.end(CInt(code))
    case .killed(let signal): SignalInbox.die(of: CInt(signal))
    }
  }

  /// The columns of the terminal standard output goes to; `nil`: it is none, or does not say.
  package static var terminalColumns: Int? { Descriptor.columns(1) }

  /// The columns of the terminal standard error goes to.
  package static var errorColumns: Int? { Descriptor.columns(2) }

  /// Gives a file another name, in place of what has it.
  package static func rename(_ path: String, to other: String) throws {
    try FileSystem.rename(path, to: other)
  }

  /// Removes a file when this process is interrupted, terminated or hung up on, and then ends as it
  /// would have. A signal that is ignored stays ignored.
  package static func removeWhenInterrupted(_ path: String) throws {
    let inbox = try SignalInbox.open([
      SignalInbox.interrupt, SignalInbox.terminate, SignalInbox.hangUp,
    ])
    try OSThread.start {
      while (try? Descriptor.wait(for: [.init(inbox)])) != nil {
        guard let arrival = SignalInbox.take().first else { continue }
        FileSystem.removeTree(path)
        SignalInbox.die(of: arrival.signal)
      }
    }
  }

  /// Becomes the command, without a store.
  ///
  /// - Returns: Why it could not be started.
  package static func become(_ call: MemoCall) -> String { "\(call.program.replaceThisProcess())" }

  /// Starts this program once more with other arguments, in a session of its own, without any of
  /// this process's descriptors: nobody waits for it.
  ///
  /// - Parameters:
  ///   - first: Its first arguments.
  ///   - count: How many of this process's last arguments follow.
  package static func detach(_ first: [String], lastArguments count: Int) -> Bool {
    guard let own = Executable.own else { return false }
    var program = Program(
      path: Array(own.utf8), arguments: first.map { Array($0.utf8) } + lastArguments(count))
    program.isDetached = true
    return (try? program.start()) != nil
  }
}
