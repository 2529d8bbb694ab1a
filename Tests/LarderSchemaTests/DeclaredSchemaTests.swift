// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderEngine
import LarderSchema
import LarderTesting
import Testing

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

@StorableValue enum Fuel: String, CaseIterable { case petrol, diesel, electric }

@StorableValue enum Cover: Equatable {
  case none
  case paint(color: String, layers: Int)
}

@StorableValue struct Engine: Equatable {
  var power: Int
  var fuel = Fuel.petrol
}

/// Every kind of property that a stored type may have.
@Storable struct Car: Equatable {
  let id: String
  @Indexed var model: String
  var year = 2020
  var price: Double?
  @Attribute(name: "colour") var color: String
  @Unique var plate: String?
  var fuel: Fuel
  var formerFuels: [Fuel] = []
  var engine: Engine
  var cover: Cover
  var rating: Int? = 3
  var comment: String? = nil
  var `default` = true
  var seen = Date(timeIntervalSince1970: 0)
  @Transient var isSelected = false
  var isNew: Bool { year > 2022 }

  var observed = 0 {
    didSet { isSelected = true }
  }
}

/// The fields of ``Car`` that an older program declared.
@Storable struct OldCar {
  static let storedName = Car.storedName
  let id: String
  @Indexed var model: String
  @Attribute(name: "colour") var color: String
  var fuel: Fuel
  var engine: Engine
  var cover: Cover
  @Unique var plate: String?
}

@Storable struct Ranked {
  let id: Int
  @Indexed var rank: Int
  var name: String
  static let indexes = [Index("rank and name", \Ranked.rank, \Ranked.name)]
}

// @unchecked Sendable: each test uses its objects on one thread.
@Storable final class Note: @unchecked Sendable {
  let id: Int
  var text = ""
  init(id: Int) { self.id = id }
}

@Storable struct Box<Content: Codable & Sendable & Equatable>: Equatable {
  static var storedName: String { "Box of \(Content.self)" }
  let id: Int
  var content: Content
}

@Storable struct Thin {
  let id: Int
}

@Storable struct Grown {
  let id: Int
  var weight: Int
  var box: Box<Int>?
}

@Storable struct Owner {
  let id: Int
  @HasOne var car: OwnedCar?
  @HasMany var friends: [Owner]
}

@Storable struct OwnedCar: Equatable, Storable, Codable {
  let id: Int
  var model = "S"
}

