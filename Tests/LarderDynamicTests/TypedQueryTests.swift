// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting
import Testing

/// An object with numbers of several types, at the top and inside of another value, and references.
struct Reading: Storable {
  struct Scale: Codable, Equatable {
    var factor: Float
    var price: Decimal
    var offset: Float?
    var steps: [Float]
  }

  let id: Int
  var single: Float
  var double: Double
  var money: Decimal
  var level: UInt8
  var total: UInt64
  var maybe: Decimal?
  var scale: Scale
  var inner: Scale?
  var samples: [Float]
  var prices: [Decimal]
  var rates: [String: Float]
  @HasOne var station: Station?
  @HasMany var others: [Station]

  static let indexes = [
    Index<Reading>("single", \.single), Index<Reading>("double", \.double),
    Index<Reading>("total", \.total),
  ]

  static let digits = ["0", "0.1", "0.3", "1", "1.5", "2.50", "19.99", "16777217", "-0.1", "1e-3"]
  static let long =
    digits + ["1.000000000000000001", "1.000000000000000002", "123456789012345678.01"]

  init(_ id: Int, _ stations: [Station], _ random: inout SeededRandom) {
    func digits() -> String { Self.digits.randomElement(using: &random)! }
    func decimal() -> Decimal { Decimal(string: Self.long.randomElement(using: &random)!)! }
    func scale() -> Scale {
      Scale(
        factor: Float(digits())!, price: decimal(),
        offset: random.chance(40) ? nil : Float(digits())!,
        steps: (0..<Int.random(in: 0...2, using: &random)).map { _ in Float(digits())! })
    }
    self.id = id
    single = Float(digits())!
    double = Double(digits())!
    money = decimal()
    level = UInt8.random(in: 0...5, using: &random)
    total = [0, 1, UInt64(Int64.max) + 1, .max].randomElement(using: &random)!
    maybe = random.chance(40) ? nil : decimal()
    self.scale = scale()
    // The first object shows the fields inside.
    inner = id > 0 && random.chance(40) ? nil : scale()
    samples = (0..<Int.random(in: 0...3, using: &random)).map { _ in Float(digits())! }
    prices = (0..<Int.random(in: 0...3, using: &random)).map { _ in decimal() }
    rates = ["a": Float(digits())!]
    _station = HasOne(
      wrappedValue: random.chance(30) ? nil : stations.randomElement(using: &random)!)
    _others = HasMany(
      wrappedValue: (0..<Int.random(in: 0...2, using: &random)).map { _ in stations[0] })
  }
}

struct Station: Storable {
  struct Place: Codable, Equatable { var height: Float }
  let id: String
  var name: String
  var share: Decimal
  var place: Place
  @HasOne var parent: Station?

  init(id: String, name: String, share: Decimal, height: Float, parent: Station? = nil) {
    (self.id, self.name, self.share) = (id, name, share)
    place = Place(height: height)
    _parent = HasOne(wrappedValue: parent)
  }
}

/// A condition, and what it means in a program.
private struct TypedTerm {
  let text: String
  let holds: (Reading) -> Bool

  private static let signs = ["==", "!=", "<", "<=", ">", ">="]

  private static func compare<Value: Comparable>(_ sign: String, _ left: Value?, _ right: Value)
    -> Bool
  {
    guard let left else { return sign == "!=" }
    return switch sign {
    case "==": left == right
    case "!=": left != right
    case "<": left < right
    case "<=": left <= right
    case ">": left > right
    default: left >= right
    }
  }

