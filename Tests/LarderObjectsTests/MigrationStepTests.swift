// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct SoldCar: Storable {
  let id: Int
  var year: Int
  var sold: Bool
  static let storedName = "step.Car"
  static let indexes = [
    Index<SoldCar>("open", \.year, where: \.sold == false), Index("year", \.year),
  ]
}

private struct UnsoldCar: Storable {
  let id: Int
  var year: Int
  static let storedName = "step.Car"
  static let schemaVersion = 2
  static let indexes = [Index<UnsoldCar>("year", \.year)]
}

@Suite struct MigrationStepTests {
  @Test(.timeLimit(.minutes(60)))
  func `Fields come, go and are renamed without the Swift type, with their indexes`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<1500))
    let steps: [ObjectMigration] = [
      .renameField("name", to: "title", in: "Person", toVersion: 2),
      .addField("wheels", default: 4, in: "Person", toVersion: 2),
      .removeField("age", in: "Person", toVersion: 3),
    ]
    let dry = try ground.store.migrate(steps, dryRun: true)
    #expect(dry.map(\.changed) == [1500, 1500, 1500] && dry.allSatisfy { $0.failed == 0 })
    try ground.store.migrate(steps)
    let people = try ground.store.objects(PersonOfFields.self).fetch()
    #expect(people == (0..<1500).map { PersonOfFields(id: $0, title: "n\($0)", wheels: 4) })
    let query = ground.store.objects(PersonOfFields.self).where(\.title == "n77")
    #expect(try query.explain().hasPrefix("scan index \"name\""))
    #expect(try query.fetch().map(\.id) == [77])
    try ground.store.save(PersonOfFields(id: 77, title: "other", wheels: 3))
    #expect(try query.fetch() == [])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A type is renamed at once, and its old name is refused`() throws {
    let ground = try StoreFixture(StoreOptions())
    let old = try ObjectStore(at: ground.path, StoreOptions())
    try ground.store.save(Years.people(0..<100))
    #expect(try old.object(PersonV1.self, id: 3) != nil)
    let steps: [ObjectMigration] = [
      .fields("no index", of: "Person", toVersion: 2, [.dropIndex("name")]),
      .rename(type: "Person", to: "Human"),
    ]
    try ground.store.migrate(steps)
    for attempt in [
      { _ = try old.object(PersonV1.self, id: 3) }, { try old.save(Years.people(1..<2)) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .newerSchema && error?.message.contains("\"Human\"") == true)
    }
    #expect(throws: ObjectError.self) { try ground.store.object(Human.self, id: 3) }
    #expect(try ground.store.object(HumanV2.self, id: 3)?.name == "n3")
  }

  struct HumanV2: Storable {
    let id: Int
    var name: String
    static let storedName = "Human"
    static let schemaVersion = 2
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects move to another name, and no process saves there before them`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<2500))
    let move = ObjectMigration.objects("people are human") { (old: PersonV1) in
      Human(id: old.id, name: old.name, age: old.age)
    }
    var refusals = 0
    try ground.store.migrate([move]) { progress in
      guard progress.done < 2500 else { return }
      let error = #expect(throws: ObjectError.self) {
        try ground.store.save(Human(id: -1, name: "", age: ""))
      }
      if error?.code == .migrationInProgress { refusals += 1 }
    }
    #expect(refusals == 2)
    #expect(try ground.store.objects(Human.self).count() == 2500)
    // For a program that passes the migration the former type is empty.
    #expect(try ground.store.objects(PersonV1.self).fetch().isEmpty)
    let older = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) { try older.objects(PersonV1.self).fetch() }
    #expect(error?.code == .newerSchema)
    let other = try StoreFixture(StoreOptions())
    try other.store.save(Human(id: 1, name: "", age: ""))
    try other.store.save(Years.people(0..<1))
    let refusal = #expect(throws: ObjectError.self) { try other.store.migrate([move]) }
    #expect(refusal?.code == .migrationOrder)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Indexes are rebuilt, and a type is deleted with its name`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<2500))
    try ground.store.migrate([.reindex(PersonV1.self)])
    let query = ground.store.objects(PersonV1.self).where(\.name == "n2400")
    #expect(try query.explain().hasPrefix("scan index"))
    #expect(try query.fetch().map(\.id) == [2400])
    try ground.store.migrate([.reindex(PersonV1.self), .deleteAll(named: "Person")])
    #expect(try ground.store.objects(PersonV1.self).fetch() == [])
    // A name that is free again: any version may take it.
    try ground.store.save(PersonV2(id: 1, name: "a", age: 1))
    #expect(try ground.store.objects(PersonV2.self).count() == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A fresh store, and one that is newer already, need no migration`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(PersonV2(id: 1, name: "a", age: 1))
    let reports = try ground.store.migrate([Years.step])
    #expect(reports[0].objects == 0)
    #expect(try ground.store.objects(PersonV2.self).fetch().map(\.age) == [1])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A list of migrations that does not continue from the store is an error`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.migrate([.deleteAll(named: "a")])
    let late = #expect(throws: ObjectError.self) {
      try ground.store.migrate([.deleteAll(named: "b"), .deleteAll(named: "a")])
    }
    #expect(late?.code == .migrationOrder)
    let twice = #expect(throws: ObjectError.self) {
      try ground.store.migrate([.deleteAll(named: "c"), .deleteAll(named: "c")])
    }
    #expect(twice?.code == .invalidSchema)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A migration left half done is gone on with by the next, or abandoned`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<3500))
    try halfWay(ground)
    // The old program continues; a new one gets an error with the remedy.
    try ground.store.save(PersonV1(id: 3, name: "n3", age: "77"))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(PersonV2(id: 3, name: "n3", age: 77))
    }
    #expect(error?.code == .migrationInProgress)
    var first: Int?
    try ground.store.migrate([Years.step]) { first = first ?? $0.done }
    #expect(first! > 1000)
    #expect(try ground.store.object(PersonV2.self, id: 3)?.age == 77)
    #expect(try ground.store.objects(PersonV2.self).count() == 3500)

    let other = try StoreFixture(StoreOptions())
    try other.store.save(Years.people(0..<3500))
    try halfWay(other)
    #expect(try other.store.abandonMigration(named: Years.name))
    #expect(try !other.store.abandonMigration(named: Years.name))
    #expect(try other.store.objects(PersonV1.self).count() == 3500)
    try other.store.migrate([Years.step])
    #expect(try other.store.objects(PersonV2.self).count() == 3500)
  }

  /// Leaves a migration after its first step, as a killed process does.
  private func halfWay(_ ground: StoreFixture) throws {
    let store = try ObjectStore(at: ground.path, StoreOptions())
    #expect(throws: StoreError.self) {
      try store.migrate([Years.step]) { _ in store.close() }
    }
  }

  @Test func `A removed field removes the indexes with a condition on it`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<5).map { SoldCar(id: $0, year: $0, sold: false) })
    try ground.store.migrate([.removeField("sold", in: "step.Car", toVersion: 2)])
    try ground.store.save(UnsoldCar(id: 9, year: 1))
    let cars = ground.store.objects(UnsoldCar.self).where(\.year == 1)
    #expect(try cars.count() == 2)
    #expect(try cars.explain().hasPrefix("scan index \"year\""))
    #expect(try ground.store.storage.verify() == [])
  }
}
