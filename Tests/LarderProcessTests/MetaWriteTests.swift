// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  /// Stores while, and after, a process writes a meta page of LMDB.
  @Suite(
    .serialized, .timeLimit(.minutes(60)),
    .enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"))
  struct MetaWriteTests {
    let ground: StoreFixture
    let shim: PreloadShim

    init() throws {
      ground = try StoreFixture(StoreOptions(durability: .durable))
      shim = try PreloadShim("meta_write", in: ground.directory.path)
    }

    private var orders: String { ground.directory.appending("order") }

    private func writer() throws -> ChildProcess {
      let peer = try ground.peer(
        "durable", environment: shim.environment.merging(["META_WRITE": orders]) { $1 })
      try peer.order("set 1 old")
      return peer
    }

    private func order(_ word: String) throws { try TestFiles.write(Array(word.utf8), to: orders) }

    @Test func `A store is read while another process is inside its meta write`() throws {
      let peer = try writer()
      try order("hold")
      try peer.send("set 1 new")
      try peer.wait(for: "meta written")
      for _ in 0..<1000 { #expect(try ground.numbers.value(forKey: 1) == "old") }
      try peer.send("")
      #expect(try peer.nextLine() == "ok")
      #expect(try ground.numbers.value(forKey: 1) == "new")
    }

    @Test func `A store is read after a process was killed following its meta write`() throws {
      let peer = try writer()
      try order("kill")
      try peer.send("set 1 new")
      #expect(try peer.wait() == .killed)
      for _ in 0..<100 { #expect(try ground.numbers.value(forKey: 1) == "old") }
    }

    @Test func `A failed meta write costs one outcomeUnknown, and the store works on`() throws {
      let peer = try writer()
      try order("fail")
      let failure = try peer.ask("set 1 new")
      #expect(failure.hasPrefix("error outcomeUnknown "), "\(failure)")
      #expect(!failure.contains("room"))
      #expect(["value old", "value new"].contains(try peer.ask("get 1")))
      try peer.order("set 1 third")
      #expect(try peer.ask("get 1") == "value third")
      #expect(try ground.numbers.value(forKey: 1) == "third")
      // The other process works on as well, in the same generation.
      try ground.numbers.setValue("fourth", forKey: 1)
      #expect(try peer.ask("get 1") == "value fourth")
      #expect(try ground.store.statistics().generation == 1)
      #expect(try peer.ask("verify") == "sound")
      // The log continues beyond the failed commit: a crash of the system loses nothing that followed.
      let copy = ground.directory.appending("crashed")
      #expect(try ChildProcess.run("/bin/cp", ["-a", ground.path, copy]).status.isSuccess)
      let file = copy + "/g-1/state"
      var state = try #require(try StoreState.read(from: file))
      (state.bootID, state.isDirty) = (state.bootID &+ 1, true)
      try state.write(to: file)
      let again = try SharedStore(at: copy, StoreOptions(durability: .durable))
      #expect(try PersistentCache<Int, String>(storage: again).value(forKey: 1) == "fourth")
      #expect(try again.verify() == [])
      again.close()
      try peer.dismiss()
    }

    @Test func `A failed meta write of a store that one process has open costs it one commit`()
      throws
    {
      ground.store.close()
      let peer = try writer()
      for round in 0..<3 {
        var failure = "ok"
        // The empty commit that follows a failed one within a second can be the one that fails.
        for _ in 0..<3 where failure == "ok" {
          try order("fail")
          failure = try peer.ask("set 1 lost\(round)")
        }
        #expect(failure.hasPrefix("error outcomeUnknown "), "round \(round): \(failure)")
        try peer.order("set 2 kept\(round)")
      }
      #expect(try peer.ask("get 2") == "value kept2")
      try peer.dismiss()
      let again = try SharedStore(at: ground.path, StoreOptions(durability: .durable))
      #expect(try again.verify() == [])
      #expect(try PersistentCache<Int, String>(storage: again).value(forKey: 2) == "kept2")
    }

    @Test func `Reads that are under way end while their process opens the store again`() throws {
      let peer = try writer()
      try order("fail")
      let answer = try peer.ask("readthrough 1")
      #expect(answer == "through 1 outcomeUnknown 1", "\(answer)")
      try peer.order("set 1 third")
      try peer.dismiss()
    }
  }
}