  static func random(_ depth: Int, _ random: inout SeededRandom) -> TypedTerm {
    if depth > 0, random.chance(60) {
      let (one, other) = (Self.random(depth - 1, &random), Self.random(depth - 1, &random))
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        return .init(text: "(\(one.text) || \(other.text))") { one.holds($0) || other.holds($0) }
      case 1: return .init(text: "!(\(one.text))") { !one.holds($0) }
      default:
        return .init(text: "(\(one.text) && \(other.text))") { one.holds($0) && other.holds($0) }
      }
    }
    let digits = Reading.digits.randomElement(using: &random)!
    let long = Reading.long.randomElement(using: &random)!
    let sign = signs.randomElement(using: &random)!
    let (float, double) = (Float(digits)!, Double(digits)!)
    let decimal = Decimal(string: long)!
    let name = ["north", "south", "é", "none"].randomElement(using: &random)!
    switch Int.random(in: 0..<22, using: &random) {
    case 0: return .init(text: "single \(sign) \(digits)") { compare(sign, $0.single, float) }
    case 1: return .init(text: "double \(sign) \(digits)") { compare(sign, $0.double, double) }
    case 2: return .init(text: "money \(sign) \(long)") { compare(sign, $0.money, decimal) }
    case 3: return .init(text: "maybe \(sign) \(long)") { compare(sign, $0.maybe, decimal) }
    case 4: return .init(text: "maybe == nil") { $0.maybe == nil }
    case 5:
      let number = UInt8.random(in: 0...5, using: &random)
      return .init(text: "level \(sign) \(number)") { compare(sign, $0.level, number) }
    case 6:
      return .init(text: "total \(sign) 18446744073709551615") {
        compare(sign, $0.total, UInt64.max)
      }
    case 7:
      return .init(text: "scale.factor \(sign) \(digits)") { compare(sign, $0.scale.factor, float) }
    case 8:
      return .init(text: "scale.price \(sign) \(long)") { compare(sign, $0.scale.price, decimal) }
    case 9:
      return .init(text: "scale.offset \(sign) \(digits)") { compare(sign, $0.scale.offset, float) }
    case 10:
      return .init(text: "inner?.factor \(sign) \(digits)") {
        compare(sign, $0.inner?.factor, float)
      }
    case 11:
      return .init(text: "inner.price \(sign) \(long)") { compare(sign, $0.inner?.price, decimal) }
    case 12: return .init(text: "inner == nil") { $0.inner == nil }
    case 13: return .init(text: "samples.contains(\(digits))") { $0.samples.contains(float) }
    case 14:
      return .init(text: "prices.contains(any: [\(long), 7])") {
        $0.prices.contains(decimal) || $0.prices.contains(7)
      }
    case 15:
      return .init(text: "single in [\(digits), 1.5]") { [float, 1.5].contains($0.single) }
    case 16: return .init(text: "rates.a \(sign) \(digits)") { compare(sign, $0.rates["a"], float) }
    case 17:
      return .init(text: "station.name == \"\(name)\"") { $0.station?.name == name }
    case 18:
      return .init(text: "station?.share \(sign) \(long)") {
        compare(sign, $0.station?.share, decimal)
      }
    case 19:
      return .init(text: "station.place.height \(sign) \(digits)") {
        compare(sign, $0.station?.place.height, float)
      }
    case 20:
      return .init(text: "station.parent.name != \"\(name)\"") { $0.station?.parent?.name != name }
    default: return .init(text: "others.count > 1") { $0.others.count > 1 }
    }
  }
}

/// Dictionaries whose keys are stored in several ways.
struct Ledger: Storable {
  let id: Int
  var byKey: [UUID: Int]
  var byName: [String: Int]
  var byNumber: [Int: String]
  var maybe: [Double: Int]?
}

@Suite(.timeLimit(.minutes(60)))
struct TypedQueryTests {
  private func fill(_ ground: StoreFixture, _ random: inout SeededRandom) throws -> [Reading] {
    let parent = Station(id: "p", name: "north", share: 1, height: 0.3)
    let stations = [
      parent, Station(id: "s", name: "south", share: 19.99, height: 0.1, parent: parent),
      Station(id: "e\u{301}", name: "é", share: 2.5, height: 1.5, parent: parent),
    ]
    let readings = (0..<120).map { Reading($0, stations, &random) }
    try ground.store.save(readings)
    // A reference that leads nowhere.
    try ground.store.delete(Station.self, id: "s")
    return try ground.store.objects(Reading.self).fetch()
  }

