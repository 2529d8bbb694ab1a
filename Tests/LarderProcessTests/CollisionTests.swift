// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  /// Sixteen records for all keys: each put rewrites what others have in the same record, small
  /// values beside values in chunks, while other processes do the same and one is killed.
  @Test(.timeLimit(.minutes(1)))
  func `Colliding keys with values of every size survive each other and a kill`() throws {
    let seed = Seed.announce("collisions")
    var random = seed.generator()
    var options = StoreOptions()
    options.hashBits = 4
    let ground = try Ground(options)
    var peers = try (0..<3).map { _ in try ground.peer("bits=4") }
    let sizes = [0, 1, 200, 4000, 32_600, 32_752, 40_000, 100_000]
    var expected: [Int: String] = [:]
    for round in 0..<60 {
      var sent: [(index: Int, key: Int, text: String)] = []
      for index in peers.indices {
        let key = index * 100 + Int.random(in: 0..<12, using: &random)
        let size = sizes.randomElement(using: &random)!
        try peers[index].send("put \(key) \(size) \(round)")
        sent.append((index, key, "\(size) \(size == 0 ? 0 : round)"))
      }
      for item in sent {
        try peers[item.index].expect("ok")
        expected[item.key] = item.text
      }
      guard round % 10 == 9 else { continue }
      // One is killed in the middle of a write: of that key either value is right.
      let victim = Int.random(in: 0..<peers.count, using: &random)
      let key = victim * 100
      try peers[victim].send("put \(key) 100000 99")
      peers[victim].kill()
      try peers[victim].wait()
      peers[victim] = try ground.peer("bits=4")
      let found = try peers[victim].ask("raw \(key)")
      #expect(found == "100000 99" || found == expected[key] ?? "none", "\(seed)")
      expected[key] = found == "none" ? nil : found
      for (key, text) in expected {
        let answer = try peers[(victim + 1) % peers.count].ask("raw \(key)")
        #expect(answer == text, "\(seed), key \(key)")
      }
      #expect(try ground.store.verify() == [], "\(seed)")
    }
    #expect(try ground.store.statistics().entries == expected.count)
    for peer in peers { try peer.dismiss() }
  }
}
