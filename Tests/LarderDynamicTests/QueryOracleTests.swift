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

/// The text of a condition, and what it means in Swift.
private struct Term {
  let text: String
  let holds: (Person) -> Bool

  static func quoted(_ text: String) -> String {
    "\"" + text.replacingOccurrences(of: "\0", with: "\\0") + "\""
  }

  static func random(_ depth: Int, _ random: inout SeededRandom) -> Term {
    if depth > 0, random.chance(65) {
      let left = Term.random(depth - 1, &random)
      let right = Term.random(depth - 1, &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0:
        return Term(text: "(\(left.text) || \(right.text))") { left.holds($0) || right.holds($0) }
      case 1: return Term(text: "!(\(left.text))") { !left.holds($0) }
      default:
        return Term(text: "(\(left.text) && \(right.text))") { left.holds($0) && right.holds($0) }
      }
    }
    let word = Person.words.randomElement(using: &random)!
    let other = Person.words.randomElement(using: &random)!
    let number = Int.random(in: -4...13, using: &random)
    let real = [0, 0.1, 1, 2.5, 3].randomElement(using: &random)!
    let moment = 978_307_200 + Double(Int.random(in: -400...400, using: &random)) * 1e6
    let date = Date(timeIntervalSince1970: moment)
    let (w, o) = (quoted(word), quoted(other))
    let shown = date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true))
    switch Int.random(in: 0..<34, using: &random) {
    case 0: return Term(text: "name == \(w)") { $0.name == word }
    case 1: return Term(text: "name != \(w)") { $0.name != word }
    case 2: return Term(text: "name < \(w)") { $0.name < word }
    case 3: return Term(text: "name >= \(w)") { $0.name >= word }
    case 4: return Term(text: "age == \(number)") { $0.age == number }
    case 5: return Term(text: "age < \(number)") { $0.age < number }
    case 6: return Term(text: "\(number) < age") { $0.age > number }
    case 7: return Term(text: "age <= \(number).0") { $0.age <= number }
    case 8: return Term(text: "age >= \(number)") { $0.age >= number }
    case 9: return Term(text: "age > \(number).5") { Double($0.age) > Double("\(number).5")! }
    case 10: return Term(text: "age in [1, \(number), 3]") { [1, number, 3].contains($0.age) }
    case 11:
      return Term(text: "age in 0...\(abs(number))") { (0...abs(number)).contains($0.age) }
    case 12: return Term(text: "age in 0..<\(abs(number))") { (0..<abs(number)).contains($0.age) }
    case 13: return Term(text: "nick == nil") { $0.nick == nil }
    case 14: return Term(text: "nick != nil") { $0.nick != nil }
    case 15: return Term(text: "nick == \(w)") { $0.nick == word }
    case 16: return Term(text: "nick > \(w)") { $0.nick.map { $0 > word } ?? false }
    case 17: return Term(text: "nick in [nil, \(w)]") { [nil, word].contains($0.nick) }
    case 18: return Term(text: "name.hasPrefix(\(w))") { $0.name.hasPrefix(word) }
    case 19: return Term(text: "name.hasSuffix(\(w))") { $0.name.hasSuffix(word) }
    case 20:
      return Term(text: "name.contains(\(w))") { word.isEmpty || $0.name.contains(word) }
    case 21:
      return Term(text: "name.equalsIgnoringCase(\(w))") {
        $0.name.lowercased() == word.lowercased()
      }
    case 22: return Term(text: "tags.contains(\(w))") { $0.tags.contains(word) }
    case 23:
      return Term(text: "tags.contains(any: [\(w), \(o)])") {
        $0.tags.contains(word) || $0.tags.contains(other)
      }
    case 24:
      return Term(text: "tags.contains(all: [\(w), \(o)])") {
        $0.tags.contains(word) && $0.tags.contains(other)
      }
    case 25: return Term(text: "tags.count > 1") { $0.tags.count > 1 }
    case 26: return Term(text: "tags.isEmpty") { $0.tags.isEmpty }
    case 27: return Term(text: "weight == \(real)") { $0.weight == real }
    case 28: return Term(text: "weight >= \(real)") { $0.weight >= real }
    case 29: return Term(text: "born < \(shown)") { $0.born < date }
    case 30: return Term(text: "isAdult") { $0.isAdult }
    case 31: return Term(text: "address.city == \(w)") { $0.address.city == word }
    case 32: return Term(text: "address.zip == nil") { $0.address.zip == nil }
    default:
      return Term(text: "address?.zip.matches(/^[a-z]+$/)") {
        $0.address.zip.map { !$0.isEmpty && $0.utf8.allSatisfy { (97...122).contains($0) } }
          ?? false
      }
    }
  }
}

