// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// One run of a command. Its output is relayed at once and recorded.
struct CommandExecution {
  private let program: SpawnConfiguration
  private let relays: Bool
  private(set) var recording: OutputRecorder
  /// The reason that the output could not be relayed; the recorded output is incomplete then.
  private(set) var cut: Memo.Storing?
  private(set) var hasStarted = false

  init(_ call: CommandInvocation, relays: Bool, limit: Int) {
    program = call.program
    self.relays = relays
    recording = OutputRecorder(limit: limit)
  }

  private struct Stream {
    let number: UInt8
    var descriptor: CInt
    var isOpen: Bool { descriptor >= 0 }

    mutating func close() {
      if isOpen { RawDescriptor.close(descriptor) }
      descriptor = -1
    }
  }

  /// Runs the command until it has exited and all processes have closed its output.
  ///
  /// Signals to this process are sent to the command, except those of a terminal, which the command
  /// gets from the terminal.
  mutating func run() throws(SystemError) -> TerminationStatus {
    restoreDefaultSIGCHLD()
    let signals = try SignalPipe.open([
      SignalPipe.interrupt, SignalPipe.terminate, SignalPipe.hangUp, SignalPipe.quit,
      SignalPipe.childChanged,
    ])
    let output = try PipePair()
    let error = try PipePair()
    var child = program
    child.output = output.writeEnd
    child.error = error.writeEnd
    let pid = try child.start()
    hasStarted = true
    RawDescriptor.close(output.writeEnd)
    RawDescriptor.close(error.writeEnd)
    var streams = [
      Stream(number: 1, descriptor: output.readEnd), Stream(number: 2, descriptor: error.readEnd),
    ]
    defer { for index in streams.indices { streams[index].close() } }
    var end: TerminationStatus?
    while end == nil || streams.contains(where: \.isOpen) {
      let open = streams.indices.filter { streams[$0].isOpen }
      let ready = try RawDescriptor.wait(
        for: [.init(signals)] + open.map { .init(streams[$0].descriptor) })
      passSignals(to: pid, unless: end != nil)
      for (index, isReady) in zip(open, ready.dropFirst()) where isReady {
        try move(&streams[index], pid, hasEnded: end != nil)
      }
      if end == nil { end = SpawnConfiguration.end(of: pid) }
    }
    return end!
  }

  private func passSignals(to pid: Int32, unless hasEnded: Bool) {
    for arrival in SignalPipe.take() where arrival.signal != SignalPipe.childChanged {
      // After the exit the pid may belong to another process, so the signal is not sent: it ends
      // this process, which waits only for the output of the command's children.
      if hasEnded { SignalPipe.die(of: arrival.signal) }
      if !arrival.isFromTerminal { SpawnConfiguration.send(arrival.signal, to: pid) }
    }
  }

  private mutating func move(
    _ stream: inout Stream, _ pid: Int32, hasEnded: Bool
  ) throws(SystemError) {
    guard let piece = try RawDescriptor.read(stream.descriptor, count: 1 << 16) else { return }
    if piece.isEmpty { return stream.close() }
    recording.append(piece, of: stream.number)
    guard relays else { return }
    if recording.isTooLarge { recording.drop() }
    if stream.number == 1, CommandProxy.isWithoutOutput {
      cut = .notPassedOn("standard output is closed")
      return stream.close()
    }
    do throws(SystemError) {
      try RawDescriptor.write(piece[...], to: CInt(stream.number)) {
        passSignals(to: pid, unless: hasEnded)
      }
    } catch {
      // The command gets the broken pipe, as it would without this process.
      cut = RawDescriptor.isBrokenPipe(error) ? .cut : .notPassedOn("\(error)")
      stream.close()
    }
  }
}
