// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

struct Article: Storable, Equatable {
  let id: Int
  var title: String
  var body: String?
  var year = 2000
  static let storedName = "Article"
  static let indexes = [
    Index<Article>("text", fullText: \.title, \.body), Index<Article>("year", \.year),
  ]
}

/// The same type before the index was declared.
private struct PlainArticle: Storable, Equatable {
  let id: Int
  var title: String
  var body: String?
  var year = 2000
  static let storedName = "Article"
  static let indexes = [Index<PlainArticle>("year", \.year)]
}

private struct Note: Storable {
  let id: Int
  var lines: [String]
  var isOpen = true
  static let storedName = "Note"
  static let indexes = [
    Index<Note>("lines", fullText: \.lines),
    Index<Note>("open", fullText: \.lines, where: \Note.isOpen == true),
  ]
}

private struct Clip: Storable {
  let id: Int
  var text: String
  static let storedName = "Clip"
  static let budget: ObjectBudget? = ObjectBudget(count: 50)
  static let indexes = [Index<Clip>("text", fullText: \.text)]
}

extension ObjectStore {
  fileprivate func ids(_ text: String) throws -> [Int] {
    try objects(Article.self).matching(text).fetch().map(\.id).sorted()
  }
}

@Suite struct FullTextTests {
  @Test(.timeLimit(.minutes(60)))
  func `A word of very many objects is found in all of them`() throws {
    let temporary = try TemporaryStore()
    let objects = ObjectStore(temporary.store)
    // From the sequence 16,384 on, keys begin differently after the word.
    let count = 17_000
    try objects.save(
      (0..<count).map { Article(id: $0, title: "red", body: $0 % 2 == 0 ? "redder" : nil) })
    let query = objects.objects(Article.self)
    #expect(try query.matching("red").count() == count)
    #expect(try query.matching("redder").count() == count / 2)
    #expect(try query.matching("red*").count() == count)
    #expect(try temporary.store.verify().isEmpty)
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      ("Café in Zürich", "cafe"), ("CAFE\u{301}", "café"), ("die Straße", "STRASSE"),
      ("Ὀδυσσεύς", "οδυσσευσ"), ("ПРИВЕТ, мир!", "привет"), ("don’t panic", "don't"),
      ("3.14 is pi", "3.14"), ("see example.com", "example.com"), ("1,000,000 km", "1,000,000"),
      ("snake_case names", "snake_case"), ("東京都 is a city", "京"), ("ひらがな", "ら"),
      ("カタカナ", "カタカナ"), ("한국어 문서", "한국어"), ("İstanbul", "istanbul"),
      ("a\u{AD}b soft", "ab"), ("मुंबई शहर", "मुंबई"), ("e-mail", "mail"), ("👍🏽 thumbs", "thumbs"),
    ])
  func `A word is found whatever its case and diacritical marks`(text: String, word: String) throws
  {
    let ground = try StoreFixture()
    try ground.store.save([
      Article(id: 1, title: text), Article(id: 2, title: "another"),
    ])
    #expect(try ground.store.ids(word) == [1])
    #expect(try ground.store.objects(Article.self).matching(words: text).fetch().map(\.id) == [1])
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A search is checked before the first object is stored`() throws {
    let ground = try StoreFixture()
    let articles = ground.store.objects(Article.self)
    for query in [articles.matching("\"open"), articles.matching("a", in: "none")] {
      let error = #expect(throws: ObjectError.self) { try query.fetch() }
      #expect(error?.code == .invalidTextQuery)
      #expect(throws: ObjectError.self) { try query.count() }
      #expect(throws: ObjectError.self) { try ground.store.write { try $0.fetch(query) } }
      #expect(throws: ObjectError.self) { try ground.store.read { try $0.fetch(query) } }
    }
    #expect(try articles.matching("a").fetch() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An object matches all searches of a query`() throws {
    let ground = try StoreFixture()
    try ground.store.save([
      Article(id: 1, title: "gnu license"), Article(id: 2, title: "gnu"),
      Article(id: 3, title: "license"),
    ])
    let articles = ground.store.objects(Article.self)
    #expect(try articles.matching("gnu").matching("license").fetch().map(\.id) == [1])
    #expect(try articles.matching("gnu OR license").matching("gnu*").count() == 2)
    #expect(try articles.matching("gnu").matching(words: "").fetch() == [])
    #expect(throws: ObjectError.self) { try articles.matching("gnu").matching("\"").fetch() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Operators, phrases and prefixes select the objects they describe`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save([
      Article(id: 1, title: "Data races in Swift", body: "Swift finds a data race"),
      Article(id: 2, title: "Race data", body: "cars and races"),
      Article(id: 3, title: "Swift", body: nil),
      Article(id: 4, title: "ends with data", body: "race begins"),
      Article(id: 5, title: "", body: ""),
    ])
    #expect(try store.ids("data race") == [1, 2, 4])
    #expect(try store.ids("\"data race\"") == [1])
    #expect(try store.ids("\"data rac*\"") == [1])
    #expect(try store.ids("rac* NOT swift") == [2, 4])
    #expect(try store.ids("cars OR swift") == [1, 2, 3])
    #expect(try store.ids("swift AND (cars OR races)") == [1])
    #expect(try store.ids("cars OR swift NOT data") == [2, 3])
    #expect(try store.ids("(cars OR swift) NOT \"data race\"") == [2, 3])
    #expect(try store.ids("nowhere") == [])
    #expect(try store.ids("nowhere OR \"swift finds\"") == [1])
    #expect(try store.ids("data-race") == [1])
    #expect(try store.ids("not AND data") == [])
    let all = store.objects(Article.self)
    #expect(try all.matching(words: "\"data race NOT (").count() == 0)
    #expect(try all.matching(words: "RACE, (data").count() == 3)
    #expect(try all.matching(words: "?!").fetch() == [])
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: [
      "", "  ", "?!", "\"open", "(a", "a)", "a OR", "OR a", "AND a", "a AND", "NOT a", "a NOT",
      "a AND OR b", "()", String(repeating: "(", count: 60) + "a",
      (0...200).map { "w\($0)" }.joined(separator: " "),
    ])
  func `A text that is no query is an error that shows the text`(text: String) throws {
    let ground = try StoreFixture()
    try ground.store.save(Article(id: 1, title: "a b"))
    let query = ground.store.objects(Article.self).matching(text)
    for run in [{ _ = try query.fetch() }, { _ = try query.count() }, { _ = try query.matches() }] {
      let error = #expect(throws: ObjectError.self) { try run() }
      #expect(error?.code == .invalidTextQuery)
      #expect(error?.message.contains("'\(text)'") == true)
    }
  }

  @Test func `The error for a long text that is no query shows its beginning`() throws {
    let ground = try StoreFixture()
    try ground.store.save(Article(id: 1, title: "a b"))
    let text = String(repeating: "(", count: 100_000)
    let query = ground.store.objects(Article.self).matching(text)
    let error = #expect(throws: ObjectError.self) { try query.fetch() }
    #expect(error?.code == .invalidTextQuery)
    #expect((error?.message.count ?? 0) < 2_400)
  }

  @Test(.timeLimit(.minutes(15)))
  func `The index of a search must be declared, and clear`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save(Article(id: 1, title: "a"))
    try store.save([
      Note(id: 1, lines: ["red green", "blue"], isOpen: false), Note(id: 2, lines: ["blue red"]),
    ])
    func code(_ body: () throws -> Void) -> ObjectError.Code? {
      do { try body() } catch { return (error as? ObjectError)?.code }
      return nil
    }
    #expect(
      code { _ = try store.objects(Article.self).matching("a", in: "year").fetch() }
        == .invalidTextQuery)
    #expect(code { _ = try store.objects(Note.self).matching("red").fetch() } == .invalidTextQuery)
    try store.save(PlainBook(id: 1, title: "a"))
    #expect(
      code { _ = try store.objects(PlainBook.self).matching("a").fetch() } == .invalidTextQuery)
    let notes = store.objects(Note.self)
    #expect(try notes.matching("red", in: "lines").fetch().map(\.id) == [2, 1])
    #expect(try notes.matching("red", in: "open").fetch().map(\.id) == [2])
    #expect(try notes.matching("\"green blue\"", in: "lines").count() == 0)
    try store.save(Note(id: 2, lines: ["blue red"], isOpen: false))
    #expect(try notes.matching("red", in: "open").count() == 0)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Rank, filters, sorts, limits and counts compose with a search`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    try store.save(
      (0..<100).map { id in
        Article(
          id: id, title: id % 2 == 0 ? "even" : "odd",
          body: String(repeating: "word ", count: id % 10) + String(repeating: "fill ", count: 10),
          year: 2000 + id % 7)
      })
    let query = store.objects(Article.self).matching("word")
    #expect(try query.count() == 90)
    let best = try query.limit(3).fetch()
    #expect(best.map(\.id) == [9, 19, 29])
    #expect(try query.offset(1).limit(2).fetch().map(\.id) == [19, 29])
    let filtered = query.where(\.year == 2003)
    let expected = (0..<100).filter { $0 % 7 == 3 && $0 % 10 > 0 }
    #expect(try filtered.fetch().map(\.id).sorted() == expected)
    #expect(try filtered.count() == expected.count)
    #expect(try filtered.sorted(by: \.id, .descending).fetch().map(\.id) == expected.reversed())
    #expect(try filtered.sorted(by: \.id).limit(2).fetch().map(\.id) == Array(expected.prefix(2)))
    #expect(try filtered.values(of: \.id).sorted() == expected)
    #expect(try query.max(\.id) == 99)
    let page = try query.sorted(by: \.year).page(size: 40)
    let next = try query.sorted(by: \.year).after(try #require(page.next)).fetch()
    #expect(page.objects.count == 40)
    #expect(Set((page.objects + next).map(\.id)).count == 90)
    #expect(throws: ObjectError.self) { try query.after(best[0]).fetch() }
    let text = try query.where(\.year == 2003).explain()
    #expect(text.contains("search index \"text\" for: word, best matches first"))
    #expect(text.contains("filter"))
    let matches = try query.limit(5).matches()
    #expect(matches.map(\.score) == matches.map(\.score).sorted(by: >))
    #expect(try query.where(\.id == 5).delete() == 1)
    #expect(try query.count() == 89)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A transaction finds its own writes, and a snapshot none that follow it`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    let query = store.objects(Article.self).matching("alpha")
    try store.save(Article(id: 1, title: "alpha"))
    try store.write { transaction in
      try transaction.save(Article(id: 2, title: "alpha beta"))
      #expect(try transaction.fetch(query).map(\.id).sorted() == [1, 2])
      try transaction.save(Article(id: 1, title: "beta"))
      try transaction.save(Article(id: 2, title: "Alpha gamma"))
      #expect(try transaction.fetch(query).map(\.id) == [2])
      try transaction.delete(Article.self, id: 2)
      #expect(try transaction.fetch(query) == [])
      try transaction.save(Article(id: 3, title: "alpha"))
    }
    #expect(try query.fetch().map(\.id) == [3])
    struct Undo: Error {}
    #expect(throws: Undo.self) {
      try store.write { transaction in
        try transaction.save(Article(id: 4, title: "alpha"))
        throw Undo()
      }
    }
    try store.read { snapshot in
      try store.save(Article(id: 5, title: "alpha"))
      #expect(try snapshot.fetch(query).map(\.id) == [3])
    }
    #expect(try query.fetch().map(\.id) == [3, 5])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Objects of a program without the index are found at once, and indexed later`() throws {
    let ground = try StoreFixture()
    let store = ground.store
    let older = try ObjectStore(at: ground.path, StoreOptions(durability: .durable))
    let plain = (0..<300).map {
      PlainArticle(id: $0, title: "number \($0) of all", body: "x\($0 % 3)")
    }
    try older.save(plain)
    let query = store.objects(Article.self).matching("\"of all\" x1")
    #expect(try query.count() == 100)
    try store.prepare(Article.self)
    #expect(try query.count() == 100)
    try older.save(PlainArticle(id: 1, title: "number 1 of none"))
    try older.save(PlainArticle(id: 1000, title: "one more of all", body: "x1"))
    try older.delete(PlainArticle.self, id: 4)
    #expect(try query.count() == 99)
    try store.prepare(Article.self)
    #expect(try query.count() == 99)
    #expect(try store.storage.verify() == [])
    older.close()
  }

  @Test(.timeLimit(.minutes(60)))
  func `Evicted objects leave the index`() throws {
    let ground = try StoreFixture()
    for id in 0..<400 { try ground.store.save(Clip(id: id, text: "clip number\(id)")) }
    let found = try ground.store.objects(Clip.self).matching("clip").fetch()
    #expect(found.count <= 50)
    #expect(try found.count == ground.store.objects(Clip.self).count())
    #expect(try ground.store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A snippet is the part with most words of the query, marked`() throws {
    let ground = try StoreFixture()
    let body =
      "One two three. " + String(repeating: "filler ", count: 30)
      + "Here a (Data) race, a data-race! begins " + String(repeating: "filler ", count: 30)
    try ground.store.save(Article(id: 1, title: "t", body: body))
    let match = try #require(
      try ground.store.objects(Article.self).matching("data OR rac* NOT nothing").matches().first)
    let snippet = match.snippet(of: body, words: 8) { "[\($0)]" }
    #expect(snippet.contains("([Data]) [race], a [data-race]!"))
    #expect(snippet.hasPrefix("… "))
    #expect(snippet.hasSuffix(" …"))
    #expect(match.snippet(of: "data", words: 0) { "<\($0)>" } == "<data>")
    #expect(match.snippet(of: "") == "")
    #expect(match.score > 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `Long words, many words and chunked texts are found`() throws {
    let ground = try StoreFixture()
    let long = String(repeating: "x", count: 1_000)
    let words = (0..<20_000).map { "w\($0)" }
    try ground.store.save([
      Article(id: 1, title: long),
      Article(id: 2, title: long + "y", body: words.joined(separator: " ")),
    ])
    // Words are compared up to their limit.
    #expect(try ground.store.ids(long) == [1, 2])
    #expect(try ground.store.ids("w19999") == [2])
    #expect(try ground.store.ids("\"w0 w1 w2\"") == [2])
    #expect(try ground.store.storage.verify() == [])
    try ground.store.delete(Article.self, id: 2)
    #expect(try ground.store.ids("w19999") == [])
    #expect(try ground.store.storage.verify() == [])
  }
}
