// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

extension Processes {
  /// Where each computation leaves a file, so that also those of killed processes count.
  private func log(_ ground: Ground, _ name: String) throws -> String {
    let path = ground.directory.appending(name)
    try Files.makeDirectory(path)
    return path
  }

  @Test(.timeLimit(.minutes(15)))
  func `Eight processes of four tasks each compute a key once`() throws {
    let ground = try Ground()
    let peers = try (0..<8).map { _ in try ground.peer() }
    for key in 0..<50 {
      let log = try log(ground, "log-\(key)")
      for (index, peer) in peers.enumerated() { try peer.send("compute \(key) by-\(index) \(log)") }
      let answers = try peers.map { try $0.nextLine() }
      let who = try #require(answers.firstIndex { $0.hasPrefix("computed 1 ") }, "\(answers)")
      for (index, answer) in answers.enumerated() {
        #expect(answer == "computed \(index == who ? 1 : 0) by-\(who)", "\(answers)")
      }
      #expect(Files.names(in: log).count == 1)
      #expect(ground.numbers[key] == "by-\(who)")
    }
    #expect(try ground.store.statistics().computations == 50)
    #expect(try ground.store.statistics().fillsRefused == 0)
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(15)))
  func `When the process that computes is killed another takes over at once`() throws {
    let ground = try Ground()
    let others = try (0..<3).map { _ in try ground.peer() }
    for key in 0..<10 {
      let log = try log(ground, "log-\(key)")
      let holder = try ground.peer()
      #expect(try holder.ask("compute \(key) never \(log) held") == "computing")
      for (index, peer) in others.enumerated() {
        try peer.send("compute \(key) by-\(index) \(log)")
      }
      // They have nothing but to wait; a read of ours finds nothing meanwhile.
      #expect(ground.numbers[key] == nil)
      let start = ContinuousClock.now
      holder.kill()
      let answers = try others.map { try $0.nextLine() }
      // A wait that only a time limit ends would be far longer, even on a busy machine.
      #expect(ContinuousClock.now - start < .seconds(2))
      #expect(try holder.wait() == .signalled(SIGKILL))
      let value = try #require(ground.numbers[key])
      #expect(answers.filter { $0 == "computed 1 \(value)" }.count == 1, "\(answers)")
      #expect(answers.filter { $0 == "computed 0 \(value)" }.count == 2, "\(answers)")
      #expect(Files.names(in: log).count == 2)
    }
    #expect(try ground.store.verify() == [])
    for peer in others { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(15)))
  func `A computation is not lost beside ten thousand writes to other keys`() throws {
    let ground = try Ground()
    let flood = try ground.peer()
    let peers = try (0..<2).map { _ in try ground.peer() }
    var written = 0
    for key in 0..<5 {
      let log = try log(ground, "log-\(key)")
      try flood.send("churn 1000000 5000 behind")
      #expect(try peers[0].ask("compute \(key) by-0 \(log) held") == "computing")
      try peers[1].send("compute \(key) by-1 \(log)")
      // It ends when ten thousand writes have been committed since it began.
      let before = try ground.store.statistics().sets
      while try ground.store.statistics().sets < before + 10_000 {}
      try peers[0].send("go")
      #expect(try peers[0].nextLine() == "computed 1 by-0")
      #expect(try peers[1].nextLine() == "computed 0 by-0")
      #expect(Files.names(in: log).count == 1)
      #expect(ground.numbers[key] == "by-0")
      let churned = try flood.numbers("stop", "churned")
      #expect(churned[1] == 0)
      written += churned[0]
      print("flood: \(churned[0]) writes in \(churned[2]) ms")
    }
    let statistics = try ground.store.statistics()
    #expect(statistics.fillsRefused == 0 && statistics.computations == 5)
    #expect(statistics.sets <= written + 5)
    #expect(try ground.store.verify() == [])
    for peer in peers + [flood] { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(15)))
  func `A computation is seen elsewhere after the file of leases was deleted`() async throws {
    let ground = try Ground()
    let log = try log(ground, "log")
    // This process has the file open from here on.
    _ = try await ground.numbers.value(forKey: 1) { "mine" }
    Files.removeAll(ground.store.core.directory.leases)
    let peer = try ground.peer()
    #expect(try peer.ask("compute 2 theirs \(log) held") == "computing")
    let space = try ground.store.namespace("").space
    #expect(try ground.store.core.isLedElsewhere(EncodedKey(2), in: space))
    try peer.send("go")
    #expect(try peer.nextLine() == "computed 1 theirs")
    #expect(try !ground.store.core.isLedElsewhere(EncodedKey(2), in: space))
    try peer.dismiss()
  }
}
