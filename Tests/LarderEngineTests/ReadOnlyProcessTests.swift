// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// The files that a reading process leaves unchanged, and the default path of a store.
@Suite(.timeLimit(.minutes(60))) struct ReadOnlyProcessTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// The state of a file: no process can reset its change time.
  struct Snapshot: Equatable {
    let contents: [UInt8]
    let changed: UInt64

    init(_ file: String) throws {
      contents = try TestFiles.contents(of: file)
      changed = try #require(try FileSystem.status(of: file)).changed
    }
  }

  @Test(.enabled(if: hasTools, needsTools), arguments: Durability.allCases)
  func `A process that wrote nothing changes neither the state nor the data`(
    durability: Durability
  ) throws {
    let tool = try TestExecutable.tool.path
    let set = try ChildProcess.run(
      tool, ["set", "k", "value", "--store", path, "--durability", "\(durability)"])
    try #require(set.status.isSuccess, "\(set.standardError)")
    let files = try StoreFiles(of: path)
    let watched = [files.current, files.state, files.data]
    let before = try watched.map { try Snapshot($0) }
    for arguments in [["get", "k"], ["get", "missing"], ["list"], ["stat"]] {
      _ = try ChildProcess.run(tool, arguments + ["--store", path])
    }
    for (file, before) in zip(watched, before) {
      let after = try Snapshot(file)
      #expect(after == before, "\(file)")
    }
    // The same with this process, and closing; then a write, which must show.
    let store = try SharedStore(at: path, .init(durability: durability))
    #expect(try store.bytes(forKey: "missing") == nil)
    store.close()
    #expect(try watched.map { try Snapshot($0) } == before)
    let writer = try SharedStore(at: path, .init(durability: durability))
    try writer.setBytes([1], forKey: "new")
    #expect(try Snapshot(files.state) != before[1])
    #expect(try Snapshot(files.data) != before[2])
  }

  @Test(.enabled(if: hasTools, needsTools))
  func `Without a path a store is in the user's cache directory`() throws {
    let tool = try TestExecutable.tool.path
    let (home, cache) = (directory.appending("home"), directory.appending("xdg"))
    func place(_ environment: [String: String]) throws -> String? {
      let set = try ChildProcess.run(tool, ["set", "k", "v"], environment: environment)
      #expect(set.status.isSuccess, "\(set.standardError)")
      let stat = try ChildProcess.run(tool, ["stat", "--json"], environment: environment)
      #expect(stat.output.contains("\(directory.path)"), "\(stat.output)")
      return ["\(home)/.cache/larder", "\(cache)/larder"].first { TestFiles.exists($0 + "/v1") }
    }
    #if !canImport(Darwin)
    #expect(try place(["HOME": home, "XDG_CACHE_HOME": ""]) == "\(home)/.cache/larder")
    TestFiles.removeAll(home)
    // A relative path there counts as none.
    #expect(try place(["HOME": home, "XDG_CACHE_HOME": "x"]) == "\(home)/.cache/larder")
    TestFiles.removeAll(home)
    #expect(try place(["HOME": home, "XDG_CACHE_HOME": cache]) == "\(cache)/larder")
    #expect(try TestFiles.mode("\(cache)/larder") == 0o700)
    #expect(!TestFiles.exists(home))
    #endif
  }
}
