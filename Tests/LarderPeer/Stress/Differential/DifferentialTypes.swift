// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderObjects
import LarderTesting

// The models of the differential fuzzer (DifferentialModel.swift).

/// Random values that are equal, ordered or encoded in surprising ways.
enum OddValues {
  static let texts = [
    "", "a", "ab", "b", "\u{0}", "a\u{0}b", "e\u{301}", "\u{e9}", "\u{c4}rger", "A\u{308}rger",
    "zebra",
    "\u{1F469}\u{200D}\u{1F680}", "EUR", "EURO", "\u{212B}", "\u{c5}", "A", "\u{ac00}",
    "\u{1100}\u{1161}",
    String(repeating: "long", count: 120), String(repeating: "long", count: 120) + "er",
  ]
  static let doubles = [
    0.0, -0.0, 1, -1, 1.5, .infinity, -.infinity, .nan, .leastNonzeroMagnitude, 1e300,
    9_007_199_254_740_992,
  ]
  static let decimals = ["0", "1", "-1", "0.1", "0.10", "1e20", "-123456789.987654321", "1.5"]

  @Sendable static func text(_ random: inout SeededRandom) -> String {
    texts.randomElement(using: &random)!
  }
  @Sendable static func integer(_ random: inout SeededRandom) -> Int {
    random.chance(5)
      ? [Int.min, .max].randomElement(using: &random)! : Int.random(in: -5...9, using: &random)
  }
  @Sendable static func double(_ random: inout SeededRandom) -> Double {
    doubles.randomElement(using: &random)!
  }
  @Sendable static func decimal(_ random: inout SeededRandom) -> Decimal {
    Decimal(string: decimals.randomElement(using: &random)!)!
  }
  @Sendable static func date(_ random: inout SeededRandom) -> Date {
    Date(timeIntervalSinceReferenceDate: [0, 0.25, 0.5, 1, -1, 7e8].randomElement(using: &random)!)
  }
  @Sendable static func level(_ random: inout SeededRandom) -> Level {
    Level.allCases.randomElement(using: &random)!
  }
}

extension Int: DifferentialValue {}
extension Double: DifferentialValue {}
extension Decimal: DifferentialValue {}
extension Date: DifferentialValue {}
extension Level: DifferentialValue {}
extension String: DifferentialValue {
  static func isBelow(_ left: String, _ right: String) -> Bool {
    func bytes(_ text: String) -> [UInt8] { Array(text.precomposedStringWithCanonicalMapping.utf8) }
    return bytes(left).lexicographicallyPrecedes(bytes(right))
  }
}

/// The exact content of a value, for comparing.
enum Facts {
  static func of(_ text: String) -> String { "\(Array(text.utf8))" }
  static func of(_ text: String?) -> String { text.map { of($0) } ?? "nil" }
  static func of(_ number: Double) -> String { number.isNaN ? "nan" : "\(number.bitPattern)" }
}

/// An enumeration with an order that is not the order of its raw values.
enum Level: String, Codable, Comparable, CaseIterable, IndexValue {
  case low, mid, high
  private var rank: Int { Level.allCases.firstIndex(of: self)! }
  static func < (left: Level, right: Level) -> Bool { left.rank < right.rank }
}

/// Fields of many types, decimals and missing ones among them, with indexes of every kind.
struct Wide: DifferentialModel {
  struct Part: Codable, Equatable, Sendable {
    var city: String
    var floor: Int?
  }

  let id: Int
  var text: String
  var note: String?
  var year: Int
  var ratio: Double
  var price: Decimal
  var rebate: Decimal?
  var moment: Date
  var level: Level
  var tags: [String]
  var part: Part
  var isOpen: Bool

  var initial: String { String(text.prefix(1)) }
  var parity: Int { year & 1 }
  static let computedProperties = [
    ComputedProperty<Wide>("initial", \.initial), ComputedProperty("parity", \.parity),
  ]

  static let indexes = [
    Index<Wide>("initial", \.initial), Index("parity and text", \.parity, \.text),
    Index("text", \.text), Index("year", \.year), Index("ratio", \.ratio),
    Index("note and year", \.note, \.year), Index("level", \.level), Index("tag", each: \.tags),
    Index("moment", \.moment), Index("open", \.year, where: \.isOpen == true),
    Index("accented", \.year, where: \.text == "\u{e9}"), Index("city", \.part.city),
  ]

