// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderObjects
import LarderStorage
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Calls with completions that a test has begun, until all have called back.
private final class Calls: Sendable {
  private let count = Mutex(0)
  private let done = Event()

  func begin<Value: Sendable>(
    _ check: @escaping @Sendable (Result<Value, any Error>) -> Void = { _ in }
  ) -> @Sendable (Result<Value, any Error>) -> Void {
    count.withLock { $0 += 1 }
    return { result in
      check(result)
      self.count.withLock { $0 -= 1 }
      self.done.set()
    }
  }

  func wait() {
    while count.withLock({ $0 }) > 0 {
      done.wait(nanoseconds: 1_000_000_000)
      done.reset()
    }
  }
}

/// A storage of a program's own that is a value type, and as slow as it likes.
private struct Uneven: StorageProtocol {
  let values = Remote()

  func value(forKey key: String) async throws -> Data? { try await values.value(forKey: key) }

  func set(_ value: Data, forKey key: String) async throws {
    for _ in 0..<Int.random(in: 0...20) { await Task.yield() }
    try await values.set(value, forKey: key)
  }
}

private struct Car: Storable {
  var id: String
  var data: Data
  static let storedName = "Car"
}

@Suite(.timeLimit(.minutes(60)))
struct CallOrderTests {
  static let kinds = [
    "disk", "folder", "memory before disk", "disk behind", "mapped", "asynchronously mapped",
    "closures", "value type", "cache", "objects", "memory before cache", "pushed", "single key",
  ]

  private static func storage(_ kind: String, in directory: TemporaryDirectory) throws
    -> Storage<String, Data>
  {
    let disk = DiskStorage.main.mapKeys(to: String.self) {
      URL(fileURLWithPath: directory.appending("file-\($0)"))
    }
    let folder = directory.folder().usingStringKeys()
    switch kind {
    case "disk": return disk
    case "folder": return folder
    case "memory before disk": return MemoryStorage().combined(with: disk)
    case "disk behind": return MemoryStorage().backed(by: disk)
    case "mapped":
      return folder.mapValues(to: Data.self, transformIn: { $0 }, transformOut: { $0 })
        .mapKeys(to: String.self) { "key " + $0 }
    case "asynchronously mapped":
      return folder.asyncMapValues(
        to: Data.self, transformIn: { $0 },
        transformOut: {
          for _ in 0..<Int.random(in: 0...20) { await Task.yield() }
          return $0
        }
      ).asyncMapKeys(to: String.self) { "key " + $0 }
    case "closures":
      return Storage(
        storageName: "closures",
        retrieve: { key, completion in folder.retrieve(forKey: key, completion: completion) },
        set: { value, key, completion in folder.set(value, forKey: key, completion: completion) })
    case "value type": return Uneven().asStorage()
    case "cache", "memory before cache":
      let store = try SharedStore(at: directory.appending("store"))
      let cache = store.storage("values", keys: String.self, values: Data.self)
      return kind == "cache" ? cache : MemoryStorage().combined(with: cache)
    case "objects":
      let store = try ObjectStore(at: directory.appending("store"))
      return store.collection(Car.self).asStorage().mapValues(
        to: Data.self, transformIn: { $0.data }, transformOut: { Car(id: "a", data: $0) })
    case "pushed": return MemoryStorage().pushingOnSet(to: folder)
    default:
      let single = folder.singleKey("one")
      return single.mapKeys(to: String.self) { _ in () }
    }
  }

  @Test(arguments: kinds)
  func `Calls with completions take effect in the order in which they are made`(
    kind: String
  ) throws {
    let directory = try TemporaryDirectory()
    let storage = try Self.storage(kind, in: directory)
    let calls = Calls()
    let wrong = Mutex<[String]>([])
    for turn in 0..<40 {
      for number in 0..<5 {
        storage.set(Data([UInt8(turn), UInt8(number)]), forKey: "a", completion: calls.begin())
      }
      storage.retrieve(
        forKey: "a",
        completion: calls.begin { result in
          let bytes = (try? result.get()).map { Array($0) }
          if bytes != [UInt8(turn), 4] { wrong.withLock { $0.append("\(turn): \(result)") } }
        })
      calls.wait()
    }
    #expect(wrong.withLock { $0 } == [])
  }

  @Test func `All forms of one storage have one order`() throws {
    let directory = try TemporaryDirectory()
    let wrong = Mutex<[String]>([])
    let calls = Calls()
    for turn in 0..<40 {
      // Two objects of one folder, a mapping of it, and a layer over it.
      let (one, other) = (directory.folder(), directory.folder())
      let mapped = other.usingStringKeys()
      let layers = MemoryStorage<String, Data>().combined(with: mapped)
      one.set(Data([UInt8(turn), 1]), forKey: "a", completion: calls.begin())
      mapped.set(Data([UInt8(turn), 2]), forKey: "a", completion: calls.begin())
      layers.set(Data([UInt8(turn), 3]), forKey: "a", completion: calls.begin())
      one.retrieve(
        forKey: "a",
        completion: calls.begin { result in
          let bytes = (try? result.get()).map { Array($0) }
          if bytes != [UInt8(turn), 3] { wrong.withLock { $0.append("\(turn): \(result)") } }
        })
      calls.wait()
    }
    #expect(wrong.withLock { $0 } == [])
  }

