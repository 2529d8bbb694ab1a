// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// `larder top --once` on a store that this process and peers use.
@Suite(.serialized, .timeLimit(.minutes(60))) struct TopCommandTests {
  /// A thread that stores and reads 100 keys until the end.
  private final class Load: Sendable {
    private let isEnded = Atomic<Bool>(false)
    private let thread: Mutex<JoinableThread<Int>?>

    init(_ store: SharedStore) {
      thread = Mutex(nil)
      for key in 0..<100 { try? store.setBytes([1, 2, 3], forKey: "key/\(key)", in: "busy") }
      let started = JoinableThread { [self] in
        var count = 0
        while !isEnded.load(ordering: .relaxed) {
          try? store.setBytes([1, 2, 3], forKey: "key/\(count % 100)", in: "busy")
          for _ in 0..<9 { _ = try? store.bytes(forKey: "key/7", in: "busy") }
          count += 1
        }
        return count
      }
      thread.withLock { $0 = started }
    }

    func end() -> Int {
      isEnded.store(true, ordering: .relaxed)
      return thread.withLock { $0 }!.join()
    }
  }

  private func peer(_ tool: Tool) throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(tool.store)").hasPrefix("opened "))
    return peer
  }

  /// Runs the tool, again until a sample has enough of a load: within half a second, a machine with other work may
  /// give it no time.
  private func top(
    _ tool: Tool, _ arguments: String..., until hasEnough: ([String: Any]) -> Bool = { _ in true }
  ) throws -> [String: Any] {
    var answer: [String: Any] = [:]
    try eventually("the sample has enough") {
      answer = try Tool.object(
        tool.plain(["top", tool.store, "--once", "--json", "--interval", "0.5"] + arguments))
      return hasEnough(answer)
    }
    return answer
  }

  @Test func `The operations of another live process are shown with its pid`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      let load = Load(store)
      let answer = try top(tool) { answer in
        let rates = answer["operationsPerSecond"] as? [String: Any]
        let commits = answer["commits"] as? [String: Any]
        return rates?["sets"] as? Double ?? 0 > 10 && commits?["count"] as? Int ?? 0 > 5
      }
      _ = load.end()
      let processes = try answer.objects("processes")
      let own = try #require(
        processes.first {
          $0["pid"] as? Int == Int(ProcessInfo.processInfo.processIdentifier)
        })
      for list in [answer, own] {
        let rates = try #require(list["operationsPerSecond"] as? [String: Any])
        let sets = try #require(rates["sets"] as? Double)
        let hits = try #require(rates["storeHits"] as? Double)
        #expect(sets > 0 && hits > sets * 4, "\(rates)")
        #expect(rates["commits"] as? Double ?? 0 > 0)
      }
      #expect(answer["hitRatio"] as? Double ?? 0 > 0.9)
      let commits = try #require(answer["commits"] as? [String: Any])
      #expect(try commits.number("count") > 5)
      let classes = try commits.objects("classes").map { try $0.number("count") }
      #expect(classes.reduce(0, +) == commits["count"] as? Int)
      #expect(commits["halfBelowMicroseconds"] as? Double ?? 0 > 0)
      #expect(answer["keys"] is NSNull)
      let busy = try #require(answer.objects("namespaces").first)
      #expect(busy["name"] as? String == "busy" && busy["entries"] as? Int == 100)
      #expect(answer["budget"] as? Int == 256 << 20)
    }
  }

  @Test func `Locks and computations are shown with key, pid and since when`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: 1)
      let holder = try peer(tool)
      try holder.send("lock job")
      #expect(try holder.nextLine().hasPrefix("holding "))
      let computer = try peer(tool)
      try computer.send("compute 4711 x \(tool.store)/.. held")
      try eventually("a computation is shown") { try !top(tool).objects("computations").isEmpty }
      let answer = try top(tool)
      let lock = try #require(answer.objects("locks").first)
      #expect(lock["name"] as? String == "job" && lock["kind"] as? String == "lock")
      #expect(try lock.objects("holders").first?.number("pid") == Int(holder.processIdentifier))
      let computation = try #require(answer.objects("computations").first)
      #expect(computation["key"] as? String == "4711")
      #expect(computation["pid"] as? Int == Int(computer.processIdentifier))
      #expect(computation["cancelled"] as? Bool == false)
      let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
      let since = try style.parse(#require(computation["since"] as? String))
      #expect(abs(since.timeIntervalSinceNow) < 600)
      let text = try tool.plain(["top", tool.store, "--once", "--interval", "0.1"])
      #expect(text.contains("lock job: process \(holder.processIdentifier)"), "\(text)")
      #expect(text.contains("process \(computer.processIdentifier) for"), "\(text)")
    }
  }

  @Test func `A process that is stopped inside a write is shown as the writer`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: 1)
      let writer = try peer(tool)
      #expect(try writer.ask("hold") == "holding")
      try writer.stop()
      let answer = try top(tool)
      let shown = try #require(answer["writer"] as? [String: Any])
      #expect(try shown.number("pid") == Int(writer.processIdentifier))
      #expect(shown["milliseconds"] as? Double ?? 0 > 400, "\(shown)")
      let process = try #require(
        answer.objects("processes").first { $0["stopped"] as? Bool == true })
      #expect(try process.number("pid") == Int(writer.processIdentifier))
      let text = try tool.plain(["top", tool.store, "--once", "--interval", "0.1"])
      #expect(
        text.contains("process \(writer.processIdentifier) has had the writer lock"), "\(text)")
      writer.continue()
    }
  }

  @Test func `A stopped reader is shown with its lag and the pages that it keeps`() throws {
    try withTool { tool in
      // The store's thread commits nothing in between.
      var options = StoreOptions()
      options.sweepsWhenIdle = false
      options.idleSyncDelay = nil
      let store = try SharedStore(at: tool.store, options)
      try store.setBytes([1], forKey: 0)
      let reader = try peer(tool)
      #expect(try reader.ask("pin") == "pinned")
      try reader.stop()
      for key in 0..<50 { try store.setBytes([UInt8](repeating: 1, count: 9000), forKey: key % 5) }
      let answer = try top(tool)
      let shown = try #require(answer.objects("readers").first)
      #expect(shown["pid"] as? Int == Int(reader.processIdentifier))
      #expect(try shown.number("commitsBehind") == 50, "\(shown)")
      #expect(shown["stopped"] as? Bool == true)
      #expect(try shown.number("pinnedPages") > 100, "\(shown)")
      #expect(shown["pinnedPagesComplete"] as? Bool == true)
      let why = try tool.json("stat", "--why-big")
      #expect(try why.objects("readers").first?.number("pid") == Int(reader.processIdentifier))
      let kept = try #require(
        why.objects("causes").first { $0["cause"] as? String == "keptPages" })
      #expect(try kept.number("pages") == shown.number("pinnedPages"))
      #expect(
        (kept["action"] as? String)?.contains("kill -CONT \(reader.processIdentifier)") == true)
      reader.continue()
    }
  }

  @Test func `With --keys the hottest keys and namespaces of a sample are named`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      let load = Load(store)
      let answer = try top(tool, "--keys") { answer in
        (answer["keys"] as? [String: Any])?["sampledUses"] as? Int ?? 0 > 100
      }
      _ = load.end()
      let keys = try #require(answer["keys"] as? [String: Any])
      let hottest = try #require(keys.objects("hottest").first)
      #expect(hottest["key"] as? String == "key/7" && hottest["namespace"] as? String == "busy")
      let uses = try keys.number("sampledUses")
      #expect(try uses > 100 && uses <= 8200 && hottest.number("uses") > uses / 2, "\(keys)")
      let busy = try #require(answer.objects("namespaces").first)
      #expect(try busy.number("sampledUses") > uses / 2)
      #expect(try store.core.generation().table.sampleThreshold == 0)
    }
  }

  @Test func `The text fits 80 columns`() throws {
    try withTool { tool in
      let name = String(repeating: "long/", count: 60)
      let store = try SharedStore(at: tool.store)
      for number in 0..<30 {
        try store.setBytes([1], forKey: "\(name)\(number)", in: "\(name)\(number)")
      }
      let text = try tool.plain(["top", tool.store, "--once", "--interval", "0.1", "--keys"])
      #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(text)")
      #expect(
        !text.contains("\u{1B}") && text.contains("NAMESPACE") && text.contains("and 20 more"))
    }
  }

  @Test func `Nothing in the store changes, and the tool has no process slot`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: "key")
      store.close()
      func contents() throws -> [String: Data] {
        let names = try FileManager.default.subpathsOfDirectory(atPath: tool.store)
        return try Dictionary(
          uniqueKeysWithValues: names.sorted().compactMap { name in
            let path = "\(tool.store)/\(name)"
            var isDirectory: ObjCBool = false
            _ = unsafe FileManager.default.fileExists(atPath: path, isDirectory: &isDirectory)
            return isDirectory.boolValue
              ? (name, Data()) : (name, try Data(contentsOf: URL(fileURLWithPath: path)))
          })
      }
      let before = try contents()
      let answer = try top(tool)
      #expect(answer["entries"] as? Int == 1)
      #expect(try answer.objects("processes").isEmpty)
      #expect(try contents() == before)
    }
  }

  @Test func `A file of locks without contents is one without locks`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      try store.setBytes([1], forKey: "key")
      try Data().write(to: URL(fileURLWithPath: "\(tool.store)/v1/locks"))
      #expect(try top(tool).objects("locks").isEmpty)
    }
  }

  @Test func `A missing store and wrong arguments are typed errors`() throws {
    try withTool { tool in
      let missing = try ChildProcess.run(tool.path, ["top", tool.store, "--once"])
      #expect(missing.status == .exited(2) && missing.standardError.contains("There is no store"))
      _ = try SharedStore(at: tool.store)
      for arguments in [["--interval", "0"], ["--interval", "x"], ["--json"]] {
        let outcome = try ChildProcess.run(tool.path, ["top", tool.store] + arguments)
        #expect(outcome.status == .exited(64), "\(arguments)")
      }
      let pipe = try ChildProcess.run(tool.path, ["top", tool.store])
      #expect(pipe.status == .exited(64) && pipe.standardError.contains("--once"), "\(pipe)")
      #expect(pipe.output.isEmpty)
    }
  }
}

extension Tool {
  /// Runs a command line as it is; it must succeed and write nothing to standard error.
  func plain(_ arguments: [String]) throws -> String {
    let outcome = try ChildProcess.run(path, arguments)
    #expect(outcome.status.isSuccess, "\(arguments): \(outcome.standardError)")
    #expect(outcome.standardError.isEmpty, "\(arguments): \(outcome.standardError)")
    return outcome.output
  }
}
#endif
