// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import Foundation
import LarderSchema
import LarderTesting
import Testing

@StorableValue struct Geo: Equatable {
  var country: String
  var height: Int?
}

@StorableValue struct Address: Equatable {
  var city: String
  var street: String?
  var geo: Geo
}

@Storable struct Worker: Equatable {
  let id: Int
  @Indexed var name: String
  var age: Int
  var nick: String?
  var address: Address?
  @HasOne var boss: Worker?
  @HasMany var friends: [Worker]
  var upper: String { name.uppercased() }
  var lower: String { name.lowercased() }
  static let computedProperties = [
    ComputedProperty("upper", \Worker.upper), ComputedProperty("lower", \Worker.lower),
  ]
  static let indexes = [Index("city", \Worker.address?.city)]
}

/// The same properties without a schema.
struct PlainWorker: Storable {
  let id: Int
  var name: String
  var age: Int
  var nick: String?
  var address: Address?
  @HasOne var boss: PlainWorker?
  @HasMany var friends: [PlainWorker]
}

@Storable struct Misindexed {
  let id: Int
  @HasOne var boss: Worker?
  static let indexes = [Index("boss", \Misindexed.boss?.name)]
}

@Storable struct Mispartial {
  let id: Int
  var name: String
  @HasOne var boss: Worker?
  static let indexes = [
    Index("anns", \Mispartial.name, where: \Mispartial.boss?.name == "Ann")
  ]
}

@Storable struct Clerk {
  let id: Int
  var isOpen = true
  @HasOne var boss: Worker?
  @HasMany var friends: [Worker]
  @HasMany var enemies: [Worker]
}

/// A condition of workers, and the same in Swift.
private struct Form<Object: Storable>: Sendable {
  let text: String
  let query: @Sendable (Query<Object>) -> Query<Object>
  let holds: @Sendable (Object) -> Bool
}

