// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(60)))
struct RendezvousTests {
  @Test func `All go when all are ready`() throws {
    let children = try (0..<8).map { try shell("echo ready; read word; echo \"$word \($0)\"") }
    try ProcessBarrier.release(children)
    for (number, child) in children.enumerated() { try child.expect("go \(number)") }
  }

  @Test func `No process passes the barrier before all have arrived`() throws {
    let first = try shell("printf 'up\\nready\\n'; read word; echo \"$word\"")
    try first.expect("up")
    let second = try shell("read now; echo ready; read word; echo \"$word\"")
    var error = #expect(throws: ChildProcessError.self) {
      try ProcessBarrier.release([first, second], deadline: .milliseconds(100))
    }
    #expect(error?.code == .timedOut)
    error = #expect(throws: ChildProcessError.self) {
      try first.nextLine(deadline: .milliseconds(50))
    }
    #expect(error?.code == .timedOut)
    try first.send("not go")
    try first.expect("not go")
    try second.send("now")
    try ProcessBarrier.release([second])
    try second.expect("go")
  }

  @Test func `A child that dies before the barrier is an error, and no process passes`() throws {
    let first = try shell("echo ready; read word && echo \"$word\"")
    let second = try shell("exit 6")
    let error = #expect(throws: ChildProcessError.self) {
      try ProcessBarrier.release([first, second])
    }
    #expect(error?.status == .exited(6))
    first.closeInput()
    #expect(try first.remainingLines() == [])
  }

  @Test func `A child whose parent has exited gets an error`() async throws {
    // The input of an exit test is empty, as if the parent had gone.
    let result = try await #require(
      processExitsWith: .exitCode(7), observing: [\.standardOutputContent]
    ) {
      exit(ProcessBarrier.arrive() ? 1 : 7)
    }
    #expect(String(decoding: result.standardOutputContent, as: UTF8.self).contains("ready\n"))
  }

  private func shell(_ script: String) throws -> ChildProcess {
    try ChildProcess("/bin/sh", ["-c", script])
  }
}

@Suite(.timeLimit(.minutes(60)))
struct ChildProcessRunTests {
  @Test func `A finished child leaves its status, lines and errors`() throws {
    let outcome = try ChildProcess.run(
      "/bin/sh", ["-c", "read a; echo \"got $a $B\"; echo; echo bad >&2; exit 2"],
      input: ["salt", "ignored"], environment: ["B": "b"])
    #expect(outcome.status == .exited(2))
    #expect(outcome.lines == ["got salt b", ""])
    #expect(outcome.output == "got salt b\n\n")
    #expect(outcome.standardError == "bad\n")
  }

  @Test func `A child that never ends is a timeout`() throws {
    let error = #expect(throws: ChildProcessError.self) {
      try ChildProcess.run("/bin/sh", ["-c", "kill -STOP $$"], deadline: .milliseconds(100))
    }
    #expect(error?.code == .timedOut)
  }
}
