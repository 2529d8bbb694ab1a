// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60))) struct StoreTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  @Test func `Values of every size are read as written`() throws {
    let store = try SharedStore(at: path)
    let sizes = [0, 1, 100, 2000, 4000, 32_000, 32_684, 32_685, 32_700, 65_500, 1_000_000]
    for size in sizes {
      let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
      try store.setBytes(bytes, forKey: size)
      #expect(try store.bytes(forKey: size) == bytes, "\(size) bytes")
    }
    for size in sizes.reversed() {
      try store.setBytes([1], forKey: size)
      #expect(try store.bytes(forKey: size) == [1])
    }
    #expect(try store.verify() == [])
    #expect(try store.statistics().bytes == sizes.count * (64 + 8 + 1))
  }

  @Test func `Keys of any length and any bytes are kept apart`() throws {
    let store = try SharedStore(at: path)
    let long = String(repeating: "k", count: 1_000_000)
    let keys = ["", "a", "a/b", "../x", "a\0b", "a\0", long, long + "x", "ключ"]
    for (index, key) in keys.enumerated() { try store.setBytes([UInt8(index)], forKey: key) }
    for (index, key) in keys.enumerated() {
      #expect(try store.bytes(forKey: key) == [UInt8(index)])
    }
    try store.setBytes([100], forKey: 1)
    try store.setBytes([101], forKey: "1")
    #expect(try store.bytes(forKey: 1) == [100])
    #expect(try store.bytes(forKey: "1") == [101])
    try store.setBytes([1], forKey: "Bx", in: "A")
    try store.setBytes([2], forKey: "x", in: "AB")
    #expect(try store.bytes(forKey: "Bx", in: "A") == [1])
    #expect(try store.bytes(forKey: "x", in: "AB") == [2])
    #expect(try store.remove(forKey: long))
    #expect(try store.bytes(forKey: long + "x") == [7])
    #expect(try store.verify() == [])
  }

  @Test func `Namespaces with names in two Unicode forms stay apart in a transaction`() throws {
    let store = try SharedStore(at: path)
    let names = ["\u{e9}", "e\u{301}"]
    #expect(names[0] == names[1])
    try store.write { transaction in
      for (number, name) in names.enumerated() {
        try transaction.setBytes([UInt8(number)], forKey: "x", in: name)
      }
      for (number, name) in names.enumerated() {
        #expect(try transaction.bytes(forKey: "x", in: name) == [UInt8(number)])
      }
    }
    for (number, name) in names.enumerated() {
      #expect(try store.bytes(forKey: "x", in: name) == [UInt8(number)])
    }
    try store.removeAll(in: names[1])
    #expect(try store.bytes(forKey: "x", in: names[0]) == [0])
    #expect(try store.bytes(forKey: "x", in: names[1]) == nil)
  }

  @Test func `Entries whose hashes collide share a record and lose nothing`() throws {
    var options = StoreOptions(budget: .megabytes(8))
    options.hashBits = 4
    let store = try SharedStore(at: path, options)
    var expected: [Int: [UInt8]] = [:]
    let seed = Seed.announce()
    var random = seed.generator()
    for _ in 0..<1500 {
      let key = Int.random(in: 0..<120, using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0: expected[key] = try store.remove(forKey: key) ? nil : expected[key]
      case 1:
        let bytes = [UInt8](repeating: UInt8(key), count: 40_000 + key)
        try store.setBytes(bytes, forKey: key)
        expected[key] = bytes
      default:
        let bytes = [UInt8](
          repeating: UInt8(key), count: Int.random(in: 0..<300, using: &random))
        try store.setBytes(bytes, forKey: key)
        expected[key] = bytes
      }
    }
    for key in 0..<120 { #expect(try store.bytes(forKey: key) == expected[key], "key \(key)") }
    #expect(try store.verify() == [])
  }

  @Test func `A cleared namespace is empty at once and leaves the others alone`() throws {
    let store = try SharedStore(at: path)
    for index in 0..<3000 {
      try store.write { transaction in
        try transaction.setBytes([1], forKey: index, in: "a")
        try transaction.setBytes([2], forKey: index, in: "b")
      }
    }
    try store.removeAll(in: "a")
    #expect(try store.bytes(forKey: 5, in: "a") == nil)
    #expect(try store.bytes(forKey: 5, in: "b") == [2])
    let statistics = try store.statistics()
    #expect(statistics.entries == 3000)
    try store.setBytes([3], forKey: 5, in: "a")
    #expect(try store.bytes(forKey: 5, in: "a") == [3])
    #expect(try store.verify() == [])
  }

  @Test func `Within a transaction a clearing and later writes keep their order`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: "old")
    try store.write { transaction in
      try transaction.setBytes([2], forKey: "before")
      try transaction.removeAll(in: "")
      try transaction.setBytes([3], forKey: "after")
      #expect(try transaction.bytes(forKey: "before") == nil)
      #expect(try transaction.bytes(forKey: "after") == [3])
    }
    #expect(try store.bytes(forKey: "old") == nil)
    #expect(try store.bytes(forKey: "before") == nil)
    #expect(try store.bytes(forKey: "after") == [3])
  }

  struct Refusal: Error {}

  @Test func `An error inside a transaction undoes all of it`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: "a")
    #expect(throws: Refusal.self) {
      try store.write { transaction in
        try transaction.setBytes([2], forKey: "a")
        throw Refusal()
      }
    }
    #expect(try store.bytes(forKey: "a") == [1])
    #expect(try store.verify() == [])
  }

  @Test func `A value larger than the budget is refused and evicts nothing`() throws {
    let store = try SharedStore(at: path, .init(budget: .kilobytes(64)))
    for index in 0..<100 { try store.setBytes([UInt8](repeating: 1, count: 500), forKey: index) }
    let before = try store.statistics()
    let error = #expect(throws: StoreError.self) {
      try store.setBytes([UInt8](repeating: 0, count: 65 << 10), forKey: "big")
    }
    #expect(error?.code == .valueTooLarge)
    #expect(try store.statistics().entries == before.entries)
    #expect(try store.statistics().evictions == before.evictions)
    try store.setBytes([UInt8](repeating: 0, count: 65_536 - 64 - 3), forKey: "big")
    #expect(try store.statistics().bytes == 65_536)
    #expect(try store.verify() == [])
  }

  @Test func `What was read lately outlives what was not`() throws {
    var random = Seed.announce().generator()
    let clock = ManualClock(milliseconds: 1000)
    let store = try SharedStore(
      at: path, .init(budget: .kilobytes(100), clock: StoreClock { clock.now }))
    for index in 0..<500 {
      clock.advance(by: .milliseconds(1))
      try store.setBytes([UInt8](repeating: 1, count: 100), forKey: index)
    }
    for _ in 0..<20 {
      clock.advance(by: .milliseconds(1))
      for hot in 0..<20 { _ = try store.bytes(forKey: hot) }
      for _ in 0..<50 {
        try store.setBytes(
          [UInt8](repeating: 1, count: 100),
          forKey: Int.random(in: 1000..<1_000_000, using: &random))
        for hot in 0..<20 { _ = try store.bytes(forKey: hot) }
      }
    }
    let kept = try (0..<20).filter { try store.bytes(forKey: $0) != nil }.count
    #expect(kept >= 18, "of 20 hot keys")
    let cold = try (20..<500).filter { try store.bytes(forKey: $0) != nil }.count
    #expect(cold < 100, "of 480 cold keys")
  }

  @Test func `The same store opened by other paths is one`() throws {
    let first = try SharedStore(at: path)
    try TestFiles.makeSymbolicLink(directory.path + "/link", to: directory.path)
    let second = try SharedStore(at: directory.path + "/link/./store/")
    #expect(first.core === second.core)
    first.close()
    try second.setBytes([1], forKey: 1)
    second.close()
    second.close()
    let error = #expect(throws: StoreError.self) { try second.bytes(forKey: 1) }
    #expect(error?.code == .closed)
  }

  @Test func `The other durability is an error that names both`() throws {
    let store = try SharedStore(at: path, .init(durability: .durable))
    try store.setBytes([1], forKey: 1)
    store.close()
    let error = #expect(throws: StoreError.self) { try SharedStore(at: path) }
    #expect(error?.code == .durabilityMismatch)
    #expect(error?.message.contains(".durable") == true)
    #expect(error?.message.contains(".cache") == true)
    #expect(try SharedStore.durability(ofStoreAt: path) == .durable)
    let again = try SharedStore(at: path, .init(durability: .durable))
    #expect(try again.bytes(forKey: 1) == [1])
  }

  @Test func `A lower budget holds at once, and for the next opener`() throws {
    let store = try SharedStore(at: path, .init(budget: .megabytes(1)))
    for index in 0..<5000 { try store.setBytes([UInt8](repeating: 1, count: 100), forKey: index) }
    store.close()
    let lower = try SharedStore(at: path, .init(budget: .kilobytes(100)))
    #expect(try lower.statistics().bytes <= 100 << 10)
    #expect(try lower.verify() == [])
    lower.close()
    #expect(try SharedStore(at: path).statistics().budget == 100 << 10)
  }

  @Test func `Threads of one process lose no write and no order`() async throws {
    let store = try SharedStore(at: path)
    await withTaskGroup(of: Void.self) { group in
      for thread in 0..<8 {
        group.addTask {
          let own = JoinableThread {
            for index in 0..<300 {
              try? store.setBytes(
                [UInt8(thread), UInt8(index & 255)], forKey: thread * 1000 + index)
              try? store.setBytes([UInt8(index & 255)], forKey: -thread - 1)
              if (try? store.bytes(forKey: -thread - 1)) != [UInt8(index & 255)] {
                Issue.record("thread \(thread) does not see its own write \(index)")
              }
            }
          }
          own.join()
        }
      }
    }
    for thread in 0..<8 {
      for index in 0..<300 {
        #expect(
          try store.bytes(forKey: thread * 1000 + index) == [UInt8(thread), UInt8(index & 255)])
      }
    }
    #expect(try store.verify() == [])
  }
}