@Suite(.timeLimit(.minutes(60))) struct DeclaredSchemaTests {
  let temporary: TemporaryStore
  let objects: ObjectStore

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
  }

  private func car(_ number: Int) -> Car {
    Car(
      id: "car \(number)", model: "Model \(number % 10)", year: 2000 + number % 30,
      price: number % 3 == 0 ? nil : Double(number) * 1.5,
      color: number % 2 == 0 ? "red" : "blue",
      plate: number % 5 == 0 ? nil : "P\(number)", fuel: Fuel.allCases[number % 3],
      formerFuels: number % 4 == 0 ? [.diesel] : [],
      engine: Engine(power: number, fuel: .electric),
      cover: number % 2 == 0 ? .none : .paint(color: "red", layers: number),
      rating: number % 7 == 0 ? nil : number % 7, default: number % 2 == 0)
  }

  @Test func `An object with every kind of property is loaded as it was saved`() throws {
    let cars = (0..<100).map(car)
    try objects.save(cars)
    #expect(try objects.objects(Car.self).fetch() == cars)
    objects.close()
    let again = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    #expect(try again.objects(Car.self).fetch() == cars)
  }

  @Test func `The error of a missing field proposes a default in the declaration`() throws {
    let codec = CBORCodec()
    let bytes = try codec.encode(Thin(id: 1))
    let error = #expect(throws: CodecError.self) { try codec.decode(Grown.self, from: bytes) }
    #expect(error?.code == .missingValue && error?.underlyingError == nil)
    #expect(
      error?.message
        == "The field \"weight\" is missing. Give the property a default in its declaration, or make "
        + "it optional. Or remove the entry.")
  }

  @Test func `Conditions on declared fields decode no object and give what an array gives`()
    throws
  {
    let cars = (0..<300).map(car)
    try objects.save(cars)
    func check(
      _ predicate: ObjectPredicate<Car>, _ holds: (Car) -> Bool, line: Int = #line
    ) throws {
      let query = objects.objects(Car.self).where(predicate)
      #expect(try query.count() == cars.count(where: holds), "line \(line)")
      #expect(try query.fetch() == cars.filter(holds), "line \(line)")
      #expect(try query.explain().contains("filter stored fields"), "line \(line)")
    }
    try check(\.color == "red") { $0.color == "red" }
    try check(\.fuel == .diesel) { $0.fuel == .diesel }
    try check(PredicateProperty(\.price) > 200) { ($0.price ?? 0) > 200 }
    try check(PredicateProperty(\.rating).isNil()) { $0.rating == nil }
    try check(\.default == true && \.formerFuels != []) { $0.default && $0.formerFuels != [] }
    #expect(
      try objects.objects(Car.self).where(\.model == "Model 3").explain().contains("index"))
  }

  @Test func `A property added with a default needs no migration, and queries see the default`()
    throws
  {
    let old = OldCar(
      id: "a", model: "S", color: "red", fuel: .diesel, engine: Engine(power: 3), cover: .none,
      plate: nil)
    try objects.save(old)
    let new = ObjectStore(try SharedStore(at: temporary.path, StoreOptions(durability: .cache)))
    let query = new.objects(Car.self)
    #expect(try query.where(\.year == 2020 && \.rating == 3).count() == 1)
    #expect(try query.where(\.year == 2021).count() == 0)
    let car = try #require(try query.fetch().first)
    #expect(car.year == 2020 && car.rating == 3 && car.default && car.model == "S")
  }

  @Test func `Fields that an older program does not declare survive its saves`() throws {
    let car = car(7)
    try objects.save(car)
    let older = ObjectStore(try SharedStore(at: temporary.path, StoreOptions(durability: .cache)))
    var old = try #require(try older.object(OldCar.self, id: car.id))
    old.color = "green"
    try older.save(old)
    var expected = car
    expected.color = "green"
    #expect(try objects.object(Car.self, id: car.id) == expected)
  }

  @Test func `Classes, generic types and references are stored with a schema`() throws {
    let note = Note(id: 1)
    note.text = "hello"
    try objects.save(note)
    #expect(try objects.object(Note.self, id: 1)?.text == "hello")
    #expect(try objects.objects(Note.self).where(\.text == "hello").count() == 1)
    try objects.save([Box(id: 1, content: "x"), Box(id: 2, content: "y")])
    #expect(
      try objects.objects(Box<String>.self).where(\.content == "y").fetch().map(\.id) == [2])
    let owner = Owner(id: 1, car: OwnedCar(id: 5), friends: [Owner(id: 2, car: nil, friends: [])])
    try objects.save(owner)
    let found = try #require(try objects.object(Owner.self, id: 1))
    #expect(found.car == OwnedCar(id: 5))
    #expect(found.friends.map(\.id) == [2])
  }

  @Test func `Indexes of properties and of the type apply together`() throws {
    try objects.save((0..<20).map { Ranked(id: $0, rank: $0 % 3, name: "\($0 % 5)") })
    let query = objects.objects(Ranked.self)
    let one = try query.where(\.rank == 1).explain()
    #expect(one.contains("index \"rank"), "\(one)")
    let both = try query.where(\.rank == 1 && \.name == "2").explain()
    #expect(both.contains("2 of 2 properties fixed"), "\(both)")
  }

  @Test func `The schema names the stored fields in the order of the declaration`() {
    #expect(
      Car.schema.fields.map(\.name) == [
        "id", "model", "year", "price", "colour", "plate", "fuel", "formerFuels", "engine",
        "cover", "rating", "comment", "default", "seen", "observed",
      ])
    #expect(Car.schema.indexes.map(\.name) == ["model", "plate"])
  }
}
#endif
