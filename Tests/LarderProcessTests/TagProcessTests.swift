// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `A tag removed by one process is a miss of the next read of every other`() throws {
    let ground = try StoreFixture()
    let peers = try (0..<3).map { _ in try ground.peer() }
    for round in 0..<300 {
      let key = round % 5
      try peers[round % 3].order("tagged \(key) a\(key),all text \(round)")
      for peer in peers {
        // From the store, then from memory.
        for _ in 0..<2 { #expect(try peer.ask("get \(key)") == "value text \(round)") }
      }
      #expect(ground.numbers[key] == "text \(round)")
      try peers[(round + 1) % 3].order(round % 2 == 0 ? "untag a\(key)" : "untag all")
      for peer in peers { #expect(try peer.ask("get \(key)") == "none") }
      #expect(ground.numbers[key] == nil)
    }
    #expect(try ground.store.verify() == [])
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A process killed after its removal by tag leaves the entries removed`() throws {
    let ground = try StoreFixture()
    for round in 0..<20 {
      let peer = try ground.peer()
      try ground.numbers.setValue("text", forKey: 1, tags: ["tag"])
      #expect(try peer.ask("get 1") == "value text")
      try peer.order("untag tag")
      peer.kill()
      #expect(ground.numbers[1] == nil, "\(round)")
      try ground.numbers.setValue("again", forKey: 1, tags: ["tag"])
      #expect(ground.numbers[1] == "again")
    }
    #expect(try ground.store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A negative entry of one process answers for all, until any of them writes the key`() throws
  {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    try ground.numbers.setValue("text", forKey: 1)
    #expect(try peer.ask("state 1") == "value text")
    try ground.numbers.setAbsent(forKey: 1, expires: .never)
    #expect(try peer.ask("state 1") == "absent")
    #expect(try peer.ask("get 1") == "none")
    try peer.order("set 1 other text")
    #expect(try ground.numbers.state(forKey: 1) == .value("other text"))
    try peer.order("absent 1")
    #expect(try ground.numbers.state(forKey: 1) == .absent)
    #expect(try peer.ask("remove 1") == "removed")
    #expect(try ground.numbers.state(forKey: 1) == .unknown)
    try peer.dismiss()
  }
}
