// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import Larder
import LarderCoding
import LarderDefaults
import LarderEngine
import LarderMemo
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

struct Silo: Storable {
  let id: Int
  var name: String
}

/// Output is input of other commands, and a command line is used as it was written.
@Suite(.timeLimit(.minutes(60)))
struct ValueModelCommandTests {
  private struct Place: CacheKey, Hashable {
    let city: String
    let number: Int
    static var keyTag: KeyTag { .composite }
    func encodeKey(into encoder: inout KeyEncoder) {
      encoder.appendComponent(city)
      encoder.appendComponent(number)
    }
  }

  @Test func `Composite keys that a list shows are read, explained and removed`() throws {
    try withTool { tool in
      let store = try SharedStore(at: tool.store)
      let cache = PersistentCache<Place, String>(storage: store, namespace: "places")
      let places = [Place(city: "a, (b\\)", number: -3), Place(city: "é", number: 7)]
      for place in places { try cache.setValue("v\(place.number)", forKey: place) }
      _ = try ChildProcess.run(
        tool.path, ["memo", "--store", tool.store, "--", "/bin/echo", "hello"])
      let lines = try tool.output("list", "--json").split(separator: "\n").map(String.init)
      #expect(lines.count == 3)
      for line in lines {
        let listed = try Tool.object(line)
        let key = try #require(listed["key"] as? String)
        let type = try #require(listed["keyType"] as? String)
        let namespace = try #require(listed["namespace"] as? String)
        #expect(type == "composite")
        let place = ["--namespace", namespace, "--key-type", type]
        for command in ["get", "explain"] {
          let outcome = try ChildProcess.run(
            tool.path, [command, "--store", tool.store] + place + ["--", key])
          #expect(outcome.status == .exited(0), "\(command) \(key): \(outcome.standardError)")
        }
      }
      #expect(try tool.output("remove", "--stdin", input: lines) == "")
      #expect(try tool.output("list", "--json") == "")
      #expect(try cache.value(forKey: places[0]) == nil)
    }
  }

