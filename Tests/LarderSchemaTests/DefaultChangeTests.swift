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

// The declarations of one stored type in several programs, which differ in the defaults of fields that the
// first one does not have.

@StorableValue struct Motor: Equatable {
  var name: String
}

@Storable struct FirstModel {
  let id: Int
  var motor: Motor
  static let storedName = "Model"
}

@StorableValue struct Motor7: Equatable {
  var name: String
  var power = 7
}

@Storable struct Model7 {
  let id: Int
  @Indexed var level = 7
  @Indexed var note: String? = "seven"
  var text = "seven words"
  var isOn = true
  var motor: Motor7
  var both: String { "\(text) \(level)" }
  static let storedName = "Model"
  static let computedProperties = [ComputedProperty("both", \Model7.both)]
  static let indexes = [
    Index<Model7>("text", fullText: \.text), Index("power", \.motor.power, \.id),
    Index("on", \.id, where: \Model7.isOn == true), Index("both", \.both),
  ]
}

@StorableValue struct Motor9: Equatable {
  var name: String
  var power = 9
}

@Storable struct Model9 {
  let id: Int
  @Indexed var level = 9
  @Indexed var note: String?
  var text = "nine words"
  var isOn = false
  var motor: Motor9
  var both: String { "\(text) \(level)" }
  static let storedName = "Model"
  static let computedProperties = [ComputedProperty("both", \Model9.both)]
  static let indexes = [
    Index<Model9>("text", fullText: \.text), Index("power", \.motor.power, \.id),
    Index("on", \.id, where: \Model9.isOn == true), Index("both", \.both),
  ]
}

/// The names of two properties of a value are exchanged.
@StorableValue struct Size: Equatable {
  var width: Int
  var height: Int
}

@Storable struct Crate {
  let id: Int
  var size: Size
  static let storedName = "Crate"
  static let indexes = [Index<Crate>("width", \.size.width)]
}

@StorableValue struct TurnedSize: Equatable {
  @Attribute(name: "height") var width: Int
  @Attribute(name: "width") var height: Int
}

@Storable struct TurnedCrate {
  let id: Int
  var size: TurnedSize
  static let storedName = "Crate"
  static let indexes = [Index<TurnedCrate>("width", \.size.width)]
}

@Storable struct Plain {
  let id: Int
  static let storedName = "Stamped"
}

@StorableValue enum Grade: String { case low, high }

@Storable struct Stamped {
  let id: Int
  @Indexed var created = Date()
  @Unique var token = UUID()
  @Indexed var grade = Grade.high
  static let storedName = "Stamped"
}

@Storable struct LowStamped {
  let id: Int
  @Indexed var created = Date()
  @Unique var token = UUID()
  @Indexed var grade = Grade.low
  static let storedName = "Stamped"
}

/// A type with its own coding, whose default another version changes.
private struct Coded: Storable, Equatable {
  let id: Int
  var level: Int
  static let storedName = "Coded"
  static let indexes = [Index<Coded>("level", \.level)]

  enum CodingKeys: CodingKey { case id, level }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    level = try container.decodeIfPresent(Int.self, forKey: .level) ?? 7
  }
}

private struct Recoded: Storable, Equatable {
  let id: Int
  var level: Int
  static let storedName = "Coded"
  static let schemaVersion = 2
  static let indexes = [Index<Recoded>("level", \.level)]

  enum CodingKeys: CodingKey { case id, level }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    level = try container.decodeIfPresent(Int.self, forKey: .level) ?? 9
  }
}

private struct Uncoded: Storable {
  let id: Int
  static let storedName = "Coded"
}