  static func random(_ random: inout SeededRandom) -> Wide {
    Wide(
      id: Int.random(in: 0..<120, using: &random), text: OddValues.text(&random),
      note: random.chance(40) ? nil : OddValues.text(&random), year: OddValues.integer(&random),
      ratio: OddValues.double(&random), price: OddValues.decimal(&random),
      rebate: random.chance(50) ? nil : OddValues.decimal(&random), moment: OddValues.date(&random),
      level: OddValues.level(&random),
      tags: (0..<Int.random(in: 0...3, using: &random)).map { _ in OddValues.text(&random) },
      part: Part(
        city: OddValues.text(&random),
        floor: random.chance(50) ? nil : Int.random(in: 0...3, using: &random)),
      isOpen: random.chance(50))
  }

  var facts: String {
    "\(id) \(Facts.of(text)) \(Facts.of(note)) \(year) \(Facts.of(ratio)) \(price) "
      + "\(rebate.map { "\($0)" } ?? "nil") \(moment.timeIntervalSinceReferenceDate) \(level) "
      + "\(tags.map { Facts.of($0) }) \(Facts.of(part.city)) \(part.floor ?? -1) \(isOpen)"
  }

  static let conditions: [Condition<Wide>] = [
    .compared(\.text, OddValues.text), .text(\.text, OddValues.text),
    .compared(optional: \.note, OddValues.text), .compared(\.year, OddValues.integer),
    .compared(\.ratio, OddValues.double), .compared(\.price, OddValues.decimal),
    .compared(optional: \.rebate, OddValues.decimal), .compared(\.moment, OddValues.date),
    .compared(\.level, OddValues.level), .element(\.tags, OddValues.text),
    .compared(\.initial, OddValues.text), .compared(\.parity, OddValues.integer),
    .compared(\.part.city, OddValues.text), .compared(\.id, OddValues.integer),
    .compared(optional: \.part.floor, OddValues.integer),
    Condition { _ in (\.isOpen == true, { $0.isOpen }) },
    Condition { _ in (\.text == "\u{e9}", { $0.text == "\u{e9}" }) },
    Condition { _ in (\.text == "e\u{301}", { $0.text == "\u{e9}" }) },
  ]
  static let sorts: [Sort<Wide>] = [
    Sort(\.text), Sort(\.year), Sort(\.ratio), Sort(\.price), Sort(optional: \.note),
    Sort(\.moment), Sort(\.level), Sort(optional: \.rebate), Sort(\.part.city), Sort(\.initial),
    Sort(\.parity),
  ]
  static let aggregates: [Aggregate<Wide>] = [
    Aggregate(
      name: "sum of price", stored: { "\(try $0.sum(\.price))" },
      expected: { "\($0.reduce(Decimal.zero) { $0 + $1.price })" }),
    Aggregate(
      name: "texts", stored: { "\(try $0.values(of: \.text).map { Facts.of($0) })" },
      expected: { "\($0.map { Facts.of($0.text) })" }),
    Aggregate(
      name: "years", stored: { "\(try $0.distinct(\.year))" },
      expected: { objects in
        var seen: Set<Int> = []
        return "\(objects.map(\.year).filter { seen.insert($0).inserted })"
      }),
    Aggregate(
      name: "levels", stored: { "\(try $0.counts(by: \.level).sorted { $0.key < $1.key })" },
      expected: { objects in
        let counts = objects.reduce(into: ([:] as [Level: Int])) { $0[$1.level, default: 0] += 1 }
        return "\(counts.sorted { $0.key < $1.key })"
      }),
    Aggregate(
      name: "highest level",
      stored: { "\((try $0.max(\.level)).map { "\($0)" } ?? "nil")" },
      expected: { "\($0.map(\.level).max().map { "\($0)" } ?? "nil")" }),
  ]
}

/// A decoder that changes, replaces and checks what it reads, as programs with old data have them.
struct Lenient: DifferentialModel, Equatable {
  let id: String
  var model: String
  var title: String
  var code: String
  var percent: Int
  var doubled: Int
  var link: URL

  init(id: String, model: String, title: String?, code: String, percent: Int, doubled: Int) {
    self.id = id
    self.model = model
    self.title = title ?? model
    self.code = code
    self.percent = percent
    self.doubled = doubled
    link = URL(string: "https://example.org/\(percent)")!
  }

  enum CodingKeys: String, CodingKey { case id, model, title, code, percent, half, link }

