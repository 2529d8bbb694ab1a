// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderStorage
import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60)))
struct CompositionTests {
  @Test func `A miss is nil and an error of retrieve; a failure is an error of both`() async throws
  {
    let memory = MemoryStorage<String, Int>()
    #expect(try await memory.value(forKey: "a") == nil)
    do {
      _ = try await memory.retrieve(forKey: "a")
      Issue.record("It was retrieved.")
    } catch MemoryStorageError.noValue {
    }
    await #expect(throws: Broken()) { try await Failing<Int>().value(forKey: "a") }
    // A layer falls through on a miss; on a failure only when configured to.
    try await memory.set(1, forKey: "a")
    await #expect(throws: Broken()) {
      try await Failing<Int>().combined(with: memory).value(forKey: "a")
    }
    let reported = Mutex(0)
    let lenient = Failing<Int>().recovering(
      .readErrorsAsMisses { _ in reported.withLock { $0 += 1 } })
    #expect(try await lenient.combined(with: memory).value(forKey: "a") == 1)
    #expect(reported.withLock { $0 } > 0)
  }

  @Test func `Combined, backed and pushing do what they did in Shallows`() async throws {
    let (front, back) = (MemoryStorage<String, Int>(), MemoryStorage<String, Int>())
    let combined = front.combined(with: back)
    #expect(combined.storageName == "\(front.storageName)<->\(back.storageName)")
    try await back.set(1, forKey: "pulled")
    #expect(try await combined.retrieve(forKey: "pulled") == 1)
    #expect(front.storage == ["pulled": 1])
    try await combined.set(2, forKey: "set")
    #expect(front.storage["set"] == 2 && back.storage["set"] == 2)
    try await combined.remove(forKey: "set")
    #expect(front.storage["set"] == nil && back.storage["set"] == nil)
    #expect(try await Set(combined.keys()) == ["pulled"])
    try await combined.removeAll()
    #expect(front.storage.isEmpty && back.storage.isEmpty)

    let backed = front.backed(by: back)
    try await back.set(3, forKey: "back")
    #expect(try await backed.retrieve(forKey: "back") == 3)
    #expect(front.storage == ["back": 3])
    try await backed.set(4, forKey: "front")
    #expect(back.storage == ["back": 3])

    // The front fails: the back is left alone. The back fails: the front keeps the value.
    await #expect(throws: Broken()) {
      try await Failing<Int>().pushing(to: back).set(5, forKey: "x")
    }
    #expect(back.storage["x"] == nil)
    await #expect(throws: Broken()) {
      try await front.pushing(to: Failing<Int>()).set(5, forKey: "x")
    }
    #expect(front.storage["x"] == 5)
    await #expect(throws: Broken()) {
      try await front.combined(with: Failing<Int>()).set(6, forKey: "x")
    }
    #expect(front.storage["x"] == 6)

    // A read-only front is never filled.
    try await front.removeAll()
    let views = front.asReadOnlyStorage().backed(by: back)
    #expect(try await views.retrieve(forKey: "back") == 3)
    #expect(front.storage.isEmpty)
    let pushing = front.pushingOnSet(to: back)
    try await pushing.set(7, forKey: "pushed")
    #expect(back.storage["pushed"] == 7)
    #expect(try await pushing.value(forKey: "back") == nil)
  }

  @Test func `Zipped storages read pairs, write both, and name the side that failed`() async throws
  {
    let (left, right) = (MemoryStorage<String, Int>(), MemoryStorage<String, String>())
    let both = zip(left, right)
    try await both.set((1, "one"), forKey: "a")
    #expect(try await both.retrieve(forKey: "a") == (1, "one"))
    try await left.set(2, forKey: "half")
    #expect(try await both.value(forKey: "half") == nil)
    do {
      try await zip(left, Failing<String>()).set((3, "three"), forKey: "b")
      Issue.record("It was set.")
    } catch let error as ZippedResultError {
      #expect(error.left == nil && error.right is Broken)
    }
    #expect(left.storage["b"] == 3)
    let views = zip(left.asReadOnlyStorage(), right.asReadOnlyStorage())
    #expect(try await views.retrieve(forKey: "a").1 == "one")
    try await zip(left.asWriteOnlyStorage(), right.asWriteOnlyStorage())
      .set((4, "four"), forKey: "d")
    #expect(left.storage["d"] == 4 && right.storage["d"] == "four")
    let known = Set(left.storage.keys).intersection(right.storage.keys)
    #expect(try await Set(both.keys()) == known && known.contains("a") && !known.contains("half"))
  }

  @Test func `Values and keys are mapped in all forms`() async throws {
    enum Kind: String, Sendable { case one, two }
    struct City: Codable, Sendable, Equatable { var name: String }
    let data = MemoryStorage<String, Data>()
    let cities = data.mapJSONObject(City.self)
    try await cities.set(City(name: "Kyiv"), forKey: "a")
    #expect(try await data.mapJSONDictionary().retrieve(forKey: "a") == ["name": "Kyiv"])
    #expect(try await data.mapJSON().retrieve(forKey: "a")["name"]?.text == "Kyiv")
    #expect(try await data.mapString().retrieve(forKey: "a") == #"{"name":"Kyiv"}"#)
    let plists = data.mapPlistObject(City.self)
    try await plists.set(City(name: "Lviv"), forKey: "p")
    #expect(try await data.mapPlistDictionary().retrieve(forKey: "p") == ["name": "Lviv"])
    #expect(try await data.mapPlist().retrieve(forKey: "p")["name"]?.text == "Lviv")
    let document: DocumentValue = ["a": [1, 2.5, true, nil, "x"], "b": ["c": -1]]
    try await data.mapJSON().set(document, forKey: "d")
    #expect(try await data.mapJSON().retrieve(forKey: "d") == document)
    await #expect(throws: StorageError.self) { try await cities.value(forKey: "d") }

    let kinds = MemoryStorage<String, String>().mapKeys(toRawRepresentableType: Kind.self)
      .mapValues(toRawRepresentableType: Kind.self)
    try await kinds.set(.two, forKey: .one)
    #expect(try await kinds.retrieve(forKey: .one) == .two)
    #expect(try await kinds.keys() == [.one])
    let async = data.asyncMapKeys(to: Int.self) { "\($0)" }
      .asyncMapValues(transformIn: { $0.count }, transformOut: { Data(count: $0) })
    try await async.set(5, forKey: 1)
    #expect(try await async.retrieve(forKey: 1) == 5)
    let small = MemoryStorage<String, Int>().validate { $0 < 10 }
    await #expect(throws: ValueValidationError.self) { try await small.set(10, forKey: "a") }
    try await small.set(9, forKey: "a")
    #expect(try await small.update(forKey: "a") { $0 -= 1 } == 8)
    let single = MemoryStorage<String, Int>(storage: ["a": 1, "b": 2]).singleKey("a")
    #expect(try await single.update { $0 += 1 } == 2)
    #expect(try await single.defaulting(to: 0).value() == 2)
    try await single.removeAll()
    #expect(try await single.fallback { _ in -1 }.retrieve() == -1)
    #expect(single.renaming(to: "x").makeSyncStorage().storageName == "x-sync")
  }

  @Test func `An empty storage fails to retrieve and to keep, with its own error`() async throws {
    let empty = Storage<String, Int>.empty()
    #expect(try await empty.value(forKey: "a") == nil)
    #expect(try await empty.contains("a") == false)
    await #expect(throws: EmptyStorageError.self) { try await empty.retrieve(forKey: "a") }
    #expect(throws: EmptyStorageError.self) {
      try empty.makeSyncStorage().retrieve(forKey: "a")
    }
    await #expect(throws: EmptyStorageError.self) { try await empty.set(1, forKey: "a") }
    await #expect(throws: EmptyStorageError.self) {
      try await ReadOnlyStorage<String, Int>.empty().retrieve(forKey: "a")
    }
    await #expect(throws: EmptyStorageError.self) {
      try await WriteOnlyStorage<String, Int>.empty().set(1, forKey: "a")
    }
    #expect(try await empty.defaulting(to: 2).retrieve(forKey: "a") == 2)
  }

  @Test func `An empty storage in a composition leaves each read to the other layers`()
    async throws
  {
    let full = MemoryStorage<String, Int>(storage: ["a": 1])
    let empty = Storage<String, Int>.empty()
    #expect(try await empty.combined(with: full).retrieve(forKey: "a") == 1)
    #expect(try await empty.backed(by: full).retrieve(forKey: "a") == 1)
    #expect(try await full.combined(with: empty).retrieve(forKey: "a") == 1)
    #expect(try await full.combined(with: empty).value(forKey: "b") == nil)
    let views = ReadOnlyStorage<String, Int>.empty().backed(by: full)
    #expect(try await views.retrieve(forKey: "a") == 1)
    #expect(try await empty.combined(with: full).keys() == ["a"])
    // A write goes to the front first, which refuses it; an update is the back's.
    await #expect(throws: EmptyStorageError.self) {
      try await empty.combined(with: full).set(2, forKey: "a")
    }
    #expect(full.storage == ["a": 1])
    #expect(try await empty.combined(with: full).update(forKey: "a") { $0 += 1 } == 2)
    try await empty.combined(with: full).remove(forKey: "a")
    #expect(full.storage == [:])
  }

  @Test func `A storage that can only be written is made of a closure that calls back`()
    async throws
  {
    let memory = MemoryStorage<String, Int>()
    let storage = WriteOnlyStorage<String, Int>(storageName: "calls") { value, key, completion in
      if value < 0 { return completion(.failure(Broken())) }
      memory.set(value, forKey: key, completion: completion)
    }
    try await storage.set(1, forKey: "a")
    #expect(memory.storage == ["a": 1])
    await #expect(throws: Broken()) { try await storage.set(-1, forKey: "a") }
    try storage.makeSyncStorage().set(2, forKey: "a")
    #expect(memory.storage == ["a": 2])
    let silent = WriteOnlyStorage<String, Int>(storageName: "silent") { _, _, _ in }
    do {
      try await silent.set(1, forKey: "a")
      Issue.record("It was set.")
    } catch StorageError.Code.completionNotCalled {
    }
  }

  @Test func `Property lists are written in the requested format, and read in both`()
    async throws
  {
    let data = MemoryStorage<String, Data>()
    try await data.mapPlist(format: .xml).set(["n": 1], forKey: "text")
    try await data.mapPlist().set(["n": 1], forKey: "binary")
    try await data.asWriteOnlyStorage().mapPlistDictionary(format: .xml)
      .set(["n": 1], forKey: "write")
    for (key, start) in [("text", "<?xml"), ("binary", "bplist"), ("write", "<?xml")] {
      #expect(try await data.retrieve(forKey: key).starts(with: Data(start.utf8)))
      #expect(try await data.mapPlist(format: .xml).retrieve(forKey: key) == ["n": 1])
      #expect(
        try await data.asReadOnlyStorage().mapPlist(format: .binary).retrieve(forKey: key)
          == ["n": 1])
      #expect(try await data.mapPlistDictionary().retrieve(forKey: key) == ["n": 1])
    }
  }

  @Test func `Retrieving a pair with a missing side names that side`() async throws {
    let (left, right) = (MemoryStorage<String, Int>(), MemoryStorage<String, String>())
    let both = zip(left, right)
    try await left.set(2, forKey: "left")
    try await right.set("two", forKey: "right")
    func side(_ body: () async throws -> Void) async -> String {
      do { try await body() } catch let error as ZippedResultError {
        switch (error.left, error.right) {
        case (nil, MemoryStorageError.noValue?): return "right"
        case (MemoryStorageError.noValue?, nil): return "left"
        default: return "\(error)"
        }
      } catch MemoryStorageError.noValue {
        return "both"
      } catch {
        return "\(error)"
      }
      return "none"
    }
    let single = both.mapKeys(to: Int.self) { ["left", "right", "none"][$0] }
    let sync = both.makeSyncStorage()
    let views = zip(left.asReadOnlyStorage(), right.asReadOnlyStorage())
    for (number, (key, missing)) in [("left", "right"), ("right", "left"), ("none", "both")]
      .enumerated()
    {
      #expect(await side { _ = try await both.retrieve(forKey: key) } == missing)
      #expect(await side { _ = try sync.retrieve(forKey: key) } == missing)
      #expect(await side { _ = try await views.retrieve(forKey: key) } == missing)
      #expect(await side { _ = try views.makeSyncStorage().retrieve(forKey: key) } == missing)
      #expect(await side { _ = try await single.retrieve(forKey: number) } == missing)
      #expect(try await both.value(forKey: key) == nil)
      let called = await side {
        _ = try await withCheckedThrowingContinuation { continuation in
          both.retrieve(forKey: key) { continuation.resume(with: $0) }
        }
      }
      #expect(called == missing)
    }
  }

  @Test func `Synchronous code updates a storage that never waits for asynchronous work`() throws {
    func count(_ storage: some SynchronousStorage<String, Int>) throws -> Int {
      _ = try storage.updateOrInsert(forKey: "a") { $0 = ($0 ?? 0) + 1 }
      return try storage.update(forKey: "a") { $0 += 1 }
    }
    #expect(try count(MemoryStorage()) == 2)
    let memory = MemoryStorage<String, Int>()
    #expect(throws: StorageError.self) { try memory.update(forKey: "none") { $0 += 1 } }
    try memory.set(1, forKey: "a")
    #expect(try memory.update(forKey: "a") { $0 += 1 } == 2)
  }

  @Test func `Storages of closures that call back work, at once where they can`() async throws {
    let memory = MemoryStorage<String, Int>()
    let closures = Storage<String, Int>(
      storageName: "closures",
      retrieve: { key, completion in memory.retrieve(forKey: key, completion: completion) },
      set: { value, key, completion in memory.set(value, forKey: key, completion: completion) })
    try await closures.set(1, forKey: "a")
    #expect(try await closures.retrieve(forKey: "a") == 1)
    #expect(try await closures.value(forKey: "none") == nil)
    let seen = Mutex<Int?>(nil)
    memory.retrieve(forKey: "a") { result in seen.withLock { $0 = try? result.get() } }
    #expect(seen.withLock { $0 } == 1)
    let updated: Int = try await withCheckedThrowingContinuation { continuation in
      closures.update(forKey: "a", { $0 += 1 }, completion: { continuation.resume(with: $0) })
    }
    #expect(updated == 2)
    let once: Int = try await withCheckedThrowingContinuation { continuation in
      memory.singleKey("a").update({ $0 += 1 }, completion: { continuation.resume(with: $0) })
    }
    #expect(once == 3)
  }

  @Test func `A write inside an update of its storage is an error, no deadlock`() async throws {
    let directory = try TemporaryDirectory()
    let temporary = try TemporaryStore()
    let data = temporary.store.storage("update", keys: String.self, values: Data.self)
    let folder = directory.folder().usingStringKeys()
    let memory = MemoryStorage<String, Data>()
    let storages = [
      memory.asStorage(), folder, data, Remote().removable, memory.combined(with: folder),
      folder.combined(with: Remote().removable),
    ]
    for storage in storages {
      try await storage.set(text("1"), forKey: "a")
      let sync = storage.makeSyncStorage()
      for key in ["a", "b"] {
        do {
          try await storage.update(forKey: "a") { _ in try sync.set(text("3"), forKey: key) }
          Issue.record("\(storage.storageName) let it through.")
        } catch StorageError.Code.recursiveUpdate {
        }
      }
      // Reading is fine, and an error inside changes nothing.
      try await storage.update(forKey: "a") { value in
        value += try sync.value(forKey: "a") ?? Data()
      }
      await #expect(throws: Broken()) {
        try await storage.update(forKey: "a") { value in
          value = text("lost")
          throw Broken()
        }
      }
      #expect(try await storage.retrieve(forKey: "a") == text("11"), "\(storage.storageName)")
      await #expect(throws: StorageError.self) {
        try await storage.update(forKey: "missing") { _ in }
      }
      #expect(try await storage.updateOrInsert(forKey: "a") { $0 = nil } == nil)
      #expect(try await storage.value(forKey: "a") == nil)
    }
    try temporary.verifyAndClose()
  }

  @Test func `A bounded memory keeps what is read and its bounds`() throws {
    let memory = MemoryStorage<Int, [UInt8]>(countLimit: 10, costLimit: 1000, cost: { $0.count })
    for number in 0..<100 {
      try memory.set([UInt8](repeating: 0, count: 50), forKey: number)
      _ = try memory.value(forKey: 0)
      #expect(memory.storage.count <= 10)
    }
    #expect(try memory.value(forKey: 0) != nil)
    try memory.set([UInt8](repeating: 0, count: 900), forKey: -1)
    #expect(memory.storage.values.reduce(0) { $0 + $1.count } <= 1000)
    try memory.set([UInt8](repeating: 0, count: 1001), forKey: -2)
    #expect(try memory.value(forKey: -2) == nil)
    #expect(try memory.value(forKey: -1) != nil)
  }

  @Test func `A backfill into a shared store gives way to writes of other caches`() async throws {
    let temporary = try TemporaryStore()
    let (asked, answer) = (Door(), Door())
    let back = ReadOnlyStorage<String, Int>(storageName: "slow") { _ in
      asked.open()
      await answer.pass()
      return 1
    }
    let front = temporary.store.storage("numbers", keys: String.self, values: Int.self)
    let other = PersistentCache<String, Int>(storage: temporary.store, namespace: "numbers")
    async let slow = front.backed(by: back).value(forKey: "key")
    await asked.pass()
    try await other.setValue(2, forKey: "key")
    try await other.removeValue(forKey: "key")
    answer.open()
    #expect(try await slow == 1)
    #expect(try await front.value(forKey: "key") == nil)
    #expect(try await front.backed(by: back).value(forKey: "key") == 1)
    #expect(try await other.value(forKey: "key") == 1)
    try temporary.verifyAndClose()
  }
}
