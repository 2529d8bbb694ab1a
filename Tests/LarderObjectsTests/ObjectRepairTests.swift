// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderLMDB
import LarderObjects
import LarderSystem
import LarderTesting
import Testing

private struct Citizen: Storable, Equatable {
  let id: Int
  var name: String
  var number: Int
  var tags: [Int]
  static let storedName = "Person"
  static let indexes = [
    Index<Citizen>("name", \.name), Index<Citizen>("number", \.number, unique: true),
    Index<Citizen>("tag", each: \.tags), Index<Citizen>("words", fullText: \.name),
  ]

  /// Every page with a part of the object contains its id.
  init(_ id: Int, _ round: Int = 0) {
    self.id = id
    name = "<\(id)@\(round)>" + String(repeating: ".\(id)", count: id % 9 == 0 ? 12_000 : id % 40)
    number = id * 1000 + round
    tags = (0..<id % 3).map { $0 + id % 5 }
  }
}

private struct Dog: Storable, Equatable {
  let id: Int
  @HasOne var owner: Citizen?
  static let storedName = "Dog"
  static let relationships = [Relationship(\Dog.$owner, onTargetDelete: .nullify)]
}

/// A durable store of objects, closed, to be damaged.
private struct RepairedGround {
  let directory: TemporaryDirectory
  let path: String
  var people: [Int: Citizen] = [:]
  var pets: [Int: Int] = [:]

  init(_ count: Int = 120) throws {
    directory = try TemporaryDirectory()
    path = directory.appending("objects")
    let store = try ObjectStore(at: path)
    for round in 0..<4 {
      let batch = (0..<count).filter { round == 0 || $0 % 4 == round }.map { Citizen($0, round) }
      for person in batch { people[person.id] = person }
      try store.save(batch)
    }
    for id in stride(from: 0, to: count, by: 7) {
      try store.delete(Citizen.self, id: id)
      people[id] = nil
    }
    for id in 0..<20 {
      let owner = people[id * 3 + 1]
      try store.save(Dog(id: id, owner: owner), children: .ignore)
      pets[id] = owner?.id
    }
    try store.storage.setBytes([1, 2, 3], forKey: "an entry")
    store.close()
  }

  private var generation: String { get throws { try ClosedStore.generation(of: path) } }

  var data: String { get throws { try generation + "/data.mdb" } }

  /// Changes the closed store's tables as no version of the library would.
  func tamper(_ body: (inout WriteTransaction) throws -> Void) throws {
    try ClosedStore.change(path, body)
  }

  func keys(_ table: String, _ kind: Table.Keys, _ prefix: String = "") throws -> [[UInt8]] {
    let environment = try EnvironmentHandle(
      path: generation, options: .init(mapSize: nil, synchronous: false))
    defer { environment.close() }
    var transaction = try WriteTransaction(in: environment)
    let opened = table.isEmpty ? TableHandle.main : try transaction.makeTable(table, keys: kind)
    return try transaction.withReading { reading in
      var keys: [[UInt8]] = []
      var cursor = try Cursor(over: opened, in: reading)
      var more =
        try prefix.isEmpty ? cursor.moveToFirst() : cursor.move(atLeast: Array(prefix.utf8))
      while more {
        let key = cursor.currentKey.copied()
        guard key.starts(with: prefix.utf8) else { break }
        keys.append(key)
        more = try cursor.moveToNext()
      }
      return keys
    }
  }

