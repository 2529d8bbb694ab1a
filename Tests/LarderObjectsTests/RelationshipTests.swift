// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite struct RelationshipTests {
  @Test(.timeLimit(.minutes(60)))
  func `Children are stored once, and a parent fetched later shows their newest state`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let maker = Maker(id: "m", name: "one")
    try store.save([
      Vehicle(id: "a", year: 1, maker: maker, parts: [Part(id: "p", weight: 1)]),
      Vehicle(id: "b", year: 2, maker: maker),
    ])
    #expect(try store.objects(Maker.self).count() == 1)
    let early = try #require(try store.object(Vehicle.self, id: "a"))
    #expect(!early.$maker.isLoaded && early.$maker.id == "m" && early.$parts.ids == ["p"])
    #expect(early.maker?.name == "one" && early.$maker.isLoaded)
    for round in 0..<3 {
      try other.save(Maker(id: "m", name: "new \(round)"))
      for id in ["a", "b"] {
        #expect(try store.object(Vehicle.self, id: id)?.maker?.name == "new \(round)")
      }
      #expect(
        try store.objects(Vehicle.self).fetch().map(\.maker?.name) == [
          "new \(round)", "new \(round)",
        ])
    }
    // A value keeps showing the objects it has shown.
    #expect(early.maker?.name == "one")
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A kept query of parents shows the newest children`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "0")))
    let plain = ground.store.objects(Vehicle.self)
    let included = ground.store.objects(Vehicle.self).including(\.$maker)
    let judged = ground.store.objects(Vehicle.self).filter { $0.maker?.name == "even" }
    for round in 1..<6 {
      try ground.store.save(Maker(id: "m", name: round % 2 == 0 ? "even" : "odd"))
      for query in [plain, included] {
        #expect(try query.fetch().first?.maker?.name == (round % 2 == 0 ? "even" : "odd"))
      }
      #expect(try judged.fetch().count == (round % 2 == 0 ? 1 : 0))
      #expect(try judged.count() == (round % 2 == 0 ? 1 : 0))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A child that was merely loaded is not written back`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(
      Vehicle(
        id: "a", year: 1, maker: Maker(id: "m", name: "old"),
        parts: [Part(id: "p", weight: 1), Part(id: "q", weight: 1)]))
    var car = try #require(try store.object(Vehicle.self, id: "a"))
    #expect(car.maker?.name == "old" && car.parts.count == 2)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(Maker(id: "m", name: "new"))
    try other.save(Part(id: "p", weight: 100))
    car.year = 2
    car.parts.append(Part(id: "r", weight: 3))
    car.parts[1].weight = 2
    car.maker = car.maker
    try store.save(car)
    let saved = try #require(try store.object(Vehicle.self, id: "a"))
    #expect(saved.year == 2 && saved.maker?.name == "new")
    // The unchanged object is the other caller's; the changed one and the new one are this
    // caller's.
    #expect(saved.parts.map(\.weight) == [100, 2, 3])
    // A child that is set is saved.
    car.maker = Maker(id: "m", name: "set")
    try store.save(car)
    #expect(try store.object(Maker.self, id: "m")?.name == "set")
  }

  @Test(.timeLimit(.minutes(60)))
  func `Children are overwritten, kept or left out as requested`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Maker(id: "m", name: "there"))
    let car = Vehicle(
      id: "a", year: 1, maker: Maker(id: "m", name: "mine"), parts: [Part(id: "p", weight: 1)])
    try store.save(car, children: .ignore)
    #expect(try store.object(Maker.self, id: "m")?.name == "there")
    #expect(try store.object(Vehicle.self, id: "a")?.$parts.missingIDs == ["p"])
    try store.save(car, children: .insertIfAbsent)
    #expect(try store.object(Maker.self, id: "m")?.name == "there")
    #expect(try store.object(Vehicle.self, id: "a")?.parts.map(\.weight) == [1])
    try store.save(car)
    #expect(try store.object(Maker.self, id: "m")?.name == "mine")
  }

  @Test(.timeLimit(.minutes(60)))
  func `A reference to an object that is gone is visible and harms nothing`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(
      Vehicle(
        id: "a", year: 1, maker: Maker(id: "m", name: "x"),
        parts: (0..<4).map { Part(id: "p\($0)", weight: $0) }))
    try store.delete(Maker.self, id: "m")
    try store.delete(Part.self, ids: ["p1", "p3"])
    let car = try #require(try store.object(Vehicle.self, id: "a"))
    #expect(car.maker == nil && car.$maker.id == "m")
    #expect(try car.$maker.missingIDs == ["m"] && car.$maker.load() == nil)
    #expect(car.parts.map(\.id) == ["p0", "p2"])
    #expect(try car.$parts.missingIDs == ["p1", "p3"])
    #expect(car.$parts.ids == ["p0", "p1", "p2", "p3"])
    let included = try store.objects(Vehicle.self).including(\.$maker).including(\.$parts).fetch()
    #expect(included[0].$parts.isLoaded && included[0].maker == nil)
    #expect(try included[0].$parts.missingIDs == ["p1", "p3"])
    // A parent saved again keeps its reference, and loads the child when it exists again.
    try store.save(car)
    try store.save(Maker(id: "m", name: "back"))
    #expect(try store.object(Vehicle.self, id: "a")?.maker?.name == "back")
  }

  @Test(.timeLimit(.minutes(60)))
  func `A required reference is loaded with its parent, and names what is gone`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(LooseTicket(id: 1, holder: Person(id: 7, name: "P")))
    #expect(try store.object(LooseTicket.self, id: 1)?.holder.name == "P")
    try store.save(Person(id: 7, name: "Q"))
    #expect(try store.object(LooseTicket.self, id: 1)?.holder.name == "Q")
    #expect(try store.objects(LooseTicket.self).fetch().map(\.holder.name) == ["Q"])
    try store.delete(Person.self, id: 7)
    let error = #expect(throws: ObjectError.self) { try store.object(LooseTicket.self, id: 1) }
    #expect(error?.code == .unreadable && error?.ids == ["1", "7"])
    // So it is one of a query, which does not delete it.
    #expect(throws: ObjectError.self) { try store.objects(LooseTicket.self).fetch() }
    #expect(try store.objects(LooseTicket.self).skippingUnreadable().fetch() == [])
    try store.save(Person(id: 7, name: "R"))
    #expect(try store.object(LooseTicket.self, id: 1)?.holder.name == "R")
    #expect(throws: ObjectError.self) {
      try store.save(Impossible(id: 1, holder: Person(id: 7, name: "")))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects in a transaction see its writes through their references`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "old")))
    let late: Vehicle? = try store.write { transaction in
      try transaction.save(Maker(id: "m", name: "new"))
      #expect(try transaction.object(Vehicle.self, id: "a")?.maker?.name == "new")
      let fetched = try transaction.fetch(store.objects(Vehicle.self).including(\.$maker))
      #expect(fetched[0].maker?.name == "new")
      let early = try transaction.object(Vehicle.self, id: "a")
      try transaction.delete(Maker.self, id: "m")
      #expect(early?.maker == nil)
      try transaction.save(
        Vehicle(
          id: "b", year: 1,
          maker: Maker(
            id: "n", name: "n",
            founders: [
              Person(id: 1, name: "P")
            ])))
      #expect(try transaction.object(Vehicle.self, id: "b")?.maker?.founders.first?.name == "P")
      let late = try transaction.object(Vehicle.self, id: "b")
      try transaction.deleteAll(Person.self)
      #expect(try transaction.object(Vehicle.self, id: "b")?.maker?.founders.isEmpty == true)
      return late
    }
    #expect(late?.maker?.founders.isEmpty == true && late?.maker?.name == "n")
  }

  @Test(.timeLimit(.minutes(60)))
  func `Outside of a store references are coded as their objects`() throws {
    let ground = try StoreFixture(StoreOptions())
    let car = Vehicle(
      id: "a", year: 1, maker: Maker(id: "m", name: "x"), parts: [Part(id: "p", weight: 1)])
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    let json = """
      {"designer":null,"id":"a","maker":{"founders":[],"id":"m","name":"x"},\
      "parts":[{"id":"p","weight":1}],"year":1}
      """
    #expect(String(decoding: try encoder.encode(car), as: UTF8.self) == json)
    let back = try JSONDecoder().decode(Vehicle.self, from: Data(json.utf8))
    #expect(back == car && back.maker == car.maker && back.parts == car.parts)
    let short = try JSONDecoder().decode(Vehicle.self, from: Data(#"{"id":"a","year":1}"#.utf8))
    #expect(short.maker == nil && short.parts.isEmpty)
    // Also what was fetched; a cycle is an error, not the end of the stack.
    try ground.store.save(car)
    let fetched = try #require(try ground.store.object(Vehicle.self, id: "a"))
    #expect(String(decoding: try encoder.encode(fetched), as: UTF8.self) == json)
    try ground.store.save(
      Person(id: 1, name: "A", friends: [Person(id: 2, name: "B"), Person(id: 3, name: "C")]))
    try ground.store.save(
      Person(id: 2, name: "B", friends: [Person(id: 1, name: "A")]), children: .ignore)
    let person = try #require(try ground.store.object(Person.self, id: 1))
    #expect(throws: EncodingError.self) { try encoder.encode(person) }
  }
}
