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

/// An object with what a program decodes at several depths.
struct Invoice: Storable, Equatable {
  enum State: String, Codable { case open, paid, void }
  enum Way: Codable, Equatable { case cash, card(number: Int) }
  struct Line: Codable, Equatable {
    var sku: String
    var count: UInt8
    var price: Decimal
    var note: String?
  }

  let id: Int
  var price: Decimal
  var ratio: Float
  var serial: UInt64
  var state: State
  var way: Way
  var first: Line
  var lines: [Line] = []
  var byName: [String: Decimal] = [:]
  var link: URL
  var spare: Line?

  static func random(_ id: Int, _ random: inout SeededRandom) -> Invoice {
    func decimal() -> Decimal {
      let digits = String(Int.random(in: 0...Int.max, using: &random))
      let places = Int.random(in: 0...18, using: &random)
      return Decimal(string: "\(random.chance(50) ? "-" : "")\(digits)e-\(places)")!
    }
    func line() -> Line {
      Line(
        sku: ["a", "é", "\u{1F3FD}", ""].randomElement(using: &random)!,
        count: UInt8.random(in: 0...255, using: &random), price: decimal(),
        note: random.chance(50) ? nil : "n")
    }
    return Invoice(
      id: id, price: decimal(), ratio: Float.random(in: -1e3...1e3, using: &random),
      serial: UInt64.random(in: 0...UInt64.max, using: &random),
      state: random.chance(50) ? .open : .paid,
      way: random.chance(50) ? .cash : .card(number: Int.random(in: 0...9, using: &random)),
      first: line(), lines: (0..<Int.random(in: 0...3, using: &random)).map { _ in line() },
      byName: random.chance(50) ? [:] : ["x.y": decimal(), "*": decimal()],
      link: URL(string: "https://example.com/\(id)")!, spare: random.chance(50) ? nil : line())
  }
}

/// An object whose fields are not known to the catalog: the first one has none of them.
struct Parcel: Storable, Equatable {
  enum Level: String, Codable { case low, high }
  enum Rank: Int, Codable { case first = 1, third = 3 }
  struct Inner: Codable, Equatable {
    var weight: UInt8
    var scale: Float
    var level: Level
    var names: [String: Level]
    var price: Decimal
    var day: Date
  }
  enum Content: Codable, Equatable {
    case empty
    case box(Inner, note: String, rank: Rank)
  }

  let id: Int
  var content: Content

  static let inner = Inner(
    weight: 200, scale: 1.5, level: .low, names: ["x": .high, "y": .low], price: 2.5,
    day: Date(timeIntervalSince1970: 0))
}

struct Address: Codable, Hashable, IndexValue {
  let text: String
  init(_ text: String) { self.text = text }
  init(from decoder: any Decoder) throws {
    text = try decoder.singleValueContainer().decode(String.self)
  }
  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(text)
  }
  func encodeIndexKey(into encoder: inout IndexKeyEncoder) {
    text.lowercased().encodeIndexKey(into: &encoder)
  }
}

/// An object with a unique index whose keys only the program makes.
struct Member: Storable, Equatable {
  let id: Int
  var address: Address?
  static let indexes = [Index<Member>("address", \.address, unique: true)]
}

struct Tagged: Storable, Equatable {
  let id: String
  var key: String?
  var other: String?
  static let indexes = [Index<Tagged>("key", \.key, unique: true)]
}

/// A field that may be missing and not be null, as one with a default.
struct Tariff: Storable {
  let id: Int
  var prices: [String: Decimal]

  enum CodingKeys: String, CodingKey { case id, prices }

  init(id: Int, prices: [String: Decimal]) { (self.id, self.prices) = (id, prices) }

  init(from decoder: any Decoder) throws {
    let values = try decoder.container(keyedBy: CodingKeys.self)
    id = try values.decode(Int.self, forKey: .id)
    prices =
      values.contains(.prices) ? try values.decode([String: Decimal].self, forKey: .prices) : [:]
  }

  func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encode(id, forKey: .id)
    try values.encodeIfPresent(prices.isEmpty ? nil : prices, forKey: .prices)
  }
}

/// A field that the program writes as null.
struct Noted: Storable {
  let id: Int
  var note: String?

  init(id: Int, note: String?) { (self.id, self.note) = (id, note) }

