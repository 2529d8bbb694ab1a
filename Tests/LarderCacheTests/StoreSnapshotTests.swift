// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Reads of several keys in one state of the store.
@Suite(.timeLimit(.minutes(60))) struct StoreSnapshotTests {
  let directory: TemporaryDirectory
  let store: SharedStore
  init() throws {
    directory = try TemporaryDirectory()
    store = try SharedStore(at: directory.path + "/store")
  }

  @Test func `A snapshot contains earlier writes and none of those during it`() throws {
    let first = PersistentCache<String, Int>(storage: store, namespace: "a")
    let second = PersistentCache<Int, String>(storage: store, namespace: "b")
    let other = try SharedStore(at: store.path)
    // A write that may still wait.
    first["x"] = 1
    let found = try store.read { snapshot in
      let before = try snapshot.value(forKey: "x", in: first)
      let writer = JoinableThread {
        do {
          try other.setBytes([9], forKey: "during")
          try PersistentCache<Int, String>(storage: other, namespace: "b").setValue("y", forKey: 1)
          return true
        } catch { return false }
      }
      #expect(writer.join())
      #expect(try snapshot.bytes(forKey: "during") == nil)
      return (before, try snapshot.value(forKey: 1, in: second), snapshot.commitVersion)
    }
    #expect(found.0 == 1 && found.1 == nil)
    let later = try store.read { snapshot in
      (
        try snapshot.value(forKey: 1, in: second), try snapshot.bytes(forKey: "during"),
        snapshot.commitVersion
      )
    }
    #expect(later.0 == "y" && later.1 == [9] && later.2 > found.2)
  }

  @Test func `Transfers between caches are never seen in part`() throws {
    let caches = (0..<2).map {
      PersistentCache<Int, Int>(storage: store, namespace: "n\($0)")
    }
    for cache in caches { try cache.setValue(500, forKey: 1) }
    let writer = JoinableThread { [store] in
      do {
        for amount in 0..<500 {
          try store.write { transaction in
            let left = try transaction.value(forKey: 1, in: caches[0])!
            let right = try transaction.value(forKey: 1, in: caches[1])!
            try transaction.setValue(left - amount, forKey: 1, in: caches[0])
            try transaction.setValue(right + amount, forKey: 1, in: caches[1])
          }
        }
        return true
      } catch { return false }
    }
    for _ in 0..<500 {
      let sum = try store.read { snapshot in
        try caches.reduce(0) { try $0 + snapshot.value(forKey: 1, in: $1)! }
      }
      #expect(sum == 1000)
    }
    #expect(writer.join())
  }

  @Test func `A snapshot outside of its closure and a foreign cache are errors`() throws {
    var kept: StoreSnapshot?
    try store.read { kept = $0 }
    let late = #expect(throws: StoreError.self) { try kept!.bytes(forKey: 1) }
    #expect(late?.code == .closed)
    let other = try SharedStore(at: directory.path + "/other")
    let foreign = PersistentCache<Int, Int>(storage: other)
    let memory = PersistentCache<Int, Int>(storage: nil)
    for cache in [foreign, memory] {
      let error = #expect(throws: StoreError.self) {
        try store.read { try $0.value(forKey: 1, in: cache) }
      }
      #expect(error?.code == .invalidOption)
    }
    let inside = #expect(throws: StoreError.self) {
      try store.write { [store] _ in try store.read { $0.commitVersion } }
    }
    #expect(inside?.code == .insideTransaction)
    struct Own: Error {}
    #expect(throws: Own.self) { try store.read { _ in throw Own() } }
  }
}
