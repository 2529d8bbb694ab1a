// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import LarderObjects
import LarderSchema
import LarderTesting

// The types whose objects the fuzzer of the tool stores: a field of every type that the coders know.

@StorableValue enum CrateTint: String, CaseIterable {
  case red
  case green = "g\"1'"
  case blue = "bl\u{e9}"
}

@StorableValue enum CrateRank: Int, CaseIterable {
  case low = -5
  case mid = 0
  case high = 300
}

@StorableValue enum CrateShape: Equatable {
  case none
  case circle(radius: Double)
  case label(text: String, size: Float?)
}

@StorableValue struct CratePart {
  var weight: Decimal
  var size: Float
  var count: UInt64
  var note: String?
  var made: Date?
}

@StorableValue struct CrateBox {
  var city: String
  var part: CratePart
  var spare: CratePart?
  var levels: [Int16]
  var tint: CrateTint
}

@Storable struct Crate {
  let id: Int
  @Unique var code: String?
  @Indexed var i8: Int8
  var i16: Int16
  var i32: Int32?
  @Indexed var i64: Int64
  var u8: UInt8
  var u16: UInt16?
  var u32: UInt32
  @Indexed var u64: UInt64
  var word: UInt
  @Indexed var real: Double
  var maybeReal: Double?
  @Indexed var single: Float
  var maybeSingle: Float?
  var price: Decimal
  var rebate: Decimal?
  @Indexed var text: String
  var note: String?
  @Indexed var made: Date
  var seen: Date?
  @Indexed var token: UUID
  var other: UUID?
  @Indexed var blob: Data
  var link: URL
  var isOpen = true
  var flag: Bool?
  var tint: CrateTint
  var rank: CrateRank?
  var shape: CrateShape
  var names: [String] = []
  var counts: [Int] = []
  var prices: [Decimal] = []
  var ratios: [Float] = []
  var dates: [Date] = []
  var tokens: [UUID] = []
  var tints: [CrateTint] = []
  var marks: Set<String> = []
  var table: [String: Int] = [:]
  var tariffs: [String: Decimal] = [:]
  var numbered: [Int: String] = [:]
  var byToken: [UUID: Float] = [:]
  var grid: [[Double]]?
  var box: CrateBox
  var spare: CrateBox?
  var boxes: [CrateBox] = []

  static let indexes = [
    Index<Crate>("name", each: \.names), Index("count", each: \.counts),
    Index("city", \.box.city), Index("size", \.spare?.part.size),
    Index("part", \.box.part.made), Index("note and u8", \.note, \.u8),
    Index("case", .ignoringCase(\Crate.note), .descending(\Crate.i16)),
    Index("down", .descending(\Crate.maybeReal), .ascending(\Crate.seen)),
  ]

  static func random(_ id: Int, _ random: inout SeededRandom) -> Crate {
    typealias V = ToolValues
    func maybe<Value>(_ value: (inout SeededRandom) -> Value) -> Value? {
      random.chance(35) ? nil : value(&random)
    }
    var crate = Crate(
      id: id, code: random.chance(50) ? nil : "code \(id)", i8: V.integer(&random),
      i16: V.integer(&random), i32: maybe { V.integer(&$0) }, i64: V.integer(&random),
      u8: V.integer(&random), u16: maybe { V.integer(&$0) }, u32: V.integer(&random),
      u64: V.integer(&random), word: V.integer(&random), real: V.real(&random),
      maybeReal: maybe(V.real), single: V.single(&random), maybeSingle: maybe(V.single),
      price: V.decimal(&random), rebate: maybe(V.decimal), text: V.text(&random),
      note: maybe(V.text), made: V.date(&random), seen: maybe(V.date), token: V.uuid(&random),
      other: maybe(V.uuid), blob: V.data(&random), link: V.url(&random),
      tint: CrateTint.allCases.randomElement(using: &random)!, shape: V.shape(&random),
      box: V.box(&random))
    crate.isOpen = random.chance(50)
    crate.flag = maybe { $0.chance(50) }
    crate.rank = maybe { CrateRank.allCases.randomElement(using: &$0)! }
    crate.spare = maybe(V.box)
    crate.names = V.list(&random, V.text)
    crate.counts = V.list(&random) { V.integer(&$0) }
    crate.prices = V.list(&random, V.decimal)
    crate.ratios = V.list(&random, V.single)
    crate.dates = V.list(&random, V.date)
    crate.tokens = V.list(&random, V.uuid)
    crate.tints = V.list(&random) { CrateTint.allCases.randomElement(using: &$0)! }
    crate.marks = Set(V.list(&random, V.text))
    for name in V.list(&random, V.key) { crate.table[name] = V.integer(&random) }
    for name in V.list(&random, V.key) { crate.tariffs[name] = V.decimal(&random) }
    for number in V.list(&random, { Int.random(in: -2...2, using: &$0) }) {
      crate.numbered[number] = V.text(&random)
    }
    for token in V.list(&random, V.uuid) { crate.byToken[token] = V.single(&random) }
    crate.grid = maybe { V.list(&$0) { V.list(&$0, V.real) } }
    crate.boxes = V.list(&random, V.box)
    return crate
  }
}

@Storable struct DepotMaker {
  let id: Int
  var name: String
  var score: Float
  var price: Decimal?
  var box: CrateBox?
  @HasOne var boss: DepotMaker?
}

/// References, and indexes whose keys only the program can make.
@Storable struct Depot {
  let id: String
  var name: String
  var price: Decimal
  @Indexed var tint: CrateTint
  @HasOne var maker: DepotMaker?
  @HasMany var crew: [DepotMaker]

  static let indexes = [
    Index<Depot>("words", fullText: \.name), Index("dear", \.name, where: \Depot.tint == .red),
  ]
}

/// A type without a declared schema, and with other names of its fields.
struct Sack: Storable {
  let id: UUID
  var text: String
  var price: Decimal
  var ratio: Float?
  var part: CratePart?
  var sizes: [Float]
  var tint: CrateTint

  enum CodingKeys: String, CodingKey {
    case id, price, ratio, part, sizes, tint
    case text = "a.b\\c"
  }

  static let indexes = [Index<Sack>("ratio", \.ratio)]

  static func random(_ random: inout SeededRandom) -> Sack {
    typealias V = ToolValues
    return Sack(
      id: V.newUUID(&random), text: V.text(&random), price: V.decimal(&random),
      ratio: random.chance(40) ? nil : V.single(&random),
      part: random.chance(40) ? nil : V.part(&random), sizes: V.list(&random, V.single),
      tint: CrateTint.allCases.randomElement(using: &random)!)
  }
}
#endif