  @Test func `Lines of a list as JSON keep their namespace and type when they are removed`() throws
  {
    try withTool { tool in
      _ = try tool.output("set", "1", "a")
      _ = try tool.output("set", "1", "b", "--key-type", "integer", "--namespace", "n")
      _ = try tool.output("set", "1", "c", "--namespace", "n")
      let lines = try tool.output("list", "--json").split(separator: "\n").map(String.init)
      let integer = try #require(lines.first { $0.contains("\"integer\"") })
      _ = try tool.output("remove", "--stdin", input: [integer])
      #expect(try tool.output("get", "1", "--namespace", "n") == "c\n")
      #expect(try tool.output("get", "1") == "a\n")
      let again = try tool.run("remove", "--stdin", input: [integer])
      #expect(
        again.status == .exited(1) && again.standardError.contains("namespace \"n\""), "\(again)")
      // Without a key, a type and a namespace the line is the text of a key.
      _ = try tool.output("set", "{\"a\":1}", "x")
      _ = try tool.output("remove", "--stdin", input: ["{\"a\":1}"])
    }
  }

  @Test func `An empty value after an equals sign is empty and swallows no argument`() throws {
    try withTool { tool in
      _ = try tool.output("set", "key1", "v")
      _ = try tool.output("set", "-n", "key1", "key2", "v")
      let outcome = try tool.run("remove", "--namespace=", "key1", "key2")
      #expect(outcome.status == .exited(1), "\(outcome)")
      #expect(try tool.run("get", "key1").status == .exited(1))
      #expect(try tool.output("get", "-n", "key1", "key2") == "v\n")
      #expect(try tool.output("set", "-n=", "key3", "v") == "")
      #expect(try tool.output("get", "key3") == "v\n")
      #expect(try tool.run("list", "--limit=", "5").status == .exited(64))
      let flag = try tool.run("list", "--json=")
      #expect(
        flag.status == .exited(64) && flag.standardError.contains("takes no value"), "\(flag)")
      #expect(try tool.run("get", "key3", "--namespace").status == .exited(64))
    }
  }

  @Test(arguments: [
    ["get"], ["list", "--limit", "x"], ["nothing"], ["set", "k", "v", "--as", "nothing"],
    ["list", "--limit", "0"], ["query", "X", "--unknown"], ["budget", "--bytes", "x"],
  ])
  func `A usage error is JSON on request`(command: [String]) throws {
    let tool = try TestExecutable.tool
    let outcome = try ChildProcess.run(tool.path, command + ["--json"])
    #expect(outcome.status == .exited(64), "\(outcome)")
    let error = try Tool.object(outcome.standardError)
    #expect(error["error"] as? String == "usage" && error["message"] as? String != "", "\(outcome)")
  }

  @Test func `An answer that cannot be written is an error`() throws {
    try withTool { tool in
      let objects = try ObjectStore(at: tool.store)
      try objects.save(Silo(id: 1, name: "a"))
      try SharedStore(at: tool.store, .init(durability: .durable)).setBytes([1], forKey: "k")
      for command in [
        "query Silo", "query Silo --json", "stat", "list --json", "export -", "get k",
      ] {
        let outcome = try ChildProcess.run(
          "/bin/sh", ["-c", "\"$0\" \(command) --store \"$1\" >&-", tool.path, tool.store])
        #expect(outcome.status == .exited(70), "\(command): \(outcome)")
        #expect(outcome.standardError.contains("standard output"), "\(command): \(outcome)")
      }
    }
  }

  @Test func `The part of a killed export is removed by the next one`() throws {
    try withTool { tool in
      _ = try tool.output("set", "k", "v")
      let file = tool.store + ".jsonl"
      let dead = file + ".larder-part-7"
      try TestFiles.write([1], to: dead)
      // Other names, and the part of a running export.
      let others = [file + ".part-2", file + ".larder-part-", file + ".larder-part-8"]
      for other in others { try TestFiles.write([1], to: other) }
      let directory = file + ".larder-part-9"
      try TestFiles.makeDirectory(directory)
      let lock = try #require(CommandProxy.FileLock(others[2]))
      _ = try tool.output("export", file)
      #expect(!TestFiles.exists(dead))
      for other in others + [directory] { #expect(TestFiles.exists(other), "\(other)") }
      withExtendedLifetime(lock) {}
    }
  }

  @Test func `Only JSON is stored as JSON`() throws {
    try withTool { tool in
      for text in ["[1,]", "{\"id\":0,}", "\u{FEFF}[1]", "[1] x", "01", "'a'"] {
        #expect(try tool.run("set", "k", text, "--as", "json").status == .exited(64), "\(text)")
      }
      // What is special in the lines of an export is not special here.
      let deep = String(repeating: "[", count: 200) + String(repeating: "]", count: 200)
      for text in ["{\"$ref\":\"#/a\"}", "{\"a\":{\"$date\":\"x\"}}", "{\"a\":1,\"a\":2}", deep] {
        _ = try tool.output("set", "k", text, "--as", "json")
        #expect(try tool.output("get", "k") == text + "\n")
      }
      _ = try tool.output("set", "k", " {\"a\": [1, 2.5e3, null, \"\\u00e9\"]}\n", "--as", "json")
      #expect(try tool.output("get", "k") == "{\"a\": [1, 2.5e3, null, \"\\u00e9\"]}\n")
    }
  }

  @Test func `A store of a path with more than 4096 bytes is found by every command`() throws {
    try withTemporaryDirectory { path in
      let long =
        path + "/"
        + (0..<25).map { "\($0)" + String(repeating: "d", count: 180) }
        .joined(separator: "/")
      let tool = try Tool(store: long)
      _ = try tool.output("set", "k", "v")
      #expect(try tool.output("get", "k") == "v\n")
      #expect(try tool.output("verify").hasPrefix("Valid"))
    }
  }

  @Test func `Without a home directory in the environment the user's own is taken`() throws {
    let tool = try TestExecutable.tool
    let own = unsafe String(cString: try #require(getpwuid(getuid())).pointee.pw_dir)
    for home in ["", "relative"] {
      let outcome = try ChildProcess.run(
        tool.path, ["stat"], environment: ["HOME": home, "XDG_CACHE_HOME": "", "LARDER_STORE": ""])
      let said = outcome.output + outcome.standardError
      #expect(said.contains("\(own)/.cache/larder"), "\(said)")
      #expect(!said.contains(" /.cache") && !said.contains("relative"), "\(said)")
    }
  }

  @Test func `Changes of one text in two places are two lines, and a cut key is marked`() throws {
    try withTool { tool in
      _ = try tool.output("set", "first", "1")
      let store = try SharedStore(at: tool.store)
      _ = try store.recentChanges(since: store.changeCursor())
      let cursor = try store.changeCursor().description
      _ = try tool.output("set", "x", "1", "--namespace", "profiles")
      _ = try tool.output("set", "profiles/x", "1")
      _ = try tool.output("set", String(repeating: "k", count: 300), "1")
      let lines = try tool.output("watch", "--since", cursor, "--count", "3")
        .split(separator: "\n").map {
          $0.split(separator: "\t").filter { !$0.hasPrefix("process") }
        }
      #expect(lines[0] == ["set", "profiles/x", "namespace profiles"])
      #expect(lines[1] == ["set", "profiles/x"])
      #expect(lines[2][1].hasSuffix("…"))
      let json = try tool.output("watch", "--since", cursor, "--count", "3", "--json")
      let cuts = try json.split(separator: "\n").map {
        try Tool.object(String($0))["keyCut"] as? Bool
      }
      #expect(cuts == [false, false, true])
    }
  }

  @Test func `A repair with nothing to do counts the objects`() throws {
    try withTool { tool in
      let objects = try ObjectStore(at: tool.store)
      try objects.save((0..<7).map { Silo(id: $0, name: "a") })
      objects.close()
      _ = try tool.output("set", "k", "v")
      #expect(
        try tool.output("repair") == "Valid: nothing to do for 1 entry and 7 objects.\n")
    }
  }

  @Test func `A suite is opened by its directory`() throws {
    try withTool { tool in
      let defaults = try Defaults(at: tool.store)
      try defaults.setValue("dark", forKey: "theme")
      defaults.close()
      let read = try ChildProcess.run(tool.path, ["defaults", "read", tool.store, "theme"])
      #expect(read.output == "dark\n", "\(read)")
      let write = try ChildProcess.run(
        tool.path, ["defaults", "write", tool.store, "theme", "light"])
      #expect(write.status == .exited(0), "\(write)")
      let list = try ChildProcess.run(tool.path, ["defaults", "list", tool.store])
      #expect(list.output.contains("theme"), "\(list)")
      let missing = try ChildProcess.run(
        tool.path, ["defaults", "read", tool.store + "/no", "theme"])
      #expect(missing.status == .exited(2), "\(missing)")
    }
  }

  @Test func `A queue that the tool creates is durable`() throws {
    try withTool { tool in
      _ = try tool.output("queue", "push", "jobs", "a")
      #expect(try tool.json("stat")["durability"] as? String == "durable")
      try withTemporaryDirectory { home in
        let environment = [
          "XDG_DATA_HOME": home + "/d", "XDG_CACHE_HOME": home + "/c", "LARDER_STORE": "",
        ]
        for command in [["queue", "push", "jobs", "b"], ["set", "k", "v"]] {
          #expect(
            try ChildProcess.run(tool.path, command, environment: environment).status == .exited(0))
        }
        let list = try ChildProcess.run(
          tool.path, ["queue", "list", "jobs"], environment: environment)
        #expect(list.output == "b\n", "\(list)")
        #expect(try SharedStore.durability(ofStoreAt: home + "/d/larder/queues") == .durable)
        #expect(try SharedStore.durability(ofStoreAt: home + "/c/larder") == .cache)
      }
    }
  }

  @Test
  func `An error about a queue names its store, and a queue of that name in the default store`()
    throws
  {
    try withTemporaryDirectory { (home) throws in
      let tool = try TestExecutable.tool.path
      let environment = [
        "XDG_DATA_HOME": home + "/d", "XDG_CACHE_HOME": home + "/c", "LARDER_STORE": "",
      ]
      func run(_ arguments: String...) throws -> ChildProcess.Outcome {
        try ChildProcess.run(tool, arguments, environment: environment)
      }
      let cache = home + "/c/larder"
      for command in ["list", "status", "pop", "retry"] {
        let missing = try run("queue", command, "jobs")
        #expect(missing.status == .exited(2), "\(missing)")
        #expect(missing.standardError.contains(home + "/d/larder/queues"), "\(missing)")
        #expect(missing.standardError.contains("larder queue push jobs"), "\(missing)")
        #expect(!missing.standardError.contains(cache), "\(missing)")
      }
      // A program has its queue in the default store.
      #expect(try run("queue", "push", "jobs", "a", "--store", cache).status.isSuccess)
      for command in ["list", "status", "pop"] {
        #expect(try run("queue", command, "jobs").standardError.contains(cache), "\(command)")
      }
      #expect(try run("queue", "push", "other", "b").status.isSuccess)
      for command in ["list", "status", "pop"] {
        let empty = try run("queue", command, "jobs")
        #expect(empty.standardError.contains(cache + " has a queue of this name"), "\(empty)")
        #expect(try run("queue", command, "none").standardError.contains(cache) == false)
      }
      #expect(try run("queue", "run", "jobs", "--", "true").standardError.contains(cache))
      #expect(try run("queue", "pop", "jobs", "--store", cache).output == "a\n")
      // What a command of a queue starts has its store.
      let script = "$0 queue push next \"$1\""
      #expect(try run("queue", "run", "other", "--", "sh", "-c", script, tool).status.isSuccess)
      #expect(try run("queue", "list", "next").output == "b\n")
      for command in ["push", "pop", "list", "status", "run", "retry"] {
        let help = try run("queue", command, "--help").output
          .split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(help.contains("larder/queues") && help.contains("else durable"), "\(command)")
      }
    }
  }

  private func key(_ type: String, _ text: String) throws -> EncodedKey {
    if type == "raw" {
      return EncodedKey(tag: 1, bytes: text == "1:fffe" ? [0xFF, 0xFE] : [0x61, 0, 0x62])
    }
    let tag = try type == "composite" ? .composite : #require(KeyTextFormat(rawValue: type)).tag
    return EncodedKey(tag: tag.rawValue, bytes: try KeyTextFormat.bytes(of: text, tag: tag))
  }

  @Test func `What one command prints of a key, the others take`() throws {
    try withTool { (tool) throws in
      let space = try NamespaceHandle(name: "a/b")
      var keys = [
        ("text", "line\nbreak"), ("text", "tab\t"), ("text", String(repeating: "k", count: 5000)),
        ("text", ""), ("text", "{\"key\":1}"), ("text", "--stdin"), ("text", "1:fffe"),
        ("integer", "-5"), ("uuid", "8C7E2E5A-3B7D-4E0B-9B9A-0A8B3B1C2D3E"), ("bytes", "00ff"),
        ("real", "nan"), ("date", "2027-01-31T12:00:00Z"), ("boolean", "true"),
        ("composite", "(text:home, integer:3)"), ("raw", "1:fffe"), ("raw", "1:610062"),
      ]
      do {
        let store = try SharedStore(at: tool.store)
        defer { store.close() }
        for (type, text) in keys {
          let key = try key(type, text)
          _ = try store.core.submit(
            WriteRequest(
              .put(
                EntryContent(
                  key: key, codec: CodecIdentifier.plainText.rawValue, payload: Array(type.utf8),
                  expires: EntryHeader.never)), space: space, key: key))
        }
      }
      // A text with a zero is shown as a text, which no argument can have.
      let listed = try tool.output("list", "--json").split(separator: "\n").map(String.init)
      #expect(listed.count == keys.count)
      keys.removeLast()
      for line in listed {
        let row = try Tool.object(line)
        let (key, type) = (
          try #require(row["key"] as? String), try #require(row["keyType"] as? String)
        )
        guard !key.contains("\0") else { continue }
        #expect(keys.contains { $0.0 == type && $0.1 == key }, "\(type) \(key)")
        let place = ["--key-type", type, "--namespace", "a/b", "--store", tool.store, "--", key]
        let get = try ChildProcess.run(tool.path, ["get"] + place)
        #expect(get.output == type + "\n" || get.output == type, "\(get)")
        #expect(try ChildProcess.run(tool.path, ["explain"] + place).status.isSuccess, "\(key)")
      }
      #expect(
        try tool.run("get", "1:610062", "--key-type", "raw", "--namespace", "a/b").output
          .hasPrefix("raw"))
      let exported = try tool.output("export", "-").split(separator: "\n").map(String.init)
      // The lines of a list, of an export and of a removal name the same keys.
      let removed = try tool.run("remove", "--stdin", "--json", input: listed)
      #expect(removed.status.isSuccess, "\(removed)")
      _ = try tool.output("import", "-", input: exported)
      #expect(try tool.output("list", "--json").split(separator: "\n").count == listed.count)
      let again = try tool.run("remove", "--stdin", input: exported)
      #expect(again.status.isSuccess, "\(again)")
      #expect(try tool.run("list", "--json").output == "")
      let missing = try tool.run("remove", "--stdin", "--json", input: [listed[0]])
      #expect(missing.status == .exited(1))
      let error = try Tool.object(missing.standardError)
      let first = try #require((error["missing"] as? [[String: Any]])?.first)
      let row = try Tool.object(listed[0])
      for name in ["key", "keyType", "namespace"] {
        #expect(first[name] as? String == row[name] as? String, "\(missing)")
      }
      // Changes name keys as well; one that is cut names none.
      let store = try SharedStore(at: tool.store)
      let cursor = try store.changes().start
      store.close()
      _ = try tool.output("set", "7", "x", "--key-type", "integer", "--namespace", "n")
      _ = try tool.output("set", String(repeating: "k", count: 300), "x")
      let changes = try tool.output(
        "watch", "--json", "--since", cursor.description, "--count", "2"
      ).split(separator: "\n").map(String.init)
      #expect(try tool.run("remove", "--stdin", input: [changes[0]]).status.isSuccess)
      #expect(try tool.run("remove", "--stdin", input: [changes[1]]).status == .exited(64))
      // A change of many keys names none, and neither does a key without its tag.
      _ = try tool.output("set", "", "x", "--namespace", "gone")
      for line in [
        #"{"key":"","keyType":null,"namespace":"gone"}"#,
        #"{"keyBase64":"eA==","namespace":"gone"}"#,
      ] {
        #expect(try tool.run("remove", "--stdin", input: [line]).status == .exited(64), "\(line)")
      }
      #expect(try tool.output("get", "", "--namespace", "gone") == "x\n")
      _ = try tool.output("remove", "", "--namespace", "gone")
      #expect(try tool.output("list", "--json").split(separator: "\n").count == 1)
    }
  }

  @Test(arguments: ["--help", "--version", "help get", "get --help", "", "queue", "help"])
  func `Help that cannot be written is an error`(arguments: String) throws {
    let tool = try TestExecutable.tool.path
    let shown = try ChildProcess.run("/bin/sh", ["-c", "\"$0\" \(arguments)", tool])
    #expect(shown.status.isSuccess && !shown.output.isEmpty, "\(shown)")
    for output in [">/dev/full", ">&-"] {
      let outcome = try ChildProcess.run("/bin/sh", ["-c", "\"$0\" \(arguments) \(output)", tool])
      #expect(outcome.status == .exited(70), "\(output): \(outcome)")
    }
  }

  @Test func `A replayed result that cannot be written is an error`() throws {
    try withTool { (tool) throws in
      let command = "\"$0\" memo --store \"$1\" -- echo hi"
      func run(_ output: String) throws -> ChildProcess.Outcome {
        try ChildProcess.run("/bin/sh", ["-c", command + output, tool.path, tool.store])
      }
      #expect(try run("").output == "hi\n")
      #expect(try run(" >&-").status.isSuccess == false)
      #expect(try run(" >/dev/full").status.isSuccess == false)
    }
  }
}
#endif
