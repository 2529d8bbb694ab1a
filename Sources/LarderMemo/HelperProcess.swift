// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// A process that works for this one: its output is read here.
///
/// Unlike a memoized command it is a part of the tool, so it ends with it: a helper whose output is
/// not read any more gets a broken pipe.
package struct HelperProcess: Sendable {
  /// The program of a helper.
  package enum Program: Sendable {
    /// This program.
    case own
    /// A program that is searched in `PATH`.
    case named(String)
  }

  /// The error of a program that cannot be started.
  package struct NotStarted: Error, Sendable { package let message: String }

  /// The process identifier.
  package let pid: Int32
  private let output: CInt

  /// The helpers that have not ended. None is waited for while it is in the set, so no identifier in
  /// it belongs to another process.
  private static let running = Mutex<Set<Int32>>([])

  /// Starts a helper.
  ///
  /// - Parameters:
  ///   - program: The program.
  ///   - arguments: The arguments, without the name of the program.
  ///   - input: The descriptor for its standard input.
  /// - Throws: ``NotStarted``.
  package init(_ program: Program, _ arguments: [String], input: CInt) throws(NotStarted) {
    let path: [UInt8]
    let name: String
    switch program {
    case .own:
      guard let own = ExecutableSearch.own else {
        throw NotStarted(message: "The system does not provide the path of this program.")
      }
      (path, name) = (Array(own.utf8), "larder")
    case .named(let wanted):
      guard case .found(let found) = ExecutableSearch.find(Array(wanted.utf8)) else {
        throw NotStarted(message: "\(wanted): command not found. Install it, or extend PATH.")
      }
      (path, name) = (found, wanted)
    }
    restoreDefaultSIGCHLD()
    var configuration = SpawnConfiguration(
      path: path, arguments: ([name] + arguments).map { Array($0.utf8) })
    configuration.input = input
    do throws(SystemError) {
      let pipe = try PipePair()
      defer { RawDescriptor.close(pipe.writeEnd) }
      configuration.output = pipe.writeEnd
      do throws(SystemError) {
        pid = try Self.running.withLock { running throws(SystemError) in
          let pid = try configuration.start()
          running.insert(pid)
          return pid
        }
      } catch {
        RawDescriptor.close(pipe.readEnd)
        throw error
      }
      output = pipe.readEnd
    } catch {
      throw NotStarted(message: "Cannot start \(name): \(error)")
    }
  }

  /// Waits for output and returns it; an empty array at its end.
  package func read() -> [UInt8] {
    while true {
      // An error of a pipe that this process opened is the end.
      do {
        if let piece = try RawDescriptor.read(output, count: 1 << 16) { return piece }
      } catch { return [] }
    }
  }

  /// Waits for the end of a process whose output has ended, and closes the output.
  ///
  /// - Returns: `nil` after success, otherwise the status in words.
  package func finish() -> String? {
    RawDescriptor.close(output)
    // The set does not contain the identifier when the system may assign it again.
    Self.running.withLock { _ = $0.remove(pid) }
    switch SpawnConfiguration.waitForEnd(of: pid) {
    case .exited(0): return nil
    case .exited(let code): return "exited with status \(code)"
    case .killed(let signal): return "was ended by signal \(signal)"
    }
  }

  /// Kills the process. It still has to be waited for.
  package func kill() { SpawnConfiguration.send(SignalPipe.killSignal, to: pid) }

  /// Kills all helpers of this process.
  static func killAll() {
    running.withLock { for pid in $0 { SpawnConfiguration.send(SignalPipe.killSignal, to: pid) } }
  }
}

/// A pipe of numbers that several helpers read as their standard input: each number reaches one of
/// them, in order.
package struct TaskPipe: Sendable {
  /// The bytes of a number. A write and a read of so few bytes are not split.
  package static let width = 4
  private let pipe: PipePair

  package init() throws(HelperProcess.NotStarted) {
    do { pipe = try PipePair() } catch { throw HelperProcess.NotStarted(message: "\(error)") }
  }

  /// The descriptor for the standard input of the helpers.
  package var input: CInt { pipe.readEnd }

  /// Writes the numbers from zero to `count` on another thread, and then closes the pipe. Call it
  /// once, after the helpers were started.
  package func fill(_ count: UInt32) throws(HelperProcess.NotStarted) {
    RawDescriptor.close(pipe.readEnd)
    let end = pipe.writeEnd
    do {
      try OSThread.start {
        for number in 0..<count {
          let bytes = (0..<Self.width).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
          // A broken pipe: all helpers have ended, and their statuses contain the reason.
          do { try RawDescriptor.write(bytes[...], to: end) } catch { break }
        }
        RawDescriptor.close(end)
      }
    } catch { throw HelperProcess.NotStarted(message: "\(error)") }
  }

  /// Returns the number of a read, or `nil` at the end of the pipe.
  package static func number(_ bytes: some Sequence<UInt8>) -> Int? {
    var number = 0
    var count = 0
    for byte in bytes {
      number |= Int(byte) << (8 * count)
      count += 1
    }
    return count == width ? number : nil
  }
}