@Suite(.timeLimit(.minutes(60)))
struct UntypedQueryTests {
  @Test func `Any query without the type gives what filtering and sorting an array gives`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture()
    var people = (0..<300).map { Person.random($0, &random) }
    try ground.store.save(people)
    let type = try ground.type("Person")
    var walks = 0
    for round in 0..<700 {
      if random.chance(20) {
        let position = Int.random(in: 0..<people.count, using: &random)
        people[position] = Person.random(people[position].id, &random)
        try ground.store.save(people[position])
      }
      let term = Term.random(2, &random)
      var query = DynamicQuery(condition: try QueryParser.condition(term.text))
      var expected = Array(people.enumerated()).filter { term.holds($0.element) }
      typealias Order = (Person, Person) -> Bool?
      func by<Value: Comparable>(_ value: @escaping (Person) -> Value, _ isTurned: Bool) -> Order {
        { left, right in
          let (left, right) = (value(left), value(right))
          return left == right ? nil : (left < right) != isTurned
        }
      }
      // Missing values sort first; no text is below an empty one with a mark before it.
      let nick: (Person) -> String = { $0.nick.map { "1" + $0 } ?? "0" }
      let zip: (Person) -> String = { $0.address.zip.map { "1" + $0 } ?? "0" }
      let turned = random.chance(50)
      let sign = turned ? "-" : ""
      let (sort, orders): (String?, [Order]) =
        switch Int.random(in: 0..<8, using: &random) {
        case 0: ("\(sign)age", [by(\.age, turned)])
        case 1: ("\(sign)name,age", [by(\.name, turned), by(\.age, false)])
        case 2: ("\(sign)nick,\(sign)age", [by(nick, turned), by(\.age, turned)])
        case 3: ("\(sign)weight", [by(\.weight, turned)])
        case 4: ("\(sign)born", [by(\.born, turned)])
        case 5: ("\(sign)name", [by(\.name, turned)])
        case 6: ("\(sign)address.zip,-age", [by(zip, turned), by(\.age, true)])
        default: (nil, [])
        }
      if let sort {
        query.sort = try QueryParser.sort(sort)
        expected.sort { left, right in
          for order in orders {
            if let isFirst = order(left.element, right.element) { return isFirst }
          }
          return turned ? left.offset > right.offset : left.offset < right.offset
        }
      }
      if random.chance(60) {
        query.limit = Int.random(in: 0...20, using: &random)
        query.offset = Int.random(in: 0...3, using: &random)
        expected = Array(expected.dropFirst(query.offset).prefix(query.limit!))
      }
      let explained = try ground.untyped.explain(query, of: type)
      if explained.hasPrefix("scan index") { walks += 1 }
      let context: Comment = "\(seed) round \(round): \(term.text), \(sort ?? "")\n\(explained)"
      #expect(try ground.ids(query, type) == expected.map { "\($0.element.id)" }, context)
      #expect(try ground.untyped.count(query, of: type) == expected.count, context)
    }
    #expect(walks > 150, "\(seed): the indexes were hardly used")
  }

  @Test func `The tool distinguishes dates that differ in their last bit, as programs do`() throws {
    let ground = try StoreFixture()
    var seconds = 786_000_000.123
    let people = (0..<8).map { id in
      defer { seconds = seconds.nextUp }
      return Person(
        id: id, name: "", age: 0, born: Date(timeIntervalSinceReferenceDate: seconds), token: UUID()
      )
    }
    #expect(Set(people.map(\.born.timeIntervalSince1970)).count < 8)
    try ground.store.save(people.reversed())
    for (position, person) in people.enumerated() {
      // 2025-11-28, with the digits that identify the date.
      let fraction = person.born.timeIntervalSinceReferenceDate - 786_000_000
      let literal = "2025-11-28T05:20:00" + String(format: "%.9f", fraction).dropFirst() + "Z"
      #expect(try ground.ids("born == \(literal)") == ["\(position)"])
      #expect(
        try Set(ground.ids("born > \(literal)")) == Set((position..<8).dropFirst().map { "\($0)" }))
      #expect(try ground.ids("born <= \(literal)").count == position + 1)
      let whole = person.born.timeIntervalSince1970
      let isNumber = Date(timeIntervalSince1970: whole) == person.born
      #expect(try ground.ids("born == \(whole)").contains("\(position)") == isNumber)
    }
    #expect(try ground.ids("", sort: "born") == (0..<8).map { "\($0)" })
    #expect(try ground.ids("", sort: "-born") == (0..<8).reversed().map { "\($0)" })
    #expect(try ground.ids("born > 1764307200").count == 8)
    #expect(try ground.ids("1764307201 < born").isEmpty)
  }

  @Test func `The most selective index is used, and explained`() throws {
    let ground = try StoreFixture()
    try ground.store.save(
      (0..<40).map {
        Person(
          id: $0, name: "n", age: $0 + 100, nick: "k", tags: ["t"], weight: 0.5,
          born: Date(timeIntervalSinceReferenceDate: 7e8 + 0.5), token: UUID(),
          address: .init(city: "c", zip: "z"))
      })
    let type = try ground.type("Person")
    func plan(_ text: String, sort: String = "", limit: Int? = nil) throws -> String {
      try ground.untyped.explain(
        DynamicQuery(
          condition: try QueryParser.condition(text),
          sort: sort.isEmpty ? [] : try QueryParser.sort(sort), limit: limit), of: type)
    }
    #expect(try plan("name == 'a'").hasPrefix("scan index \"name\" in one range, 1 of 1"))
    #expect(try plan("'a' == name").hasPrefix("scan index \"name\""))
    #expect(try plan("name.hasPrefix('a')").hasPrefix("scan index \"name\" in one range"))
    #expect(try plan("age in [1, 2, 9]").hasPrefix("scan index \"age\" in 3 ranges"))
    #expect(
      try plan("nick == 'k' && age > 3").hasPrefix(
        "scan index \"nick and age\" in one range, 1 of 2 properties fixed"))
    #expect(try plan("tags.contains('x')").hasPrefix("scan index \"tag\""))
    #expect(
      try plan("token == '00000000-0000-0000-0000-000000000000'").hasPrefix(
        "scan index \"token\""))
    #expect(try plan("born > 2026-01-01").hasPrefix("scan index \"born\""))
    #expect(try plan("weight < 3").hasPrefix("scan index \"weight\""))
    #expect(try plan("address.city == 'B'").hasPrefix("scan index \"city\""))
    #expect(
      try plan("", sort: "-age", limit: 3)
        == "scan index \"age\" completely, backwards\nindex order: -age\nstop after 3")
    let topOnly = try plan("", sort: "isAdult,age", limit: 3)
    #expect(topOnly.contains("scan all 40 objects") && topOnly.contains("keeping the first 3"))
    for scan in ["age == 1 || name == 'a'", "!(age == 1)", "age != 1", "isAdult", "age == 'x'"] {
      #expect(try plan(scan).hasPrefix("scan all"), "\(scan)")
    }
  }

  @Test func `A prefix of a string does not fix the first property of a compound index`() throws {
    let ground = try StoreFixture()
    try ground.store.save(
      (0..<40).map {
        Person(
          id: $0, name: "n", age: $0 / 4, nick: ["a", "ab", "abc", "b"][$0 % 4], token: UUID())
      })
    let text = "nick.hasPrefix('a') && age == 3"
    #expect(try ground.ids(text) == ["12", "13", "14"])
    #expect(try Set(ground.ids("nick.hasPrefix('a') && age > 7", sort: "age")).count == 6)
    let sorted = try ground.ids("nick.hasPrefix('a')", sort: "age")
    #expect(sorted == (0..<40).filter { $0 % 4 < 3 }.map { "\($0)" })
  }

  @Test func `Values of another kind and missing fields never match and are not errors`()
    throws
  {
    let ground = try StoreFixture()
    try ground.store.save(Person(id: 1, name: "a", age: 3))
    for text in [
      "age == 'x'", "name > 3", "nothing > 3", "nothing.at.all == 1", "tags == 3", "age.x",
    ] {
      #expect(try ground.ids(text) == [], "\(text)")
    }
    #expect(try ground.ids("nothing == nil && nothing.at.all == nil && name != 3") == ["1"])
    #expect(try ground.ids("tags == [] && born == 0 && address.count == 1") == ["1"])
  }

  @Test func `A stored name or its unambiguous end names a type`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Person(id: 1, name: "a", age: 3))
    try ground.store.save(First.Same(id: "1"))
    #expect(try ground.type("LarderDynamicTests.Person").name == "LarderDynamicTests.Person")
    #expect(try ground.type("Same").name == "LarderDynamicTests.First.Same")
    try ground.store.save(Second.Same(id: "1"))
    #expect(try ground.type("First.Same").name == "LarderDynamicTests.First.Same")
    let ambiguous = #expect(throws: DynamicObjectError.self) { _ = try ground.type("Same") }
    #expect(ambiguous?.code == .ambiguousType)
    #expect(ambiguous!.message.contains("First.Same or LarderDynamicTests.Second.Same"))
    for name in ["erson", "person", "", "Nothing"] {
      let unknown = #expect(throws: DynamicObjectError.self) { _ = try ground.type(name) }
      #expect(
        unknown?.code == .unknownType && unknown!.message.contains("LarderDynamicTests.Person"))
    }
  }

  @Test func `An index whose keys are not the stored field's is not used, with the reason`() throws
  {
    let ground = try StoreFixture()
    try ground.store.save((0..<50).map { Odd(id: $0, shown: "S\($0)", kind: .heavy, level: $0) })
    for text in ["shown == 'S7'", "kind == 'heavy' && id == 7", "level == 7", "code == 'S7'"] {
      let query = DynamicQuery(condition: try QueryParser.condition(text))
      let type = try ground.type("Odd")
      let plan = try ground.untyped.explain(query, of: type)
      #expect(plan.hasPrefix("scan all") && plan.contains("is not used"), "\(plan)")
    }
    #expect(try ground.ids("shown == 'S7'", "Odd") == ["7"])
    #expect(try ground.ids("level == 7", "Odd") == ["7"])
    #expect(try ground.ids("kind == 'heavy'", "Odd").count == 50)
  }
}

enum First { struct Same: Storable { let id: String } }
enum Second { struct Same: Storable { let id: String } }

/// Indexes that only the program can keep.
struct Odd: Storable {
  enum Weight: String, Codable, IndexValue { case light, heavy }

  let id: Int
  /// Stored under another name.
  var code: String
  var kind: Weight
  var level: Int

  enum CodingKeys: String, CodingKey {
    case id, kind, level
    case code = "shown"
  }

  init(id: Int, shown: String, kind: Weight, level: Int) {
    (self.id, self.code, self.kind, self.level) = (id, shown, kind, level)
  }

  static let indexes = [
    Index<Odd>("code", \.code), Index("kind", \.kind),
    Index("partial", \.level, where: \.level > 3),
  ]
}
