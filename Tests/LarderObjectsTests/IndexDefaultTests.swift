// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

// What the macros generate, by hand: one stored type in several programs.

private struct Bare: Storable {
  let id: Int
  static let storedName = "Defaulted"
}

private struct Inner7: StorableValue, Equatable {
  var power = 7

  static var storedFields: [StorableValueField] {
    [.init("power", "power", \Self.power, default: "7")]
  }
}

private struct Inner9: StorableValue, Equatable {
  var power = 9

  static var storedFields: [StorableValueField] {
    [.init("power", "power", \Self.power, default: "9")]
  }
}

private enum Keys: String, CodingKey { case id, level, inner, token, code }

private struct Defaulted7: DeclaresSchema, Equatable {
  let id: Int
  var level = 7
  var inner = Inner7()
  static let storedName = "Defaulted"
  static let indexes = [
    Index<Defaulted7>("level", \.level), Index("power", \.inner.power),
    Index("high", \.id, where: \Defaulted7.level == 9),
  ]

  init(from decoder: any Decoder) throws {
    let fields = try StoredFieldsDecoder(decoder, keyedBy: Keys.self)
    id = try fields.value(.id)
    level = try fields.value(.level, default: 7)
    inner = try fields.value(.inner, default: Inner7())
  }

  func encode(to encoder: any Encoder) throws {
    var fields = StoredFieldsEncoder(encoder, keyedBy: Keys.self)
    try fields.set(.id, id)
    try fields.set(.inner, inner)
    try fields.set(.level, level)
  }

  static var schema: ObjectSchema<Defaulted7> {
    ObjectSchema(
      [
        .field("id", \Self.id), .field("level", \Self.level, default: 7),
        .field("inner", \Self.inner, default: Inner7()),
      ], indexes: [])
  }
}

private struct Defaulted9: DeclaresSchema, Equatable {
  let id: Int
  var level = 9
  var inner = Inner9()
  static let storedName = "Defaulted"
  static let indexes = [
    Index<Defaulted9>("level", \.level), Index("power", \.inner.power),
    Index("high", \.id, where: \Defaulted9.level == 9),
  ]

  init(from decoder: any Decoder) throws {
    let fields = try StoredFieldsDecoder(decoder, keyedBy: Keys.self)
    id = try fields.value(.id)
    level = try fields.value(.level, default: 9)
    inner = try fields.value(.inner, default: Inner9())
  }

  func encode(to encoder: any Encoder) throws {
    var fields = StoredFieldsEncoder(encoder, keyedBy: Keys.self)
    try fields.set(.id, id)
    try fields.set(.inner, inner)
    try fields.set(.level, level)
  }

  static var schema: ObjectSchema<Defaulted9> {
    ObjectSchema(
      [
        .field("id", \Self.id), .field("level", \Self.level, default: 9),
        .field("inner", \Self.inner, default: Inner9()),
      ], indexes: [])
  }
}

/// A default that is another one for each object.
private struct Stamped: DeclaresSchema, Equatable {
  let id: Int
  var token = "\(UInt64.random(in: .min ... .max))"
  static let storedName = "Defaulted"
  static let indexes = [Index<Stamped>("token", \.token)]

  init(from decoder: any Decoder) throws {
    let fields = try StoredFieldsDecoder(decoder, keyedBy: Keys.self)
    id = try fields.value(.id)
    token = try fields.value(.token, default: "\(UInt64.random(in: .min ... .max))")
  }

  func encode(to encoder: any Encoder) throws {
    var fields = StoredFieldsEncoder(encoder, keyedBy: Keys.self)
    try fields.set(.id, id)
    try fields.set(.token, token)
  }

  static var schema: ObjectSchema<Stamped> {
    ObjectSchema(
      [.field("id", \Self.id), .computed("token", \Self.token)], indexes: [])
  }
}