  /// Checks that readable objects are unchanged, indexes and objects agree, and the counters are
  /// right.
  @discardableResult
  func check(mayMiss: Bool, _ comment: Comment) throws -> Int {
    let store = try ObjectStore(at: path)
    defer { store.close() }
    #expect(try store.storage.verify() == [], comment)
    let all = try store.objects(Citizen.self).fetch()
    for person in all { #expect(person == people[person.id], comment) }
    if !mayMiss { #expect(all.count == people.count, comment) }
    #expect(try store.objects(Citizen.self).count() == all.count, comment)
    for person in all {
      #expect(
        try store.objects(Citizen.self).where(\.name == person.name).fetch() == [person], comment)
      #expect(
        try store.objects(Citizen.self).where(\.number == person.number).fetch() == [person],
        comment)
      #expect(try store.object(Citizen.self, id: person.id) == person, comment)
    }
    for tag in 0..<8 {
      let found = try store.objects(Citizen.self).where { $0.tags.contains(tag) }.fetch()
      #expect(found == all.filter { $0.tags.contains(tag) }, comment)
    }
    for pet in try store.objects(Dog.self).fetch() {
      #expect(pet.$owner.ids == pets[pet.id].map { ["\($0)"] } ?? [], comment)
    }
    // The store stays usable: sequences and identifiers are not assigned twice, rules hold.
    try store.save((1000..<1010).map { Citizen($0) })
    if let owner = all.first(where: { person in pets.values.contains(person.id) }) {
      try store.delete(owner)
      let left = try store.objects(Dog.self).fetch().filter { $0.$owner.ids == ["\(owner.id)"] }
      #expect(left.isEmpty, comment)
    }
    try store.delete(Citizen.self, ids: Array(1000..<1010))
    #expect(try store.storage.verify() == [], comment)
    return all.count
  }
}