  init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    id = try values.decode(String.self, forKey: .id)
    model = try values.decode(String.self, forKey: .model)
    title = try values.decodeIfPresent(String.self, forKey: .title) ?? model
    let code = try values.decode(String.self, forKey: .code)
    self.code = code == "EURO" ? "EUR" : code
    percent = try values.decode(Int.self, forKey: .percent)
    precondition((1...100).contains(percent), "a percentage from 1 to 100, not \(percent)")
    doubled = try values.decode(Int.self, forKey: .half) * 2
    link = URL(string: try values.decode(String.self, forKey: .link))!
  }

  func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encode(id, forKey: .id)
    try values.encode(model, forKey: .model)
    if title != model { try values.encode(title, forKey: .title) }
    try values.encode(code, forKey: .code)
    try values.encode(percent, forKey: .percent)
    try values.encode(doubled / 2, forKey: .half)
    try values.encode(link.absoluteString, forKey: .link)
  }

  static let indexes = [
    Index<Lenient>("percent", \.percent), Index("title", \.title), Index("doubled", \.doubled),
  ]

  static func random(_ random: inout SeededRandom) -> Lenient {
    // Identifiers that are equal in two Unicode forms are one object.
    let identifiers = OddValues.texts + (0..<40).map { "id\($0)" }
    return Lenient(
      id: identifiers.randomElement(using: &random)!, model: OddValues.text(&random),
      title: random.chance(50) ? nil : OddValues.text(&random),
      code: ["EUR", "EURO", "USD"].randomElement(using: &random)!,
      percent: Int.random(in: 1...100, using: &random),
      doubled: 2 * Int.random(in: -9...9, using: &random))
  }

  var decoded: Lenient {
    var copy = self
    if code == "EURO" { copy.code = "EUR" }
    if title == model { copy.title = model }
    return copy
  }

  var facts: String {
    "\(Facts.of(id)) \(Facts.of(model)) \(Facts.of(title)) \(code) \(percent) \(doubled) \(link)"
  }

  static let conditions: [Condition<Lenient>] = [
    .compared(\.code) { ["EUR", "EURO", "USD"].randomElement(using: &$0)! },
    .compared(\.title, OddValues.text), .compared(\.model, OddValues.text),
    .compared(\.percent) { Int.random(in: 0...101, using: &$0) },
    .compared(\.doubled) { Int.random(in: -20...20, using: &$0) }, .text(\.title, OddValues.text),
    .compared(\.id, OddValues.text),
  ]
  static let sorts: [Sort<Lenient>] = [
    Sort(\.title), Sort(\.percent), Sort(\.doubled), Sort(\.code), Sort(\.id),
  ]
  static let aggregates: [Aggregate<Lenient>] = [
    Aggregate(
      name: "codes", stored: { "\(try $0.values(of: \.code))" }, expected: { "\($0.map(\.code))" }),
    Aggregate(
      name: "sum of doubled", stored: { "\(try $0.sum(\.doubled))" },
      expected: { "\($0.reduce(0) { $0 + $1.doubled })" }),
  ]
}

/// A class, equal to another with the same identifier, with a unique index.
final class Account: DifferentialModel, Equatable {
  let id: UUID
  let owner: String
  let number: Int?

  init(id: UUID, owner: String, number: Int?) {
    self.id = id
    self.owner = owner
    self.number = number
  }

  static func == (left: Account, right: Account) -> Bool { left.id == right.id }

  static let indexes = [
    Index<Account>("number", \.number, unique: true), Index("owner", \.owner),
  ]

  static func random(_ random: inout SeededRandom) -> Account {
    let byte = UInt8.random(in: 0..<60, using: &random)
    return Account(
      id: UUID(uuid: (byte, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte)),
      owner: OddValues.text(&random),
      number: random.chance(30) ? nil : Int.random(in: 0..<80, using: &random))
  }

  var facts: String { "\(id) \(Facts.of(owner)) \(number ?? -1)" }

  static let conditions: [Condition<Account>] = [
    .compared(\.owner, OddValues.text),
    .compared(optional: \.number) { Int.random(in: 0..<80, using: &$0) },
  ]
  static let sorts: [Sort<Account>] = [Sort(\.owner), Sort(optional: \.number)]

  func conflicts(with other: Account) -> Bool {
    id != other.id && number != nil && number == other.number
  }
}
#endif
