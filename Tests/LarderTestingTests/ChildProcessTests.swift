// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Synchronization
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(60)))
struct ChildProcessTests {
  @Test func `Lines go to a child and return in order`() throws {
    let child = try ChildProcess("/bin/cat")
    for number in 0..<1000 { try child.send("line \(number)") }
    for number in 0..<1000 { try child.expect("line \(number)") }
    child.closeInput()
    #expect(try child.remainingLines() == [])
    #expect(try child.wait() == .exited(0))
  }

  @Test func `A line may be longer than a read, and empty, and not ASCII`() throws {
    let child = try ChildProcess("/bin/cat")
    let long = String(repeating: "ø", count: 30_000)
    #expect(try child.ask(long) == long)
    #expect(try child.ask("") == "")
  }

  @Test func `A last line without an end is a line`() throws {
    let child = try shell("printf 'one\\n\\ntwo'")
    #expect(try child.remainingLines() == ["one", "", "two"])
    #expect(throws: ChildProcessError.self) { try child.nextLine() }
  }

  @Test func `Arguments and the environment arrive unchanged`() throws {
    let child = try ChildProcess(
      "/bin/sh", ["-c", #"echo "$0|$1|$GREETING|$SWIFT_BACKTRACE""#, "a b", "*"],
      environment: ["GREETING": "good day"])
    try child.expect("a b|*|good day|enable=no")
    #expect(try child.wait() == .exited(0))
  }

  @Test func `A child runs in the given working directory`() throws {
    let directory = try TemporaryDirectory()
    try TestFiles.write(Array("salt\n".utf8), to: directory.appending("jar"))
    let child = try ChildProcess("cat", ["jar"], workingDirectory: directory.path)
    try child.expect("salt")
    #expect(
      try ChildProcess.run("cat", ["jar"], workingDirectory: directory.path).lines == ["salt"])
    let error = #expect(throws: ChildProcessError.self) {
      try ChildProcess("cat", workingDirectory: directory.appending("none"))
    }
    #expect(error?.code == .notStarted)
  }

  @Test func `Lines before the awaited one are passed over and given back`() throws {
    let child = try shell("echo one; echo two; echo ready; echo 'stored 7'; echo 'stored 8'")
    #expect(try child.wait(for: "ready") == ["one", "two"])
    #expect(try child.nextLine { $0.hasSuffix("8") } == "stored 8")
    let error = #expect(throws: ChildProcessError.self) { try child.wait(for: "more") }
    #expect(error?.code == .endOfOutput)
    #expect(error?.status == .exited(0))
  }

  @Test func `Other lines do not prolong the wait for one`() throws {
    let child = try ChildProcess("yes")
    let error = #expect(throws: ChildProcessError.self) {
      try child.wait(for: "no", deadline: .milliseconds(100))
    }
    #expect(error?.code == .timedOut)
    child.kill()
    #expect(try child.wait() == .killed)
  }

  @Test func `An executable is found in PATH`() throws {
    let child = try ChildProcess("sh", ["-c", "echo found"])
    try child.expect("found")
  }

  @Test func `A missing executable is an error that names it`() throws {
    let error = #expect(throws: ChildProcessError.self) { try ChildProcess("/no/such/thing") }
    #expect(error?.code == .notStarted)
    #expect(error?.description.contains("/no/such/thing") == true)
  }

  @Test(arguments: [Int32(0), 1, 77, 255])
  func `An exit code is reported`(code: Int32) throws {
    let child = try shell("exit \(code)")
    #expect(try child.wait() == .exited(code))
    #expect(child.exitStatus == .exited(code))
    #expect(try child.wait() == .exited(code))
  }

  @Test func `A killed child was ended by the signal, and stopping it fails`() throws {
    let child = try ChildProcess("/bin/cat")
    #expect(child.exitStatus == nil)
    child.kill()
    #expect(try child.wait() == .signalled(SIGKILL))
    child.kill(SIGTERM)
    let error = #expect(throws: ChildProcessError.self) { try child.stop() }
    #expect(error?.code == .ended)
    #expect(error?.status == .signalled(SIGKILL))
  }

  @Test func `Reading from a child that died reports its exit status`() throws {
    let child = try shell("echo last words; exit 3")
    try child.expect("last words")
    let error = #expect(throws: ChildProcessError.self) { try child.nextLine() }
    #expect(error?.code == .endOfOutput)
    #expect(error?.status == .exited(3))
    #expect(error?.description.contains("exited with 3") == true)
  }

  @Test func `A child that closes its output but lives is distinguished from a dead one`() throws {
    let child = try shell("exec >&-; read answer; exit 5")
    let error = #expect(throws: ChildProcessError.self) { try child.nextLine() }
    #expect(error?.code == .endOfOutput)
    #expect(error?.status == nil)
    try child.send("go on")
    #expect(try child.wait() == .exited(5))
  }

  @Test func `Writing to a child that died is an error, not a signal`() throws {
    let child = try shell("exit 4")
    try child.wait()
    let error = #expect(throws: ChildProcessError.self) { try child.send("hello") }
    #expect(error?.code == .inputClosed)
    #expect(error?.status == .exited(4))
  }

  @Test func `A line that never ends is a timeout, and its beginning is kept`() throws {
    let child = try shell("printf 'up\\nhalf'; read rest; echo \" $rest\"; read end")
    try child.expect("up")
    let error = #expect(throws: ChildProcessError.self) {
      try child.nextLine(deadline: .milliseconds(300))
    }
    #expect(error?.code == .timedOut)
    #expect(error?.status == nil)
    #expect(error?.description.contains("\"half\"") == true)
    try child.send("whole")
    try child.expect("half whole")
  }

  @Test func `Waiting for a child that lives is a timeout`() throws {
    let child = try ChildProcess("/bin/cat")
    let error = #expect(throws: ChildProcessError.self) {
      try child.wait(deadline: .milliseconds(50))
    }
    #expect(error?.code == .timedOut)
    child.closeInput()
    #expect(try child.wait() == .exited(0))
  }

  @Test func `An unexpected line is quoted`() throws {
    let child = try shell("echo salt")
    let error = #expect(throws: ChildProcessError.self) { try child.expect("pepper") }
    #expect(error?.code == .unexpectedLine)
    #expect(error?.description.contains("The line was \"salt\"") == true)
  }

  @Test func `A stopped child does nothing until it is continued`() throws {
    let child = try ChildProcess("/bin/cat")
    #expect(try child.ask("one") == "one")
    try child.stop()
    try child.stop()
    try child.send("two")
    let error = #expect(throws: ChildProcessError.self) {
      try child.nextLine(deadline: .milliseconds(100))
    }
    #expect(error?.code == .timedOut)
    #expect(child.exitStatus == nil)
    child.continue()
    child.continue()
    try child.expect("two")
  }

  @Test func `A child that stops itself is waited for, and can be stopped again`() throws {
    let child = try shell("kill -STOP $$; echo awake; kill -STOP $$; echo again")
    try child.waitUntilStopped()
    child.continue()
    try child.expect("awake")
    try child.waitUntilStopped()
    child.continue()
    try child.expect("again")
    #expect(try child.wait() == .exited(0))
  }

  @Test func `A child that reads nothing cannot block its parent for ever`() throws {
    let child = try ChildProcess("/bin/cat")
    try child.stop()
    let error = #expect(throws: ChildProcessError.self) {
      try child.send(String(repeating: "x", count: 1 << 20), deadline: .milliseconds(50))
    }
    #expect(error?.code == .timedOut)
  }

  @Test func `A stopped child dies of a kill`() throws {
    let child = try ChildProcess("/bin/cat")
    try child.stop()
    child.kill()
    #expect(try child.wait() == .signalled(SIGKILL))
  }

  @Test func `Captured standard error is part of every error`() throws {
    let child = try ChildProcess(
      "/bin/sh", ["-c", "echo oh no >&2; exit 9"], standardError: .captured)
    let error = #expect(throws: ChildProcessError.self) { try child.nextLine() }
    #expect(error?.standardError == "oh no\n")
    #expect(child.standardErrorText == "oh no\n")
  }

  @Test func `A released child is killed and reaped, also when it was stopped`() throws {
    for stops in [false, true] {
      var child: ChildProcess? = try ChildProcess("/bin/cat")
      let identifier = try #require(child).processIdentifier
      if stops { try child?.stop() }
      #expect(kill(identifier, 0) == 0)
      child = nil
      #expect(kill(identifier, 0) == -1)
    }
  }

  @Test func `A child does not hold another's pipes, so each sees its own end of input`() throws {
    let first = try ChildProcess("/bin/cat")
    let second = try ChildProcess("/bin/cat")
    first.closeInput()
    #expect(try first.wait() == .exited(0))
    #expect(second.exitStatus == nil)
  }

  @Test func `One thread can kill the child another one reads from`() async throws {
    let child = try ChildProcess("/bin/cat")
    let reader = JoinableThread { Result { try child.nextLine() } }
    child.kill()
    let error = #expect(throws: ChildProcessError.self) { try reader.join().get() }
    #expect(error?.code == .endOfOutput)
    #expect(error?.status == .signalled(SIGKILL))
  }

  @Test func `A thread that waits for a line does not keep another from its own deadline`() throws {
    let child = try ChildProcess("/bin/cat")
    let patient = JoinableThread { Result { try child.nextLine() } }
    for _ in 0..<20 {
      let error = #expect(throws: ChildProcessError.self) {
        try child.nextLine(deadline: .milliseconds(5))
      }
      #expect(error?.code == .timedOut)
    }
    try child.send("now")
    #expect(try patient.join().get() == "now")
  }

  @Test func `Lines of two senders do not mix`() throws {
    let child = try ChildProcess("/bin/cat")
    let senders = ["a", "b"].map { letter in
      JoinableThread {
        let line = String(repeating: letter, count: 8000)
        return Result { for _ in 0..<100 { try child.send(line) } }
      }
    }
    var counts: [String: Int] = [:]
    for _ in 0..<200 {
      let line = try child.nextLine()
      #expect(line.count == 8000 && Set(line).count == 1)
      counts[String(line.prefix(1)), default: 0] += 1
    }
    #expect(counts == ["a": 100, "b": 100])
    for sender in senders { try sender.join().get() }
  }

  @Test func `Many children come and go without leaving descriptors open`() async {
    // In a separate process: other suites open files at the same time.
    await #expect(processExitsWith: .success) {
      func openDescriptors() -> Int { (0..<4096).count { fcntl($0, F_GETFD) != -1 } }
      func start(_ count: Int) throws {
        for _ in 0..<count {
          let child = try ChildProcess("/bin/cat", standardError: .captured)
          child.kill()
          try child.wait()
        }
      }
      try start(2)
      let before = openDescriptors()
      try start(100)
      #expect(openDescriptors() <= before + 2)
    }
  }

  private func shell(_ script: String) throws -> ChildProcess {
    try ChildProcess("/bin/sh", ["-c", script])
  }
}