  @Test func `Numbers, nested fields and references give what a program gets, for any query`()
    throws
  {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture()
    let readings = try fill(ground, &random)
    let type = try ground.type("Reading")
    for round in 0..<500 {
      let term = TypedTerm.random(2, &random)
      var query = DynamicQuery(condition: try QueryParser.condition(term.text))
      let context: Comment = "\(seed) round \(round): \(term.text)"
      #expect(try ground.untyped.fieldError(in: query, of: type) == nil, context)
      var expected = readings.filter(term.holds)
      if random.chance(30) {
        query.sort = try QueryParser.sort("money,-scale.factor")
        expected = expected.enumerated().sorted { left, right in
          let (one, other) = (left.element, right.element)
          if one.money != other.money { return one.money < other.money }
          if one.scale.factor != other.scale.factor { return one.scale.factor > other.scale.factor }
          return left.offset < right.offset
        }.map(\.element)
      }
      #expect(try ground.ids(query, type) == expected.map { "\($0.id)" }, context)
      #expect(try ground.untyped.count(query, of: type) == expected.count, context)
    }
    // The typed queries of the library agree on what they can express.
    for digits in Reading.digits {
      let float = Float(digits)!
      let found = try ground.store.objects(Reading.self).where { $0.single > float }.fetch().map(
        \.id)
      #expect(try ground.ids("single > \(digits)", "Reading") == found.map { "\($0)" })
    }
  }

  @Test(arguments: [
    ("singel == 1", "unknownField", "\"single\""),
    ("scale.facter > 1", "unknownField", "\"factor\""),
    ("inner.nothing == 1", "unknownField", "factor"),
    ("level.foo == 1", "unknownField", "an integer"),
    ("station.nmae == 'x'", "unknownField", "\"name\""),
    ("station.place.hight == 1", "unknownField", "\"height\""),
    ("station.name.foo == 1", "unknownField", "count and isEmpty"),
    ("others.name == 'x'", "unknownField", "only a program"),
    ("single == 'x'", "otherKind", "a number"),
    ("station.name > 3", "otherKind", "a text"), ("scale.price == true", "otherKind", "a decimal"),
    ("samples == 3", "otherKind", "a list"), ("samples.contains('x')", "otherKind", "a number"),
    ("level.hasPrefix('x')", "otherKind", "an integer"), ("money", "otherKind", "true or false"),
    ("single.contains('x')", "otherKind", "a number"), ("level == double", "", ""),
    ("level == station.name", "otherKind", "Compare fields of one kind"),
  ])
  func `A field that leads nowhere, or is of another kind, is an error and not an empty answer`(
    text: String, code: String, part: String
  ) throws {
    let ground = try StoreFixture()
    var random = Seed.announce().generator()
    _ = try fill(ground, &random)
    let query = DynamicQuery(condition: try QueryParser.condition(text))
    let error = try ground.untyped.fieldError(in: query, of: ground.type("Reading"))
    #expect(error?.code ?? "" == code, "\(text): \(String(describing: error))")
    if let error { #expect("\(error.message) \(error.advice)".contains(part), "\(error)") }
  }

  @Test func `A range of dates needs no spaces`() throws {
    let ground = try StoreFixture()
    try ground.store.save(
      (0..<8).map {
        Person(
          id: $0, name: "", age: 0, born: Date(timeIntervalSinceReferenceDate: Double($0) / 4),
          token: UUID())
      })
    for (range, ids) in [
      ("2001-01-01...2001-01-02", 0..<8), ("2001-01-01..<2001-01-01T00:00:01", 0..<4),
      ("2001-01-01T00:00:00.25Z..<2001-01-01T00:00:00.5Z", 1..<2),
      ("2001-01-01T00:00:00.5...2001-01-01T00:00:01.25+00:00", 2..<6),
      ("2001-01-01T01:00:01+01:00...2001-01-02", 4..<8),
    ] {
      #expect(try ground.ids("born in \(range)") == ids.map { "\($0)" }, "\(range)")
    }
    for text in ["2001-01-01.5", "2001-01-01T00:00:00.", "2001-01-01T00:00:00.5.5"] {
      #expect(throws: QueryTextError.self, "\(text)") {
        _ = try QueryParser.condition("born == \(text)")
      }
    }
  }

