// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// One folder with two files of one format, and a folder inside with one of them.
private func fill(_ store: ObjectStore) throws {
  let text = Format(id: "text")
  let (one, two) = (File(id: "1", format: text), File(id: "2", format: text))
  try store.save(
    Folder(id: "top", folders: [Folder(id: "inner", files: [two])], files: [one, two]))
}

@Suite struct RelationshipRuleTests {
  @Test(.timeLimit(.minutes(60)))
  func `A deletion that others deny names them, and deletes nothing`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try fill(store)
    let formats = store.objects(Format.self)
    let attempts: [() throws -> Void] = [
      { try store.delete(Format.self, id: "text") },
      { try store.delete(Format.self, ids: ["none", "text"]) },
      { try store.deleteAll(Format.self) },
      { try store.merge(with: [Format(id: "other")]) },
      { try formats.delete() },
    ]
    for attempt in attempts {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .deletionDenied && Set(error?.ids ?? []) == ["1", "2"])
      #expect(try formats.fetch() == [Format(id: "text")])
    }
    // A program that has never used the type of the referrers obeys as well.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    #expect(throws: ObjectError.self) { try other.delete(Format.self, id: "text") }
    // Inside a transaction the order does not matter.
    try store.write { transaction in
      #expect(try transaction.delete(Format.self, id: "text"))
      try transaction.delete(File.self, ids: ["1", "2"])
    }
    #expect(try formats.count() == 0)
    #expect(try store.delete(Format.self, id: "text") == false)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A rule that another program declares holds from the next deletion on`() throws {
    let ground = try StoreFixture(StoreOptions())
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try ground.store.save([Format(id: "a"), Format(id: "b")])
    // From here on this process has the list of types.
    #expect(try ground.store.delete(Format.self, id: "none") == false)
    #expect(try ground.store.delete(Format.self, id: "b"))
    try other.save(File(id: "1", format: Format(id: "a")))
    let error = #expect(throws: ObjectError.self) {
      try ground.store.delete(Format.self, id: "a")
    }
    #expect(error?.code == .deletionDenied)
    struct Stop: Error {}
    #expect(throws: Stop.self) {
      try ground.store.write { transaction in
        try transaction.save(Shelf(id: 1, owner: Person(id: 1, name: "p")))
        try transaction.delete(Person.self, id: 2)
        throw Stop()
      }
    }
    try other.save(Shelf(id: 1, owner: Person(id: 1, name: "p")))
    try ground.store.delete(Person.self, id: 1)
    #expect(try other.object(Shelf.self, id: 1)?.$owner.id == nil)
  }

  @Test(.timeLimit(.minutes(60)))
  func `A deletion takes along what it owns, to any depth`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try fill(store)
    try store.save(Folder(id: "else", files: [File(id: "3")]))
    // Never having used a File.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.delete(Folder.self, id: "top")
    #expect(try store.objects(Folder.self).fetch().map(\.id) == ["else"])
    #expect(try store.objects(File.self).fetch().map(\.id) == ["3"])
    #expect(try store.objects(Format.self).count() == 1)
    try store.deleteAll(Folder.self)
    #expect(try store.objects(File.self).count() == 0)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A reference is taken out when what it leads to is deleted`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try fill(store)
    try store.delete(File.self, id: "2")
    #expect(try store.object(Folder.self, id: "top")?.$files.ids == ["1"])
    #expect(try store.object(Folder.self, id: "inner")?.$files.ids == [])
    #expect(try store.object(Folder.self, id: "top")?.$folders.ids == ["inner"])
    // In a process that does not declare folders: they have no index except that of references.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.delete(File.self, id: "1")
    #expect(try store.object(Folder.self, id: "top")?.$files.ids == [])
    #expect(try store.referrers(of: File(id: "1"), in: Folder.self, through: \.$files).count() == 0)
    #expect(try store.objects(Folder.self).count() == 2)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Taking a reference out keeps the type's own indexes, or is an error`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let people = (0..<3).map { Person(id: $0, name: "\($0)") }
    try store.save(people.map { Shelf(id: $0.id, owner: $0) })
    let other = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) { try other.delete(Person.self, id: 1) }
    #expect(error?.code == .schemaMismatch && error?.ids == ["1"])
    #expect(try store.object(Shelf.self, id: 1)?.owner?.name == "1")
    try other.prepare(Shelf.self)
    try other.delete(Person.self, id: 1)
    #expect(try store.object(Shelf.self, id: 1)?.$owner.id == nil)
    #expect(try store.objects(Shelf.self).where(\.$owner.id == "1").count() == 0)
    #expect(try store.objects(Shelf.self).where(\.$owner.id == "2").count() == 1)
    try store.deleteAll(Person.self)
    #expect(try store.objects(Shelf.self).fetch().allSatisfy { $0.$owner.id == nil })
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `What a required reference leads to is not deleted by default`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let people = (0..<3).map { Person(id: $0, name: "p") }
    try store.save([Ticket(id: 1, holder: people[0]), Ticket(id: 2, holder: people[1])])
    try store.save(people[2])
    // A process that does not declare tickets.
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for attempt in [
      { _ = try other.delete(people[0]) }, { try other.deleteAll(Person.self) },
      { try other.merge(with: [people[2]]) },
    ] {
      let error = #expect(throws: ObjectError.self, performing: attempt)
      #expect(error?.code == .deletionDenied && error?.ids.contains("1") == true, "\(error!)")
    }
    #expect(try store.objects(Ticket.self).fetch().count == 2)
    #expect(try store.objects(Ticket.self).count() == 2)
    try other.delete(people[2])
    // Together with the referring objects, or when the type allows it.
    try store.delete(Ticket.self, id: 1)
    try other.delete(people[0])
    try store.save(LooseTicket(id: 1, holder: people[2]))
    try store.delete(people[2])
    #expect(try store.collection(LooseTicket.self).count() == 1)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `What has no rule stays, and is left dangling`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(
      Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "x"), parts: [Part(id: "p", weight: 1)])
    )
    try store.delete(Vehicle.self, id: "a")
    #expect(try store.objects(Part.self).count() == 1)
    #expect(try store.objects(Maker.self).count() == 1)
    try store.save(Vehicle(id: "a", year: 1, maker: Maker(id: "m", name: "x")))
    try store.deleteAll(Maker.self)
    #expect(try store.object(Vehicle.self, id: "a")?.$maker.missingIDs == ["m"])
  }
}
