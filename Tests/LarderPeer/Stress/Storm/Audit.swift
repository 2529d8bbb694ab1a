// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Larder
import LarderDefaults
import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting

/// The audit of a round's store, in a process that starts after all workers have ended.
///
///     LarderPeer stress audit ROUND-SEED-AND-NUMBER PROCESSES DIRECTORY
///
/// It checks that no acknowledged write is lost, that no value is stored that was not issued, that
/// no lock and no lease has outlived its holder, and that the files and the counters are valid. It
/// reads with the checks of the workers.
enum Audit {
  static func run(_ plan: RoundPlan, directory: String) async throws {
    let board = try StormOracle(path: directory + "/board")
    let worker = try await timed("opening", board) {
      try Worker(
        role: .opener, slot: 0, plan: plan, directory: directory, writeTimeout: .seconds(300))
    }
    let store = worker.store
    let statistics = try store.statistics()
    if statistics.processes != [ProcessIdentity.pid] {
      worker.violation("processes \(statistics.processes) are recorded as users of the store")
    }
    if let reader = statistics.oldestReader { worker.violation("dead reader \(reader) pins pages") }
    try worker.checkBudget()
    for (region, cache) in worker.cacheRegions {
      for key in region.keys { worker.check(key, of: region) { cache[key] } }
    }
    if !plan.mayVanish { try worker.auditTallies() }

    // Every key can be written: no lock and no lease is left.
    for (region, cache) in worker.cacheRegions {
      for key in region.keys {
        try await timed("writing key \(key)", board) {
          try await cache.setValue(
            StressValue(board.issue(key, of: region), size: 10), forKey: key)
        }
      }
    }
    let flights = PersistentCache<Int, Computed>(storage: store, namespace: "flights")
    for key in OracleRegion.flights.keys {
      let before = worker.expectation(.flights, key)
      let value = try await timed("computing key \(key)", board) {
        try await flights.value(forKey: key) {
          Computed(key: key, version: board[.flights, key, .issued])
        }
      }
      worker.judge(value, key, of: .flights, before)
    }
    switch plan.theme {
    case .cache: try worker.auditTags()
    case .objects:
      try worker.auditObjects()
      let objects = ObjectStore(store)
      try await timed("saving an object", board) {
        try await objects.save(StressItem(board.issue(0, of: .keptItems)))
      }
      try await timed("deleting all objects of a type", board) {
        try await objects.deleteAll(StressBulk.self)
      }
    case .collections: try worker.auditCollections()
    case .facades: try worker.auditFacades()
    }
    try worker.verify(store)
    ParentProcess.send("hits \(statistics.memoryHits)")
    store.close()
  }

  /// Runs an operation that must not wait for a process that has ended.
  private static func timed<Result>(
    _ name: String, _ board: StormOracle, _ body: () async throws -> Result
  ) async throws -> Result {
    let begin = Clocks.monotonicNanoseconds()
    let result = try await body()
    let milliseconds = (Clocks.monotonicNanoseconds() - begin) / 1_000_000
    if milliseconds > 10_000 { Worker.violation("\(name) took \(milliseconds) ms", board) }
    return result
  }
}

extension Worker {
  fileprivate func auditTallies() throws {
    var sum: UInt64 = 0
    for key in OracleRegion.tallies.keys {
      func number(_ name: String) throws -> UInt64 {
        Worker.number(try store.bytes(forKey: key, in: name))
      }
      let count = try number("counters")
      sum += count
      judge(count, key, of: .tallies, board[.tallies, key, .acknowledged])
      if try number("left") != number("right") { violation("half a transaction of key \(key)") }
    }
    let operations = try store.statistics().namespaces.first { $0.name == "operations" }
    if let operations, operations.entries != Int(clamping: sum) {
      violation("\(operations.entries) operations have counted to \(sum)")
    }
  }

  // MARK: Objects

  fileprivate func auditObjects() throws {
    let objects = ObjectStore(store)
    for region in [OracleRegion.keptItems, .transientItems] {
      for key in region.keys {
        try check(key, of: region) { try objects.object(StressItem.self, id: key) }
      }
    }
    for key in OracleRegion.bulkItems.keys {
      try check(key, of: .bulkItems) { try objects.object(StressBulk.self, id: key) }
    }
    try auditIndexes(objects)
    let defects = try objects.write { transaction in
      try (0..<RelationshipInvariant.parentCount).flatMap {
        try RelationshipInvariant.defects(of: $0, objects, &transaction)
      }
    }
    for defect in defects { violation(defect) }
  }

