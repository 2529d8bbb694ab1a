// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderLMDB
import LarderTestSupport
import LarderTesting
import Testing

/// Reads and later commits while, and after, another process writes a meta page.
@Suite(
  .serialized, .timeLimit(.minutes(60)),
  .enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)")
)
struct MetaWriteTests {
  let directory: TemporaryDirectory
  let shim: PreloadShim

  init() throws {
    directory = try TemporaryDirectory()
    shim = try PreloadShim("meta_write", in: directory.path)
  }

  var path: String { directory.appending("environment") }
  private var orders: String { directory.appending("order") }

  /// Starts a process that loads the shim and has committed `k`.
  private func writer() throws -> ChildProcess {
    let peer = try TestExecutable.peer.start(
      environment: shim.environment.merging(["META_WRITE": orders]) { $1 })
    #expect(try peer.ask("lmdb open \(path)") == "opened")
    #expect(try peer.ask("lmdb put k old") == "ok")
    return peer
  }

  private func order(_ word: String) throws { try TestFiles.write(Array(word.utf8), to: orders) }

  private func read(_ environment: Environment, _ table: Table) throws -> String? {
    let value = try environment.withReadTransaction { try $0.bytes(forKey: "k", in: table) }
    return value.map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `Reads succeed while another process is inside its meta write`() throws {
    let peer = try writer()
    let environment = try Environment(at: path)
    let table = try environment.table("words")
    try order("hold")
    try peer.send("lmdb put k new")
    try peer.wait(for: "meta written")
    // The page is visible in the map, and the transaction id is not published.
    for _ in 0..<1000 { #expect(try read(environment, table) == "old") }
    let threads = (0..<4).map { _ in
      JoinableThread {
        Result { try (0..<1000).allSatisfy { _ in try read(environment, table) == "old" } }
      }
    }
    for thread in threads { #expect(try thread.join().get()) }
    try peer.send("")
    #expect(try peer.nextLine() == "ok")
    #expect(try read(environment, table) == "new")
  }

  @Test func `Reads succeed after a process was killed following its meta write`() throws {
    let peer = try writer()
    let environment = try Environment(at: path)
    let table = try environment.table("words")
    try order("kill")
    try peer.send("lmdb put k new")
    #expect(try peer.wait() == .killed)
    // No process writes: what was not published stays invisible.
    for _ in 0..<100 { #expect(try read(environment, table) == "old") }
    try environment.withWriteTransaction { try $0.put("x", forKey: "other", in: table) }
    #expect(try read(environment, table) == "new")
    #expect(try environment.verify().isSound)
  }

  @Test func `A failed meta write is outcomeUnknown, and opening again works`() throws {
    let peer = try writer()
    try order("fail")
    let failure = try peer.ask("lmdb put k new")
    #expect(failure.contains("may be visible"), "\(failure)")
    #expect(failure.contains("reopen the environment"), "\(failure)")
    #expect(!failure.contains("room"))
    let later = try peer.ask("lmdb get k")
    #expect(later.contains("reopen it"), "\(later)")
    #expect(try peer.ask("lmdb close") == "ok")
    #expect(try peer.ask("lmdb open \(path)") == "opened")
    #expect(["value old", "value new"].contains(try peer.ask("lmdb get k")))
    #expect(try peer.ask("lmdb put k third") == "ok")
    #expect(try peer.ask("lmdb get k") == "value third")
    #expect(try Environment(at: path).verify().isSound)
  }
}
