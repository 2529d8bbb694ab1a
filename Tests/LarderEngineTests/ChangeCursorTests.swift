// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// The text of a place in the changes, as programs save it.
@Suite(.timeLimit(.minutes(60))) struct ChangeCursorTests {
  private static func isRefused(_ text: String) -> Bool {
    do {
      _ = try ChangeCursor(text)
      return false
    } catch {
      return error.code == .invalidCursor
    }
  }

  @Test func `A cursor with a number that no commit has is an error`() throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"))
    let own = try store.changes().start
    let cursor = ChangeCursor(storeID: own.storeID, commitVersion: .max)
    let error = #expect(throws: StoreError.self) { try store.recentChanges(since: cursor) }
    #expect(error?.code == .invalidCursor)
    #expect(throws: StoreError.self) { try store.changes(since: cursor) }
    // The log of a new store begins with the call: nothing is missed.
    #expect(try SharedStore(at: directory.appending("other")).recentChanges(since: .now).isEmpty)
  }

  @Test func `A text that is not the whole text of a cursor is an error and no other place`() throws
  {
    var random = Seed.announce().generator()
    var places: [(UInt64, UInt64)] = [(0, 0), (1, 1), (.max, .max - 1), (.max, .max), (35, 36)]
    for _ in 0..<200 {
      places.append((random.next(), random.next() >> UInt64.random(in: 0..<64)))
    }
    let characters = "0123456789abcdefghijklmnopqrstuvwxyz-+ \nA"
    for (store, version) in places {
      let cursor = ChangeCursor(storeID: store, commitVersion: version)
      let text = cursor.description
      #expect(try ChangeCursor(text) == cursor)
      for length in 0..<text.count {
        #expect(Self.isRefused(String(text.prefix(length))), "\(text) cut to \(length)")
        #expect(Self.isRefused(String(text.suffix(length))), "\(text) without its beginning")
        var changed = Array(text)
        changed[length] = characters.randomElement(using: &random)!
        if changed != Array(text) { #expect(Self.isRefused(String(changed)), "\(String(changed))") }
        changed.remove(at: length)
        #expect(Self.isRefused(String(changed)), "\(String(changed))")
      }
      for other in [
        text + "\n", " " + text, text.uppercased() + "Z", text + "-", "0" + text, "+" + text,
      ] {
        #expect(Self.isRefused(other), "\(other)")
      }
    }
    for text in ["", "saved", "\n", "-", "--", "1-1", "1-1-", "NOW", "now\n", "1-1-0000000"] {
      #expect(Self.isRefused(text), "\(text.debugDescription)")
    }
  }

  @Test func `A place that is named now is the end of the changes at each call`() throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.path + "/store")
    try store.setBytes([1], forKey: 1)
    let first = try store.changes(since: .now).start
    #expect(first != .now)
    #expect(try first == store.changeCursor())
    #expect(try store.changes().start == first)
    try store.setBytes([2], forKey: 2)
    #expect(try store.changes(since: .now).start.commitVersion > first.commitVersion)
    #expect(try store.recentChanges(since: .now) == [])
    #expect(try store.recentChanges(since: ChangeCursor(first.description)).count == 1)
    #expect(try ChangeCursor(ChangeCursor.now.description) == .now)
    try store.wait(for: .now, timeout: .zero)
  }

  @Test func `A cache delivers all changes after a saved place, and none silently from now on`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.path + "/store")
    let users = PersistentCache<Int, String>(storage: store, namespace: "users")
    let saved = try users.changes().cursor.description
    for key in 0..<5 { try await users.setValue("v", forKey: key) }
    var keys: [Int] = []
    for try await change in try users.changes(since: ChangeCursor(saved)) {
      if case .key(let key, .set, _) = change { keys.append(key) }
      if keys.count == 5 { break }
    }
    #expect(keys == [0, 1, 2, 3, 4])
    for text in [saved + "\n", "", String(saved.dropLast()), saved.uppercased() + "!"] {
      #expect(throws: StoreError.self) { try users.changes(since: ChangeCursor(text)) }
    }
  }
}
