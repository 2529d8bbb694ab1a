// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite struct RelationshipGraphTests {
  @Test(.timeLimit(.minutes(60)))
  func `A chain of ten thousand is saved, walked and deleted`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let count = 10_000
    var node = Node(id: 0)
    for id in 1..<count { node = Node(id: id, next: node) }
    try store.save(node)
    #expect(try store.objects(Node.self).count() == count)
    var walked = 0
    var next = try store.object(Node.self, id: count - 1)
    while let here = next {
      walked += 1
      #expect(here.id == count - walked)
      next = here.next
    }
    #expect(walked == count)
    #expect(try store.delete(Node.self, id: count - 1))
    #expect(try store.objects(Node.self).count() == 0)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A chain of any length is released without a recursion`() {
    var node = Node(id: 0)
    for id in 1..<300_000 { node = Node(id: id, next: node) }
    #expect(node.next?.id == 299_998)
    var many = Person(id: 0, name: "")
    for id in 1..<300_000 { many = Person(id: id, name: "", friends: [many]) }
    #expect(many.friends.count == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Cycles are saved, walked, deleted and compared`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let a = Person(id: 1, name: "A")
    let b = Person(id: 2, name: "B", friends: [a])
    // The object saved is stored, not the one of its id far below.
    try store.save(Person(id: 1, name: "A2", friends: [b, a]))
    var person = try #require(try store.object(Person.self, id: 1))
    #expect(person.name == "A2" && person.$friends.ids == ["2", "1"])
    for _ in 0..<10 { person = try #require(person.friends.first) }
    #expect(person.name == "A2")
    #expect(try store.object(Person.self, id: 1) == person)
    try store.write { transaction in
      try transaction.save(Node(id: 1, next: Node(id: 2, next: Node(id: 3, next: Node(id: 1)))))
    }
    #expect(try store.object(Node.self, id: 3)?.next?.next?.id == 2)
    try store.delete(Node.self, id: 2)
    #expect(try store.objects(Node.self).count() == 0)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Many to many is a list on both sides, or one and its inverse`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save((0..<20).map { Person(id: $0, name: "\($0)") })
    for id in 0..<20 {
      try store.save(
        Person(
          id: id, name: "\(id)",
          friends: (0..<20).filter { $0 != id && ($0 + id) % 3 == 0 }.map {
            Person(id: $0, name: "\($0)")
          }), children: .ignore)
    }
    for id in 0..<20 {
      let person = try #require(try store.object(Person.self, id: id))
      let inverse = try store.referrers(of: person, in: Person.self, through: \.$friends).fetch()
      #expect(inverse.map(\.id) == (0..<20).filter { $0 != id && ($0 + id) % 3 == 0 })
      #expect(inverse.map(\.id) == person.friends.map(\.id))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Referrers are found by an index, in step with every change`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let start = Seed.announce()
    var seed = start.generator()
    let long = String(repeating: "é", count: 5000)
    let ids = ["", "a", "a\0b", "e\u{302}", "é", long, long + "x"]
    let makers = ids.map { Maker(id: $0, name: $0) }
    try store.save(makers)
    var truth: [String: (maker: Int?, designer: Int?)] = [:]
    for round in 0..<300 {
      let id = "\(Int.random(in: 0..<40, using: &seed))"
      if Int.random(in: 0..<5, using: &seed) == 0 {
        try store.delete(Vehicle.self, id: id)
        truth[id] = nil
      } else {
        let maker = Bool.random(using: &seed) ? Int.random(in: 0..<7, using: &seed) : nil
        let designer = Bool.random(using: &seed) ? Int.random(in: 0..<7, using: &seed) : nil
        try store.save(
          Vehicle(
            id: id, year: round, maker: maker.map { makers[$0] },
            designer: designer.map { makers[$0] }))
        truth[id] = (maker, designer)
      }
      guard round % 20 == 0 else { continue }
      for (number, maker) in makers.enumerated() {
        let made = store.objects(Vehicle.self).where(\.$maker, is: maker)
        #expect(
          Set(try made.fetch().map(\.id)) == Set(truth.filter { $0.value.maker == number }.keys),
          "\(start)")
        #expect(try made.count() == truth.values.filter { $0.maker == number }.count)
        let designed = store.referrers(of: maker, in: Vehicle.self, through: \.$designer)
        #expect(
          Set(try designed.fetch().map(\.id))
            == Set(truth.filter { $0.value.designer == number }.keys), "\(start)")
      }
    }
    let query = store.objects(Vehicle.self).where { $0.$maker.refers(toID: "a") && $0.year > 3 }
    #expect(try query.explain().contains("larder.references"))
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Included children are those of the query's snapshot, each read once`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let parts = (0..<10).map { Part(id: "\($0)", weight: $0) }
    try store.save(
      (0..<100).map { Vehicle(id: "\($0)", year: $0, parts: [parts[$0 % 10], parts[$0 % 7]]) })
    let cars = try store.objects(Vehicle.self).where(\.year >= 50).including(\.$parts).fetch()
    #expect(cars.count == 50 && cars.allSatisfy(\.$parts.isLoaded))
    // Changed now, they are as they were.
    try store.save(parts.map { Part(id: $0.id, weight: -1) })
    #expect(cars.allSatisfy { $0.parts.map(\.weight) == [$0.year % 10, $0.year % 7] })
    let query = store.objects(Vehicle.self).including(\.$parts).including(\.$maker)
    #expect(try query.fetch().allSatisfy { $0.parts.allSatisfy { $0.weight == -1 } })
    try store.deleteAll(Part.self)
    #expect(try query.fetch().allSatisfy { $0.parts.isEmpty })
  }

  @Test(.timeLimit(.minutes(60)))
  func `A program that does not declare references cannot write past them`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "x")))
    let other = try ObjectStore(at: ground.path, StoreOptions())
    #expect(try other.object(PlainVehicle.self, id: "a")?.year == 1)
    let error = #expect(throws: ObjectError.self) {
      try other.save(PlainVehicle(id: "b", year: 2))
    }
    #expect(error?.code == .schemaMismatch)
    // A type without a word of references in it is free to have none.
    try other.save(Vehicle(id: "c", year: 3))
    #expect(try other.objects(Vehicle.self).count() == 2)
  }
}