  private func auditIndexes(_ objects: ObjectStore) throws {
    let items = objects.objects(StressItem.self)
    let all = try items.fetch()
    for group in 0..<5 {
      let found = try items.where(\.group == group).fetch()
      if Set(found.map(\.id)) != Set(all.filter { $0.group == group }.map(\.id)) {
        violation("the index of group \(group) and the objects disagree")
      }
      let words = try items.matching("group\(group)").fetch()
      if Set(words.map(\.id)) != Set(found.map(\.id)) || words.count != found.count {
        violation("the words of group \(group) and its index disagree")
      }
    }
    if try items.count() != all.count { violation("the count of objects is wrong") }
    let claims = try objects.objects(StressClaim.self).fetch()
    if Set(claims.map(\.key)).count != claims.count { violation("two claims of one key") }
    for claim in claims {
      let found = try objects.objects(StressClaim.self).where(\.key == claim.key).fetch()
      if found.map(\.id) != [claim.id] { violation("the claim of key \(claim.key) is not found") }
    }
  }

  // MARK: Collections

  /// Audits types with a budget, the amounts that two types share, and paged objects.
  fileprivate func auditCollections() throws {
    let objects = ObjectStore(store)
    // The counters first: a read uses objects, and thereby changes the order of eviction.
    try checkUsage(objects)
    let usage = try objects.usage(of: StressThumb.self)
    let stored = try objects.objects(StressThumb.self).fetch()
    if stored.count != usage.count {
      violation("the counters have \(usage.count) objects, \(stored.count) are stored")
    }
    for key in OracleRegion.bounded.keys {
      let thumb = try check(key, of: .bounded) { try objects.object(StressThumb.self, id: key) }
      if thumb?.sequence != stored.first(where: { $0.id == key })?.sequence {
        violation("bounded object \(key) is another in a query")
      }
    }
    for tag in 0..<3 {
      let defects = try Self.indexDefects(objects, tag: tag) { try $0.fetch() }
      for defect in defects { violation(defect) }
    }
    let accounts = try objects.objects(StressAccount.self).fetch()
    let vaults = try objects.objects(StressVault.self).fetch()
    if let defect = StressBank.defect(accounts, vaults) { violation(defect) }
    for key in OracleRegion.paged.keys {
      try check(key, of: .paged) { try objects.object(StressPage.self, id: key) }
    }
    // Every object can be written.
    try objects.save(StressThumb(board.issue(1, of: .bounded)))
    try checkUsage(objects)
  }

  // MARK: Facades

  /// Audits defaults and storages.
  fileprivate func auditFacades() throws {
    let defaults = try Defaults(at: directory + "/defaults")
    for key in OracleRegion.defaults.keys {
      try check(key, of: .defaults) { try Self.defaultSequence(key, defaults) }
    }
    for key in OracleRegion.defaultCounters.keys {
      let count = try defaults.value(Int.self, forKey: Self.counterName(key)) ?? 0
      judge(
        UInt64(count), key, of: .defaultCounters, board[.defaultCounters, key, .acknowledged])
    }
    for key in OracleRegion.defaultsOnce.keys {
      let settled = board[.defaultsOnce, key, .issued]
      let found = try defaults.value(Int.self, forKey: "once \(key)") ?? 0
      if settled != 0, settled != UInt64(found) {
        violation("once \(key) is \(found), and was \(settled)")
      }
    }
    defaults.close()
    let suite = try SharedStore(at: directory + "/defaults", StoreOptions(durability: .durable))
    try verify(suite, "verify of the defaults")
    suite.close()

    for kind in StressStorage.Kind.allCases {
      let storage = StressStorage(kind, store, directory)
      for key in storage.region.keys {
        try check(key, of: storage.region) { try storage.values.value(forKey: key) }
      }
      guard storage.countsAmongProcesses else { continue }
      let region = storage.counterRegion
      for key in region.keys {
        judge(
          try storage.counters.value(forKey: key)?.first ?? 0, key, of: region,
          board[region, key, .acknowledged])
      }
    }
    // Opening a folder removes the unfinished files of killed processes.
    for folder in ["files", "counters", "behind", "behind-counters"] {
      let left = (try? FileSystem.names(in: directory + "/" + folder)) ?? []
      for name in left where name.hasPrefix(".new-") {
        violation("\(folder): \(name) was not removed")
      }
    }
  }
}
#endif