/// A default that is no literal, and the same for each object.
private struct Coded: DeclaresSchema, Equatable {
  let id: Int
  var code: String
  static let storedName = "Defaulted"
  static let indexes = [Index<Coded>("code", \.code, unique: true)]

  init(id: Int, code: String) { (self.id, self.code) = (id, code) }

  init(from decoder: any Decoder) throws {
    let fields = try StoredFieldsDecoder(decoder, keyedBy: Keys.self)
    id = try fields.value(.id)
    code = try fields.value(.code, default: ["none"].joined())
  }

  func encode(to encoder: any Encoder) throws {
    var fields = StoredFieldsEncoder(encoder, keyedBy: Keys.self)
    try fields.set(.id, id)
    try fields.set(.code, code)
  }

  static var schema: ObjectSchema<Coded> {
    ObjectSchema([.field("id", \Self.id), .computed("code", \Self.code)], indexes: [])
  }
}

/// An index whose condition rests on a default: that of both programs, with one definition.
private struct Ranked7: DeclaresSchema, Equatable {
  let id: Int
  var level = 7
  static let storedName = "Ranked"
  static let indexes = [Index<Ranked7>("level", \.level)]

  init(id: Int, level: Int = 7) { (self.id, self.level) = (id, level) }

  init(from decoder: any Decoder) throws {
    let fields = try StoredFieldsDecoder(decoder, keyedBy: Keys.self)
    id = try fields.value(.id)
    level = try fields.value(.level, default: 7)
  }

  func encode(to encoder: any Encoder) throws {
    var fields = StoredFieldsEncoder(encoder, keyedBy: Keys.self)
    try fields.set(.id, id)
    try fields.set(.level, level)
  }

  static var schema: ObjectSchema<Ranked7> {
    ObjectSchema([.field("id", \Self.id), .field("level", \Self.level, default: 7)], indexes: [])
  }
}

private struct Ranked9: DeclaresSchema, Equatable {
  let id: Int
  var level = 9
  static let storedName = "Ranked"
  static let indexes = [Index<Ranked9>("level", \.level)]

  init(id: Int, level: Int = 9) { (self.id, self.level) = (id, level) }

  init(from decoder: any Decoder) throws {
    let fields = try StoredFieldsDecoder(decoder, keyedBy: Keys.self)
    id = try fields.value(.id)
    level = try fields.value(.level, default: 9)
  }

  func encode(to encoder: any Encoder) throws {
    var fields = StoredFieldsEncoder(encoder, keyedBy: Keys.self)
    try fields.set(.id, id)
    try fields.set(.level, level)
  }

  static var schema: ObjectSchema<Ranked9> {
    ObjectSchema([.field("id", \Self.id), .field("level", \Self.level, default: 9)], indexes: [])
  }
}

/// Programs that declare a unique index over different properties, in one version.
private struct PlateUser: Storable, Equatable {
  let id: Int
  var plate: Int
  var chassis: Int
  static let storedName = "Plated"
  static let indexes = [Index<PlateUser>("number", \.plate, unique: true)]
}

private struct ChassisUser: Storable, Equatable {
  let id: Int
  var plate: Int
  var chassis: Int
  static let storedName = "Plated"
  static let indexes = [Index<ChassisUser>("number", \.chassis, unique: true)]
}

/// A value whose enumeration has raw values of two types, in two programs of one version.
private struct TextEngine: Codable, Sendable, Equatable {
  enum Fuel: String, Codable, Sendable, IndexValue { case petrol, diesel }
  var fuel: Fuel
}

private struct NumberEngine: Codable, Sendable, Equatable {
  enum Fuel: Int, Codable, Sendable, IndexValue { case petrol, diesel }
  var fuel: Fuel
}

private struct TextCar: Storable, Equatable {
  let id: Int
  var engine: TextEngine
  static let storedName = "FueledCar"
  static let indexes = [Index<TextCar>("fuel", \.engine.fuel)]
}

private struct NumberCar: Storable, Equatable {
  let id: Int
  var engine: NumberEngine
  static let storedName = "FueledCar"
  static let indexes = [Index<NumberCar>("fuel", \.engine.fuel)]
}