  enum CodingKeys: String, CodingKey { case id, note }

  func encode(to encoder: any Encoder) throws {
    var values = encoder.container(keyedBy: CodingKeys.self)
    try values.encode(id, forKey: .id)
    if let note {
      try values.encode(note, forKey: .note)
    } else {
      try values.encodeNil(forKey: .note)
    }
  }
}

struct Keeper: Storable {
  let id: Int
  @HasOne var owner: Keeper?
  @HasMany var others: [Keeper]
}

@Suite(.timeLimit(.minutes(15)))
struct ImportModelTests {
  @discardableResult
  private func take(
    _ lines: [String], _ type: String, _ ground: StoreFixture, isExport: Bool = false
  ) throws -> ObjectImport.Tally {
    var importing = try ObjectImport(ground.untyped, ground.type(type), isExport: isExport)
    for (position, line) in lines.enumerated() {
      try importing.add(Array(line.utf8)[...], line: position + 1)
    }
    try importing.flush()
    return importing.tally
  }

  private static let line =
    #"{"id":2,"price":19.99,"ratio":0.1,"serial":18446744073709551615,"state":"paid","way":{"cash":{}},"#
    + #""first":{"sku":"a","count":1,"price":123456789012345678.01},"#
    + #""lines":[{"sku":"b","count":255,"price":0.1}],"byName":{"x":1e-3},"#
    + #""link":"https://example.com/2"}"#

  private func ground() throws -> StoreFixture {
    let ground = try StoreFixture()
    var random = SeededRandom(seed: 7)
    var first = Invoice.random(1, &random)
    (first.way, first.state, first.spare) = (.cash, .paid, first.first)
    try ground.store.save(first)
    return ground
  }

  @Test func `Numbers of JSON become the decimals and floats of their digits, at every depth`()
    throws
  {
    let ground = try ground()
    try take([Self.line], "Invoice", ground)
    let invoice = try #require(try ground.store.object(Invoice.self, id: 2))
    #expect(invoice.price == Decimal(string: "19.99")!)
    #expect(invoice.first.price == Decimal(string: "123456789012345678.01")!)
    #expect(invoice.lines[0].price == Decimal(string: "0.1")!)
    #expect(invoice.byName == ["x": Decimal(string: "0.001")!])
    #expect(invoice.ratio == 0.1 && invoice.serial == .max && invoice.lines[0].count == 255)
    // The program writes the same bytes.
    var lines: [String] = []
    _ = try ground.untyped.export(ground.type("Invoice")) { line, _ in lines.append(line) }
    try ground.store.save(invoice)
    var again: [String] = []
    _ = try ground.untyped.export(ground.type("Invoice")) { line, _ in again.append(line) }
    #expect(lines == again)
  }

