// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  private struct RefreshGround {
    let ground: StoreFixture
    let clock: ManualClock
    let log: String
    let options: String

    init() throws {
      ground = try StoreFixture()
      let shared = ground.directory.appending("clock")
      clock = try ManualClock(sharedAt: shared)
      log = ground.directory.appending("log")
      try TestFiles.makeDirectory(log)
      options = "shared=\(shared) compute=600000"
    }

    /// Calls `body` while no computation ends.
    func holdingComputations<R>(_ body: () throws -> R) throws -> R {
      try ground.store.lock("computations").withLock { _ in try body() }
    }

    func computations(of text: String) -> [String] {
      TestFiles.names(in: log).filter { $0.hasPrefix(text + "-") }
    }

    /// Repeats a request until a peer has another value than `old`.
    func nextValue(of peer: ChildProcess, key: Int, after old: String) throws -> String {
      var answer = ""
      try eventually("another value than \(old)") {
        answer = try peer.ask("get \(key)")
        return answer != old && answer != "none"
      }
      return answer
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `An expired value is served at once while one process of four computes the next`() throws {
    let shared = try RefreshGround()
    let peers = try (0..<4).map { _ in try shared.ground.peer(shared.options) }
    #expect(try peers[0].ask("refresh 1 old \(shared.log)") == "value old")
    shared.clock.advance(by: .seconds(2))
    // For every other read it has expired.
    #expect(try peers[1].ask("get 1") == "none")
    try shared.holdingComputations {
      for round in 0..<3 {
        for (index, peer) in peers.enumerated() {
          let answer = try peer.ask("refresh 1 new-\(index) \(shared.log)")
          #expect(answer == "value old", "in round \(round)")
        }
      }
    }
    let next = try shared.nextValue(of: peers[3], key: 1, after: "none")
    #expect(shared.computations(of: "new").count == 1, "\(TestFiles.names(in: shared.log))")
    for peer in peers { #expect(try peer.ask("refresh 1 newer \(shared.log)") == next) }
    #expect(shared.computations(of: "newer").isEmpty)
    #expect(try shared.ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `When the process that refreshes is killed another one does it`() throws {
    let shared = try RefreshGround()
    let peers = try (0..<2).map { _ in try shared.ground.peer(shared.options) }
    #expect(try peers[0].ask("refresh 1 old \(shared.log)") == "value old")
    shared.clock.advance(by: .seconds(2))
    try shared.holdingComputations {
      #expect(try peers[0].ask("refresh 1 first \(shared.log)") == "value old")
      try eventually("the first computes") {
        !shared.computations(of: "first").isEmpty
      }
      #expect(try peers[1].ask("refresh 1 second \(shared.log)") == "value old")
      peers[0].kill()
      try eventually("the second computes") {
        !shared.computations(of: "second").isEmpty
      }
      #expect(try peers[1].ask("refresh 1 third \(shared.log)") == "value old")
    }
    #expect(try shared.nextValue(of: peers[1], key: 1, after: "none") == "value second")
    #expect(shared.computations(of: "third").isEmpty)
    #expect(try shared.ground.store.verify() == [])
    try peers[1].dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `An expired value is removed when the time of its refresh has passed`() throws {
    let shared = try RefreshGround()
    let peers = try (0..<2).map { _ in try shared.ground.peer(shared.options) }
    #expect(try peers[0].ask("refresh 1 old \(shared.log)") == "value old")
    shared.clock.advance(by: .seconds(60))
    #expect(try peers[1].ask("refresh 1 new \(shared.log)") == "value old")
    let next = try shared.nextValue(of: peers[0], key: 1, after: "none")
    #expect(next == "value new")
    shared.clock.advance(by: .seconds(61))
    // In the other process the computation of the refresh may not have ended after its commit.
    #expect(try peers[0].ask("refresh 1 newest \(shared.log)") == "value newest")
    #expect(try shared.ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Overlapping batches of four processes compute each key once`() throws {
    let shared = try RefreshGround()
    let peers = try (0..<4).map { _ in try shared.ground.peer() }
    for (index, peer) in peers.enumerated() {
      try peer.send("batch \(index * 20) \(index * 20 + 60) \(shared.log)")
    }
    for peer in peers { #expect(try peer.nextLine() == "right") }
    let computed = TestFiles.names(in: shared.log).map { $0.split(separator: "-")[0] }
    #expect(Set(computed).count == 120 && computed.count == 120)
    #expect(try shared.ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }
}