  @Test func `A read of a storage in memory is made after the update that is pending`() throws {
    let memory = MemoryStorage<String, Int>(storage: ["a": 1])
    let (begun, mayEnd) = (Event(), Event())
    let calls = Calls()
    memory.update(
      forKey: "a",
      {
        begun.set()
        mayEnd.wait()
        $0 += 1
      }, completion: calls.begin())
    begun.wait()
    let seen = Mutex<Int?>(nil)
    memory.retrieve(
      forKey: "a", completion: calls.begin { result in seen.withLock { $0 = try? result.get() } })
    // Other keys are free, and writes of them are made at once; but for one in 64 that shares the lock.
    let other = Mutex(false)
    func lock(_ key: String) -> Int { StripedLock.stripe(StripedLock.hash(key)) }
    let free = try #require(["b", "c", "d"].first { lock($0) != lock("a") })
    memory.set(5, forKey: free, completion: { _ in other.withLock { $0 = true } })
    #expect(other.withLock { $0 })
    #expect(seen.withLock { $0 } == nil)
    mayEnd.set()
    calls.wait()
    #expect(seen.withLock { $0 } == 2)
  }

  @Test func `A completion calls the same storage again and waits for it, to a depth of 40`() throws
  {
    let directory = try TemporaryDirectory()
    let storage = MemoryStorage<String, Data>().combined(with: directory.folder().usingStringKeys())
    let calls = Calls()
    let reached = Mutex(0)
    @Sendable func descend(_ depth: Int, _ end: @escaping @Sendable () -> Void) {
      guard depth < 40 else { return end() }
      storage.set(Data([UInt8(depth)]), forKey: "a") { _ in
        reached.withLock { $0 += 1 }
        let below = Event()
        storage.retrieve(forKey: "a") { _ in descend(depth + 1) { below.set() } }
        below.wait()
        end()
      }
    }
    let done: @Sendable (Result<Int, any Error>) -> Void = calls.begin()
    descend(0) { done(.success(0)) }
    calls.wait()
    #expect(reached.withLock { $0 } == 40)
  }

  @Test func `An operation waits for calls of the storage whose call it is`() async throws {
    // A chain of one value type, each of which reads the same key of the next by completion: in one
    // order by type, and yet none waits for the call it belongs to.
    struct Chain: StorageProtocol {
      let next: [Chain]
      func value(forKey key: String) async throws -> Int? {
        guard let next = next.first else { return 1 }
        return try await withCheckedThrowingContinuation { continuation in
          next.set(7, forKey: key) { _ in
            next.retrieve(forKey: key) { continuation.resume(with: $0.map { $0 + 1 }) }
          }
        }
      }
      func set(_ value: Int, forKey key: String) async throws {}
    }
    let chain = (0..<10).reduce(Chain(next: [])) { chain, _ in Chain(next: [chain]) }
    for _ in 0..<20 {
      async let one: Int = withCheckedThrowingContinuation { continuation in
        chain.retrieve(forKey: "a") { continuation.resume(with: $0) }
      }
      async let other: Int = withCheckedThrowingContinuation { continuation in
        chain.retrieve(forKey: "a") { continuation.resume(with: $0) }
      }
      #expect(try await one + other == 22)
    }
  }

  @Test func `Reads of a key run concurrently, and keys do not wait for each other`() async throws {
    let door = Door()
    let arrived = Mutex(0)
    let storage = Storage<String, Int>(
      read: ReadOnlyStorage(storageName: "slow") { key in
        if arrived.withLock({
          $0 += 1
          return $0 == 3
        }) {
          door.open()
        }
        await door.pass()
        return 1
      }, write: WriteOnlyStorage(storageName: "none") { _, _ in })
    let calls = Calls()
    storage.set(1, forKey: "a", completion: calls.begin())
    // Each waits until all three have arrived.
    for key in ["a", "a", "b"] { storage.retrieve(forKey: key, completion: calls.begin()) }
    calls.wait()
    #expect(arrived.withLock { $0 } == 3)
  }

  @Test func `Calls beyond the limit fail instead of waiting`() throws {
    let order = CallOrder(limit: 3)
    let lane = CallLane(ObjectIdentifier(Self.self), 1)
    let tickets = try (0..<3).map { _ in try order.enter([lane, lane], isWrite: true) }
    #expect(throws: StorageError.self) { try order.enter([lane], isWrite: true) }
    #expect(!order.isFree([lane], isWrite: false))
    #expect(order.isFree([CallLane(lane.owner, 2)], isWrite: true))
    for ticket in tickets.dropLast() { order.leave(ticket) }
    let last = try order.enter([lane], isWrite: false)
    for ticket in [tickets[2], last] { order.leave(ticket) }
    #expect(order.isFree([lane], isWrite: true))
  }
}
