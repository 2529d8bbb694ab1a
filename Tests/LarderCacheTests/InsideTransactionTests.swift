// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60))) struct InsideTransactionTests {
  private static func code(_ body: () throws -> Void) -> StoreError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? StoreError)?.code
    }
  }

  private static func codes(
    _ store: SharedStore, _ cache: PersistentCache<String, Int>
  ) -> [StoreError.Code?] {
    [
      code { try cache.setValue(1, forKey: "a") },
      code { try cache.setValues(["a": 1].map { (key: $0.key, value: $0.value) }) },
      code { _ = try cache.removeValue(forKey: "a") },
      code { try cache.removeAll() },
      code { try store.setBytes([1], forKey: "a") },
      code { try store.removeAll() },
      code { try store.compact() },
      code { try store.write { try $0.setBytes([1], forKey: "a") } },
      code { _ = try SharedStore(at: store.path, StoreOptions(budget: .megabytes(32))) },
    ]
  }

  @Test
  func `A write to a store inside its own transaction is a typed error`() async throws {
    let directory = try TemporaryDirectory()
    let errors = ErrorLog()
    let store = try SharedStore(
      at: directory.appending("store"),
      StoreOptions(onError: { error in
        if let error = error as? StoreError { errors.append(error) }
      }))
    let cache = PersistentCache<String, Int>(storage: store)
    try await cache.setValue(7, forKey: "kept")
    let body: @Sendable (inout StoreTransaction) throws -> [StoreError.Code?] = { transaction in
      cache["subscript"] = 1
      cache["kept"] = nil
      let codes = Self.codes(store, cache)
      try transaction.setBytes([9], forKey: "own", in: "bytes")
      return codes
    }
    func syncWrite() throws -> [StoreError.Code?] { try store.write(body) }
    let blocking = try syncWrite()
    #expect(blocking == Array(repeating: .insideTransaction, count: blocking.count))
    #expect(errors.all.map(\.code) == [.insideTransaction, .insideTransaction])
    let suspending = try await store.write(body)
    #expect(suspending == blocking)
    #expect(errors.all.first?.message.contains("Nothing was stored") == true)
    #expect(cache["kept"] == 7 && cache["subscript"] == nil)
    #expect(try store.bytes(forKey: "own", in: "bytes") == [9])
    // Afterwards all is as before.
    try await cache.setValue(1, forKey: "a")
    #expect(cache["a"] == 1)
  }

  @Test func `An entry that does not decode is named with its key and its type`() async throws {
    struct Old: Codable, Sendable { var a: Int }
    struct New: Codable, Sendable {
      var a: Int
      var b: Int
    }
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"))
    try await PersistentCache<String, Old>(storage: store).setValue(Old(a: 1), forKey: "ada")
    let cache = PersistentCache<String, New>(storage: store)
    let error = #expect(throws: StoreError.self) { _ = try cache.value(forKey: "ada") }
    #expect(error?.code == .unreadableEntry)
    #expect(error?.message.contains("the key \"ada\" as New: ") == true, "\(error as Any)")
    let batch = #expect(throws: StoreError.self) { _ = try cache.values(forKeys: ["ada"]) }
    #expect(batch?.message == error?.message)
  }

  @Test func `Clearing, listing and compacting have forms that suspend`() async throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.appending("store"))
    let cache = PersistentCache<String, Int>(storage: store, namespace: "n")
    try await cache.setValue(1, forKey: "a")
    #expect(try await cache.keys() == ["a"])
    try await store.compact()
    #expect(try await cache.value(forKey: "a") == 1)
    try await cache.removeAll()
    #expect(try await cache.keys() == [])
    try await cache.setValue(1, forKey: "a")
    try await store.removeAll(in: "n")
    try await store.removeAll()
    #expect(try await cache.value(forKey: "a") == nil)
  }

  @Test func `A tilde at the start of a path is the home directory`() throws {
    let home = try #require(ProcessInfo.processInfo.environment["HOME"])
    let name = ".larder-test-\(UUID())"
    defer { TestFiles.removeAll("\(home)/\(name)") }
    let store = try SharedStore(at: "~/\(name)/store")
    #expect(store.path == "\(home)/\(name)/store")
    store.close()
  }
}

private final class ErrorLog: Sendable {
  private let errors = Mutex<[StoreError]>([])
  var all: [StoreError] { errors.withLock { $0 } }
  func append(_ error: StoreError) { errors.withLock { $0.append(error) } }
}
