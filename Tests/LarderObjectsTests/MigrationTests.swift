// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

@Suite struct MigrationTests {
  @Test(.timeLimit(.minutes(60)))
  func `A type is migrated completely in steps, in order, and once`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<20_000).shuffled(seed: 1))
    let order = try ground.store.objects(PersonV1.self).fetch().map(\.id)
    var steps: [ObjectProgress] = []
    let reports = try ground.store.migrate([Years.step]) { steps.append($0) }
    #expect(reports.map(\.outcome) == [.done] && reports[0].objects == 20_000)
    #expect(steps.count >= 20 && steps.last?.done == 20_000)
    #expect(steps.map(\.done) == steps.map(\.done).sorted())
    let people = try ground.store.objects(PersonV2.self).fetch()
    #expect(people.map(\.id) == order)
    #expect(people.allSatisfy { $0.age == $0.id % 90 && $0.name == "n\($0.id)" })
    let aged = ground.store.objects(PersonV2.self).where(\.age == 33)
    #expect(try aged.explain().hasPrefix("scan index \"age\""))
    #expect(try aged.count() == (0..<20_000).count { $0 % 90 == 33 })
    // Again, in another handle, with the list grown.
    let again = try ObjectStore(
      at: ground.path, StoreOptions(), migrations: [Years.step, .deleteAll(named: "Nothing")])
    #expect(try again.appliedMigrations() == [Years.name, "delete all Nothing"])
    #expect(try again.objects(PersonV2.self).count() == 20_000)
    // New objects are stored after the old ones.
    try again.save(PersonV2(id: 99_999, name: "last", age: 1))
    #expect(try again.objects(PersonV2.self).fetch().last?.id == 99_999)
    #expect(try again.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `The old version works until the last step, and is refused after it`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<5000))
    let old = try ObjectStore(at: ground.path, StoreOptions())
    #expect(try old.object(PersonV1.self, id: 7)?.age == "7")
    var round = 0
    try ground.store.migrate([Years.step]) { progress in
      guard progress.done < 5000 else { return }
      round += 1
      // Changed, deleted, deleted and saved again, new: each happens both before and after the
      // position of the copy.
      for base in [0, 4000] {
        _ = try? old.save(PersonV1(id: base + round, name: "changed \(base + round)", age: "5"))
        _ = try? old.delete(PersonV1.self, id: base + 100 + round)
        _ = try? old.delete(PersonV1.self, id: base + 200 + round)
        _ = try? old.save(PersonV1(id: base + 200 + round, name: "again \(base)", age: "6"))
        _ = try? old.delete(PersonV1.self, id: base + 200 + round)
        _ = try? old.save(PersonV1(id: base + 200 + round, name: "later \(base + round)", age: "6"))
      }
      _ = try? old.save(PersonV1(id: 10_000 + round, name: "new \(round)", age: "7"))
      #expect(throws: ObjectError.self) { try ground.store.object(PersonV2.self, id: 1) }
      #expect((try? old.objects(PersonV1.self).count()) == 5000 - 2 * round + round)
    }
    #expect(round >= 4)
    let now = try ground.store.objects(PersonV2.self).fetch()
    #expect(now.count == 5000 - 2 * round + round)
    for number in 1...round {
      for base in [0, 4000] {
        let id = base + number
        #expect(try ground.store.object(PersonV2.self, id: id)?.name == "changed \(id)")
        #expect(try ground.store.object(PersonV2.self, id: id + 100) == nil)
        #expect(try ground.store.object(PersonV2.self, id: id + 200)?.age == 6)
      }
      #expect(try ground.store.object(PersonV2.self, id: 10_000 + number)?.age == 7)
    }
    #expect(now.last?.id == 10_000 + round)
    #expect(try ground.store.objects(PersonV2.self).where(\.age >= 0).count() == now.count)
    for attempt in [
      { _ = try old.object(PersonV1.self, id: 7) }, { try old.save(Years.people(1..<2)) },
      { _ = try old.objects(PersonV1.self).fetch() }, { try old.deleteAll(PersonV1.self) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .newerSchema)
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Unique keys swapped during the migration do not conflict`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<3000))
    var isFirst = true
    try ground.store.migrate([Years.step]) { _ in
      guard isFirst else { return }
      isFirst = false
      try? ground.store.save([
        PersonV1(id: 1, name: "n2500", age: "1"), PersonV1(id: 2500, name: "n2", age: "1"),
        PersonV1(id: 2, name: "n1", age: "1"),
      ])
    }
    #expect(!isFirst)
    #expect(
      try ground.store.objects(PersonV2.self).where(\.name == "n2").fetch().map(\.id) == [2500])
    #expect(try ground.store.objects(PersonV2.self).where(\.name == "n1").fetch().map(\.id) == [2])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An error names the object, leaves everything as it was, and may be mended`() throws {
    let ground = try StoreFixture(StoreOptions())
    var people = Years.people(0..<2500)
    people[2300].age = "old"
    try ground.store.save(people)
    let error = #expect(throws: ObjectError.self) { try ground.store.migrate([Years.step]) }
    #expect(error?.code == .migrationFailed && error?.ids == ["2300"])
    #expect(error?.message.contains("\"old\" is no number") == true, "\(error!)")
    #expect(try ground.store.objects(PersonV1.self).fetch() == people)
    #expect(try ground.store.appliedMigrations() == [])
    people[2300].age = "10"
    try ground.store.save(people[2300])
    try ground.store.migrate([Years.step])
    #expect(try ground.store.objects(PersonV2.self).fetch() == people.map(Years.convert))
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects that clash in a unique index, or in their id, are both named`() throws {
    let ground = try StoreFixture(StoreOptions())
    var people = Years.people(0..<1500)
    people[1400].name = "n3"
    try ground.store.save(people)
    let error = #expect(throws: ObjectError.self) { try ground.store.migrate([Years.step]) }
    #expect(
      error?.code == .uniqueViolation && error?.ids == ["1400", "3"] && error?.index == "name")
    let sameID = ObjectMigration.objects("one id") { (old: PersonV1) in
      PersonV2(id: old.id % 1200, name: "x\(old.id)", age: 1)
    }
    let other = #expect(throws: ObjectError.self) { try ground.store.migrate([sameID]) }
    #expect(other?.code == .uniqueViolation && other?.ids == ["1200", "0"] && other?.index == nil)
    #expect(try ground.store.objects(PersonV1.self).fetch() == people)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A dry run reports the changes, and writes nothing`() throws {
    let ground = try StoreFixture(StoreOptions())
    var people = Years.people(0..<1200)
    for position in [5, 700, 1100] { people[position].age = "old" }
    people[9].name = "n8"
    try ground.store.save(people)
    let before = try ground.store.storage.statistics().commits
    let reports = try ground.store.migrate([Years.step, .deleteAll(named: "Person")], dryRun: true)
    #expect(reports.map(\.outcome) == [.pending, .pending])
    #expect(reports[0].objects == 1200 && reports[0].changed == 1196 && reports[0].failed == 4)
    #expect(reports[0].failures.flatMap(\.ids) == ["5", "9", "700", "1100"])
    #expect(reports[1].dropped == 1200)
    #expect(try ground.store.storage.statistics().commits == before)
    #expect(try ground.store.objects(PersonV1.self).fetch() == people)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Only a migration that declares it drops objects`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<10))
    let dropping = Migration<PersonV1, PersonV2>(
      "even ones",
      droppingNil: { old in
        old.id % 2 == 0 ? try Years.convert(old) : nil
      })
    let reports = try ground.store.migrate([dropping.step])
    #expect(reports[0].dropped == 5)
    #expect(try ground.store.objects(PersonV2.self).fetch().map(\.id) == [0, 2, 4, 6, 8])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Everything deleted while a migration is under way stays deleted`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Years.people(0..<2500))
    var isFirst = true
    try ground.store.migrate([Years.step]) { _ in
      guard isFirst else { return }
      isFirst = false
      try? ground.store.deleteAll(PersonV1.self)
      try? ground.store.save(PersonV1(id: 7000, name: "new", age: "3"))
    }
    #expect(try ground.store.objects(PersonV2.self).fetch().map(\.id) == [7000])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An object in memory is not served after its type was migrated or deleted`() throws {
    let ground = try StoreFixture(StoreOptions())
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try ground.store.save(Years.people(0..<10))
    #expect(try other.object(PersonV1.self, id: 1) != nil)
    try ground.store.deleteAll(PersonV1.self)
    #expect(try other.object(PersonV1.self, id: 1) == nil)
    try ground.store.save(Years.people(0..<10))
    #expect(try other.object(PersonV1.self, id: 1) != nil)
    try ground.store.register(migration: Migration<PersonV1, PersonV2>(nil, Years.convert))
    #expect(throws: ObjectError.self) { try other.object(PersonV1.self, id: 1) }
    #expect(try other.object(PersonV2.self, id: 1)?.age == 1)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Migrating without blocking does the same`() async throws {
    let ground = try StoreFixture(StoreOptions())
    try await ground.store.save(Years.people(0..<2500))
    let reports = try await ground.store.migrate([Years.step])
    #expect(reports.map(\.objects) == [2500])
    #expect(try await ground.store.objects(PersonV2.self).count() == 2500)
  }
}

extension Array {
  func shuffled(seed: UInt64) -> [Element] {
    var random = SeededRandom(seed: seed)
    return shuffled(using: &random)
  }
}