  @Test(arguments: [
    (
      #""first":{"sku":"a","count":1,"price":123456789012345678.01}"#, #""first":{}"#, "first.count"
    ),
    (#""sku":"a""#, #""sku":7"#, "first.sku"), (#""count":1,"#, #""count":256,"#, "first.count"),
    (#""count":1,"#, #""count":-1,"#, "first.count"),
    (#""count":255,"#, "", "lines[].count"), (#""sku":"b""#, #""skew":"b","sku":"b""#, "\"skew\""),
    (#""state":"paid""#, #""state":"lost""#, "state"),
    (#""way":{"cash":{}}"#, #""way":{"barter":{}}"#, "way"),
    ("18446744073709551615", "-1", "serial"),
    ("18446744073709551615", "18446744073709551616", "serial"),
    (#""ratio":0.1"#, #""ratio":1e39"#, "ratio"),
    (#""price":19.99"#, #""price":1.0000000000000000000000000000000000000001"#, "price"),
    (#""price":19.99"#, #""price":"19.99""#, "price"),
    (#""byName":{"x":1e-3}"#, #""byName":{"x":"1"}"#, "byName"),
    (#""byName":{"x":1e-3}"#, #""byName":[1]"#, "byName"),
    ("https://example.com/2", "http://[", "link"),
  ])
  func `A line that the program could not decode is refused at every depth`(
    part: String, wrong: String, place: String
  ) throws {
    let ground = try ground()
    try take([Self.line], "Invoice", ground)
    let before = try ground.store.objects(Invoice.self).fetch()
    let line = Self.line.replacingOccurrences(of: part, with: wrong)
    #expect(line != Self.line)
    let error = #expect(throws: DynamicObjectError.self, "\(line)") {
      try take([line], "Invoice", ground)
    }
    #expect(error?.code == .invalidLine && error!.message.contains(place), "\(error!)")
    #expect(try ground.store.objects(Invoice.self).fetch() == before)
  }

  @Test func `Cases and fields that stored objects have are accepted`() throws {
    let ground = try ground()
    let card = Self.line.replacingOccurrences(of: #"{"cash":{}}"#, with: #"{"card":{"number":3}}"#)
    #expect(throws: DynamicObjectError.self) { try take([card], "Invoice", ground) }
    var random = SeededRandom(seed: 8)
    var other = Invoice.random(3, &random)
    (other.way, other.state) = (.card(number: 7), .void)
    try ground.store.save(other)
    try take([card.replacingOccurrences(of: "paid", with: "void")], "Invoice", ground)
    let invoice = try #require(try ground.store.object(Invoice.self, id: 2))
    #expect(invoice.way == .card(number: 3) && invoice.state == .void)
  }

  @Test func `Random objects are the same after an export and after plain JSON`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let source = try StoreFixture()
    let invoices = (1...200).map { Invoice.random($0, &random) }
    try source.store.save(invoices)
    var lines: [String] = []
    _ = try source.untyped.export(source.type("Invoice")) { line, _ in lines.append(line) }
    let target = try ground()
    // They show every case.
    try target.store.save((1001...1040).map { Invoice.random($0, &random) })
    try take(lines, "Invoice", target)
    #expect(try target.store.objects(Invoice.self).fetch().count == 240)
    for invoice in invoices {
      #expect(try target.store.object(Invoice.self, id: invoice.id) == invoice, "\(seed)")
    }
    let encoder = JSONEncoder()
    let plain = try invoices.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
    try take(plain, "Invoice", target)
    for invoice in invoices {
      #expect(try target.store.object(Invoice.self, id: invoice.id) == invoice, "\(seed)")
    }
    #expect(try target.store.storage.verify() == [])
  }

  @Test func `Null for a field that may be missing is a missing field, which has its default`()
    throws
  {
    let ground = try StoreFixture()
    try ground.store.save(Tariff(id: 1, prices: [:]))
    try take(["{\"id\":2,\"prices\":null}", "{\"id\":3}"], "Tariff", ground)
    #expect(try ground.store.objects(Tariff.self).fetch().map(\.prices) == [[:], [:], [:]])
    // A program that writes null reads it.
    try ground.store.save(Noted(id: 1, note: nil))
    try take(["{\"id\":2,\"note\":null}"], "Noted", ground)
    #expect(try ground.store.objects(Noted.self).fetch().map(\.note) == [nil, nil])
    #expect(
      try ground.untyped.count(
        DynamicQuery(condition: QueryParser.condition("note == nil")),
        of: ground.type("Noted")) == 2)
    try ground.store.save(Noted(id: 2, note: "x"))
  }

  @Test(arguments: ["1.5", "{}", "[null]", "[\"1\", 2]", "true"])
  func `A reference after a schema is an id or a list of ids`(value: String) throws {
    let ground = try StoreFixture()
    try ground.store.save(Keeper(id: 1, owner: nil, others: []))
    for field in ["owner", "others"] {
      let line = "{\"id\":2,\"\(field)\":\(value)}"
      let error = #expect(throws: DynamicObjectError.self) {
        try take([line], "Keeper", ground, isExport: true)
      }
      #expect(error?.code == .invalidLine && error!.message.contains(field), "\(error!)")
    }
    try take(
      ["{\"id\":2,\"owner\":\"1\",\"others\":[\"1\",\"2\"]}"], "Keeper", ground, isExport: true)
    #expect(try ground.store.object(Keeper.self, id: 2)?.others.map(\.id) == [1, 2])
  }

  @Test func `A unique index that is created from a file refuses a second object of its key`()
    throws
  {
    let source = try StoreFixture()
    // Nothing shows which field has the keys.
    try source.store.save(Tagged(id: "a", key: "same", other: "same"))
    var header = ""
    var lines: [String] = []
    _ = try source.untyped.export(source.type("Tagged"), header: { header = $0 }) { line, _ in
      lines.append(line)
    }
    let schema = try #require(try ObjectSchemaHeader(line: Array(header.utf8)[...]))
    let target = try StoreFixture()
    _ = try target.untyped.type(named: "Tagged", importing: schema)
    let twice = lines[0].replacingOccurrences(of: "\"a\"", with: "\"b\"")
    let error = #expect(throws: DynamicObjectError.self) {
      try take(lines + [twice], "Tagged", target, isExport: true)
    }
    #expect(error?.code == .uniqueViolation && error?.line == 2, "\(error!)")
    #expect(try target.store.objects(Tagged.self).fetch().map(\.id) == ["a"])
    // In a later import as well; the same object again is no violation.
    #expect(throws: DynamicObjectError.self) { try take([twice], "Tagged", target, isExport: true) }
    #expect(try take(lines, "Tagged", target, isExport: true).unchanged == 1)
    try target.store.prepare(Tagged.self)
    #expect(try target.store.storage.verify() == [])
  }

  @Test func `A part that only stored objects show is accepted if a program decodes it`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Parcel(id: 1, content: .empty))
    try ground.store.save(Parcel(id: 3, content: .box(Parcel.inner, note: "n", rank: .third)))
    var lines: [String] = []
    _ = try ground.untyped.export(ground.type("Parcel")) { line, _ in lines.append(line) }
    let good = lines[1].replacingOccurrences(of: "\"id\":3", with: "\"id\":2")
    #expect(good != lines[1])
    try take([good], "Parcel", ground)
    let before = try #require(try ground.store.object(Parcel.self, id: 2))
    #expect(before.content == .box(Parcel.inner, note: "n", rank: .third))
    let smaller = good.replacingOccurrences(of: "\"weight\":200", with: "\"weight\":7")
    try take([smaller], "Parcel", ground)
    let after = try #require(try ground.store.object(Parcel.self, id: 2))
    guard case .box(let inner, _, _) = after.content else { throw CancellationError() }
    #expect(inner.weight == 7 && inner.price == 2.5)
    for (part, wrong) in [
      ("\"weight\":200", "\"weight\":-1"), ("\"weight\":200", "\"weight\":300"),
      ("\"scale\":1.5", "\"scale\":1e39"), ("\"level\":\"low\"", "\"level\":\"lower\""),
      ("\"x\":\"high\"", "\"x\":\"hi\""), ("\"rank\":3", "\"rank\":-2"),
      ("\"rank\":3", "\"rank\":4"),
      ("\"note\":\"n\"", "\"note\":7"), ("\"weight\":200", "\"weight\":\"7\""),
    ] {
      let line = good.replacingOccurrences(of: part, with: wrong)
      #expect(line != good, "\(part): \(good)")
      #expect(throws: DynamicObjectError.self, "\(line)") { try take([line], "Parcel", ground) }
    }
    #expect(try ground.store.object(Parcel.self, id: 2) == after)
    #expect(try ground.store.objects(Parcel.self).fetch().count == 3)
  }

  @Test func `A unique index whose keys only the program makes refuses equal values`() throws {
    let source = try StoreFixture()
    try source.store.save(Member(id: 1, address: Address("a@b")))
    try source.store.save(Member(id: 2, address: nil))
    try source.store.save(Member(id: 3, address: nil))
    var (header, lines) = ("", [String]())
    _ = try source.untyped.export(source.type("Member"), header: { header = $0 }) { line, _ in
      lines.append(line)
    }
    let schema = try #require(try ObjectSchemaHeader(line: Array(header.utf8)[...]))
    let target = try StoreFixture()
    _ = try target.untyped.type(named: "Member", importing: schema)
    // Objects without a value have no key.
    #expect(try take(lines, "Member", target, isExport: true).inserted == 3)
    let twice = lines[0].replacingOccurrences(of: "\"id\":1", with: "\"id\":4")
    #expect(twice != lines[0])
    let error = #expect(throws: DynamicObjectError.self) {
      try take([twice], "Member", target, isExport: true)
    }
    #expect(error?.code == .uniqueViolation && error!.message.contains("a@b"), "\(error!)")
    #expect(try take([lines[0]], "Member", target, isExport: true).unchanged == 1)
    try target.store.prepare(Member.self)
    #expect(try target.store.storage.verify() == [])
  }
}
