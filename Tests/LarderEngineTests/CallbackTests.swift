// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Synchronization
import Testing

/// Callbacks of a program may use the store, wherever it is called.
@Suite(.timeLimit(.minutes(60))) struct CallbackTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// A closure that is set once its store is there.
  final class Callback: Sendable {
    let body = Mutex<(@Sendable () throws -> Void)?>(nil)
    let outcomes = Mutex<[(any Error)?]>([])

    func call() {
      guard let body = body.withLock({ $0 }) else { return }
      do {
        try body()
        outcomes.withLock { $0.append(nil) }
      } catch {
        outcomes.withLock { $0.append(error) }
      }
    }

    /// It was called, and every use of the store went well.
    var wentWell: Bool { outcomes.withLock { !$0.isEmpty && $0.allSatisfy { $0 == nil } } }
    var said: String { outcomes.withLock { "\($0)" } }
  }

  final class Flag: Sendable {
    private let value = Atomic<Bool>(false)
    var isRaised: Bool { value.load(ordering: .acquiring) }
    func raise() { value.store(true, ordering: .releasing) }
  }

  /// Every kind of use.
  static func use(_ store: SharedStore) throws {
    let cache = PersistentCache<String, String>(storage: store, namespace: "callback")
    cache["behind"] = "1"
    try cache.setValue("2", forKey: "set")
    try #require(cache["behind"] == "1" && cache["set"] == "2")
    try store.write { try $0.setBytes([3], forKey: "write", in: "callback") }
    try #require(try cache.removeValue(forKey: "set"))
    try store.sync()
    _ = try store.statistics()
    let again = try SharedStore(at: store.path, .init(durability: store.statistics().durability))
    again.close()
  }

  @Test func `An event of a damaged entry may use the store`() throws {
    let callback = Callback()
    let store = try SharedStore(at: path, .init(onEvent: { _ in callback.call() }))
    callback.body.withLock { $0 = { try Self.use(store) } }
    let payload = EntryDamageTests.payload(1500)
    try store.setBytes(payload, forKey: "broken")
    #expect(try EntryDamageTests.flip(payload, in: StoreFiles(of: path).data) > 0)
    #expect(throws: StoreError.self) { try store.bytes(forKey: "broken") }
    #expect(callback.wentWell, "\(callback.said)")
    #expect(try store.bytes(forKey: "write", in: "callback") == [3])
    callback.body.withLock { $0 = nil }
  }

  @Test func `An event of opening may open and use stores, this one too`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: 1)
    store.close()
    try TestFiles.truncate(StoreFiles(of: path).data, to: 5000)
    let callback = Callback()
    let (path, other) = (path, path + "-other")
    callback.body.withLock {
      $0 = {
        try Self.use(SharedStore(at: other))
        try Self.use(SharedStore(at: path))
      }
    }
    let again = try SharedStore(at: path, .init(onEvent: { _ in callback.call() }))
    #expect(callback.wentWell, "\(callback.said)")
    #expect(try again.bytes(forKey: "write", in: "callback") == [3])
    #expect(try again.verify() == [])
  }

  @Test func `An event of a move may use the store`() throws {
    let callback = Callback()
    let events = EventLog()
    let store = try SharedStore(
      at: path,
      .init(onEvent: { event in
        events.options().onEvent?(event)
        callback.call()
      }))
    callback.body.withLock { $0 = { try Self.use(store) } }
    try store.setBytes([1], forKey: 1)
    try store.core.generation().table.fence()
    #expect(try store.bytes(forKey: 1) == nil)
    #expect(events.resetToEmpty && events.events.contains(.generationChanged(generation: 2)))
    #expect(callback.wentWell, "\(callback.said)")
    #expect(try store.bytes(forKey: "write", in: "callback") == [3])
    callback.body.withLock { $0 = nil }
  }

  @Test func `The error callback of a pending write may use the store`() throws {
    let callback = Callback()
    let store = try SharedStore(
      at: path, .init(budget: .megabytes(1), onError: { _ in callback.call() }))
    callback.body.withLock { $0 = { try Self.use(store) } }
    let cache = PersistentCache<Int, [UInt8]>(storage: store)
    let (begun, goOn) = (Flag(), Flag())
    // While a transaction of ours is open, two writes are queued and the budget shrinks: one of
    // them cannot be stored any more.
    let writer = JoinableThread {
      Result {
        try store.write { _ in
          begun.raise()
          try eventually("the test goes on") { goOn.isRaised }
        }
      }
    }
    try eventually("the transaction is open") { begun.isRaised }
    cache[1] = [UInt8](repeating: 1, count: 100_000)
    cache[2] = [2]
    try store.core.generation().table.budget = 50_000
    goOn.raise()
    try writer.join().get()
    try store.sync()
    try eventually("the callback has run") { callback.outcomes.withLock { !$0.isEmpty } }
    #expect(callback.wentWell, "\(callback.said)")
    #expect(try store.bytes(forKey: 1) == nil)
    #expect(try cache.value(forKey: 2) == [2])
    #expect(try store.bytes(forKey: "write", in: "callback") == [3])
    callback.body.withLock { $0 = nil }
  }
}
