// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderTesting
import Synchronization
import Testing

/// Dates and numbers of callers that are not finite, or far away.
@Suite(.timeLimit(.minutes(60))) struct NotANumberTests {
  static let past: [Double] = [-.infinity, -.greatestFiniteMagnitude, -1e300, -9.3e15, -1e12]
  static let future: [Double] = [.infinity, .greatestFiniteMagnitude, 1e300, 9.3e15, 1e12]

  let store: TemporaryStore
  let errors = Shared<[StoreError]>([])
  var cache: PersistentCache<String, Int> { PersistentCache(storage: store.store) }

  init() throws {
    let errors = errors
    store = try TemporaryStore(
      StoreOptions(onError: { error in
        if let error = error as? StoreError { errors.value.withLock { $0.append(error) } }
      }))
  }

  @Test(arguments: past)
  func `The distant past removes nothing that is unused`(seconds: Double) throws {
    try cache.setValue(1, forKey: "a")
    #expect(try store.store.removeUnused(since: Date(timeIntervalSince1970: seconds)) == 0)
    #expect(try cache.removeUnused(since: Date(timeIntervalSince1970: seconds)) == 0)
    #expect(try cache.value(forKey: "a") == 1)
  }

  @Test(arguments: future)
  func `The distant future removes all that is not pinned`(seconds: Double) throws {
    try cache.setValue(1, forKey: "a")
    try cache.setValue(1, forKey: "pinned", pinned: true)
    #expect(try cache.removeUnused(since: Date(timeIntervalSince1970: seconds)) == 1)
    try cache.setValue(2, forKey: "b")
    #expect(try store.store.removeUnused(since: Date(timeIntervalSince1970: seconds)) == 1)
    #expect(try cache.keys() == ["pinned"])
  }

  @Test func `A date that is not a number is a typed error and removes nothing`() async throws {
    let date = Date(timeIntervalSince1970: .nan)
    try await cache.setValue(1, forKey: "a")
    let removals: [() throws -> Int] = [
      { try store.store.removeUnused(since: date) }, { try cache.removeUnused(since: date) },
    ]
    for remove in removals {
      let error = #expect(throws: StoreError.self) { try remove() }
      #expect(error?.code == .invalidOption)
    }
    await #expect(throws: StoreError.self) { try await cache.removeUnused(since: date) }
    #expect(try await cache.value(forKey: "a") == 1)
  }

  @Test func `An item whose time is not a number is not stored, and the error is passed on`() throws
  {
    cache[item: "a"] = Item(1, expiresIn: 3600)
    try cache.sync()
    #expect(errors.value.withLock { $0 } == [])
    cache[item: "a"] = Item(2, expiresIn: Double.nan)
    cache[item: "b"] = Item(2, expiration: Date(timeIntervalSince1970: .nan))
    try cache.sync()
    #expect(errors.value.withLock { $0.map(\.code) } == [.invalidOption, .invalidOption])
    #expect(cache[item: "a"]?.value == 1)
    #expect(cache[item: "b"] == nil)
    let error = #expect(throws: StoreError.self) {
      try cache.setValue(1, forKey: "c", expires: .at(Date(timeIntervalSinceReferenceDate: .nan)))
    }
    #expect(error?.code == .invalidOption && error?.message.contains("NaN") == true)
    #expect(!Item(1, expiresIn: Double.nan).isValid)
  }

  @Test(arguments: future)
  func `An item with a lifetime beyond all bounds never expires`(seconds: Double) throws {
    cache[item: "a"] = Item(1, expiresIn: seconds)
    try cache.sync()
    #expect(cache[item: "a"]?.value == 1)
  }

  @Test(arguments: past)
  func `An item that expired long ago is not read`(seconds: Double) throws {
    cache[item: "a"] = Item(1, expiresIn: seconds)
    try cache.sync()
    #expect(cache[item: "a"] == nil)
  }
}