@Suite(.timeLimit(.minutes(60))) struct RelatedConditionTests {
  let temporary: TemporaryStore
  let objects: ObjectStore

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
  }

  private static let forms: [Form<Worker>] = [
    Form(text: "chain ==") {
      $0.where { $0.address?.city == "Bern" }
    } holds: {
      $0.address?.city == "Bern"
    },
    Form(text: "chain !=") {
      $0.where { $0.address?.city != "Bern" }
    } holds: {
      $0.address?.city != "Bern"
    },
    Form(text: "chain == nil") {
      $0.where { $0.address?.street == nil }
    } holds: {
      $0.address?.street == nil
    },
    Form(text: "chain text") {
      $0.where { $0.address?.street.hasPrefix("A") }
    } holds: {
      $0.address?.street?.hasPrefix("A") ?? false
    },
    Form(text: "chain of three") {
      $0.where { $0.address?.geo.height > 20 }
    } holds: {
      $0.address?.geo.height.map { $0 > 20 } ?? false
    },
    Form(text: "boss ==") {
      $0.where { $0.boss?.name == "N3" }
    } holds: {
      $0.boss?.name == "N3"
    },
    Form(text: "boss computed") {
      $0.where { $0.boss?.upper == "N3" || $0.boss?.lower == "n4" }
    } holds: {
      $0.boss?.upper == "N3" || $0.boss?.lower == "n4"
    },
    Form(text: "boss !=") {
      $0.where { $0.boss?.name != "N3" }
    } holds: {
      $0.boss?.name != "N3"
    },
    Form(text: "boss nick == nil") {
      $0.where { $0.boss?.nick == nil }
    } holds: {
      $0.boss?.nick == nil
    },
    Form(text: "boss >") {
      $0.where { $0.boss?.age > 40 }
    } holds: {
      $0.boss.map { $0.age > 40 } ?? false
    },
    Form(text: "! boss") {
      $0.where { !($0.boss?.name.hasPrefix("N1")) }
    } holds: {
      !($0.boss?.name.hasPrefix("N1") ?? false)
    },
    Form(text: "boss's boss") {
      $0.where { $0.boss?.boss?.name == "N3" }
    } holds: {
      $0.boss?.boss?.name == "N3"
    },
    Form(text: "boss's city") {
      $0.where { $0.boss?.address?.city == "Bern" && $0.age < 50 }
    } holds: {
      $0.boss?.address?.city == "Bern" && $0.age < 50
    },
    Form(text: "friends") {
      $0.where { $0.friends.contains { $0.age > 55 } }
    } holds: {
      $0.friends.contains { $0.age > 55 }
    },
    Form(text: "! friends") {
      $0.where { !$0.friends.contains { $0.age > 55 } }
    } holds: {
      !$0.friends.contains { $0.age > 55 }
    },
    Form(text: "friends' bosses") {
      $0.where { $0.friends.contains { $0.boss?.name == "N2" || $0.name == "N5" } }
    } holds: {
      $0.friends.contains { $0.boss?.name == "N2" || $0.name == "N5" }
    },
    Form(text: "projected") {
      $0.where { $0.$boss.contains { $0.boss?.age >= 30 } }
    } holds: {
      $0.boss?.boss.map { $0.age >= 30 } ?? false
    },
    Form(text: "or") {
      $0.where { $0.name == "N1" || $0.boss?.name == "N2" || $0.address?.city < "C" }
    } holds: {
      $0.name == "N1" || $0.boss?.name == "N2" || $0.address.map { $0.city < "C" } ?? false
    },
  ]

  private static let plainForms: [Form<PlainWorker>] = [
    Form(text: "boss !=") {
      $0.where { $0.boss?.name != "N3" }
    } holds: {
      $0.boss?.name != "N3"
    },
    Form(text: "city") {
      $0.where { $0.address?.city == "Bern" }
    } holds: {
      $0.address?.city == "Bern"
    },
    Form(text: "friends") {
      $0.where { $0.friends.contains { $0.age > 55 && $0.boss?.age < 40 } }
    } holds: {
      $0.friends.contains { $0.age > 55 && $0.boss.map { $0.age < 40 } ?? false }
    },
  ]

  private func worker(_ id: Int, _ numbers: inout SeededRandom) -> Worker {
    let address = Address(
      city: ["Bern", "Basel", "Chur"].randomElement(using: &numbers)!,
      street: [nil, "A1", "B2"].randomElement(using: &numbers)!,
      geo: Geo(country: "CH", height: Bool.random(using: &numbers) ? nil : id % 40))
    return Worker(
      id: id, name: "N\(Int.random(in: 0..<12, using: &numbers))",
      age: Int.random(in: 18..<65, using: &numbers),
      nick: Bool.random(using: &numbers) ? nil : "n\(id)",
      address: Bool.random(using: &numbers) ? nil : address, boss: nil, friends: [])
  }

  /// Saves workers with random bosses and friends, some of which do not exist.
  private func population(_ count: Int, _ numbers: inout SeededRandom) throws {
    var workers = (0..<count).map { worker($0, &numbers) }
    let all = workers
    for position in workers.indices {
      workers[position].boss =
        Bool.random(using: &numbers) ? nil : all.randomElement(using: &numbers)
      workers[position].friends = Array(all.shuffled(using: &numbers).prefix(position % 4))
    }
    let related = workers
    try objects.write { transaction in
      for worker in related { try transaction.save(worker, children: .ignore) }
    }
    for position in stride(from: 3, to: count, by: 17) {
      try objects.delete(Worker.self, id: position)
    }
  }

  @Test func `Conditions of chains and related objects match what Swift matches`() throws {
    let seed = Seed.announce()
    var numbers = seed.generator()
    try population(300, &numbers)
    let all = try objects.objects(Worker.self).fetch()
    for form in Self.forms {
      let expected = all.filter(form.holds).map(\.id)
      let query = form.query(objects.objects(Worker.self))
      #expect(try query.fetch().map(\.id) == expected, "\(form.text), \(seed)")
      #expect(try query.count() == expected.count, "\(form.text), \(seed)")
      let inTransaction = try objects.write { try $0.fetch(query).map(\.id) }
      #expect(inTransaction == expected, "\(form.text), \(seed)")
      let narrow = try query.where(\.name == "N4").fetch().map(\.id)
      #expect(
        narrow == all.filter { $0.name == "N4" && form.holds($0) }.map(\.id), "\(form.text)")
    }
    let plain = all.map {
      PlainWorker(
        id: $0.id, name: $0.name, age: $0.age, nick: $0.nick, address: $0.address, boss: nil,
        friends: [])
    }
    try objects.write { transaction in
      for (position, var worker) in plain.enumerated() {
        worker.boss = position % 3 == 0 ? nil : plain[(position * 7) % plain.count]
        worker.friends = [
          plain[(position * 5) % plain.count], plain[(position * 3) % plain.count],
        ]
        try transaction.save(worker, children: .ignore)
      }
    }
    let stored = try objects.objects(PlainWorker.self).fetch()
    for form in Self.plainForms {
      let found = try form.query(objects.objects(PlainWorker.self)).fetch().map(\.id)
      #expect(found == stored.filter(form.holds).map(\.id), "\(form.text), \(seed)")
    }
  }

  @Test func `A chain uses the index over its key path, and a relation the reference index`()
    throws
  {
    var numbers = SeededRandom(seed: 1)
    try population(200, &numbers)
    let city = objects.objects(Worker.self).where { $0.address?.city == "Bern" }
    #expect(try city.explain().contains("\"city\""))
    let boss = objects.objects(Worker.self).where { $0.boss?.name == "N3" }
    #expect(try boss.explain().contains("\\.boss?.name"))
    #expect(try boss.page(size: 3).next != nil)
    let plan = try boss.explain()
    #expect(plan.contains("larder.references"), "\(plan)")
    #expect(plan.contains("related LarderSchemaTests.Worker: scan index \"name\""), "\(plan)")
  }

  @Test func `A change of a related object alone changes the result, also in an observation`()
    async throws
  {
    let boss = Worker(id: 1, name: "A", age: 50, boss: nil, friends: [])
    try await objects.save(Worker(id: 2, name: "B", age: 20, boss: boss, friends: []))
    let query = objects.objects(Worker.self).where { $0.boss?.name == "A" }
    #expect(try await query.fetch().map(\.id) == [2])
    #expect(try await query.fetch().map(\.id) == [2])
    var states = query.observe().makeAsyncIterator()
    #expect(try await states.next()?.map(\.id) == [2])
    var renamed = boss
    renamed.name = "C"
    try await objects.save(renamed)
    #expect(try await query.fetch().isEmpty)
    #expect(try await states.next()?.isEmpty == true)
    try await objects.write { transaction in
      try transaction.save(boss)
      #expect(try transaction.fetch(query).map(\.id) == [2])
    }
    #expect(try await states.next()?.map(\.id) == [2])
  }

  @Test func `An index over a property of a related object is rejected`() {
    #expect {
      try objects.save(Misindexed(id: 1, boss: nil))
    } throws: { error in
      "\(error)".contains("related object")
    }
    #expect {
      try objects.save(Mispartial(id: 1, name: "W", boss: nil))
    } throws: { error in
      "\(error)".contains("related object")
    }
  }

  @Test func `Pages by related objects continue, and only in their own query`() throws {
    var numbers = SeededRandom(seed: 3)
    try population(120, &numbers)
    for form in Self.forms {
      let query = form.query(objects.objects(Worker.self))
      var page = try query.page(size: 5)
      var ids = page.objects.map(\.id)
      while let next = page.next {
        page = try query.page(after: next, size: 5)
        ids += page.objects.map(\.id)
      }
      #expect(try ids == query.fetch().map(\.id), "\(form.text)")
    }
    let all = try objects.objects(Worker.self).fetch()
    try objects.write { transaction in
      for id in 0..<9 {
        try transaction.save(
          Clerk(id: id, boss: nil, friends: all, enemies: all), children: .ignore)
      }
    }
    let friends = objects.objects(Clerk.self).where { $0.$friends.contains { $0.age > 20 } }
    let enemies = objects.objects(Clerk.self).where { $0.$enemies.contains { $0.age > 20 } }
    let upper = objects.objects(Worker.self).where { $0.boss?.upper != "x" }
    let lower = objects.objects(Worker.self).where { $0.boss?.lower != "x" }
    let second = try #require(upper.page(size: 2).next)
    #expect(try upper.page(after: second, size: 2).objects.count == 2)
    #expect(throws: ObjectError.self) { try lower.page(after: second, size: 2) }
    let next = try #require(friends.page(size: 2).next)
    #expect(throws: ObjectError.self) { try enemies.page(after: next, size: 2) }
  }

  @Test func `A limited query does not read all related objects in advance`() throws {
    var numbers = SeededRandom(seed: 4)
    try population(2000, &numbers)
    let query = objects.objects(Worker.self).where { $0.boss?.age == 30 }
    #expect(try query.explain().contains("related LarderSchemaTests.Worker: scan all"))
    #expect(try query.limit(1).explain().contains("Worker: loaded for each object"))
    #expect(
      try query.first()?.id
        == objects.objects(Worker.self).fetch().first { $0.boss?.age == 30 }?.id)
  }

  @Test func `Boolean properties are conditions, also at the end of a chain`() throws {
    try objects.save([Clerk(id: 1, boss: nil, friends: [], enemies: [])])
    let clerks = objects.objects(Clerk.self)
    #expect(try clerks.where { $0.isOpen }.count() == 1)
    #expect(try clerks.where { !$0.isOpen || $0.boss?.name.hasPrefix("A") }.count() == 0)
    #expect(try clerks.where { $0.isOpen && $0.boss?.name == nil }.count() == 1)
  }

  @Test func `Comparators of Foundation sort as they sort an array`() throws {
    var numbers = SeededRandom(seed: 2)
    try population(100, &numbers)
    let all = try objects.objects(Worker.self).fetch()
    let descriptors = [
      SortDescriptor(\Worker.age, order: .reverse), SortDescriptor(\Worker.name),
    ]
    let query = objects.objects(Worker.self)
    #expect(
      try query.sorted(using: descriptors).fetch().map(\.id)
        == all.sorted(using: descriptors).map(\.id))
    let comparator = KeyPathComparator(\Worker.nick)
    #expect(
      try query.sorted(using: comparator).limit(20).fetch().map(\.id)
        == all.sorted(using: comparator).prefix(20).map(\.id))
  }
}
#endif