  @Test func `A constant may be any decimal, also one beyond all integers`() throws {
    let ground = try StoreFixture()
    var random = Seed.announce().generator()
    let digits = ["6132956268019284280e39", "9367552189606673485166693678819493519200", "1e-100"]
    try ground.store.save(
      digits.enumerated().map { id, digits in
        let station = Station(id: "s", name: "", share: 0, height: 0)
        var reading = Reading(id, [station], &random)
        reading.money = Decimal(string: digits)!
        reading.total = .max
        reading.double = Double(digits)!
        return reading
      })
    for (id, digits) in digits.enumerated() {
      let whole = Decimal(string: digits)!.description
      #expect(try ground.ids("money == \(whole)", "Reading") == ["\(id)"])
      #expect(try ground.ids("\(whole) < money", "Reading").count == [0, 1, 2][id])
      #expect(try ground.ids("double in [\(whole)]", "Reading") == ["\(id)"])
    }
    let large = String(repeating: "9", count: 60)
    #expect(try ground.ids("total < \(large) && total > -\(large)", "Reading").count == 3)
  }

  @Test func `A text that begins with a mark or a modifier is the text between the quotes`() throws
  {
    let ground = try StoreFixture()
    let texts = ["\u{1F3FD}", "\u{301}", "\u{301}x", "\u{200D}", "\u{FE0F}", "x\u{301}"]
    try ground.store.save(
      texts.enumerated().map { Person(id: $0, name: $1, age: 1, token: UUID()) })
    for (id, text) in texts.enumerated() {
      #expect(try ground.ids("name == \"\(text)\"") == ["\(id)"])
      #expect(try ground.ids("name == '\(text)' && age==1") == ["\(id)"])
      #expect(try ground.ids("name in ['\(text)']") == ["\(id)"])
      #expect(try ground.ids("name.hasPrefix('\(text)')").contains("\(id)"))
      _ = try QueryParser.condition("`\(text)` == 1")
    }
    let error = #expect(throws: QueryTextError.self) {
      _ = try QueryParser.condition("name == \"\u{301}\" &")
    }
    #expect(error?.column == 12, "\(error!)")
  }

  @Test func `A dictionary has the count that it has in the program, whatever its keys are`() throws
  {
    let ground = try StoreFixture()
    let keys = (0..<3).map { _ in UUID() }
    let ledgers = (0..<4).map { count in
      let some = keys.prefix(count)
      return Ledger(
        id: count, byKey: Dictionary(uniqueKeysWithValues: some.map { ($0, 1) }),
        byName: Dictionary(uniqueKeysWithValues: some.map { ("\($0)", 1) }),
        byNumber: Dictionary(uniqueKeysWithValues: (0..<count).map { ($0, "x") }),
        maybe: count == 0
          ? nil : Dictionary(uniqueKeysWithValues: (1..<count).map { (Double($0), 1) }))
    }
    try ground.store.save(ledgers.shuffled())
    for field in ["byKey", "byName", "byNumber"] {
      for count in 0..<4 {
        #expect(try ground.ids("\(field).count == \(count)", "Ledger") == ["\(count)"], "\(field)")
      }
      #expect(try ground.ids("\(field).isEmpty", "Ledger") == ["0"])
      #expect(try ground.ids("", sort: "-\(field).count", "Ledger") == ["3", "2", "1", "0"])
    }
    #expect(try ground.ids("maybe.count > 1", "Ledger") == ["3"])
  }
}