@Suite(.timeLimit(.minutes(60))) struct DefaultChangeTests {
  private func isScanned<Object>(_ query: Query<Object>) throws -> Bool {
    let explanation = try query.explain()
    if !explanation.hasPrefix("scan index") { print(explanation) }
    return explanation.hasPrefix("scan index")
  }

  private func check7(_ store: ObjectStore, _ ids: [Int]) throws {
    let all = store.objects(Model7.self)
    #expect(try all.where(\.level == 7).fetch().map(\.id) == ids)
    #expect(try all.where(\.level == 9).count() == 0)
    #expect(try all.where(\.note == "seven").count() == ids.count)
    #expect(try all.where(\.note == nil).count() == 0)
    #expect(try all.matching("seven").count() == ids.count)
    #expect(try all.where(\.motor.power == 7).fetch().map(\.id) == ids)
    #expect(try all.where(\.isOn == true).count() == ids.count)
    #expect(try all.where(\.both == "seven words 7").count() == ids.count)
  }

  private func check9(_ store: ObjectStore, _ ids: [Int]) throws {
    let all = store.objects(Model9.self)
    #expect(try all.where(\.level == 9).fetch().map(\.id) == ids)
    #expect(try all.where(\.level == 7).count() == 0)
    #expect(try all.where(\.note == nil).count() == ids.count)
    #expect(try all.where(\.note == "seven").count() == 0)
    #expect(try all.matching("nine").count() == ids.count)
    #expect(try all.where(\.motor.power == 9).fetch().map(\.id) == ids)
    #expect(try all.where(\.isOn == true).count() == 0)
    #expect(try all.where(\.both == "nine words 9").count() == ids.count)
  }

  @Test
  func `A changed default is that of every query and change, whatever index was built before`()
    throws
  {
    let temporary = try TemporaryStore()
    let path = temporary.path
    let options = StoreOptions(durability: .cache)
    let first = ObjectStore(temporary.store)
    try first.save((0..<5).map { FirstModel(id: $0, motor: Motor(name: "m")) })
    let older = try ObjectStore(at: path, options)
    let newer = try ObjectStore(at: path, options)
    for _ in 0..<2 {
      try older.prepare(Model7.self)
      #expect(try isScanned(older.objects(Model7.self).where(\.level == 7)))
      try check7(older, Array(0..<5))
      try check9(newer, Array(0..<5))
      try newer.prepare(Model9.self)
      #expect(try isScanned(newer.objects(Model9.self).where(\.level == 9)))
      try check9(newer, Array(0..<5))
      try check7(older, Array(0..<5))
    }
    let all = newer.objects(Model9.self)
    #expect(try all.where(\.level == 7).set(\.text, to: "changed") == 0)
    #expect(try all.where(\.level == 9).set(\.level, to: 7) == 5)
    #expect(try all.fetch().allSatisfy { $0.level == 7 })
    #expect(try temporary.store.verify() == [])
  }

  @Test func `A unique index of another default refuses what violates the new one`() throws {
    let temporary = try TemporaryStore()
    let store = ObjectStore(temporary.store)
    try store.save([UnnumberedModel(id: 1)])
    try store.prepare(Numbered7.self)
    try store.save(Numbered7(id: 2, number: 9))
    let other = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    let error = #expect(throws: ObjectError.self) { try other.prepare(Numbered9.self) }
    #expect(error?.code == .uniqueViolation && Set(error?.ids ?? []) == ["1", "2"])
    #expect(try other.objects(Numbered9.self).where(\.number == 9).fetch().map(\.id) == [1, 2])
  }

  @Test func `Exchanged names in a value are another index`() throws {
    let temporary = try TemporaryStore()
    let store = ObjectStore(temporary.store)
    try store.save((0..<5).map { Crate(id: $0, size: Size(width: $0, height: 100)) })
    let other = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    let turned = other.objects(TurnedCrate.self)
    #expect(try turned.where(\.size.width == 100).count() == 5)
    try other.prepare(TurnedCrate.self)
    #expect(try isScanned(turned.where(\.size.width == 100)))
    #expect(try turned.where(\.size.width == 100).count() == 5)
    #expect(try store.objects(Crate.self).where(\.size.width == 3).fetch().map(\.id) == [3])
  }

  @Test func `A default that is not a literal is stored once, by the build of its index`() throws {
    let temporary = try TemporaryStore()
    let first = ObjectStore(temporary.store)
    try first.save((0..<1500).map { Plain(id: $0) })
    let store = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    try store.prepare(Stamped.self)
    let all = store.objects(Stamped.self)
    let objects = try all.fetch()
    #expect(Set(objects.map(\.token)).count == 1500)
    for object in objects.prefix(20) {
      #expect(try store.object(Stamped.self, id: object.id)?.token == object.token)
      #expect(try all.where(\.token == object.token).fetch().map(\.id) == [object.id])
    }
    let middle = objects[700].created
    #expect(
      try all.where(\.created > middle).count() == objects.filter { $0.created > middle }.count)
    let sorted = try all.sorted(by: \.created).fetch().map(\.created)
    #expect(sorted == sorted.sorted())
    // What is stored is the same for every program.
    let other = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    try other.prepare(LowStamped.self)
    #expect(try other.objects(LowStamped.self).where(\.grade == .high).count() == 1500)
    #expect(try other.objects(LowStamped.self).where(\.grade == .low).count() == 0)
    #expect(try other.objects(LowStamped.self).fetch().allSatisfy { $0.grade == .high })
    #expect(try temporary.store.verify() == [])
  }

  @Test func `A raised version rebuilds the indexes of a type with its own coding`() throws {
    let temporary = try TemporaryStore()
    let store = ObjectStore(temporary.store)
    try store.save((0..<5).map { Uncoded(id: $0) })
    try store.prepare(Coded.self)
    #expect(try store.objects(Coded.self).where(\.level == 7).count() == 5)
    let other = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    try other.prepare(Recoded.self)
    let all = other.objects(Recoded.self)
    let explanation = try all.where(\.level == 9).explain()
    #expect(explanation.hasPrefix("scan index"), "\(explanation)")
    #expect(try all.where(\.level == 9).count() == 5)
    #expect(try all.where(\.level == 7).count() == 0)
  }
}

@Storable struct UnnumberedModel {
  let id: Int
  static let storedName = "Numbered"
}

@Storable struct Numbered7 {
  let id: Int
  @Unique var number = 7
  static let storedName = "Numbered"
}

@Storable struct Numbered9 {
  let id: Int
  @Unique var number = 9
  static let storedName = "Numbered"
}
#endif