private struct BareRanked: Storable {
  let id: Int
  static let storedName = "Ranked"
}

@Suite(.timeLimit(.minutes(60))) struct IndexDefaultTests {
  private func check7(_ store: ObjectStore) throws {
    let all = store.objects(Defaulted7.self)
    #expect(try all.where(\.level == 7).count() == 5 && all.where(\.level == 9).count() == 0)
    #expect(try all.where(\.inner.power == 7).fetch().count == 5)
    #expect(try all.where(\.inner.power == 9).count() == 0)
  }

  private func check9(_ store: ObjectStore) throws {
    let all = store.objects(Defaulted9.self)
    #expect(try all.where(\.level == 9).count() == 5 && all.where(\.level == 7).count() == 0)
    #expect(try all.where(\.inner.power == 9).fetch().count == 5)
    #expect(try all.where(\.level == 9 && \.id >= 0).count() == 5)
  }

  @Test func `An index of another declared default is another index`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<5).map { Bare(id: $0) })
    let newer = try ObjectStore(at: ground.path, StoreOptions())
    for _ in 0..<2 {
      try ground.store.prepare(Defaulted7.self)
      let scan = ground.store.objects(Defaulted7.self).where(\.level == 7)
      #expect(try scan.explain().hasPrefix("scan index"))
      try check7(ground.store)
      try check9(newer)
      try newer.prepare(Defaulted9.self)
      let other = newer.objects(Defaulted9.self).where(\.inner.power == 9)
      #expect(try other.explain().hasPrefix("scan index"))
      try check9(newer)
      try check7(ground.store)
    }
    let all = newer.objects(Defaulted9.self)
    #expect(try all.where(\.level == 7).set(\.level, to: 8) == 0)
    #expect(try all.where(\.level == 9).set(\.level, to: 8) == 5)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test
  func `Equal defaults that are not literals violate a new unique index, and others are saved`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<3).map { Bare(id: $0) })
    let store = try ObjectStore(at: ground.path, StoreOptions())
    let error = #expect(throws: ObjectError.self) { try store.prepare(Coded.self) }
    #expect(error?.code == .uniqueViolation, "\(error.map { "\($0)" } ?? "")")
    try store.save(Coded(id: 10, code: "own"))
    let second = #expect(throws: ObjectError.self) { try store.save(Coded(id: 11, code: "own")) }
    #expect(second?.ids.sorted() == ["10", "11"])
    try store.save([Coded(id: 1, code: "a"), Coded(id: 2, code: "b")])
    try store.prepare(Coded.self)
    let query = store.objects(Coded.self).where(\.code == "own")
    #expect(try query.explain().hasPrefix("scan index") && query.fetch().map(\.id) == [10])
    #expect(try store.storage.verify() == [])
  }

  @Test func `A default that is another for each object is stored by the build of its index`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save((0..<1200).map { Bare(id: $0) })
    let store = try ObjectStore(at: ground.path, StoreOptions())
    try store.prepare(Stamped.self)
    let all = store.objects(Stamped.self)
    let tokens = try all.fetch().map(\.token)
    #expect(Set(tokens).count == 1200)
    #expect(try all.fetch().map(\.token) == tokens)
    #expect(try all.where(\.token == tokens[1100]).fetch().map(\.id) == [1100])
    #expect(try all.sorted(by: \.token).fetch().map(\.token) == tokens.sorted())
    try ground.store.save(Bare(id: 5000))
    try store.prepare(Stamped.self)
    let late = try #require(try store.object(Stamped.self, id: 5000)).token
    #expect(try all.where(\.token == late).fetch().map(\.id) == [5000])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `A program does not replace an index again that another one has replaced`() throws {
    let ground = try StoreFixture(StoreOptions())
    let (older, newer) = (ground.store, try ObjectStore(at: ground.path, StoreOptions()))
    try older.save((0..<5).map { BareRanked(id: $0) })
    try older.prepare(Ranked7.self)
    try newer.prepare(Ranked9.self)
    let sevens = older.objects(Ranked7.self).where(\.level == 7)
    let nines = newer.objects(Ranked9.self).where(\.level == 9)
    for round in 0..<3 {
      // Each saves without a new build of the index, and both find all objects.
      try older.save(Ranked7(id: 10 + round, level: 9))
      try newer.save(Ranked9(id: 20 + round, level: 7))
      #expect(try sevens.count() == 5 + round + 1 && nines.count() == 5 + round + 1)
      #expect(try sevens.fetch().count == 5 + round + 1)
    }
    #expect(
      try sevens.explain().contains(
        "not used: another program of this version declares it otherwise")
    )
    try newer.prepare(Ranked9.self)
    #expect(try nines.explain().hasPrefix("scan index \"level\""))
    #expect(try nines.count() == 8)
    // A caller may ask for it.
    try older.prepare(Ranked7.self)
    #expect(try sevens.explain().hasPrefix("scan index \"level\"") && sevens.count() == 8)
    #expect(try nines.explain().contains("not used") && nines.count() == 8)
    #expect(try older.storage.verify() == [])
  }

  @Test func `A program whose unique index another one has replaced gets an error with each save`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let (first, second) = (ground.store, try ObjectStore(at: ground.path, StoreOptions()))
    try first.save((0..<5).map { PlateUser(id: $0, plate: $0, chassis: 100 + $0) })
    try second.save(ChassisUser(id: 5, plate: 0, chassis: 105))
    for _ in 0..<2 {
      let error = #expect(throws: ObjectError.self) {
        try first.save(PlateUser(id: 6, plate: 6, chassis: 106))
      }
      #expect(error?.code == .schemaMismatch && error?.index == "number")
      #expect(error?.message.contains("prepare(_:)") == true)
    }
    #expect(try first.objects(PlateUser.self).where(\.plate == 0).count() == 2)
    try second.save(ChassisUser(id: 7, plate: 7, chassis: 107))
    let violation = #expect(throws: ObjectError.self) {
      try second.save(ChassisUser(id: 8, plate: 8, chassis: 107))
    }
    #expect(violation?.code == .uniqueViolation)
    try second.delete(ChassisUser.self, id: 5)
    try first.prepare(PlateUser.self)
    try first.save(PlateUser(id: 6, plate: 6, chassis: 106))
    let error = #expect(throws: ObjectError.self) {
      try second.save(ChassisUser(id: 9, plate: 9, chassis: 109))
    }
    #expect(error?.code == .schemaMismatch)
    // Without objects there is nothing to read.
    try first.deleteAll(PlateUser.self)
    try second.save(ChassisUser(id: 9, plate: 9, chassis: 109))
    #expect(try first.storage.verify() == [])
  }

  @Test func `An index over raw values of another type is another index`() throws {
    let ground = try StoreFixture(StoreOptions(onError: { _ in }))
    let other = try ObjectStore(at: ground.path, StoreOptions(onError: { _ in }))
    try ground.store.save(TextCar(id: 1, engine: TextEngine(fuel: .petrol)))
    let texts = ground.store.objects(TextCar.self).where(\.engine.fuel == .petrol)
    let numbers = other.objects(NumberCar.self).where(\.engine.fuel == .petrol)
    #expect(try texts.count() == 1)
    // A program counts what it finds, or gets an error; it does not count a part.
    do {
      try other.save(NumberCar(id: 2, engine: NumberEngine(fuel: .petrol)))
      #expect(throws: ObjectError.self) { try texts.count() }
      #expect(throws: ObjectError.self) { try numbers.count() }
    } catch let error as ObjectError {
      #expect(error.code == .schemaMismatch)
      #expect(try texts.count() == 1)
    }
    #expect(try texts.skippingUnreadable().fetch().map(\.id) == [1])
  }
}
