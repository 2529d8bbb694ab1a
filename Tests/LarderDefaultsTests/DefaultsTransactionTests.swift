// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

extension DefaultsKeys {
  fileprivate static let count = DefaultsKey<Int>("count", default: 10)
  fileprivate static let name = DefaultsKey<String?>("name")
}

@Suite(.timeLimit(.minutes(60)))
struct DefaultsTransactionTests {
  private struct Refused: Error {}

  private func commits(_ ground: StoreFixture) throws -> UInt64 {
    let store = try SharedStore(at: ground.path, StoreOptions(durability: .durable))
    defer { store.close() }
    return try store.core.withSnapshot("test") { snapshot in snapshot.commitVersion }
  }

  @Test func `An update begins with the default and is one commit`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    defaults.title = "first"
    let before = try commits(ground)
    #expect(try defaults.update(.count) { $0 += 1 } == 11)
    #expect(try commits(ground) == before + 1)
    #expect(try defaults.update(.count) { $0 += 1 } == 12)
    #expect(defaults[.count] == 12)
    #expect(try defaults.update(.name) { $0 = "Ada" } == "Ada")
    #expect(try defaults.value(String.self, forKey: "name") == "Ada")
    #expect(try defaults.update(.name) { $0 = nil } == nil)
    #expect(try !defaults.has("name"))
    #expect(throws: Refused.self) {
      try defaults.update(.count) {
        $0 = 0
        throw Refused()
      }
    }
    #expect(defaults[.count] == 12)
  }

  @Test func `Threads that update one key lose no step`() throws {
    let ground = try StoreFixture()
    let other = try Defaults(at: ground.path)
    let threads = (0..<4).map { index in
      JoinableThread {
        for _ in 0..<25 {
          do { _ = try (index % 2 == 0 ? ground.defaults : other).update(.count) { $0 += 1 } } catch
          {
            Issue.record(error)
          }
        }
      }
    }
    for thread in threads { thread.join() }
    #expect(ground.defaults[.count] == 110)
  }

  @Test func `Several keys change in one commit, or none does`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    try defaults.setValue("old", forKey: "old")
    let before = try commits(ground)
    let seen = try defaults.write { values in
      try values.set(3, for: .count)
      try values.set("Ada", for: .name)
      try values.setValue([1, 2], forKey: "list")
      #expect(try values.removeValue(forKey: "old"))
      #expect(try !values.removeValue(forKey: "old"))
      #expect(try values.value(of: .count) == 3)
      #expect(try values.value([Int].self, forKey: "list") == [1, 2])
      #expect(try values.value(String.self, forKey: "old") == nil)
      return try values.update(.count) { $0 *= 2 }
    }
    #expect(seen == 6)
    #expect(try commits(ground) == before + 1)
    #expect(try defaults.keys() == ["count", "list", "name"])
    #expect(throws: Refused.self) {
      try defaults.write { values in
        try values.set(100, for: .count)
        try values.reset(.name)
        throw Refused()
      }
    }
    #expect(defaults[.count] == 6)
    #expect(defaults[.name] == "Ada")
    // A value of another type stays, in a transaction too.
    #expect(throws: DefaultsError.self) {
      try defaults.write { values in
        try values.reset(.name)
        try values.update(Int.self, forKey: "list") { $0 = 1 }
      }
    }
    #expect(defaults[.name] == "Ada")
  }

  @Test func `Asynchronous callers have all forms, each on the disk when it returns`() async throws
  {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    let other = try Defaults(at: ground.path)
    try await defaults.setValue(5, forKey: "count")
    #expect(other[.count] == 5)
    try await defaults.set(6, for: .count)
    #expect(other[.count] == 6)
    try await defaults.set("x", for: .name)
    try await defaults.set(nil, for: .name)
    #expect(try !other.has("name"))
    #expect(try await defaults.update(.count) { $0 += 1 } == 7)
    #expect(try await defaults.update(Int.self, forKey: "new") { $0 = ($0 ?? 0) + 1 } == 1)
    #expect(try await defaults.removeValue(forKey: "new"))
    #expect(try await !defaults.removeValue(forKey: "new"))
    try await defaults.setValue(nil as Int?, forKey: "count")
    #expect(other[.count] == 10)
    #expect(try await !defaults.reset(.count))
    try await defaults.write { try $0.set(8, for: .count) }
    #expect(other[.count] == 8)
    defaults.close()
    await #expect(throws: StoreError.self) { try await defaults.setValue(1, forKey: "count") }
  }

  /// More tasks than the pool has threads wait for a commit that cannot begin.
  @Test func `No thread of the pool waits for a commit`() async throws {
    let ground = try StoreFixture()
    let inside = Event()
    let mayEnd = Event()
    let writer = JoinableThread {
      _ = try? ground.defaults.write { values in
        inside.set()
        mayEnd.wait()
      }
    }
    await withCheckedContinuation { continuation in
      _ = JoinableThread {
        inside.wait()
        continuation.resume()
      }
    }
    let started = Log<Int>()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<100 {
        group.addTask {
          started.append(index)
          while true {
            do {
              try await ground.defaults.setValue(index, forKey: "key \(index)")
              return
            } catch let error as StoreError where error.code == .writerStalled {
              // The tasks after this one did not start within the time limit of a write.
            }
          }
        }
      }
      group.addTask {
        // It comes to run only if the hundred before hold no thread.
        try await awaitEventually("all tasks have started") { started.all.count == 100 }
        mayEnd.set()
      }
      try await group.waitForAll()
    }
    writer.join()
    #expect(try ground.defaults.keys().count == 100)
  }

  /// Returns the outcome of a write: its code, if it failed.
  private static func outcome(_ body: () throws -> Void) -> String {
    do {
      try body()
      return "done"
    } catch let error as DefaultsError { return error.code.rawValue } catch { return "\(error)" }
  }

  @Test func `A write within a write is a typed error and never waits for itself`() throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    let other = try Defaults(at: ground.path)
    let log = Log<String>()
    try defaults.update(.count) { count in
      log.append(Self.outcome { try defaults.setValue(1, forKey: "a") })
      log.append(Self.outcome { try other.setValue(1, forKey: "a") })
      log.append(Self.outcome { try defaults.update(.count) { $0 = 0 } })
      log.append(Self.outcome { try defaults.write { try $0.set(1, for: .count) } })
      log.append(Self.outcome { try defaults.removeValue(forKey: "a") })
      log.append(Self.outcome { try defaults.removeAll() })
      let list = Data("<plist version=\"1.0\"><dict/></plist>".utf8)
      log.append(Self.outcome { try defaults.importPropertyList(list) })
      // A form that does not throw reports the error and reads the earlier value.
      defaults[.name] = "x"
      #expect(defaults.level == 5)
      #expect(defaults[.count] == 10)
      count = 1
    }
    #expect(log.all == Array(repeating: "nestedWrite", count: 7))
    #expect(ground.errors.all.count == 2)
    #expect(defaults[.count] == 1)
    #expect(try defaults.keys() == ["count"])
    // Afterwards all is as before.
    try defaults.setValue(1, forKey: "a")
    #expect(try defaults.has("a"))
  }

  @Test func `It is one on the store's own thread as well`() async throws {
    let ground = try StoreFixture()
    let defaults = ground.defaults
    let log = Log<String>()
    try await defaults.update(.count) { count in
      log.append(Self.outcome { try defaults.setValue(1, forKey: "a") })
      count = 2
    }
    #expect(log.all == ["nestedWrite"])
    #expect(defaults[.count] == 2)
  }
}
