// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTesting
import Synchronization
import Testing

// The laws hold for Larder's storages and for dictionaries. The law that a storage of
// FaultyStorages.swift breaks detects it.

@Suite(.timeLimit(.minutes(60)))
struct StorageLawsTests {
  @Test func `A dictionary keeps the laws`() {
    #expect(DictionaryStorage().laws.waitForViolations() == [])
  }

  @Test func `An actor keeps the laws`() async {
    let storage = ActorStorage()
    let laws = StorageLaws(
      get: { await storage.values[Array($0.utf8)] },
      set: { await storage.set(Array($0.utf8), $1) },
      remove: { await storage.set(Array($0.utf8), nil) },
      removeAll: { await storage.removeAll() },
      keys: { await storage.values.keys.map { String(decoding: $0, as: UTF8.self) } })
    #expect(await laws.violations() == [])
  }

  @Test func `A cache over a shared store keeps the laws`() async throws {
    for durability in Durability.allCases {
      let temporary = try TemporaryStore(StoreOptions(durability: durability))
      let cache = PersistentCache<String, [UInt8]>(storage: temporary.store, namespace: "laws")
      var laws = StorageLaws(
        get: { try cache.value(forKey: $0) }, set: { try cache.setValue($1, forKey: $0) },
        remove: { try cache.removeValue(forKey: $0) }, removeAll: { try cache.removeAll() },
        contains: { try cache.contains($0) })
      if durability == .durable {
        // Each commit waits for the disk.
        laws.operations = 80
        laws.hostileKeys.removeAll { $0.utf8.count > 2 }
      }
      #expect(await laws.violations() == [])
      try temporary.verifyAndClose()
    }
  }

  @Test func `A cache's asynchronous calls and subscripts keep the laws`() async throws {
    let temporary = try TemporaryStore()
    let cache = PersistentCache<String, [UInt8]>(storage: temporary.store)
    let laws = StorageLaws(
      get: { try await cache.value(forKey: $0) },
      set: { try await cache.setValue($1, forKey: $0) },
      remove: { try await cache.removeValue(forKey: $0) }, removeAll: { try cache.removeAll() },
      contains: { try cache.contains($0) })
    #expect(await laws.violations() == [])
    let behind = StorageLaws(
      get: { cache[$0] }, set: { cache[$0] = $1 }, remove: { cache[$0] = nil },
      removeAll: { try cache.removeAll() }, contains: { try cache.contains($0) })
    let violations = await behind.violations()
    #expect(violations == [], "\(violations)")
    try temporary.verifyAndClose()
  }

  @Test func `A cache in memory only keeps the laws`() async {
    let cache = PersistentCache<String, [UInt8]>(storage: nil)
    let laws = StorageLaws(
      get: { try cache.value(forKey: $0) }, set: { try cache.setValue($1, forKey: $0) },
      remove: { try cache.removeValue(forKey: $0) }, removeAll: { try cache.removeAll() },
      contains: { try cache.contains($0) })
    #expect(await laws.violations() == [])
  }

  @Test func `A namespace of a store keeps the laws, and its neighbour notices nothing`() throws {
    let temporary = try TemporaryStore()
    try temporary.store.setBytes([7], forKey: "key", in: "neighbour")
    let namespace = try temporary.store.namespace("laws")
    let laws = StorageLaws(
      get: { try namespace.bytes(forKey: $0) }, set: { try namespace.setBytes($1, forKey: $0) },
      remove: { try namespace.remove(forKey: $0) }, removeAll: { try namespace.removeAll() },
      contains: { try namespace.contains($0) })
    #expect(laws.waitForViolations() == [])
    #expect(try temporary.store.bytes(forKey: "key", in: "neighbour") == [7])
    try temporary.verifyAndClose()
  }

  @Test(arguments: BrokenDictionary.all)
  func `A broken dictionary is caught by the law it breaks`(mutant: BrokenDictionary) {
    let seed = Seed.announce(mutant.name)
    // A violation that needs a race of two threads gets many tries; one that needs certain keys, a
    // few.
    for trial in seed.trials(mutant.isRace ? 300 : 4) {
      if !mutant.make().waitForViolations(of: [mutant.law], seed: trial).isEmpty { return }
    }
    Issue.record("\(mutant.name) was not caught by \(mutant.law), \(seed)")
  }

  @Test func `Strings that Swift calls equal are one key of a dictionary, and that is all`() {
    let values = Mutex<[String: [UInt8]]>([:])
    let storage = Shared(values)
    let laws = StorageLaws(
      get: { key in storage.value.withLock { $0[key] } },
      set: { key, value in storage.value.withLock { $0[key] = value } },
      remove: { key in storage.value.withLock { $0[key] = nil } },
      removeAll: { storage.value.withLock { $0 = [:] } })
    #expect(laws.waitForViolations().map(\.law) == [.canonicallyEqualKeysAreTwo])
    let others = StorageLaws.Law.allCases.filter { $0 != .canonicallyEqualKeysAreTwo }
    #expect(laws.waitForViolations(of: others) == [])
  }

  @Test func `A seed repeats a violation, whatever laws are checked`() throws {
    let mutant = try #require(BrokenDictionary.all.first { $0.law == .valuesOfAnySizeComeBack })
    let all = mutant.make().waitForViolations(seed: Seed(5))
    #expect(all == mutant.make().waitForViolations(seed: Seed(5)))
    let found = try #require(all.first { $0.law == mutant.law })
    #expect(mutant.make().waitForViolations(of: [mutant.law], seed: Seed(5)) == [found])
    #expect(found.description.hasPrefix("values of any size come back: The key "))
    #expect(found.description.hasSuffix("(LARDER_SEED=0x5)"))
  }
}

private actor ActorStorage {
  var values: [[UInt8]: [UInt8]] = [:]
  func set(_ key: [UInt8], _ value: [UInt8]?) { values[key] = value }
  func removeAll() { values = [:] }
}

private final class Shared<Value>: Sendable {
  let value: Mutex<Value>
  init(_ value: consuming sending Mutex<Value>) { self.value = value }
}
