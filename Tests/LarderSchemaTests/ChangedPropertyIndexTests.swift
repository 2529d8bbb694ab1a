// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderEngine
import LarderSchema
import LarderTesting
import Synchronization
import Testing

// One stored type in three programs, which differ in their index.

@Storable struct BareOrder {
  let id: Int
  var price = 0
  var weight = 0
  static let storedName = "Order"
}

@Storable struct PricedOrder {
  let id: Int
  var price = 0
  var weight = 0
  static let storedName = "Order"
  static let indexes = [Index<PricedOrder>("order", \.price)]
}

@Storable struct WeighedOrder {
  let id: Int
  var price = 0
  var weight = 0
  static let storedName = "Order"
  static let indexes = [Index<WeighedOrder>("order", \.weight)]
}

private final class BuildProgress: Sendable {
  let isBuilt = Atomic<Bool>(false)

  /// Builds, and notes that this has ended.
  func end(after build: @Sendable () async throws -> Void) async throws {
    defer { isBuilt.store(true, ordering: .relaxed) }
    try await build()
  }
}

@Suite(.timeLimit(.minutes(60))) struct ChangedPropertyIndexTests {
  @Test
  func `A property that another program's index of one name contains is changed with its keys`()
    throws
  {
    let temporary = try TemporaryStore()
    let options = StoreOptions(durability: .cache)
    let first = ObjectStore(temporary.store)
    try first.save((0..<5).map { PricedOrder(id: $0) })
    let other = try ObjectStore(at: temporary.path, options)
    try other.prepare(WeighedOrder.self)
    let orders = first.objects(PricedOrder.self)
    #expect(try orders.where(\.id >= 0).set(\.weight, to: 7) == 5)
    let heavy = other.objects(WeighedOrder.self).where(\.weight == 7)
    #expect(try heavy.count() == 5)
    try other.prepare(WeighedOrder.self)
    #expect(try heavy.explain().hasPrefix("scan index") && heavy.count() == 5)
    #expect(try temporary.store.verify() == [])
  }

  @Test func `An index that is built while another property is changed has every object`()
    async throws
  {
    let temporary = try TemporaryStore()
    let options = StoreOptions(durability: .cache)
    let first = ObjectStore(temporary.store)
    try await first.save((0..<4000).map { BareOrder(id: $0, price: $0 % 10) })
    let store = try ObjectStore(at: temporary.path, options)
    // From here on the program changes fields of stored objects.
    try await store.save(PricedOrder(id: 4000, price: 0))
    let progress = BuildProgress()
    async let built: Void = progress.end(after: { try await store.prepare(PricedOrder.self) })
    var weight = 0
    repeat {
      weight += 1
      let changed = try await store.objects(PricedOrder.self).set(\.weight, to: weight)
      #expect(changed == 4001)
    } while !progress.isBuilt.load(ordering: .relaxed)
    try await built
    let all = store.objects(PricedOrder.self)
    #expect(try await all.where(\.price == 3).explain().hasPrefix("scan index"))
    for price in 0..<10 {
      let found = try await all.where(\.price == price).count()
      #expect(found == (price == 0 ? 401 : 400))
    }
  }
}
#endif
