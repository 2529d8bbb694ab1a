// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTesting
import Testing

/// Keys that Swift takes for equal.
@Suite(.timeLimit(.minutes(60))) struct EqualKeyTests {
  private static let composed = "caf\u{E9}"
  private static let decomposed = "cafe\u{301}"

  @Test func `Keys that differ only in their form of Unicode are not mixed in a dictionary`()
    async throws
  {
    let store = try TemporaryStore()
    let cache = PersistentCache<String, Int>(storage: store.store)
    try await cache.setValue(1, forKey: Self.composed)
    try await cache.setValue(2, forKey: Self.decomposed)
    let both = [Self.composed, "a", Self.decomposed]
    let read: ([String]) throws -> [String: Int] = { try cache.values(forKeys: $0) }
    let error = #expect(throws: StoreError.self) { try read(both) }
    #expect(error?.code == .invalidOption)
    await #expect(throws: StoreError.self) { try await cache.values(forKeys: both) }
    await #expect(throws: StoreError.self) { try await cache.values(forKeys: both) { _ in [:] } }
    for (key, value) in [(Self.composed, 1), (Self.decomposed, 2)] {
      #expect(try read([key, "a", key]) == [key: value])
      #expect(try await cache.values(forKeys: [key, key]) == [key: value])
      #expect(try await cache.value(forKey: key) == value)
    }
  }
}
