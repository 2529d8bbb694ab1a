// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

/// The counts and the crashes of the fuzzers.
package struct FuzzOutcome: Sendable {
  package var runs: [String: UInt64] = [:]
  package var crashes: [String] = []
}

/// Runs the built-in fuzzers in child processes and collects the inputs that kill them.
package enum FuzzRun {
  /// An input that takes longer hangs, on a machine with much other work too.
  static let deadline: UInt64 = 60_000_000_000

  /// - Parameter corpus: A directory, made if missing: per target the inputs that gave something
  ///   new, and `crash-…` files with what killed it.
  package static func run(
    targets names: [String], seconds: Double, seed: UInt64, corpus: String,
    report: (String) -> Void
  ) throws -> FuzzOutcome {
    var outcome = FuzzOutcome()
    let directory = try DamageRun.workDirectory("fuzz")
    defer { TestFiles.removeAll(directory) }
    try FileSystem.makeDirectories(corpus)
    for name in names {
      try FileSystem.makeDirectory("\(corpus)/\(name)")
      try run(
        name, seconds / Double(names.count), seed, corpus: "\(corpus)/\(name)",
        directory: directory, &outcome)
      report("fuzz \(name): \(outcome.runs[name] ?? 0) inputs, \(outcome.crashes.count) crashes")
    }
    return outcome
  }

  private static func run(
    _ name: String, _ seconds: Double, _ seed: UInt64, corpus: String, directory: String,
    _ outcome: inout FuzzOutcome
  ) throws {
    let peer = try PeerExecutable.path
    let boardPath = "\(directory)/board-\(name)"
    let board = try FuzzBoard(path: boardPath)
    let end = Clocks.monotonicNanoseconds() + UInt64(seconds * 1e9)
    var start = Clocks.monotonicNanoseconds()
    for attempt in 0..<10 where start < end {
      let rest = Double(end - start) / 1e9
      let child = try ChildProcess(
        peer,
        [
          "stress", "fuzz-worker", name, "\(seed &+ UInt64(attempt))", "\(rest)", corpus, boardPath,
        ],
        environment: ["LARDER_FUZZ_DIRECTORY": directory], standardError: .captured)
      var isHanging = false
      while child.exitStatus == nil {
        Event().wait(nanoseconds: 20_000_000)
        guard board.age > deadline else { continue }
        isHanging = true
        child.kill()
      }
      let status = try child.wait()
      if status != .exited(0) {
        let input = board.input
        let path = "\(corpus)/../crash-\(name)-\(FuzzLoop.name(of: input))"
        try TestFiles.write(input, to: path)
        let text = child.standardErrorText.prefix(300)
        outcome.crashes.append(
          "\(name): \(isHanging ? "hung" : "\(status)") on \(input.count) bytes. \(text)\n"
            + "    scripts/stress fuzz --input \(path) \(name)")
      }
      start = Clocks.monotonicNanoseconds()
    }
    outcome.runs[name] = board.runs
  }
}
#endif
