// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

/// Counts how often it is decoded.
private struct Counted: Storable {
  static let storedName = "Counted"
  static let decodings = Atomic<Int>(0)
  let id: Int
  @HasMany var parts: [CountedPart]

  init(id: Int, parts: [CountedPart]) {
    self.id = id
    self.parts = parts
  }

  private enum CodingKeys: CodingKey { case id, parts }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    _parts = try container.decode(HasMany<CountedPart>.self, forKey: .parts)
    Counted.decodings.add(1, ordering: .relaxed)
  }
}

private struct CountedPart: Storable, Equatable {
  let id: String
  var weight: Int
  static let storedName = "CountedPart"
}

/// Objects that show others: their observers see these changes.
// One at a time: some count how often a type is decoded.
@Suite(.serialized, .timeLimit(.minutes(60))) struct ChildObservationTests {
  private let ground: StoreFixture
  private var store: ObjectStore { ground.store }

  init() throws {
    ground = try StoreFixture(StoreOptions())
    let maker = Maker(id: "m", name: "first")
    try store.save([
      Vehicle(id: "1", year: 1, maker: maker, parts: [Part(id: "p", weight: 1)]),
      Vehicle(id: "2", year: 2, maker: maker),
    ])
  }

  @Test func `A query that includes children wakes when only a child changes`() async throws {
    let query = store.objects(Vehicle.self).including(\.$parts)
    var values = query.observe().makeAsyncIterator()
    var changes = query.changes.makeAsyncIterator()
    #expect(try await values.next()?.first?.parts.map(\.weight) == [1])
    _ = try await changes.next()
    try await store.save(Part(id: "p", weight: 2))
    #expect(try await values.next()?.first?.parts.map(\.weight) == [2])
    let change = try #require(try await changes.next())
    #expect(change.updated.map(\.id) == ["1"])
    #expect(change.inserted.isEmpty && change.removed.isEmpty && change.moved.isEmpty)
    try await store.delete(Part.self, id: "p")
    #expect(try await values.next()?.first?.parts.isEmpty == true)
  }

  @Test func `A child saved unchanged, or shown by no object, is not reported`() async throws {
    var values = store.objects(Vehicle.self).including(\.$parts).observe().makeAsyncIterator()
    _ = try await values.next()
    try await store.save(Part(id: "p", weight: 1))
    try await store.save(Part(id: "other", weight: 7))
    try await store.save(Part(id: "p", weight: 3))
    #expect(try await values.next()?.first?.parts.map(\.weight) == [3])
  }

  @Test func `A predicate over a child wakes when the child changes`() async throws {
    let query = store.objects(Vehicle.self).filter { $0.maker?.name == "second" }
    var values = query.observe().makeAsyncIterator()
    #expect(try await values.next()?.count == 0)
    try await store.save(Maker(id: "m", name: "second"))
    #expect(try await values.next()?.map(\.id) == ["1", "2"])
    // Shown by both, so an update of both.
    var changes = query.changes.makeAsyncIterator()
    _ = try await changes.next()
    var maker = Maker(id: "m", name: "second")
    maker.founders = [Person(id: 1, name: "a")]
    try await store.save(maker)
    #expect(try await changes.next()?.updated.map(\.id) == ["1", "2"])
  }

  @Test func `A sort by a child follows the child`() async throws {
    try await store.save(Maker(id: "n", name: "m"))
    var second = try #require(try store.object(Vehicle.self, id: "2"))
    second.maker = Maker(id: "n", name: "m")
    try await store.save(second)
    var values = store.objects(Vehicle.self).sorted(by: \.maker?.name).observe().makeAsyncIterator()
    #expect(try await values.next()?.map(\.id) == ["1", "2"])
    try await store.save(Maker(id: "n", name: "a"))
    #expect(try await values.next()?.map(\.id) == ["2", "1"])
  }

  @Test func `An object that cannot be without a child follows it`() async throws {
    try await store.save(Ticket(id: 1, holder: Person(id: 7, name: "before")))
    var values = store.values(of: Ticket.self, id: 1).makeAsyncIterator()
    #expect(try await values.next()??.holder.name == "before")
    try await store.save(Person(id: 7, name: "after"))
    #expect(try await values.next()??.holder.name == "after")
  }

  @Test func `Values without == are compared by what is stored of them`() async throws {
    try await store.save(Counted(id: 1, parts: []))
    var values = store.objects(Counted.self).observe().makeAsyncIterator()
    #expect(try await values.next()?.count == 1)
    try await store.save(Counted(id: 1, parts: []))
    try await store.save(Counted(id: 2, parts: []))
    #expect(try await values.next()?.count == 2)
  }

  @Test func `A kept query with children is answered from memory until one of them changes`() throws
  {
    try store.save(
      (0..<20).map { Counted(id: $0, parts: [CountedPart(id: "\($0)", weight: 0)]) })
    let query = store.objects(Counted.self).including(\.$parts)
    _ = try query.fetch()
    let before = Counted.decodings.load(ordering: .relaxed)
    for _ in 0..<100 { #expect(try query.fetch().count == 20) }
    #expect(Counted.decodings.load(ordering: .relaxed) == before)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for weight in 1..<50 {
      try other.save(CountedPart(id: "7", weight: weight))
      let found = try query.fetch()
      #expect(found[7].parts == [CountedPart(id: "7", weight: weight)])
      #expect(found[8].parts.map(\.weight) == [0])
    }
    #expect(Counted.decodings.load(ordering: .relaxed) > before)
  }

  @Test func `Files of Papyrus are read, and a child's own file takes precedence`() throws {
    // As Papyrus 0.12 writes them: the children are stored inside their parent and also separately.
    let maker = #"{"id":"q","name":"newest","founders":[]}"#
    let vehicle = #"""
      {"id":"9","year":9,"maker":{"id":"q","name":"copy","founders":[]},
       "parts":[{"id":"x","weight":4}]}
      """#
    let decoder = JSONDecoder()
    try store.save([decoder.decode(Maker.self, from: Data(maker.utf8))], children: .insertIfAbsent)
    try store.save(
      [decoder.decode(Vehicle.self, from: Data(vehicle.utf8))], children: .insertIfAbsent)
    let read = try store.object(id: "9", of: Vehicle.self).execute()
    #expect(read.maker?.name == "newest")
    #expect(try store.object(Part.self, id: "x")?.weight == 4)
    #expect(read.parts.map(\.weight) == [4])
    #expect(throws: ObjectError.self) { try store.object(id: "none", of: Vehicle.self).execute() }
  }

  @Test func `Papyrus' streams begin with the present and end when the object does`() async throws {
    var objects = store.object(id: "p", of: Part.self).stream().makeAsyncIterator()
    var lists = store.objects(type: Part.self).stream().makeAsyncIterator()
    #expect(try await objects.next()?.weight == 1)
    #expect(try await lists.next()?.count == 1)
    try await store.save([Part(id: "p", weight: 2), Part(id: "r", weight: 3)])
    #expect(try await objects.next()?.weight == 2)
    #expect(try await lists.next()?.map(\.weight) == [2, 3])
    try await store.delete(Part.self, id: "p")
    await #expect(throws: ObjectError.self) { _ = try await objects.next() }
    #expect(try await lists.next()?.count == 1)
  }

  @Test func `What a remembered result did not include is never shown old`() throws {
    let query = store.objects(Vehicle.self).including(\.$parts)
    #expect(try query.fetch()[0].maker?.name == "first")
    try store.save(Maker(id: "m", name: "second"))
    #expect(try query.fetch()[0].maker?.name == "second")
    let plain = store.objects(Vehicle.self)
    #expect(try plain.fetch()[0].parts.map(\.weight) == [1])
    try store.save(Part(id: "p", weight: 2))
    #expect(try plain.fetch()[0].parts.map(\.weight) == [2])
    let judged = store.objects(Vehicle.self).filter { $0.maker?.name == "third" }
    #expect(try judged.fetch().isEmpty)
    try store.save(Maker(id: "m", name: "third"))
    #expect(try judged.fetch().count == 2)
    #expect(try judged.count() == 2)
  }
}
