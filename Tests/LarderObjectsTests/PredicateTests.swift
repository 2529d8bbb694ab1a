// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// Every predicate and every aggregate once, on objects one can count by hand.
@Suite(.timeLimit(.minutes(60))) struct PredicateTests {
  /// Without an index every predicate is evaluated; with an index the query walks it where
  /// possible.
  struct Book: Storable, Equatable {
    let id: String
    var title: String
    var year: Int
    var author: String?
    var tags: [String]
    var price: Double
    var isLent = false
  }

  struct Indexed: Storable, Equatable {
    let id: String
    var title: String
    var year: Int
    var author: String?
    var tags: [String]
    var price: Double
    var isLent = false
    static let indexes = [
      Index<Indexed>("title", \.title), Index("year", \.year), Index("author", \.author, \.year),
      Index("tag", each: \.tags), Index("price", \.price), Index("onLoan", \.isLent),
    ]
  }

  let ground: StoreFixture
  let books: Query<Book>
  let indexed: Query<Indexed>

  init() throws {
    ground = try StoreFixture(StoreOptions())
    let rows: [(String, String, Int, String?, [String], Double, Bool)] = [
      ("1", "Emma", 1815, "Austen", ["novel", "love"], 5, false),
      ("2", "Persuasion", 1817, "Austen", ["novel"], 7.5, true),
      ("3", "Faust", 1808, "Goethe", ["play", "devil"], 10, false),
      ("4", "Beowulf", 1000, nil, ["poem"], 2.25, false),
      ("5", "emmanuel", 1815, "Émile", [], 0, true),
    ]
    try ground.store.save(
      rows.map {
        Book(
          id: $0.0, title: $0.1, year: $0.2, author: $0.3, tags: $0.4, price: $0.5, isLent: $0.6)
      })
    try ground.store.save(
      rows.map {
        Indexed(
          id: $0.0, title: $0.1, year: $0.2, author: $0.3, tags: $0.4, price: $0.5, isLent: $0.6)
      })
    books = ground.store.objects(Book.self)
    indexed = ground.store.objects(Indexed.self)
  }

  /// Checks the result of a predicate with and without indexes, by fetching and by counting.
  func expect(
    _ wanted: String, _ plain: (PredicateRoot<Book>) throws -> ObjectPredicate<Book>,
    _ walked: (PredicateRoot<Indexed>) throws -> ObjectPredicate<Indexed>,
    _ location: SourceLocation = #_sourceLocation
  ) throws {
    let plain = try books.where(plain)
    let walked = try indexed.where(walked)
    #expect(try plain.fetch().map(\.id).joined() == wanted, sourceLocation: location)
    #expect(try walked.fetch().map(\.id).joined() == wanted, sourceLocation: location)
    #expect(try plain.limit(9).count() == wanted.count, sourceLocation: location)
    #expect(try walked.limit(9).count() == wanted.count, sourceLocation: location)
    #expect(try plain.exists() == !wanted.isEmpty, sourceLocation: location)
    #expect(try walked.exists() == !wanted.isEmpty, sourceLocation: location)
    #expect(try walked.first()?.id == wanted.first.map { "\($0)" }, sourceLocation: location)
  }

  @Test func `Comparisons`() throws {
    try expect("15", { $0.year == 1815 }, { $0.year == 1815 })
    try expect("234", { $0.year != 1815 }, { $0.year != 1815 })
    try expect("34", { $0.year < 1815 }, { $0.year < 1815 })
    try expect("1345", { $0.year <= 1815 }, { $0.year <= 1815 })
    try expect("2", { $0.year > 1815 }, { $0.year > 1815 })
    try expect("125", { $0.year >= 1815 }, { $0.year >= 1815 })
    try expect("12", { $0.price >= 5 && $0.price < 10 }, { $0.price >= 5 && $0.price < 10 })
    try expect("25", { $0.isLent.isTrue }, { $0.isLent.isTrue })
    try expect("134", { !$0.isLent.isTrue }, { !$0.isLent.isTrue })
  }

  @Test func `Ranges and lists`() throws {
    try expect("135", { $0.year.isIn(1808...1815) }, { $0.year.isIn(1808...1815) })
    try expect("3", { $0.year.isIn(1808..<1815) }, { $0.year.isIn(1808..<1815) })
    try expect("24", { $0.year.isIn([1000, 1817, 3]) }, { $0.year.isIn([1000, 1817, 3]) })
    try expect("", { $0.year.isIn([]) }, { $0.year.isIn([]) })
    try expect("13", { $0.title.isIn(["Faust", "Emma"]) }, { $0.title.isIn(["Faust", "Emma"]) })
  }

  @Test func `Optionals`() throws {
    try expect("4", { $0.author.isNil() }, { $0.author.isNil() })
    try expect("1235", { $0.author.isNotNil() }, { $0.author.isNotNil() })
    try expect("12", { $0.author == "Austen" }, { $0.author == "Austen" })
    try expect("345", { $0.author != "Austen" }, { $0.author != "Austen" })
    try expect("4", { $0.author == nil }, { $0.author == nil })
    try expect("35", { $0.author > "Austen" }, { $0.author > "Austen" })
    try expect("12", { $0.author <= "Austen" }, { $0.author <= "Austen" })
    try expect("", { $0.author < "A" }, { $0.author < "A" })
    try expect("1235", { $0.author >= "A" }, { $0.author >= "A" })
    try expect("5", { $0.author == "E\u{301}mile" }, { $0.author == "E\u{301}mile" })
  }

  @Test func `Text`() throws {
    try expect("1", { $0.title.hasPrefix("Em") }, { $0.title.hasPrefix("Em") })
    try expect("12345", { $0.title.hasPrefix("") }, { $0.title.hasPrefix("") })
    try expect("15", { $0.title.contains("mma") }, { $0.title.contains("mma") })
    try expect("12345", { $0.title.contains("") }, { $0.title.contains("") })
    try expect("2", { $0.title.hasSuffix("sion") }, { $0.title.hasSuffix("sion") })
    try expect(
      "1", { $0.title.equalsIgnoringCase("EMMA") }, { $0.title.equalsIgnoringCase("EMMA") })
    try expect(
      "15", { $0.title.containsIgnoringCase("eMM") }, { $0.title.containsIgnoringCase("eMM") })
    try expect(
      "12", { try $0.title.matches("^(E|P).*[an]$") }, { try $0.title.matches("^(E|P).*[an]$") })
  }

  @Test func `An invalid pattern is an error immediately`() throws {
    let error = #expect(throws: ObjectError.self) {
      try books.where { try $0.title.matches("a(b") }
    }
    #expect(error?.code == .invalidPattern)
    #expect(error?.message.contains("a(b") ?? false)
  }

  @Test func `Collections`() throws {
    try expect("12", { $0.tags.contains("novel") }, { $0.tags.contains("novel") })
    try expect(
      "1", { $0.tags.contains(all: ["love", "novel"]) },
      { $0.tags.contains(all: ["love", "novel"]) })
    try expect("12345", { $0.tags.contains(all: []) }, { $0.tags.contains(all: []) })
    try expect(
      "134", { $0.tags.contains(any: ["devil", "poem", "love"]) },
      { $0.tags.contains(any: ["devil", "poem", "love"]) })
    try expect("", { $0.tags.contains(any: []) }, { $0.tags.contains(any: []) })
    try expect("13", { $0.tags.count == 2 }, { $0.tags.count == 2 })
    try expect("5", { $0.tags.isEmpty.isTrue }, { $0.tags.isEmpty.isTrue })
  }

  @Test func `Compositions, and closures`() throws {
    try expect(
      "14", { ($0.year == 1815 && !$0.isLent.isTrue) || $0.author.isNil() },
      { ($0.year == 1815 && !$0.isLent.isTrue) || $0.author.isNil() })
    try expect(
      "12", { $0.author.isNotNil() && $0.tags.contains("novel") },
      { $0.author.isNotNil() && $0.tags.contains("novel") })
    #expect(try books.filter { $0.title.utf8.count == 5 }.fetch().map(\.id) == ["3"])
    #expect(
      try books.where(\.year > 1800).filter { $0.price == 0 }.fetch().map(\.id) == ["5"])
  }

  /// The first property is not fixed by a part of its text.
  @Test func `A prefix before another property misses nothing in a compound index`() throws {
    struct Name: Storable, Equatable {
      let id: String
      var text: String
      var year: Int
      static let storedName = "Name"
      static let indexes = [Index<Name>("text and year", \.text, \.year)]
    }
    try ground.store.save([
      Name(id: "1", text: "a", year: 1), Name(id: "2", text: "ab", year: 1),
      Name(id: "3", text: "abc", year: 2), Name(id: "4", text: "b", year: 1),
    ])
    let names = ground.store.objects(Name.self)
    #expect(
      try names.where { $0.text.hasPrefix("a") && $0.year == 1 }.fetch().map(\.id) == ["1", "2"])
  }

  @Test func `Keys longer than an index stores are distinguished`() throws {
    struct Long: Storable, Equatable {
      let id: String
      var one: String
      var two: String
      static let storedName = "Long"
      static let indexes = [Index<Long>("both", \.one, \.two), Index("one", \.one)]
    }
    let texts = (0..<3).map { String(repeating: "x", count: 300 + 100 * $0) }
    var all: [Long] = []
    for one in texts {
      for end in ["a", "b", ""] {
        all.append(Long(id: "\(all.count)", one: one, two: one + end))
      }
    }
    try ground.store.save(all)
    let query = ground.store.objects(Long.self)
    for wanted in all {
      #expect(try query.where(\.one == wanted.one && \.two == wanted.two).fetch() == [wanted])
      #expect(try query.where(\.one == wanted.one).count() == 3)
      let above = all.filter {
        $0.one > wanted.one || ($0.one == wanted.one && $0.two > wanted.two)
      }
      #expect(
        try query.where(\.one > wanted.one || (\.one == wanted.one && \.two > wanted.two)).fetch()
          == above)
      #expect(
        try query.where(\.one == wanted.one && \.two > wanted.two).fetch()
          == all.filter { $0.one == wanted.one && $0.two > wanted.two })
    }
  }
}

