// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Numbers of entries that a store tells.
@Suite(.timeLimit(.minutes(60))) struct CountTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()
  let store: SharedStore

  init() throws {
    directory = try TemporaryDirectory()
    var options = StoreOptions(clock: clock.storeClock)
    options.sweepsWhenIdle = false
    store = try SharedStore(at: directory.appending("store"), options)
  }

  @Test func `The count of a namespace is the number of its keys, whatever hides entries`() throws {
    let entries = try store.namespace("n")
    let cache = PersistentCache<Int, [UInt8]>(storage: store, namespace: "n")
    let other = try store.namespace("other")
    func expect(_ count: Int, _ what: Comment) throws {
      #expect(try entries.count() == count, what)
      #expect(try cache.keys().count == count, what)
    }
    try expect(0, "no namespace")
    for key in 0..<10 { try entries.setBytes([1], forKey: key) }
    try other.setBytes([1], forKey: 1)
    try expect(10, "entries without an end")
    for key in 10..<15 { try entries.setBytes([1], forKey: key, expires: .after(.seconds(10))) }
    for key in 15..<17 {
      try entries.setBytes([1], forKey: key, expires: .afterAccess(.seconds(90)))
    }
    try expect(17, "before the end")
    clock.advance(by: .seconds(20))
    try expect(12, "some have expired")
    try entries.setBytes([1], forKey: 20, tags: ["t"])
    try entries.setBytes([1], forKey: 21, tags: ["t"])
    try expect(14, "tags")
    try entries.removeAll(tagged: "t")
    try expect(12, "removed by tag")
    clock.advance(by: .seconds(3600))
    try expect(10, "a sliding lifetime has ended")
    try store.removeExpired()
    try expect(10, "after the removal")
    #expect(try other.count() == 1)
    try entries.removeAll()
    try expect(0, "after all were removed")
    #expect(try other.count() == 1)
    #expect(try store.verify() == [])
  }

  @Test func `Statistics are those of one commit`() throws {
    let isOver = Flag()
    let writer = JoinableThread { [store] in
      Result {
        for round in 0... {
          if isOver.isSet { break }
          try store.write { transaction in
            for name in ["a", "b", "c"] {
              for key in 0..<4 {
                if (round + key) % 3 == 0 {
                  _ = try transaction.remove(forKey: key, in: name)
                } else {
                  try transaction.setBytes([1], forKey: key, in: name)
                }
              }
            }
          }
        }
      }
    }
    for _ in 0..<2000 {
      let statistics = try store.statistics()
      #expect(statistics.namespaces.map(\.entries).reduce(0, +) == statistics.entries)
      #expect(statistics.namespaces.map(\.bytes).reduce(0, +) == statistics.bytes)
    }
    isOver.set()
    try writer.join().get()
  }

  private final class Flag: Sendable {
    private let flag = Atomic<Bool>(false)
    var isSet: Bool { flag.load(ordering: .acquiring) }
    func set() { flag.store(true, ordering: .releasing) }
  }
}
