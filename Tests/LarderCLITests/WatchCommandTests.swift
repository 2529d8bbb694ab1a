// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderTestSupport
import LarderTesting
import Testing

/// `larder watch` and `larder explain`.
@Suite(.timeLimit(.minutes(60))) struct WatchCommandTests {
  @Test func `Changes of other commands are printed after a cursor and as they happen`() throws {
    try withTool { tool in
      _ = try tool.output("set", "first", "1")
      let store = try SharedStore(at: tool.store)
      _ = try store.recentChanges(since: store.changeCursor())
      let cursor = try store.changeCursor()
      _ = try tool.output("set", "a", "1")
      _ = try tool.output("set", "b", "2", "--namespace", "n")
      _ = try tool.output("remove", "a")
      let text = try tool.output("watch", "--since", cursor.description, "--count", "3")
      let lines = text.split(separator: "\n").map { $0.split(separator: "\t").prefix(2) }
      #expect(lines == [["set", "a"], ["set", "n/b"], ["removed", "a"]])
      let only = try tool.output(
        "watch", "a", "--since", cursor.description, "--count", "2", "--json")
      let objects = try only.split(separator: "\n").map {
        try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
      }
      #expect(objects.map { $0["kind"] as? String } == ["set", "removed"])
      let end = try store.changeCursor()
      _ = try tool.output("set", "\u{1B}[2J\n", "1")
      let cleaned = try tool.output("watch", "--since", end.description, "--count", "1")
      #expect(cleaned.hasPrefix("set\t·[2J·\tprocess "))
      let next = try #require(objects[0]["cursor"] as? String)
      let rest = try tool.output("watch", "a", "--since", next, "--count", "1")
      #expect(rest.hasPrefix("removed\ta\tprocess "))

      // The log has the beginning of a long key.
      let (long, place) = (String(repeating: "k", count: 300), try store.changeCursor())
      // It is cut inside a character.
      let divided = "a" + String(repeating: "é", count: 200)
      for key in [divided, long, "k"] { _ = try tool.output("set", key, "1") }
      let first = try tool.output("watch", divided, "--since", place.description, "--count", "1")
      #expect(first.hasPrefix("set\t"))
      _ = try tool.output("remove", long)
      let found = try tool.output("watch", long, "--since", place.description, "--count", "2")
      #expect(found.split(separator: "\n").map { $0.prefix(6) } == ["set\tkk", "remove"])
      let explained = try tool.run("explain", long).output
      #expect(explained.contains("It was removed by process ") && explained.contains("256 bytes"))

      let watcher = try TestExecutable.tool.start(["watch", "live", "--store", tool.store])
      // It may begin after a change; one of these comes after its beginning.
      try eventually("a change is printed") {
        _ = try tool.output("set", "live", "x")
        return (try? watcher.nextLine(deadline: .milliseconds(200)))?.hasPrefix("set\tlive") == true
      }
      watcher.kill()
      #expect(try tool.run("watch", "--since", "nonsense").status == .exited(64))
      #expect(try tool.run("watch", "a", "--stop").status == .exited(64))
      #expect(try tool.run("watch", "--stop").status == .exited(0))
    }
  }

  @Test func `An explanation says that an expired value is kept`() async throws {
    let directory = try TemporaryDirectory()
    let tool = try Tool(store: directory.appending("store"))
    let cache = PersistentCache<String, String>(storage: try SharedStore(at: tool.store))
    let kept = Refresh(keptFor: .seconds(3600))
    _ = try await cache.value(forKey: "a", expires: .after(.milliseconds(1)), refresh: kept) { "x" }
    try await awaitEventually("it has expired") {
      try tool.run("explain", "a").output.contains("It expired at ")
    }
  }

  @Test func `An explanation has the properties of an entry, and the reason why one is gone`()
    throws
  {
    try withTool { tool in
      _ = try tool.output("set", "a", "one", "--expires", "1h")
      let plain = try tool.output("explain", "a")
      #expect(plain.contains("3 bytes, text") && plain.contains("not recorded"))
      let unknown = try tool.run("explain", "b")
      #expect(unknown.status == .exited(1) && unknown.output.contains("no change log"))

      let store = try SharedStore(at: tool.store)
      _ = try store.recentChanges(since: store.changeCursor())
      _ = try tool.output("set", "a", "two", "--namespace", "n")
      let cache = PersistentCache<String, String>(storage: store, namespace: "n")
      try cache.removeValue(forKey: "a")
      let gone = try tool.run("explain", "a", "--namespace", "n", "--json")
      #expect(gone.status == .exited(1))
      let answer = try Tool.object(gone.output)
      #expect(answer["stored"] as? Bool == false && answer["changeLog"] as? Bool == true)
      let changes = try #require(answer["changes"] as? [[String: Any]])
      #expect(changes.map { $0["kind"] as? String } == ["set", "removed"])
      let own = Int(ProcessInfo.processInfo.processIdentifier)
      #expect(changes[0]["pid"] as? Int != own && changes[1]["pid"] as? Int == own)
      let text = try tool.run("explain", "a", "--namespace", "n").output
      #expect(text.contains("It was removed by process \(own) at "), "\(text)")
      try cache.setValue("three", forKey: "a", tags: ["t"], pinned: true)
      let stored = try tool.json("explain", "a", "--namespace", "n")
      #expect(stored["tags"] as? Int == 1 && stored["pinned"] as? Bool == true)
      let numbers = PersistentCache<Int, String>(storage: store, namespace: "n")
      try numbers.setValue("seventeen", forKey: 17)
      let hints = [
        try tool.run("explain", "17", "--namespace", "n"), try tool.run("explain", "n/17"),
      ]
      for hint in hints {
        #expect(hint.status == .exited(1))
        let text = "integer \"17\" in namespace \"n\" (--key-type integer)"
        #expect(hint.output.contains(text), "\(hint.output)")
      }
      // A hint does not use the entry.
      let used = try numbers.lastUse(forKey: 17)
      _ = try tool.run("explain", "n/17")
      #expect(try numbers.lastUse(forKey: 17) == used)
      let hint = try tool.run("get", "n/a").standardError
      #expect(hint.contains("the text \"a\" in namespace \"n\"."))
      try cache.removeAll()
      let cleared = try tool.run("explain", "a", "--namespace", "n").output
      #expect(cleared.contains("Its namespace was cleared by process \(own)"), "\(cleared)")
    }
  }
}
#endif
