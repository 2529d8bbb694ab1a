// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Leaders and barriers between processes.
extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `One of several processes leads, and the next one after a kill`() async throws {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    var last: UInt64 = 0
    for (index, peer) in peers.enumerated() {
      try peer.send("lead a")
      try await awaitEventually("it waits or leads") {
        let status = try ground.store.locks().first
        return (status?.holders.count ?? 0) + (status?.waiters.count ?? 0) == index + 1
      }
    }
    // The first leads; then one that does not confirm its turn at once is passed over.
    var left = peers
    while !left.isEmpty {
      var lines: [(peer: ChildProcess, line: String)] = []
      try await awaitEventually("one leads") {
        for peer in left {
          if let line = try? peer.nextLine(deadline: .milliseconds(5)) {
            lines.append((peer, line))
          }
        }
        return !lines.isEmpty
      }
      #expect(lines.count == 1)
      let (peer, line) = lines[0]
      left.removeAll { $0 === peer }
      let words = line.split(separator: " ")
      #expect(words.first == "leading")
      let term = try #require(words.last.flatMap { UInt64($0) })
      #expect(term > last)
      last = term
      #expect(!ground.store.leader("a").isLeader)
      peer.kill()
    }
    let term = try await ground.store.leader("a").lead(timeout: .seconds(600)) { $0.number }
    #expect(term > last)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A barrier opens when all processes have arrived, and a killed one has not`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for round in 0..<3 {
      for peer in peers { try peer.send("barrier a 4") }
      try eventually("three wait in round \(round)") { try ground.waiters("a") == 3 }
      try ground.store.barrier("a", parties: 4).wait(timeout: .seconds(600))
      for peer in peers { #expect(try peer.nextLine() == "passed") }
    }
    for peer in peers { try peer.send("barrier a 4") }
    try eventually("three wait") { try ground.waiters("a") == 3 }
    peers[2].kill()
    _ = try peers[2].wait()
    let error = #expect(throws: StoreError.self) {
      try ground.store.barrier("a", parties: 4).wait(timeout: .milliseconds(50))
    }
    #expect(error?.code == .lockTimeout)
    let other = try ground.peer()
    try other.send("barrier a 4")
    try ground.store.barrier("a", parties: 4).wait(timeout: .seconds(600))
    for peer in [peers[0], peers[1], other] {
      #expect(try peer.nextLine() == "passed")
      try peer.dismiss()
    }
  }
}