/// Aggregates over the objects that a query finds.
@Suite(.timeLimit(.minutes(60))) struct AggregateTests {
  let ground: StoreFixture
  let cars: Query<Car>

  init() throws {
    ground = try StoreFixture(StoreOptions())
    try ground.store.save([
      Car(id: "1", model: "b", year: 3, owner: "x", tags: ["t"], price: 1.5),
      Car(id: "2", model: "a", year: 1, owner: nil, tags: ["t", "u"], price: 250),
      Car(id: "3", model: "b", year: 2, owner: "y", tags: [], price: 0.25),
      Car(id: "4", model: "c", year: 3, owner: "x", tags: ["u"], price: 99),
    ])
    cars = ground.store.objects(Car.self)
  }

  @Test func `Least, greatest and sum`() throws {
    #expect(try cars.min(\.year) == 1)
    #expect(try cars.max(\.year) == 3)
    #expect(try cars.min(\.price) == 0.25)
    #expect(try cars.max(\.price) == 250)
    #expect(try cars.min(\.model) == "a")
    #expect(try cars.sum(\.year) == 9)
    #expect(try cars.sum(\.price) == 350.75)
    #expect(try cars.where(\.model == "b").max(\.year) == 3)
    #expect(try cars.where(\.model == "b").sum(\.year) == 5)
    #expect(try cars.where(\.price > 50).min(\.year) == 1)
    #expect(try cars.where(\.price > 1000).min(\.year) == nil)
    #expect(try cars.where(\.price > 1000).sum(\.year) == 0)
    #expect(try cars.sorted(by: \.price).limit(2).max(\.year) == 3)
    #expect(try cars.sorted(by: \.price).limit(2).sum(\.year) == 5)
  }

  @Test func `Values, each once, and how many of each`() throws {
    #expect(try cars.values(of: \.model) == ["b", "a", "b", "c"])
    #expect(try cars.sorted(by: \.price).values(of: \.id) == ["3", "1", "4", "2"])
    #expect(try cars.values(of: \.owner) == ["x", nil, "y", "x"])
    #expect(try cars.distinct(\.model) == ["b", "a", "c"])
    #expect(try cars.sorted(by: \.model).distinct(\.model) == ["a", "b", "c"])
    #expect(try cars.distinct(\.owner) == ["x", nil, "y"])
    #expect(try cars.counts(by: \.year) == [1: 1, 2: 1, 3: 2])
    #expect(try cars.where(\.year > 1).counts(by: \.model) == ["b": 2, "c": 1])
    #expect(try cars.offset(1).limit(2).values(of: \.year) == [1, 2])
    #expect(try cars.values(of: \.tags.count) == [1, 2, 0, 1])
  }

  @Test func `First, count, and whether there is any`() throws {
    #expect(try cars.first()?.id == "1")
    #expect(try cars.sorted(by: \.year, .descending).first()?.id == "4")
    #expect(try cars.where(\.year == 9).first() == nil)
    #expect(try cars.count() == 4)
    #expect(try cars.where(\.price < 100).count() == 3)
    #expect(try cars.where(\.year == 3).count() == 2)
    #expect(try cars.limit(3).count() == 3)
    #expect(try cars.offset(3).count() == 1)
    #expect(try cars.offset(9).count() == 0)
    #expect(try cars.limit(0).count() == 0)
    #expect(try cars.where(\.model == "a").exists())
    #expect(try !cars.where(\.model == "z").exists())
  }

  @Test func `Limits and offsets, with every kind of plan`() throws {
    #expect(try cars.offset(1).limit(2).fetch().map(\.id) == ["2", "3"])
    #expect(try cars.limit(0).fetch().isEmpty)
    #expect(try cars.offset(4).fetch().isEmpty)
    #expect(try cars.where(\.model == "b").offset(1).limit(1).fetch().map(\.id) == ["3"])
    #expect(try cars.sorted(by: \.year).offset(1).limit(2).fetch().map(\.id) == ["3", "1"])
    #expect(try cars.sorted(by: \.price, .descending).offset(3).fetch().map(\.id) == ["3"])
    #expect(
      try cars.sorted(by: \.model).then(by: \.price, .descending).fetch().map(\.id)
        == ["2", "1", "3", "4"])
  }

  @Test func `Deleting takes what the query finds, and the indexes with it`() throws {
    #expect(try cars.where(\.price < 2).delete() == 2)
    #expect(try cars.fetch().map(\.id) == ["2", "4"])
    #expect(try cars.where(\.model == "b").count() == 0)
    #expect(try cars.where(\.year == 3).fetch().map(\.id) == ["4"])
    #expect(try cars.sorted(by: \.year).limit(1).delete() == 1)
    #expect(try cars.delete() == 1)
    #expect(try cars.count() == 0)
    #expect(try cars.delete() == 0)
  }
}
