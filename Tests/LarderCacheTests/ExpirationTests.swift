// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTesting
import Synchronization
import Testing

/// The lifetimes and times of expiration that callers pass.
@Suite(.timeLimit(.minutes(60))) struct ExpirationTests {
  static let wrong: [Duration] = [.zero, .milliseconds(-1), .nanoseconds(-1), .seconds(Int64.min)]

  let store: TemporaryStore
  let clock = ManualClock()
  let errors = Shared<[StoreError]>([])
  var cache: PersistentCache<String, Int> { PersistentCache(storage: store.store) }

  init() throws {
    let errors = errors
    store = try TemporaryStore(
      StoreOptions(
        clock: clock.storeClock,
        onError: { error in
          if let error = error as? StoreError { errors.value.withLock { $0.append(error) } }
        }))
  }

  /// Requires the error of a lifetime of zero or less.
  private func reject(_ body: () async throws -> Void) async {
    let error = await #expect(throws: StoreError.self) { try await body() }
    #expect(error?.code == .invalidOption, "\(error.map { "\($0)" } ?? "")")
    #expect(error?.message.contains("longer than zero") == true)
  }

  @Test(arguments: wrong)
  func `A lifetime of zero or less is an error of every write, and the old value remains`(
    lifetime: Duration
  ) async throws {
    let expires = Expiration.after(lifetime)
    let (store, cache) = (store.store, cache)
    let mixed = MixedPersistentCache(storage: store, namespace: "mixed")
    let namespace = try store.namespace("bytes")
    try await cache.setValue(1, forKey: "k")
    try await namespace.setBytes([1], forKey: "k")
    await reject { try await cache.setValue(2, forKey: "k", expires: expires) }
    await reject { try { try cache.setValue(2, forKey: "k", expires: expires) }() }
    await reject { try { try cache.setValues([("k", 2)], expires: expires) }() }
    await reject { try await cache.setValues([("k", 2)], expires: expires) }
    await reject { try await mixed.setValue(2, forKey: Key<Int>("k"), expires: expires) }
    await reject { try namespace.setBytes([2], forKey: "k", expires: expires) }
    await reject { try namespace.setBytes([2], forKey: "k", expires: .afterAccess(lifetime)) }
    await reject {
      try { try store.setBytes([2], forKey: "k", in: "bytes", expires: expires) }()
    }
    await reject {
      try await store.write { transaction in
        try transaction.setBytes([2], forKey: "other", in: "bytes")
        try transaction.setBytes([2], forKey: "k", in: "bytes", expires: expires)
      }
    }
    #expect(cache["k"] == 1)
    #expect(try namespace.bytes(forKey: "k") == [1])
    #expect(try namespace.bytes(forKey: "other") == nil)
    #expect(errors.value.withLock { $0 }.isEmpty)
  }

  @Test(arguments: wrong)
  func `A lifetime of zero or less fails a computed value before its computation`(
    lifetime: Duration
  ) async throws {
    let cache = cache
    let calls = Shared(0)
    try await cache.setValue(1, forKey: "there")
    for key in ["there", "missing"] {
      await reject {
        _ = try await cache.value(forKey: key, expires: .after(lifetime)) {
          calls.value.withLock { $0 += 1 }
          return 2
        }
      }
    }
    #expect(calls.value.withLock { $0 } == 0)
    #expect(cache["missing"] == nil)
  }

  @Test(arguments: wrong)
  func `An item with a lifetime of zero or less reports an error and keeps the old value`(
    lifetime: Duration
  ) throws {
    let cache = cache
    try cache.setValue(1, forKey: "k")
    var item = Item(2, expiresIn: lifetime)
    #expect(!item.isValid)
    cache[item: "k"] = item
    #expect(cache["k"] == 1)
    let mixed = MixedPersistentCache(storage: store.store, namespace: "mixed")
    mixed[item: Key<Int>("k")] = item
    #expect(mixed[Key<Int>("k")] == nil)
    #expect(errors.value.withLock { $0.map(\.code) } == [.invalidOption, .invalidOption])
    // Another expiration makes an item that can be stored.
    item.expiration = nil
    cache[item: "k"] = item
    #expect(cache["k"] == 2)
    // The lifetime is no part of the encoded form.
    let data = try JSONEncoder().encode(Item(2, expiresIn: lifetime))
    let text = String(decoding: data, as: UTF8.self)
    #expect(!text.contains("ifetime"), "\(text)")
  }

  @Test func `Caches without a store reject a lifetime of zero as well`() async throws {
    let drawer = Drawer()
    let custom = PersistentCache<String, Int>(storage: drawer)
    #expect(throws: StoreError.self) {
      try custom.setValue(1, forKey: "sliding", expires: .afterAccess(.seconds(1)))
    }
    for cache in [
      PersistentCache<String, Int>(storage: nil), PersistentCache<String, Int>(storage: drawer),
    ] {
      try await cache.setValue(1, forKey: "k")
      await reject { try { try cache.setValue(2, forKey: "k", expires: .after(.zero)) }() }
      await reject { _ = try await cache.value(forKey: "n", expires: .after(.zero)) { 2 } }
      #expect(cache["k"] == 1 && cache["n"] == nil)
    }
  }

  @Test func `A time in the past stores an entry that is expired from the beginning`() throws {
    let cache = cache
    try cache.setValue(1, forKey: "k")
    try cache.setValue(2, forKey: "k", expires: .at(millisecondsSince1970: clock.now - 1))
    #expect(cache["k"] == nil)
    // PersistentCacheKit's initialiser takes seconds, also negative ones.
    for seconds in [-1.0, -3600] {
      try cache.setValue(1, forKey: "k")
      let seed = PersistentCache<String, Int>(storage: nil)
      seed[item: "k"] = Item(2, expiresIn: seconds)
      #expect(seed["k"] == nil && seed[item: "k"] == nil)
    }
    #expect(errors.value.withLock { $0 }.isEmpty)
  }
}
