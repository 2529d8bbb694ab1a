// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDynamic
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct ObjectImportTests {
  /// Imports lines of text.
  @discardableResult
  private func take(
    _ lines: [String], _ type: String, _ ground: StoreFixture, keepsExisting: Bool = false
  ) throws -> ObjectImport.Tally {
    var importing = try ObjectImport(
      ground.untyped, ground.type(type), keepsExisting: keepsExisting)
    for (position, line) in lines.enumerated() {
      try importing.add(Array(line.utf8)[...], line: position + 1)
    }
    try importing.flush()
    return importing.tally
  }

  private func exported(_ ground: StoreFixture, _ type: String) throws -> [String] {
    var lines: [String] = []
    let leftOut = try ground.untyped.export(ground.type(type)) { line, _ in lines.append(line) }
    #expect(leftOut == 0)
    return lines
  }

  @Test func `What was exported is imported as the same objects, with the same index entries`()
    throws
  {
    let seed = Seed.announce()
    var random = seed.generator()
    let source = try StoreFixture()
    let target = try StoreFixture()
    let people = (0..<2500).map { Person.random($0, &random) }
    try source.store.save(people)
    let lines = try exported(source, "Person")
    // The program has been there, and everything of it was deleted.
    try target.store.save(people[0])
    try target.store.delete(people[0])
    // Nested properties need an object that shows their stored form.
    try target.store.save(
      Person(
        id: -1, name: "n", age: 1, nick: "k", weight: 3, address: .init(city: "c", zip: "z")))
    let tally = try take(lines, "Person", target)
    #expect(tally.inserted == 2500 && tally.total == 2500)
    try target.store.delete(Person.self, id: -1)
    #expect(try target.store.objects(Person.self).fetch() == people, "\(seed)")
    #expect(try exported(target, "Person") == lines)
    #expect(try target.store.storage.verify() == [])
    for person in people.prefix(50) {
      let query = target.store.objects(Person.self).where(\.token == person.token)
      #expect(try query.explain().hasPrefix("scan index \"token\""))
      #expect(try query.fetch() == [person])
    }
    for word in Person.words {
      let query = target.store.objects(Person.self).where(\.name == word)
      #expect(try query.fetch() == people.filter { $0.name == word })
      let tagged = target.store.objects(Person.self).where { $0.tags.contains(word) }
      #expect(try tagged.fetch() == people.filter { $0.tags.contains(word) })
    }
    // A program that saves the same writes nothing: the records are the same bytes.
    #expect(try take(lines, "Person", target).unchanged == 2500)
    let before = try target.store.storage.statistics().commits
    try target.store.save(people)
    #expect(try target.store.objects(Person.self).fetch() == people)
    #expect(try take(lines, "Person", target).unchanged == 2500, "\(before)")
  }

  @Test func `Plain JSON is read by the fields that the program declared`() throws {
    let ground = try StoreFixture()
    try ground.store.save(
      Person(id: 1, name: "a", age: 3, nick: "k", address: .init(city: "c", zip: "z")))
    let line =
      "{\"id\": 2, \"name\": \"b\", \"age\": 4, \"tags\": [\"x\"], \"weight\": 7, "
      + "\"born\": \"2026-01-31\", \"token\": \"123e4567-e89b-42d3-a456-426614174000\", "
      + "\"isAdult\": true, \"address\": {\"city\": \"B\"}, \"picture\": \"AQI=\"}"
    try take(
      [
        line, "",
        line.replacingOccurrences(of: "{\"id\": 2", with: "{\"id\": 1")
          .replacingOccurrences(of: "123e", with: "223e"),
      ], "Person", ground)
    let person = try #require(try ground.store.object(Person.self, id: 2))
    #expect(person.weight == 7 && person.picture == Data([1, 2]) && person.nick == nil)
    #expect(person.born == Date(timeIntervalSince1970: 1_769_817_600))
    #expect(try ground.store.objects(Person.self).where(\.weight == 7).fetch().count == 2)
    #expect(try ground.store.objects(Person.self).where(\.born == person.born).count() == 2)
    #expect(try ground.store.object(Person.self, id: 1)?.name == "b")
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(
    arguments: [
      ("{\"id\": 3, \"text\": \"c", "truncated"), ("[3]", "not an object"),
      ("{\"id\": 3, \"text\": \"c\"", "needs a comma"),
      ("{\"text\": \"c\"}", "id is missing"),
      ("{\"id\": \"x\", \"text\": \"c\"}", "id does not have"),
      ("{\"id\": 3, \"text\": 7}", "text does not have"),
      ("{\"id\": 3, \"txt\": \"c\"}", "declare a field \"txt\""),
      ("{\"id\": 3, \"text\": \"a\"}", "unique index \"text\" (\"a\") as \"1\""),
      ("{\"id\": null, \"text\": \"c\"}", "id is null"), ("\u{FFFD}", "not JSON"),
    ])
  func `A refused line is named, and the lines before it are stored`(
    line: String, reason: String
  ) throws {
    let ground = try StoreFixture()
    try ground.store.save(Plate(id: 1, text: "a"))
    let error = #expect(throws: DynamicObjectError.self) {
      try take(
        ["{\"id\": 2, \"text\": \"b\"}", line, "{\"id\": 4, \"text\": \"d\"}"], "Plate", ground)
    }
    #expect(error?.line == 2 && error!.message.contains(reason), "\(error!)")
    #expect(try ground.store.objects(Plate.self).fetch().map(\.id) == [1, 2])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `Objects are replaced, or kept on request`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Plate(id: 1, text: "a"))
    let lines = ["{\"id\": 1, \"text\": \"z\"}", "{\"id\": 2}", "{\"id\": 3, \"text\": null}"]
    let kept = try take(lines, "Plate", ground, keepsExisting: true)
    #expect(kept.kept == 1 && kept.inserted == 2)
    #expect(try ground.store.object(Plate.self, id: 1)?.text == "a")
    let replaced = try take(lines, "Plate", ground)
    #expect(replaced.replaced == 1 && replaced.unchanged == 2)
    #expect(try ground.store.objects(Plate.self).where(\.text == "z").fetch().map(\.id) == [1])
    #expect(try ground.store.objects(Plate.self).where(\.text == "a").count() == 0)
  }

  @Test func `A type is imported into while none of it is stored, if its fields are known`() throws
  {
    let ground = try StoreFixture()
    try ground.store.save(Plate(id: 1, text: "a"))
    try ground.store.deleteAll(Plate.self)
    try take(["{\"id\": 7, \"text\": \"q\"}"], "Plate", ground)
    #expect(try ground.store.objects(Plate.self).where(\.text == "q").fetch().map(\.id) == [7])
  }

  @Test func `An index whose field has the coding key of another property is never guessed`()
    throws
  {
    let lines = ["{\"id\": 3, \"first\": \"x\", \"last\": \"y\"}"]
    func check(_ store: ObjectStore) throws {
      // Stored under "last", the property is the one called first.
      let query = store.objects(Crossed.self).where(\.first == "y")
      #expect(try query.fetch().map(\.id) == [3])
      #expect(try store.objects(Crossed.self).where(\.first == "x").count() == 0)
    }
    // Alike in every object, the two cannot be distinguished: the index is left to the program.
    let alike = try StoreFixture()
    try alike.store.save([
      Crossed(id: 1, first: "a", last: "a"), Crossed(id: 2, first: "b", last: "b"),
    ])
    // No query between the imports, because it would start the program's build of the index.
    try take(lines, "Crossed", alike)
    try take(lines, "Crossed", alike)
    try check(alike.store)
    try alike.store.prepare(Crossed.self)
    let query = alike.store.objects(Crossed.self).where(\.first == "y")
    #expect(try query.explain().hasPrefix("scan index"))
    try check(alike.store)
    // Built by the program, its keys contradict the guess.
    #expect(throws: DynamicObjectError.self) { try take(lines, "Crossed", alike) }
    // Of none that is stored nothing is known either.
    try alike.store.deleteAll(Crossed.self)
    try take(lines, "Crossed", alike)
    try check(alike.store)
    try alike.store.prepare(Crossed.self)
    try check(alike.store)
    #expect(try alike.store.storage.verify() == [])
    let different = try StoreFixture()
    try different.store.save(Crossed(id: 1, first: "a", last: "b"))
    #expect(throws: DynamicObjectError.self) {
      try take(lines, "Crossed", different)
    }
    // A type without crossed fields is imported as soon as an object shows them.
    try different.store.save(Straight(id: 1, first: "a", last: "b"))
    try take(lines, "Straight", different)
    let straight = different.store.objects(Straight.self).where(\.first == "x")
    #expect(try straight.explain().hasPrefix("scan index"))
    #expect(try straight.fetch().map(\.id) == [3])
    #expect(try different.store.storage.verify() == [])
  }

  @Test func `Objects are imported under ids of bytes, dates and composed texts`() throws {
    let source = try StoreFixture()
    let target = try StoreFixture()
    let dates = [0, 0.25, 1e9, -1e9 + 0.1].map { Date(timeIntervalSinceReferenceDate: $0) }
    let data = [Data([1, 2]), Data([2, 1]), Data()]
    for store in [source.store, target.store] {
      try store.save(Dated(id: Date(timeIntervalSinceReferenceDate: 7), note: "first"))
      try store.save(Blob(id: Data([9]), note: "first"))
      try store.save(Texted(id: "first", note: "first"))
    }
    try source.store.save(dates.map { Dated(id: $0, note: "n") })
    try source.store.save(data.map { Blob(id: $0, note: "n") })
    try source.store.save(Texted(id: "e\u{301}", note: "n"))
    for type in ["Dated", "Blob", "Texted"] {
      try take(exported(source, type), type, target)
      #expect(try exported(target, type) == exported(source, type))
    }
    for date in dates { #expect(try target.store.object(Dated.self, id: date)?.note == "n") }
    for bytes in data { #expect(try target.store.object(Blob.self, id: bytes)?.note == "n") }
    #expect(try target.store.object(Texted.self, id: "é")?.note == "n")
    // Imported once more, they are the same objects.
    for type in ["Dated", "Blob", "Texted"] {
      #expect(try take(exported(source, type), type, target).inserted == 0)
    }
  }

  @Test func `Indexes that only the program can keep, and references, refuse the whole import`()
    throws
  {
    let ground = try StoreFixture()
    try ground.store.save(Odd(id: 1, shown: "S", kind: .heavy, level: 7))
    let index = #expect(throws: DynamicObjectError.self) {
      try take(["{\"id\": 2}"], "Odd", ground)
    }
    #expect(index?.code == .foreignIndex && index?.line == nil)
    #expect(index!.message.contains("\"code\""))
    try ground.store.save(Partial(id: 1, level: 7))
    let partial = #expect(throws: DynamicObjectError.self) {
      try take(["{\"id\": 2, \"level\": 1}"], "Partial", ground)
    }
    #expect(partial!.message.contains("partial"))
    try ground.store.save(Ticket(key: "k1", number: 1))
    let id = #expect(throws: DynamicObjectError.self) {
      try take(["{\"key\": \"k2\", \"number\": 2}"], "Ticket", ground)
    }
    #expect(id?.code == .foreignType)
    try ground.store.save(Owner(id: 1, plate: Plate(id: 9, text: "p")))
    let reference = #expect(throws: DynamicObjectError.self) {
      try take(["{\"id\": 2}", "{\"id\": 3, \"plate\": \"9\"}"], "Owner", ground)
    }
    #expect(reference?.code == .foreignType && reference?.line == 2)
    #expect(try ground.store.objects(Owner.self).count() == 2)
    #expect(try ground.store.objects(Partial.self).count() == 1)
    #expect(try ground.store.storage.verify() == [])
  }
}

/// Each text is stored under the name of the other.
struct Crossed: Storable {
  let id: Int
  var first: String
  var last: String
  static let indexes = [Index<Crossed>("first", \.first)]
  enum CodingKeys: String, CodingKey {
    case id
    case first = "last"
    case last = "first"
  }
}

struct Straight: Storable {
  let id: Int
  var first: String
  var last: String
  static let indexes = [Index<Straight>("first", \.first)]
}

struct Dated: Storable {
  let id: Date
  var note: String
}

struct Blob: Storable {
  let id: Data
  var note: String
}

struct Texted: Storable {
  let id: String
  var note: String
}

struct Plate: Storable, Equatable {
  let id: Int
  var text: String?
  static let indexes = [Index<Plate>("text", \.text, unique: true)]
}

struct Partial: Storable {
  let id: Int
  var level: Int
  static let indexes = [Index<Partial>("high", \.level, where: \.level > 3)]
}

struct Ticket: Storable {
  var key: String
  var number: Int
  var id: String { key }
}

struct Owner: Storable {
  let id: Int
  @HasOne var plate: Plate?
}
