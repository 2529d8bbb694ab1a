// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderLMDB
import LarderRecovery
import LarderSystem
import LarderTesting
import Testing

/// The change log: every commit once, in order, or in a gap.
@Suite(.timeLimit(.minutes(60))) struct ChangeLogTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  private func texts(_ events: [ChangeEvent]) -> [[String]] {
    events.map { event in
      switch event {
      case .commit(let changes, _):
        changes.map { "\($0.kind) \($0.namespace ?? "*")/\($0.keyText)" }
      case .gap: ["gap"]
      }
    }
  }

  @Test func `A change has the process and the time of its commit`() throws {
    let clock = ManualClock()
    let store = try SharedStore(at: path, StoreOptions(clock: clock.storeClock))
    let start = try store.changeCursor()
    _ = try store.recentChanges(since: start)
    let first = clock.now
    try store.setBytes([1], forKey: "a")
    clock.advance(by: .seconds(60))
    try store.setBytes([1], forKey: "b")
    let changes = try store.recentChanges(since: start).flatMap { event in
      if case .commit(let changes, _) = event { changes } else { [] as [StoreChange] }
    }
    #expect(changes.map(\.time) == [first, first + 60_000])
    #expect(changes.allSatisfy { $0.pid == ProcessInfo.processInfo.processIdentifier })
  }

  @Test func `Every kind of change is recorded in the order of the commits`() throws {
    let clock = ManualClock()
    var options = StoreOptions(budget: .kilobytes(64), clock: clock.storeClock)
    options.evictionPolicy = .sampledLRU
    options.sweepsWhenIdle = false
    let store = try SharedStore(at: path, options)
    let start = try store.changeCursor()
    try store.setBytes([1], forKey: "before")
    #expect(try texts(store.recentChanges(since: start)) == [["gap"]])
    let cursor = try store.changeCursor()
    let names = try store.namespace("n")
    try names.setBytes([1], forKey: "a", tags: ["t"])
    try names.setBytes([2], forKey: "a")
    try names.setBytes([1], forKey: 7, expires: .after(.seconds(1)))
    try store.write { transaction in
      try transaction.setBytes([1], forKey: "b", in: "m")
      try transaction.setBytes([1], forKey: "c", in: "m")
      try transaction.remove(forKey: "b", in: "m")
    }
    try names.removeAll(tagged: "t")
    clock.advance(by: .seconds(2))
    try store.core.removeExpired()
    try names.removeAll()
    try store.remove(forKey: "before")
    try store.remove(forKey: "nothing")
    try store.setBytes([1], forKey: "unused")
    clock.advance(by: .seconds(200_000))
    try store.setBytes([1], forKey: "clock")
    try store.removeUnused(
      since: Date(timeIntervalSince1970: Double(clock.now - 100_000_000) / 1000))
    let events = try store.recentChanges(since: cursor)
    var found = texts(events)
    // Of the entries that were removed together, the order is that of their hashes.
    found[found.count - 1].sort()
    #expect(
      found == [
        ["set n/a"], ["set n/a"], ["set n/7"], ["set m/b", "set m/c", "removed m/b"],
        ["untagged n/t"], ["expired n/7"], ["cleared n/"], ["removed /before"],
        ["set /unused"], ["set /clock"], ["removed /unused", "removed m/c"],
      ])
    let versions = events.map(\.cursor.commitVersion)
    #expect(versions == versions.sorted() && Set(versions).count == versions.count)
    guard case .commit(let first, _) = events[0] else { return }
    #expect(first[0].pid == ProcessIdentity.pid && first[0].key(as: String.self) == "a")
    #expect(first[0].key(as: Int.self) == nil)
    // From each place on, exactly the rest.
    for (index, event) in events.enumerated() {
      let text = try ChangeCursor(event.cursor.description)
      #expect(text == event.cursor)
      #expect(try store.recentChanges(since: event.cursor) == Array(events[(index + 1)...]))
    }
    for limit in 0...4 {
      #expect(try store.recentChanges(since: cursor, limit: limit) == Array(events[..<limit]))
      #expect(try store.recentChanges(since: start, limit: limit).count == min(limit, events.count))
    }
    #expect(try store.verify() == [])
  }

  @Test func `An eviction is a change after that of the entry it made room for`() throws {
    var options = StoreOptions(budget: .kilobytes(16))
    options.evictionPolicy = .sampledLRU
    let store = try SharedStore(at: path, options)
    _ = try store.recentChanges(since: store.changeCursor())
    let cursor = try store.changeCursor()
    var model: Set<Int> = []
    let value = [UInt8](repeating: 1, count: 900)
    for key in 0..<200 { try store.setBytes(value, forKey: key) }
    for event in try store.recentChanges(since: cursor) {
      guard case .commit(let changes, _) = event else {
        Issue.record("a gap")
        continue
      }
      for change in changes {
        let key = try #require(change.key(as: Int.self))
        if change.kind == .set { model.insert(key) } else { model.remove(key) }
      }
    }
    for key in 0..<200 {
      #expect(try store.bytes(forKey: key) == (model.contains(key) ? value : nil))
    }
    #expect(model.count < 20)
  }

  @Test func `Overwritten records and large transactions are gaps`() throws {
    let store = try SharedStore(at: path)
    try store.setChangeLog(commits: 10)
    let cursor = try store.changeCursor()
    for key in 0..<1000 { try store.setBytes([1], forKey: key) }
    let events = try store.recentChanges(since: cursor, limit: 10_000)
    let first = try #require(1000 - events.count + 1 as Int?)
    #expect(texts(events) == [["gap"]] + (first..<1000).map { ["set /\($0)"] })
    #expect((10...400).contains(events.count), "\(events.count)")
    // The gap is as long as the commits that are missing.
    if case .gap(let from, let to, _) = events[0] { #expect(to - from + 1 == first) }
    // From any place on, the rest or a gap and what is left.
    for (index, event) in events.enumerated() {
      let rest = try store.recentChanges(since: event.cursor, limit: 10_000)
      #expect(rest == Array(events[(index + 1)...]))
    }
    let end = try store.changeCursor()
    try store.write { transaction in
      for key in 0..<2000 { try transaction.setBytes([2], forKey: "key \(key)") }
    }
    try store.setBytes([3], forKey: 1)
    #expect(try texts(store.recentChanges(since: end)) == [["gap"], ["set /1"]])
    // A key of more than 256 bytes is recorded by its beginning.
    let last = try store.changeCursor()
    try store.setBytes([1], forKey: String(repeating: "k", count: 300))
    guard case .commit(let changes, _)? = try store.recentChanges(since: last).first else {
      Issue.record("no change")
      return
    }
    #expect(changes[0].isKeyCut && changes[0].keyText == String(repeating: "k", count: 256) + "…")
    #expect(changes[0].key(as: String.self) == nil)
    #expect(try store.verify() == [])
  }

  @Test func `Cursors outlive opening, compaction, and the end of the log`() throws {
    var options = StoreOptions(durability: .durable)
    var store: SharedStore? = try SharedStore(at: path, options)
    _ = try store!.recentChanges(since: store!.changeCursor())
    let cursor = try store!.changeCursor()
    try store!.setBytes([1], forKey: 1)
    try store!.compact()
    try store!.setBytes([1], forKey: 2)
    store!.close()
    store = try SharedStore(at: path, options)
    try store!.setBytes([1], forKey: 3)
    #expect(try texts(store!.recentChanges(since: cursor)) == [["set /1"], ["set /2"], ["set /3"]])
    try store!.setChangeLog(commits: nil)
    try store!.setBytes([1], forKey: 4)
    // The log begins again with the next call.
    #expect(try texts(store!.recentChanges(since: cursor)) == [["gap"]])
    let next = try store!.changeCursor()
    try store!.setBytes([1], forKey: 5)
    #expect(try texts(store!.recentChanges(since: next)) == [["set /5"]])
    #expect(try store!.verify() == [])
    store!.close()
    options.durability = .cache
    let other = try SharedStore(at: directory.path + "/other", options)
    let error = #expect(throws: StoreError.self) { try other.recentChanges(since: cursor) }
    #expect(error?.code == .invalidOption)
    #expect(throws: StoreError.self) { try other.setChangeLog(commits: 0) }
  }

  @Test func `A store without a change log writes no records`() throws {
    let store = try SharedStore(at: path)
    for key in 0..<10 { try store.setBytes([1], forKey: key) }
    let records = try store.core.withSnapshot("statistics") { snapshot in
      try snapshot.transaction.statistics(of: snapshot.generation.changes).entries
    }
    #expect(records == 0)
  }

  @Test func `A damaged record is a gap and a finding`() throws {
    let store = try SharedStore(at: path)
    _ = try store.recentChanges(since: store.changeCursor())
    let cursor = try store.changeCursor()
    for key in 0..<200 { try store.setBytes([1], forKey: key) }
    try store.core.write { transaction in
      let generation = transaction.generation
      let garbage: [UInt8] = [1, 2, 3]
      try garbage.withRawSpan { garbage throws(LMDBError) in
        try transaction.transaction.put(
          garbage, RawSpan(), RawSpan(), forKey: 1, in: generation.changes)
      }
      transaction.force()
    }
    let found = try texts(store.recentChanges(since: cursor))
    let gap = try #require(found.firstIndex(of: ["gap"]))
    #expect(found[..<gap] == (0..<gap).map { ["set /\($0)"] }[...])
    #expect(found[(gap + 1)...] == (200 - found.count + gap + 1..<200).map { ["set /\($0)"] }[...])
    #expect(gap > 2 && found.count > 150 && found.count < 200)
    #expect(try store.verify().map(\.place) == ["changes"])
  }

  @Test func `A cache hears of the changes of its namespace only`() async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, String>(storage: store, namespace: "n")
    var changes = try cache.changes().makeAsyncIterator()
    try await store.setBytes([1], forKey: 1)
    try await cache.setValue("a", forKey: 1)
    try await store.setBytes([1], forKey: "of another type", in: "n")
    try await cache.removeValue(forKey: 1)
    try await cache.removeAll(tagged: "t")
    try await cache.removeAll()
    var found: [String] = []
    for _ in 0..<4 {
      switch try await changes.next() {
      case .key(let key, let kind, _): found.append("\(kind) \(key)")
      case .cleared: found.append("cleared")
      case .untagged(let tag, _): found.append("untagged \(tag)")
      case .gap, nil: found.append("gap")
      }
    }
    #expect(found == ["set 1", "removed 1", "untagged t", "cleared"])
  }

  @Test func `Commits of other namespaces advance the place of a quiet cache`() async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, String>(storage: store, namespace: "n")
    let changes = try cache.changes()
    let following = Task {
      var keys: [Int] = []
      for try await change in changes {
        if case .key(let key, _, _) = change { keys.append(key) }
        if keys.count == 2 { return keys }
      }
      return keys
    }
    try await cache.setValue("a", forKey: 1)
    for key in 0..<50 { try await store.setBytes([1], forKey: key) }
    let place = try store.changeCursor()
    try await awaitEventually("the place has advanced") { changes.cursor == place }
    try await cache.setValue("b", forKey: 2)
    #expect(try await following.value == [1, 2])
    // The last change is handled when the next one is requested.
    #expect(changes.cursor == place)
    let again = try cache.changes(since: changes.cursor)
    var iterator = again.makeAsyncIterator()
    guard case .key(2, .set, _)? = try await iterator.next() else {
      Issue.record("The change after the place is another one.")
      return
    }
  }

  @Test func `A wait for changes ends with one, at its timeout, or when the store closes`() throws {
    let store = try SharedStore(at: path)
    let other = try SharedStore(at: path)
    let start = try store.changeCursor()
    #expect(try store.recentChanges(since: start, timeout: .milliseconds(20)) == [])
    let begun = ContinuousClock.now
    #expect(try store.recentChanges(since: start, limit: -1, timeout: .seconds(800)) == [])
    #expect(ContinuousClock.now - begun < .seconds(600))
    let waiting = JoinableThread { try? store.recentChanges(since: start, timeout: .seconds(800)) }
    try other.setBytes([1], forKey: 1)
    let events = try #require(waiting.join())
    #expect(texts(events) == [["set /1"]])
    let end = events[0].cursor
    let closing = JoinableThread { () -> StoreError.Code? in
      do {
        _ = try store.recentChanges(since: end, timeout: .seconds(800))
        return nil
      } catch {
        return (error as? StoreError)?.code
      }
    }
    store.close()
    #expect(closing.join() == .closed)
    _ = other
  }

  @Test func `Another iteration does not set the place of a cache back`() async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, String>(storage: store, namespace: "n")
    let changes = try cache.changes()
    try await cache.setValues((1...3).map { (key: $0, value: "a") })
    try await cache.setValue("b", forKey: 4)
    var iterator = changes.makeAsyncIterator()
    for _ in 0..<4 { _ = try await iterator.next() }
    let place = changes.cursor
    let early = try cache.changes(since: place)
    #expect(early.cursor == place)
    var second = changes.makeAsyncIterator()
    _ = try await second.next()
    #expect(changes.cursor == place)
  }

  @Test func `A call that computes after a queued removal is one miss`() async throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<Int, String>(storage: store)
    let before = try store.statistics().misses
    cache[1] = nil
    _ = try await cache.value(forKey: 1) { "x" }
    #expect(try store.statistics().misses == before + 1)
  }

  @Test func `Closing the handle ends its iterations`() async throws {
    let store = try SharedStore(at: path)
    let other = try SharedStore(at: path)
    let waiting = Task {
      var count = 0
      for try await _ in try store.changes() { count += 1 }
      return count
    }
    try await awaitEventually("the iteration waits") { store.observerCount == 1 }
    try await other.setBytes([1], forKey: 1)
    try await awaitEventually("it waits again") { store.observerCount == 1 }
    store.close()
    #expect(try await waiting.value <= 1)
    _ = other
  }
}
