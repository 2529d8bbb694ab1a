// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Brand: Storable, Equatable {
  let id: String
  var name: String
  static let storedName = "Maker"
}

/// The same objects, under another name.
private struct Firm: Storable, Equatable {
  let id: String
  var name: String
  static let storedName = "Company"
}

private struct OldModel: Storable {
  let id: Int
  var year: String
  @HasOne var maker: Brand?
  @HasMany var partners: [Brand]
  static let storedName = "Model"
  static let indexes = [Index<OldModel>("year", \.year)]
  static let relationships = [Relationship(\OldModel.$maker, onTargetDelete: .deny)]
}

private struct NewModel: Storable {
  let id: Int
  var year: Int
  @HasOne var maker: Brand?
  @HasMany var partners: [Brand]
  static let storedName = "Model"
  static let schemaVersion = 2
  static let indexes = [Index<NewModel>("year", \.year)]
  static let relationships = [Relationship(\NewModel.$maker, onTargetDelete: .nullify)]
}

/// The maker is the builder now, and a company.
private struct BuiltModel: Storable {
  let id: Int
  var year: String
  @HasOne var builder: Firm?
  static let storedName = "Model"
  static let schemaVersion = 2
  static let indexes = [Index<BuiltModel>("year", \.year)]
  static let relationships = [Relationship(\BuiltModel.$builder, onTargetDelete: .deny)]
}

/// The same version with another rule, and with none.
private struct OtherRule: Storable {
  let id: Int
  var year: String
  @HasOne var maker: Brand?
  @HasMany var partners: [Brand]
  static let storedName = "Model"
  static let indexes = [Index<OtherRule>("year", \.year)]
  static let relationships = [Relationship(\OtherRule.$maker, onTargetDelete: .nullify)]
}

private struct NoRule: Storable {
  let id: Int
  var year: String
  @HasOne var maker: Brand?
  @HasMany var partners: [Brand]
  static let storedName = "Model"
  static let indexes = [Index<NoRule>("year", \.year)]
}

