// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

// The types are those of `Peer+Bounded.swift`, under the same stored name; this program declares no
// budget.

private struct Leaf: Storable, Equatable {
  let id: Int
  var tag: Int
  var text: String
  static let storedName = "Leaf"
  static let indexes = [Index<Leaf>("tag", \.tag)]
}

private struct Large: Storable {
  let id: String
  var text: String
  static let storedName = "Large"
}

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Processes that fill a bounded type at random keep its budget, counters and indexes`() throws
  {
    let seed = Seed.announce()
    let directory = try TemporaryDirectory()
    let path = directory.appending("leaves")
    let store = try ObjectStore(at: path, StoreOptions())
    let peers = try (0..<3).map { index in
      let peer = try TestExecutable.peer.start()
      try peer.send("people \(path)")
      try peer.expect("opened")
      try peer.send("bounded 400 \(seed.derived(UInt64(index)).value >> 2)")
      return peer
    }
    for peer in peers {
      let answer = try peer.nextLine().split(separator: " ")
      try #require(answer.count == 3 && answer[0] == "bounded", "\(answer), \(seed)")
      #expect(Int(answer[1])! > 100 && answer[2] == "0", "\(answer), \(seed)")
    }
    #expect(try store.storage.verify() == [], "\(seed)")
    let all = try store.objects(Leaf.self).fetch()
    let usage = try store.usage(of: Leaf.self)
    #expect(usage.count == all.count && all.count <= 150 && all.count > 0, "\(seed)")
    #expect(usage.budget == ObjectBudget(bytes: .bytes(60_000), count: 150))
    #expect(try store.storage.statistics().evictions > 500, "\(seed)")
    for tag in 0..<7 {
      let query = store.objects(Leaf.self).where(\.tag == tag)
      #expect(try query.explain().hasPrefix("scan index"))
      #expect(try query.fetch() == all.filter { $0.tag == tag }, "\(seed)")
    }
    // A program that declares no budget evicts as the others do.
    try store.save((2000..<2300).map { Leaf(id: $0, tag: $0 % 7, text: "") })
    #expect(try store.objects(Leaf.self).count() == 150)
    #expect(try store.storage.verify() == [], "\(seed)")
    for peer in peers { try peer.dismiss() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `M5: two processes save an object of 200 kB and no read is torn`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("large")
    let store = try ObjectStore(at: path, StoreOptions())
    try store.save(Large(id: "one", text: String(repeating: "0", count: 200_000)))
    let peers = try (0..<2).map { index in
      let peer = try TestExecutable.peer.start()
      try peer.send("people \(path)")
      try peer.expect("opened")
      try peer.send("huge \(index * 5)")
      return peer
    }
    var seen: Set<Character> = []
    var reads = 0
    // All ten digits; each process writes one at least.
    while seen.count < 10 || reads < 500 {
      let large = try #require(try store.object(Large.self, id: "one"))
      let digit = try #require(large.text.first)
      #expect(large.text == String(repeating: digit, count: 200_000))
      seen.insert(digit)
      reads += 1
    }
    for (index, peer) in peers.enumerated() {
      #expect(try peer.numbers("stop", "wrote")[0] > index * 5)
      try peer.dismiss()
    }
    #expect(try store.storage.verify() == [])
  }
}
