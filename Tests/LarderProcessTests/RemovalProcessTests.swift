// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Removals by killed processes are reported exactly as far as they were committed`()
    async throws
  {
    let ground = try StoreFixture()
    var removals = ground.store.removals.makeAsyncIterator()
    for round in 0..<10 {
      let peer = try ground.peer()
      try peer.send("overwrite \(round)")
      for value in 0..<(20 + 7 * round) { try peer.expect("ack \(value)") }
      peer.kill()
      // The next transaction settles what the killed writer left.
      try await ground.numbers.setValue("end", forKey: 1000 + round)
      let last = try #require(ground.numbers[round].flatMap { Int($0) })
      for _ in 0..<last {
        guard case .entry(let entry)? = await removals.next() else {
          Issue.record("a gap or the end")
          return
        }
        #expect(entry.cause == .replaced && entry.key(as: Int.self) == round)
        #expect(entry.pid != ProcessIdentity.pid)
      }
      #expect(try await ground.numbers.removeValue(forKey: round))
      guard case .entry(let entry)? = await removals.next() else {
        Issue.record("a gap or the end")
        return
      }
      #expect(entry.cause == .removed && entry.key(as: Int.self) == round, "\(entry)")
    }
    #expect(try ground.store.verify() == [])
  }
}
