// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// The resources that a process keeps of a generation it has left.
@Suite(.timeLimit(.minutes(60))) struct GenerationChangeTests {
  let directory: TemporaryDirectory
  var path: String { directory.path + "/store" }
  init() throws { directory = try TemporaryDirectory() }

  private func isMapped(_ name: String) throws -> Bool {
    let maps = String(decoding: try TestFiles.contents(of: "/proc/self/maps"), as: UTF8.self)
    return maps.split(separator: "\n").contains { $0.contains(directory.path) && $0.contains(name) }
  }

  #if os(Linux)
  @Test func `A cache that is not used after a compaction keeps no old table mapped`() throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, Int>(storage: store)
    for key in 0..<200 { try cache.setValue(key, forKey: key) }
    #expect(cache[7] == 7)
    #expect(try isMapped("g-1/shared.table"))
    try store.compact()
    _ = try store.bytes(forKey: "none")
    #expect(try store.statistics().generation == 2)
    // The store's thread may still be in the step that it began with the old table.
    try eventually("the old table is unmapped") { try !isMapped("g-1/shared.table") }
    #expect(cache[7] == 7)
  }
  #endif

  /// Replaces the store with a store of another process that has a lower generation number, and
  /// deletes the replaced one.
  ///
  /// Uses a rename: the store's own thread checks every second whether the store was deleted.
  /// During a deletion it would create a store whose files the deletion then removes.
  private func recreate(_ store: SharedStore, _ commands: [String]) throws {
    // The thread may be first. A generation that is not this one is left alone by `move`.
    let old = try store.core.generation()
    let outcome = try ChildProcess.run(
      TestExecutable.peer.path, input: ["open \(path)-new"] + commands + ["close"])
    #expect(!outcome.output.contains("error"), "\(outcome)")
    try TestFiles.move(path, to: path + "-old")
    try TestFiles.move(path + "-new", to: path)
    TestFiles.removeAll(path + "-old")
    try store.core.switchGeneration(from: old)
  }

  @Test func `A value committed before the store was deleted is not read from its successor`()
    throws
  {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, String>(storage: store)
    for round in 0..<300 { try store.setBytes([1], forKey: round, in: "other") }
    // Committed, and not read since: memory has it without a commit version.
    cache[1] = "old"
    cache[2] = "old"
    try store.sync()
    try recreate(store, ["set 2 new"])
    #expect(try cache.value(forKey: 1) == nil)
    #expect(try cache.value(forKey: 2) == "new")
  }

  @Test func `Memory is used again after a store with a lower generation number replaced it`()
    throws
  {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, String>(storage: store)
    cache[1] = "old"
    try store.compact()
    try store.compact()
    #expect(cache[1] == "old")
    #expect(try store.statistics().generation == 3)
    try recreate(store, ["set 1 new"])
    #expect(try store.statistics().generation < 3)
    for _ in 0..<1000 { #expect(cache[1] == "new") }
    #expect(try store.statistics().memoryHits >= 900)
  }
}
