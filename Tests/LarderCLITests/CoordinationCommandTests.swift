// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderTestSupport
import LarderTesting
import Testing

/// `larder lock`, `larder locks` and `larder increment`.
@Suite(.timeLimit(.minutes(60))) struct CoordinationCommandTests {
  @Test func `A command runs under the lock, with its own output and exit status`() throws {
    try withTool { tool in
      let outcome = try tool.run(
        "lock", "job", "--", "sh", "-c", "cat; echo out; exit 7", input: ["in"])
      #expect(outcome.status == .exited(7))
      #expect(outcome.output == "in\nout\n")
      #expect(try tool.output("locks") == "No process holds or waits for anything.\n")
    }
  }

  @Test func `While a command holds a lock others see it, time out, and get it when it is killed`()
    throws
  {
    try withTool { tool in
      let holder = try TestExecutable.tool.start([
        "lock", "job", "--store", tool.store, "--", "sh", "-c", "echo held; read line",
      ])
      try holder.expect("held")
      let locks = try tool.run("locks", "--json")
      let list = try JSONSerialization.jsonObject(with: Data(locks.output.utf8)) as? [[String: Any]]
      let holders = try #require(list?.first?["holders"] as? [[String: Any]])
      #expect(list?.first?["name"] as? String == "job" && holders.count == 1)
      #expect(holders.first?["pid"] as? Int == Int(holder.processIdentifier))
      let refused = try tool.run("lock", "job", "--no-wait", "--", "true")
      #expect(refused.status == .exited(1))
      #expect(
        refused.standardError.contains("\(holder.processIdentifier)"), "\(refused.standardError)")
      #expect(try tool.run("lock", "other", "--no-wait", "--", "true").status == .exited(0))
      holder.kill()
      #expect(try tool.run("lock", "job", "--wait", "600s", "--", "true").status == .exited(0))
    }
  }

  @Test func `A command of lock and of queue run finds the store in its environment`() throws {
    try withTool { tool in
      let script = "exec \"$0\" increment inner"
      #expect(
        try tool.output("lock", "job", "--", "sh", "-c", script, tool.path) == "1\n")
      _ = try tool.output("queue", "push", "jobs", "a")
      #expect(
        try tool.output("queue", "run", "jobs", "--", "sh", "-c", script, tool.path) == "2\n")
    }
  }

  @Test func `A wrong name is an error of usage, and a mistyped store is not created`() throws {
    try withTool { tool in
      let long = String(repeating: "n", count: 300)
      #expect(try tool.run("lock", long, "--", "true").status == .exited(64))
      #expect(try tool.run("queue", "push", long, "a").status == .exited(64))
      _ = try tool.output("queue", "push", "jobs", "a")
      let wrong = tool.store + "-wrong"
      let run = ["queue", "run", "jobs", "--store", wrong, "--", "true"]
      #expect(try ChildProcess.run(tool.path, run).status == .exited(2))
      #expect(!TestFiles.exists(wrong))
      #expect(try ChildProcess.run(tool.path, ["stat", tool.store]).status.isSuccess)
      let twice = ["stat", tool.store, "--store", wrong]
      #expect(try ChildProcess.run(tool.path, twice).status == .exited(64))
    }
  }

  @Test func `A counter counts from zero, and programs read it`() throws {
    try withTool { tool in
      #expect(try tool.output("increment", "visits") == "1\n")
      #expect(try tool.output("increment", "visits", "--by", "41") == "42\n")
      #expect(try tool.json("increment", "7", "--key-type", "integer")["value"] as? Int == 1)
      let store = try SharedStore(at: tool.store)
      #expect(try PersistentCache<String, Int>(storage: store).value(forKey: "visits") == 42)
      #expect(try PersistentCache<Int, Int>(storage: store).value(forKey: 7) == 1)
      let overflow = try tool.run("increment", "visits", "--by", "9223372036854775807")
      #expect(overflow.status == .exited(70) && overflow.standardError.contains("range"))
      #expect(try tool.run("increment", "x", "--key-type", "integer").status == .exited(64))
      #expect(try tool.output("increment", "visits", "--by", "-2") == "40\n")
      #expect(try tool.output("increment", "lasting", "--pin") == "1\n")
      #expect(try store.statistics().pinnedEntries == 1)
    }
  }

  @Test func `A line of standard input is an element at the place of the dash`() throws {
    try withTool { tool in
      _ = try tool.output("queue", "push", "jobs", "a", "-", "b", input: ["c\r", "", "d e"])
      #expect(try tool.output("queue", "list", "jobs") == "a\nc\n\nd e\nb\n")
      #expect(try tool.run("queue", "push", "jobs", "-", "-").status == .exited(64))
    }
  }

  #if os(Linux)
  @Test func `An element stays in the queue if it could not be printed`() throws {
    try withTool { tool in
      _ = try tool.output("queue", "push", "jobs", "a")
      let pop = "exec \"$0\" queue pop jobs --store \"$1\" > /dev/full"
      let outcome = try ChildProcess.run("sh", ["-c", pop, tool.path, tool.store])
      #expect(outcome.status == .exited(70))
      #expect(try tool.output("queue", "pop", "jobs") == "a\n")
      #expect(try tool.run("queue", "pop", "jobs").status == .exited(1))
    }
  }
  #endif

  @Test func `Arguments that are not UTF-8 are a usage error`() throws {
    try withTool { tool in
      func run(_ arguments: String) throws -> ChildProcess.Outcome {
        try ChildProcess.run(
          "sh", ["-c", "\"$0\" \(arguments) --store \"$1\"", tool.path, tool.store])
      }
      for arguments in [
        "set \"$(printf 'k\\377')\" v", "set k \"$(printf '\\377')\"",
        "increment \"$(printf 'k\\377')\"", "queue push q \"$(printf '\\377')\"",
      ] {
        let outcome = try run(arguments)
        #expect(outcome.status == .exited(64) && outcome.standardError.contains("UTF-8"))
      }
      #expect(!FileManager.default.fileExists(atPath: tool.store))
    }
  }

  @Test func `Elements of a queue are shared with programs`() throws {
    try withTool { tool in
      _ = try tool.output("queue", "push", "jobs", "a", "b")
      #expect(try tool.run("queue", "push", "jobs", "-", input: ["c", "d e"]).status == .exited(0))
      let store = try SharedStore(at: tool.store, .init(durability: .durable))
      let deque = SharedDeque<String>(storage: store, name: "jobs")
      #expect(try deque.elements() == ["a", "b", "c", "d e"])
      #expect(try tool.output("queue", "pop", "jobs") == "a\n")
      #expect(try tool.output("queue", "list", "jobs", "--limit", "2") == "b\nc\n")
      let claim = try #require(try deque.claim(lease: .seconds(3600)))
      let status = try tool.json("queue", "status", "jobs")
      #expect(status["waiting"] as? Int == 2 && status["claimed"] as? Int == 1)
      let claims = try #require(status["claims"] as? [[String: Any]])
      #expect(claims.first?["pid"] as? Int == Int(ProcessInfo.processInfo.processIdentifier))
      try claim.fail()
      #expect(try tool.output("queue", "list", "jobs", "--failed") == "b\n")
      #expect(try tool.output("queue", "status", "jobs") == "waiting 2, claimed 0, failed 1\n")
      // Elements of programs, of any type.
      try SharedDeque<[Int]>(storage: store, name: "lists").push([1, 2])
      #expect(try tool.output("queue", "pop", "lists") == "[1,2]\n")
      #expect(try tool.run("queue", "pop", "lists").status == .exited(1))
    }
  }

  @Test func `A command runs for each element, and failures are tried again and kept`() throws {
    try withTool { tool in
      _ = try tool.output("queue", "push", "jobs", "one", "two words", "bad")
      let outcome = try tool.run(
        "queue", "run", "jobs", "--attempts", "2", "--retry-after", "0", "--", "sh", "-c",
        "echo \"did $1\"; test \"$1\" != bad", "sh")
      #expect(outcome.status == .exited(1))
      #expect(outcome.output == "did one\ndid two words\ndid bad\ndid bad\n")
      #expect(try tool.output("queue", "list", "jobs", "--failed") == "bad\n")
      _ = try tool.output("queue", "push", "later", "no")
      let later = try tool.run("queue", "run", "later", "--retry-after", "1h", "--", "false")
      #expect(later.status == .exited(1))
      #expect(
        try tool.output("queue", "status", "later")
          == "waiting 1 (1 to be tried again later), claimed 0, failed 0\n")
      #expect(try tool.json("queue", "status", "later")["delayed"] as? Int == 1)
      #expect(try tool.output("queue", "status", "jobs") == "waiting 0, claimed 0, failed 1\n")
      #expect(try tool.output("queue", "retry", "jobs") == "1\n")
      #expect(try tool.output("queue", "pop", "jobs") == "bad\n")
      _ = try tool.output("queue", "push", "jobs", "three")
      let killed = try tool.run("queue", "run", "jobs", "--", "sh", "-c", "kill -TERM $$")
      #expect(killed.status == .signalled(15))
      #expect(try tool.run("queue", "run", "jobs").status == .exited(64))
      #expect(try tool.run("queue", "run", "jobs", "--", "no-such-command").status == .exited(127))

      let worker = try TestExecutable.tool.start([
        "queue", "run", "live", "--wait", "--store", tool.store, "--", "echo", "got",
      ])
      _ = try tool.output("queue", "push", "live", "x")
      try worker.expect("got x")
      // It waits for elements, with its signals caught.
      worker.kill(15)
      #expect(try worker.wait() == .signalled(15))
      // A signal ends the runner after its command, without an attempt.
      _ = try tool.output("queue", "push", "stopped", "1", "2")
      let stopped = try TestExecutable.tool.start([
        "queue", "run", "stopped", "--attempts", "1", "--store", tool.store, "--", "sh", "-c",
        "trap 'exit 3' TERM; echo begun; while true; do sleep 0.05; done", "sh",
      ])
      try stopped.expect("begun")
      stopped.kill(15)
      #expect(try stopped.wait() == .signalled(15))
      #expect(try tool.output("queue", "list", "stopped") == "1\n2\n")
    }
  }

  @Test func `A lease is renewed while the command runs, and no argument is lost in a shell`()
    throws
  {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try SharedDeque<String>(storage: store, name: "long").push(contentsOf: ["a\0b", "'x y'"])
      let go = tool.store + "-go"
      let runner = try TestExecutable.tool.start(
        [
          "queue", "run", "long", "--lease", "21s", "--store", tool.store, "--", "sh", "-c",
          "echo begun; while [ ! -e \"$0\" ]; do sleep 0.05; done; echo \"$1\"", go,
        ], standardError: .captured)
      try runner.expect("begun")
      func end() throws -> String {
        let claims = try tool.json("queue", "status", "long").objects("claims")
        return try #require(claims.first?["until"] as? String)
      }
      // No other process claims it, so only the end of the lease shows whether it is renewed.
      let first = try end()
      try eventually("the lease is renewed") { try end() > first }
      try TestFiles.write([], to: go)
      #expect(try runner.remainingLines() == ["'x y'"])
      #expect(try runner.wait() == .exited(1))
      #expect(runner.standardErrorText.contains("no argument of a command"))
      #expect(try tool.output("queue", "status", "long") == "waiting 0, claimed 0, failed 1\n")
    }
  }
}
#endif
