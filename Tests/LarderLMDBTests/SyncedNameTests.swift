// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTestSupport
import LarderTesting
import Testing

/// Names in directories, which a file's own sync does not cover.
@Suite(
  .timeLimit(.minutes(60)), .enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"))
struct SyncedNameTests {
  let directory: TemporaryDirectory
  let shim: PreloadShim

  init() throws {
    directory = try TemporaryDirectory()
    shim = try PreloadShim("sync_log", in: directory.path)
  }

  private var log: String { directory.appending("log") }

  private func synced() throws -> Set<String> {
    guard TestFiles.exists(log) else { return [] }
    let text = String(decoding: try TestFiles.contents(of: log), as: UTF8.self)
    return Set(text.split(separator: "\n").map(String.init))
  }

  @Test func `A new environment and a copy have their names on the disk`() throws {
    let peer = try TestExecutable.peer.start(
      environment: shim.environment.merging(["SYNC_LOG": log]) { $1 })
    let path = directory.appending("a/b/environment")
    #expect(try peer.ask("lmdb open \(path)") == "opened")
    let expected = ["a/b/environment", "a/b", "a"].map { directory.appending($0) }
    #expect(try synced().isSuperset(of: expected + [directory.path]))

    TestFiles.removeAll(log)
    #expect(try peer.ask("lmdb copy \(directory.appending("c/copy"))") == "ok")
    #expect(try synced().isSuperset(of: [directory.appending("c"), directory.path]))

    // An environment that exists has its names already.
    #expect(try peer.ask("lmdb close") == "ok")
    TestFiles.removeAll(log)
    #expect(try peer.ask("lmdb open \(path)") == "opened")
    #expect(try synced().isDisjoint(with: expected))
  }
}
