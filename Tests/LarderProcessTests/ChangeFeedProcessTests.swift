// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

extension Processes {
  /// Reads changes up to the one of the key "end", and checks their order.
  private static func keys(
    of changes: StoreChanges
  ) async throws -> (keys: [String], gaps: Int, cursor: ChangeCursor?) {
    var keys: [String] = []
    var (gaps, newest) = (0, UInt64(0))
    for try await event in changes {
      #expect(event.cursor.commitVersion > newest)
      newest = event.cursor.commitVersion
      guard case .commit(let changes, let cursor) = event else {
        gaps += 1
        continue
      }
      keys += changes.map(\.keyText)
      if keys.last == "end" { return (keys.dropLast(), gaps, cursor) }
    }
    return (keys, gaps, nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Every commit of killed writers is delivered once and in order`() async throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.setChangeLog(commits: 1_000_000)
    let start = try store.changeCursor()
    let listening = Task { try await Self.keys(of: store.changes(since: start)) }
    var random = Seed.announce().generator()
    for round in 0..<12 {
      let peers = try (0..<3).map { _ in try ground.peer() }
      for (index, peer) in peers.enumerated() { try peer.send("announce \(round)-\(index)") }
      let wanted = Int.random(in: 20...200, using: &random)
      let before = try store.statistics().entries
      try await awaitEventually("\(wanted) more entries") {
        try store.statistics().entries >= before + wanted
      }
      for peer in peers { peer.kill() }
      for peer in peers { _ = try peer.wait() }
    }
    try await store.setBytes([1], forKey: "end")
    let (keys, gaps, _) = try await listening.value
    let all = try await PersistentCache<String, String>(storage: store).keys()
    let stored = Set(all).subtracting(["end"])
    #expect(gaps == 0)
    #expect(keys.count == stored.count)
    #expect(Set(keys) == stored)
    // The writes of one process come in its order.
    var next: [Substring: Int] = [:]
    for key in keys {
      let parts = key.split(separator: ":")
      #expect(Int(parts[1]) == next[parts[0], default: 0], "\(key)")
      next[parts[0], default: 0] += 1
    }
    // An iteration from the same place later is the same.
    let again = try await Self.keys(of: store.changes(since: start))
    #expect(again.keys == keys && again.gaps == 0)
    #expect(try store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A change of another process wakes an iterator and its value is there`() async throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    var changes = try ground.numbers.changes().makeAsyncIterator()
    for number in 0..<200 {
      #expect(try peer.ask("set \(number) v\(number)") == "ok")
      guard case .key(let key, let kind, _)? = try await changes.next() else {
        Issue.record("no change of a key")
        return
      }
      #expect(key == number && kind == .set)
      #expect(try await ground.numbers.value(forKey: number) == "v\(number)")
    }
    try peer.dismiss()
  }

  @Test(.timeLimit(.minutes(60)))
  func `A thread that waits for changes has every commit of killed writers`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.setChangeLog(commits: 1_000_000)
    let start = try store.changeCursor()
    let reader = JoinableThread { () -> [String] in
      var (keys, cursor) = ([String](), start)
      do {
        while keys.last != "end" {
          let events = try store.recentChanges(since: cursor, timeout: .seconds(600))
          guard let last = events.last else { return keys + ["nothing"] }
          cursor = last.cursor
          for event in events {
            guard case .commit(let changes, _) = event else { return keys + ["gap"] }
            keys += changes.map(\.keyText)
          }
        }
      } catch {
        keys.append("\(error)")
      }
      return keys
    }
    for round in 0..<6 {
      let peer = try ground.peer()
      try peer.send("announce \(round)")
      let before = try store.statistics().entries
      try eventually("more entries") {
        try store.statistics().entries >= before + 50
      }
      peer.kill()
      _ = try peer.wait()
    }
    try store.setBytes([1], forKey: "end")
    let keys = reader.join()
    let stored = try PersistentCache<String, String>(storage: store).keys()
    #expect(keys.count == stored.count)
    #expect(Set(keys) == Set(stored))
    #expect(try store.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A commit of another process is read by its token`() async throws {
    let ground = try StoreFixture()
    let peer = try ground.peer()
    for number in 0..<100 {
      let words = try peer.ask("token 7 v\(number)").split(separator: " ")
      let token = try CommitToken(String(#require(words.count == 2 ? words[1] : nil)))
      #expect(
        try await ground.numbers.value(forKey: 7, atLeast: token, timeout: .zero) == "v\(number)")
    }
    try peer.dismiss()
  }
}
