// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting
import Testing

private struct Thumb: Storable, Equatable {
  let id: Int
  var name: String
  static let storedName = "Thumb"
}

private struct IndexedThumb: Storable, Equatable {
  let id: Int
  var name: String
  static let storedName = "Thumb"
  static let indexes = [Index<IndexedThumb>("name", \.name)]
}

private struct NewThumb: Storable, Equatable {
  let id: Int
  var name: String
  var size: Int
  static let storedName = "Thumb"
  static let schemaVersion = 2
}

@Suite(.timeLimit(.minutes(60)))
struct BoundedMigrationTests {
  private static let migration = Migration<Thumb, NewThumb>("sizes") {
    NewThumb(id: $0.id, name: $0.name, size: $0.name.count)
  }.step

  /// The copy under way: its objects, and the entries eviction can choose from.
  private func copy(_ store: ObjectStore) throws -> (objects: UInt64, sample: UInt64)? {
    try store.storage.write { transaction in
      guard let target = try transaction.migration(named: "sizes")?.target else { return nil }
      let books = try transaction.objectBooks(target.number)
      return (books.count, try transaction.countIndexEntries(books.sample))
    }
  }

  @Test func `Migrating a bounded type, what eviction chooses from grows with the copy`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.setBudget(ObjectBudget(count: 5000), for: Thumb.self)
    try ground.store.save((0..<3500).map { Thumb(id: $0, name: "n\($0)") })
    var steps = 0
    try ground.store.migrate([Self.migration]) { _ in
      #expect(throws: Never.self) {
        guard let copy = try copy(ground.store) else { return }
        steps += 1
        #expect(copy.objects == UInt64(steps * 1000) && copy.sample == copy.objects)
      }
    }
    #expect(steps == 3)
    #expect(try ground.store.usage(of: NewThumb.self).budget == ObjectBudget(count: 5000))
    try ground.store.save((3500..<6000).map { NewThumb(id: $0, name: "", size: 0) })
    #expect(try ground.store.collection(NewThumb.self).count() == 5000)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `Objects of more than half the store's budget can be migrated, and count once`()
    throws
  {
    let budget = 2_000_000
    let ground = try StoreFixture(StoreOptions(budget: .bytes(budget)))
    let name = String(repeating: "n", count: 500)
    try ground.store.save((0..<2500).map { Thumb(id: $0, name: name) })
    let size = try ground.store.storage.statistics().objectBytes
    #expect(size > budget / 2)
    try ground.store.storage.setBytes([UInt8](repeating: 1, count: 50_000), forKey: 1)
    var steps = 0
    try ground.store.migrate([Self.migration]) { _ in
      #expect(throws: Never.self) {
        guard try copy(ground.store) != nil else { return }
        steps += 1
        #expect(try ground.store.storage.statistics().objectBytes == size)
        #expect(try ground.store.storage.verify() == [])
      }
    }
    #expect(steps > 0)
    let after = try ground.store.storage.statistics()
    #expect(after.objectBytes > size && after.bytes + after.objectBytes <= budget)
    #expect(after.objectBytes == (try ground.store.usage(of: NewThumb.self).bytes.bytes))
    #expect(try ground.store.storage.bytes(forKey: 1)?.count == 50_000)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `New objects that exceed the store's budget are an error, and the old ones remain`()
    throws
  {
    let ground = try StoreFixture(StoreOptions(budget: .bytes(1_000_000)))
    try ground.store.save((0..<1500).map { Thumb(id: $0, name: "n\($0)") })
    let grown = Migration<Thumb, NewThumb>("grown") {
      NewThumb(id: $0.id, name: String(repeating: "n", count: 1000), size: 0)
    }.step
    #expect(throws: (any Error).self) { try ground.store.migrate([grown]) }
    #expect(try ground.store.objects(Thumb.self).count() == 1500)
    #expect(try ground.store.storage.verify() == [])
    try ground.store.storage.setLimits(StoreLimits(budget: .bytes(4_000_000)))
    try ground.store.migrate([grown])
    #expect(try ground.store.objects(NewThumb.self).count() == 1500)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `A budget set during a migration applies after it`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<3500).map { Thumb(id: $0, name: "n\($0)") })
    var (isSet, steps) = (false, 0)
    try ground.store.migrate([Self.migration]) { _ in
      #expect(throws: Never.self) {
        if !isSet {
          try ground.store.setBudget(ObjectBudget(count: 3000), for: Thumb.self)
          isSet = true
        }
        guard let copy = try copy(ground.store), copy.sample > 0 else { return }
        steps += 1
        #expect(copy.sample == copy.objects)
      }
    }
    #expect(steps > 0)
    #expect(try ground.store.collection(NewThumb.self).count() == 3000)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `A migration does not count as use, and objects keep their time of use`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.setBudget(ObjectBudget(count: 10), for: Thumb.self)
    for id in 0..<10 { try ground.store.save(Thumb(id: id, name: "n\(id)")) }
    // Uses between two writes are one moment to the clock.
    try ground.store.save(Plate(id: 0, text: "zero"))
    #expect(try ground.store.object(Thumb.self, id: 0) != nil)
    try ground.store.save(Plate(id: 1, text: "one"))
    #expect(try ground.store.object(Thumb.self, id: 3) != nil)
    try ground.store.save(Plate(id: 2, text: "two"))
    try ground.store.migrate([Self.migration])
    for id in 10..<18 { try ground.store.save(NewThumb(id: id, name: "", size: 0)) }
    let kept = try ground.store.objects(NewThumb.self).fetch().map(\.id)
    #expect(Set(kept) == Set([0, 3] + Array(10..<18)))
  }

  @Test func `Building an index does not count as use of an object, a repeated result does`() throws
  {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.setBudget(ObjectBudget(count: 10), for: Thumb.self)
    for id in 0..<10 { try ground.store.save(Thumb(id: id, name: "n\(id % 5)")) }
    let first = ground.store.objects(Thumb.self).where(\.id < 2)
    let last = ground.store.objects(Thumb.self).where(\.id >= 8)
    #expect(try first.fetch().count == 2)
    #expect(try last.fetch().count == 2)
    // Later, both from memory: nothing of the type has changed since.
    try ground.store.save(Plate(id: 1, text: "one"))
    #expect(try first.fetch().map(\.id) == [0, 1])
    try ground.store.save(Plate(id: 2, text: "two"))
    let before = try ground.store.lastUse(of: Thumb.self, id: 0)
    try ground.store.prepare(IndexedThumb.self)
    #expect(try ground.store.lastUse(of: Thumb.self, id: 0) == before)
    // 8 and 9 were used before 0 and 1, 2 to 7 never.
    for id in 10..<18 { try ground.store.save(IndexedThumb(id: id, name: "")) }
    let kept = try ground.store.objects(IndexedThumb.self).fetch().map(\.id)
    #expect(Set(kept) == Set([0, 1] + Array(10..<18)))
    #expect(try ground.store.storage.verify() == [])
  }
}