@Suite(.timeLimit(.minutes(60))) struct ReferenceMigrationTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.appending("objects") }

  private func makers() -> [Brand] { (0..<3).map { Brand(id: "m\($0)", name: "maker \($0)") } }

  private func fill() throws {
    let store = try ObjectStore(at: path)
    let makers = makers()
    let models = (0..<1500).map { id -> OldModel in
      let maker: Brand? = id % 4 == 3 ? nil : makers[id % 4]
      let partners = id % 2 == 0 ? [makers[0], makers[2]] : []
      return OldModel(id: id, year: "\(1900 + id % 100)", maker: maker, partners: partners)
    }
    try store.save(models)
    store.close()
  }

  @Test func `A migration between types keeps what their objects refer to`() throws {
    try fill()
    let step = ObjectMigration.objects("years are numbers") { (old: OldModel) in
      NewModel(id: old.id, year: Int(old.year)!, maker: old.maker, partners: old.partners)
    }
    let store = try ObjectStore(at: path)
    let plan = try store.migrate([step], dryRun: true)
    #expect(plan[0].changed == 1500 && plan[0].failed == 0)
    try store.migrate([step])
    #expect(try store.storage.verify() == [])
    let model = try #require(try store.object(NewModel.self, id: 6))
    #expect(model.year == 1906 && model.maker?.name == "maker 2")
    #expect(model.partners.map(\.id) == ["m0", "m2"])
    let first = makers()[0]
    let made = try store.referrers(of: first, in: NewModel.self, through: \.$maker).fetch()
    #expect(made.map(\.id) == (0..<1500).filter { $0 % 4 == 0 })
    let partners = store.referrers(of: first, in: NewModel.self, through: \.$partners)
    #expect(try partners.count() == 750)
    // The old rule holds until the new program declares its own.
    #expect(throws: ObjectError.self) { try store.delete(first) }
    try store.prepare(NewModel.self)
    try store.delete(first)
    #expect(try store.object(NewModel.self, id: 0)?.$maker.id == nil)
    #expect(try store.storage.verify() == [])
  }

  @Test func `A type that others refer to, and their properties, get other names`() throws {
    try fill()
    let steps: [ObjectMigration] = [
      .rename(type: "Maker", to: "Company"),
      .fields(
        "builders", of: "Model", toVersion: 2,
        [.rename("maker", to: "builder"), .remove("partners")]),
    ]
    let store = try ObjectStore(at: path, migrations: steps)
    #expect(try store.storage.verify() == [])
    let company = try #require(try store.object(Firm.self, id: "m1"))
    let built = try store.referrers(of: company, in: BuiltModel.self, through: \.$builder).fetch()
    #expect(built.map(\.id) == (0..<1500).filter { $0 % 4 == 1 })
    #expect(built[0].builder == company)
    // The rule went with the property and the names.
    let error = #expect(throws: ObjectError.self) { try store.delete(company) }
    #expect(error?.code == .deletionDenied)
    try store.prepare(BuiltModel.self)
    try store.delete(BuiltModel.self, ids: built.map(\.id))
    #expect(try store.delete(company))
    #expect(try store.storage.verify() == [])
  }

  @Test func `A rule that another program of the version declares otherwise is an error`() throws {
    try fill()
    let store = try ObjectStore(at: path)
    let makers = makers()
    let error = #expect(throws: ObjectError.self) {
      try store.save(OtherRule(id: 1, year: "1", maker: makers[1], partners: []))
    }
    #expect(error?.code == .schemaMismatch)
    #expect(throws: ObjectError.self) { try store.prepare(OtherRule.self) }
    // A program without any keeps it, and so do those that declare it.
    try store.save(NoRule(id: 1, year: "1", maker: makers[1], partners: []))
    let denied = #expect(throws: ObjectError.self) { try store.delete(makers[1]) }
    #expect(denied?.code == .deletionDenied)
    try store.save(OldModel(id: 1, year: "2", maker: makers[1], partners: []))
  }

  @Test func `A migration of nothing keeps older programs from storing what it would convert`()
    throws
  {
    let newer = try ObjectStore(at: path)
    let step = ObjectMigration.objects("years are numbers") { (old: OldModel) in
      NewModel(id: old.id, year: Int(old.year)!, maker: nil, partners: [])
    }
    try newer.migrate([step])
    let older = try ObjectStore(at: path)
    let error = #expect(throws: ObjectError.self) {
      try older.save(OldModel(id: 1, year: "1", maker: nil, partners: []))
    }
    #expect(error?.code == .newerSchema)
    try newer.save(NewModel(id: 1, year: 1, maker: nil, partners: []))
    #expect(try newer.objects(NewModel.self).where(\.year == 1).count() == 1)
  }

  @Test func `Rules hold while the indexes of referring types are rebuilt`() throws {
    let store = try ObjectStore(at: path, StoreOptions())
    let brand = Brand(id: "b", name: "B")
    let shelf = Shelf(id: 9, owner: Person(id: 1, name: "p"))
    try store.save(
      (0..<2500).map { OldModel(id: $0, year: "1", maker: $0 == 2200 ? brand : nil, partners: []) })
    try store.save(shelf)
    var denied: [[String]] = []
    try store.migrate([.reindex(OldModel.self)]) { _ in
      do {
        try store.delete(brand)
        denied.append([])
      } catch {
        denied.append((error as? ObjectError)?.ids ?? ["\(error)"])
      }
    }
    #expect(denied.count > 2 && denied.allSatisfy { $0 == ["2200"] })
    #expect(try store.referrers(of: brand, in: OldModel.self, through: \.$maker).count() == 1)
    var isDone = false
    try store.migrate([.reindex(OldModel.self), .reindex(Shelf.self)]) { _ in
      if !isDone { _ = try? store.delete(Person.self, id: 1) }
      isDone = true
    }
    #expect(isDone)
    #expect(try store.object(Shelf.self, id: 9)?.$owner.id == nil)
    #expect(try store.objects(Shelf.self).where { $0.$owner.refers(toID: 1) }.count() == 0)
    #expect(try store.storage.verify() == [])
  }

  @Test func `A type is not renamed while the indexes of referring types are rebuilt`()
    throws
  {
    let store = try ObjectStore(at: path, StoreOptions())
    try store.save((0..<1500).map { OldModel(id: $0, year: "1", maker: nil, partners: []) })
    try store.save(OldModel(id: 9, year: "1", maker: Brand(id: "b", name: "B"), partners: []))
    let list: [ObjectMigration] = [.reindex(OldModel.self)]
    var codes: [String] = []
    try store.migrate(list) { _ in
      do {
        try store.migrate(list.dropLast() + [.rename(type: "Maker", to: "Company")])
        codes.append("renamed")
      } catch {
        codes.append("\((error as? ObjectError)?.code.rawValue ?? "\(error)")")
      }
    }
    #expect(codes.first == "migrationInProgress", "\(codes)")
    #expect(codes.last == "renamed" || codes.last == "migrationInProgress")
    #expect(try store.storage.verify() == [])
  }
}
