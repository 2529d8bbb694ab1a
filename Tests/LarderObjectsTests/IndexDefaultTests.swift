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
}