@Suite(.timeLimit(.minutes(60))) struct ObjectRepairTests {
  enum Damage: String, CaseIterable {
    case indexKeyMissing, indexKeyTooMany, idMissing, idTooMany, books, migration, objectGone
  }

  @Test(arguments: Damage.allCases)
  func `verify() finds what does not fit together, and repair mends it`(damage: Damage) throws {
    var ground = try RepairedGround()
    let indexes = try ground.keys("indexes", .bytes)
    let objects = try ground.keys("objects", .bytes)
    let books = try ground.keys("", .bytes, "c:")
    try ground.tamper { transaction in
      let (index, ids) = try (
        transaction.makeTable("indexes", keys: .bytes),
        transaction.makeTable("ids", keys: .integers)
      )
      switch damage {
      case .indexKeyMissing: try transaction.remove(key: indexes[indexes.count / 2], in: index)
      case .indexKeyTooMany:
        // A key of the same index that leads to another object.
        var key = indexes[indexes.count / 2]
        key[key.count - 1] ^= 4
        try transaction.put([], forKey: key, in: index)
      case .idMissing:
        var hash: UInt64?
        try transaction.withReading { reading in
          var cursor = try Cursor(over: ids, in: reading)
          if try cursor.moveToFirst() { hash = cursor.currentInteger }
        }
        try transaction.remove(key: hash!, in: ids)
      case .idTooMany:
        let items = [UInt8](repeating: 9, count: 12)
        try items.withRawSpan { items throws(LMDBError) in
          try transaction.put(items, forKey: 77, in: ids)
        }
      case .books:
        try transaction.put([UInt8](repeating: 1, count: 48), forKey: books[0], in: .main)
      case .migration: try transaction.put([1, 2, 3], forKey: Array("m:x".utf8), in: .main)
      case .objectGone:
        let table = try transaction.makeTable("objects", keys: .bytes)
        try transaction.remove(key: objects[0], in: table)
      }
    }
    let store = try ObjectStore(at: ground.path)
    #expect(try store.storage.verify() != [])
    store.close()
    let plan = try SharedStore.repair(at: ground.path, dryRun: true)
    #expect(plan.outcome == .repairable && !plan.findings.isEmpty)
    let report = try SharedStore.repair(at: ground.path)
    #expect(report.outcome == .repaired)
    #expect(report.objectsLost == (damage == .objectGone ? 1 : 0))
    #expect(report.isComplete == (damage != .objectGone))
    if damage == .objectGone { ground.people[1] = nil }
    try ground.check(mayMiss: false, "\(damage)")
  }

  @Test func `A valid store with objects needs no repair`() throws {
    let ground = try RepairedGround()
    let report = try SharedStore.repair(at: ground.path)
    #expect(report.outcome == .sound, "\(report.findings)")
    #expect(report.objectsKept == ground.people.count + 20)
    try ground.check(mayMiss: false, "untouched")
  }

  @Test func `Damaged pages cost what is on them, and nothing else is wrong`() throws {
    var (kept, all, refused, untouched) = (0, 0, 0, 0)
    for trial in Seed.announce().trials(40) {
      var random = trial.generator()
      let ground = try RepairedGround()
      let data = try ground.data
      let before = try TestFiles.contents(of: data)
      let pages = before.count / 4096
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        let page = Int.random(in: 2..<pages, using: &random)
        let junk = (0..<4096).map { _ in UInt8.random(in: 0...255, using: &random) }
        try TestFiles.overwrite(
          Bool.random(using: &random) ? junk : [UInt8](repeating: 0, count: 4096),
          at: page * 4096, in: data)
      }
      let damaged = try TestFiles.contents(of: data)
      do {
        let report = try SharedStore.repair(at: ground.path)
        if report.outcome == .sound { untouched += 1 }
        if let files = report.damagedFiles {
          // The original is next to it, unchanged.
          let found = try TestFiles.contents(of: files + "/data.mdb")
          #expect(found == damaged, "\(trial)")
        }
        let isWhole = report.types.contains { $0.name == "Person" && !$0.isRecovered }
        guard isWhole, !report.mayMissCommits else { continue }
        kept += try ground.check(mayMiss: report.objectsLost > 0 || !report.isLossKnown, "\(trial)")
        all += ground.people.count
      } catch let error as StoreError where error.code == .damaged {
        refused += 1
        #expect(try TestFiles.contents(of: data) == damaged, "\(trial)")
      }
    }
    print("damaged pages: \(kept) of \(all) objects kept, \(refused) refused, \(untouched) sound")
    #expect(kept > all / 2)
  }

  @Test func `A type whose record is damaged is an error, and its objects keep under a name`()
    throws
  {
    let ground = try RepairedGround()
    let key = Array("t:Person".utf8)
    try ground.tamper { transaction in
      try transaction.put([1, 2, 3], forKey: key, in: .main)
    }
    let store = try ObjectStore(at: ground.path)
    // Not an empty result: saving would hide the stored objects.
    #expect(throws: (any Error).self) { try store.object(Citizen.self, id: 1) }
    #expect(throws: (any Error).self) { try store.save(Citizen(1)) }
    store.close()
    let report = try SharedStore.repair(at: ground.path)
    #expect(!report.isComplete)
    let type = try #require(report.types.first { $0.isRecovered })
    #expect(type.kept == ground.people.count)
    let repaired = try ObjectStore(
      at: ground.path, migrations: [.rename(type: type.name, to: "Person")])
    try repaired.prepare(Citizen.self)
    repaired.close()
    try ground.check(mayMiss: false, "recovered")
  }

  @Test func `The index entries of a damaged object are deleted with it`() throws {
    let ground = try RepairedGround()
    let victim = try #require(ground.people[9])
    let mark = Array("<9@\(victim.number % 1000)>".utf8)
    let data = try TestFiles.contents(of: ground.data)
    var flipped = 0
    for offset in 0..<(data.count - mark.count) where data[offset] == mark[0] {
      guard data[offset..<offset + mark.count].elementsEqual(mark) else { continue }
      try TestFiles.overwrite([0x2A], at: offset + mark.count + 300, in: ground.data)
      flipped += 1
    }
    try #require(flipped > 0)
    let store = try ObjectStore(at: ground.path)
    #expect(throws: ObjectError.self) { try store.object(Citizen.self, id: 9) }
    #expect(try store.storage.verify() != [])
    // Saved again under its id, it is not found by its former fields; its unique key is free.
    var person = Citizen(9, 50)
    person.tags = [99]
    try store.save(person)
    var other = Citizen(2000)
    other.number = victim.number
    try store.save(other)
    #expect(try store.objects(Citizen.self).where(\.name == victim.name).fetch() == [])
    #expect(try store.objects(Citizen.self).where(\.number == victim.number).fetch() == [other])
    #expect(try store.storage.verify() == [])
    store.close()
  }
}
