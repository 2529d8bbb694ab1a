// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

// One name, three declarations: what an index is, is more than its name.

private struct ByModel: Storable, Equatable {
  let id: Int
  var model: String
  var owner: String
  static let storedName = "planner.Thing"
  static let indexes = [Index<ByModel>("key", \.model)]
}

private struct ByOwner: Storable, Equatable {
  let id: Int
  var model: String
  var owner: String
  static let storedName = "planner.Thing"
  static let indexes = [Index<ByOwner>("key", \.owner)]
}

/// A thing with an index of some of them.
private struct Partly: Storable, Equatable {
  let id: Int
  var year: Int
  var isSold: Bool
  var isHidden: Bool
  var tags: [Int] = []
  static let storedName = "Partly"
  static let indexes = [
    Index<Partly>("shown", \.year, where: \.isSold == false && !(\.isHidden == true)),
    Index("closed", \.year, where: ObjectPredicate { $0.isSold }),
    Index("sold", \.year, where: \.isSold == true),
    Index("sold tag", each: \.tags, where: \.isSold == true),
  ]
}

private struct Link: Storable, Equatable {
  let id: Int
  var url: String
  static let storedName = "Link"
  static let indexes = [Index<Link>("url", \.url)]
}

private struct Seat: Storable, Equatable {
  let id: Int
  var number: Int
  static let storedName = "Seat"
  static let indexes = [Index<Seat>("number", \.number, unique: true)]
}

@Suite(.timeLimit(.minutes(60))) struct PlannerEdgeCaseTests {
  private let ground: StoreFixture
  private var store: ObjectStore { ground.store }

  init() throws { ground = try StoreFixture(StoreOptions()) }

  @Test func `An index of the same name over another property is rebuilt`() throws {
    try store.save((0..<20).map { ByModel(id: $0, model: "S\($0 % 2)", owner: "O\($0 % 5)") })
    let other = try ObjectStore(at: ground.path, StoreOptions())
    try other.save(ByOwner(id: 100, model: "M", owner: "S0"))
    func ids(_ owner: String) throws -> [Int] {
      try other.objects(ByOwner.self).where(\.owner == owner).fetch().map(\.id)
    }
    #expect(try ids("S0") == [100])
    #expect(try ids("O0") == [0, 5, 10, 15])
    try other.prepare(ByOwner.self)
    #expect(try ids("S0") == [100])
    #expect(try ids("O0") == [0, 5, 10, 15])
    #expect(try other.objects(ByOwner.self).where(\.owner == "O0").explain().contains("key"))
    #expect(try store.storage.verify() == [])
  }

  @Test func `A partial index is used only by queries for objects it contains`() throws {
    let all = (0..<40).map {
      Partly(id: $0, year: $0 % 4, isSold: $0 % 3 == 0, isHidden: $0 % 5 == 0)
    }
    try store.save(all)
    let things = store.objects(Partly.self)
    #expect(
      try things.where(\.isSold == false && \.year == 1).fetch()
        == all.filter { !$0.isSold && $0.year == 1 })
    #expect(
      try things.filter { $0.isHidden }.where(\.year == 1).fetch()
        == all.filter { $0.isHidden && $0.year == 1 })
  }

  @Test func `A partial index answers a query for exactly its objects, also in its order`() throws {
    let all = (0..<60).map {
      Partly(
        id: $0, year: $0 % 7, isSold: $0 % 3 == 0, isHidden: false,
        tags: $0 % 2 == 0 ? [] : [$0 % 5])
    }
    try store.save(all)
    let sold = store.objects(Partly.self).where(\.isSold == true)
    #expect(try sold.explain().hasPrefix("scan index \"sold\""))
    #expect(try sold.fetch() == all.filter(\.isSold))
    #expect(try sold.count() == 20)
    let latest = sold.sorted(by: \.year, .descending).limit(5)
    #expect(try latest.explain().contains("scan index \"sold\" completely, backwards"))
    let sorted = all.filter(\.isSold).sorted { ($0.year, $0.id) < ($1.year, $1.id) }
    #expect(try latest.fetch() == Array(sorted.reversed().prefix(5)))
    #expect(try sold.sorted(by: \.year).fetch() == sorted)
    // Objects without a tag are not in the other index.
    let tagged = sold.where { $0.tags.contains(3) }
    #expect(try tagged.fetch() == all.filter { $0.isSold && $0.tags.contains(3) })
    #expect(try tagged.explain().hasPrefix("scan index \"sold tag\""))
  }

  @Test func `Texts longer than an index keeps are in their order, with a limit and in pages`()
    throws
  {
    var random = Seed.announce().generator()
    let start = String(repeating: "x", count: 450)
    var links = (0..<60).map {
      Link(id: $0, url: start + "\(Int.random(in: 0...999, using: &random))")
    }
    links += (60..<70).map { Link(id: $0, url: "y\($0)") }
    try store.save(links)
    let sorted = links.sorted { $0.url < $1.url || ($0.url == $1.url && $0.id < $1.id) }
    let query = store.objects(Link.self).sorted(by: \.url)
    #expect(try query.limit(10).fetch() == Array(sorted.prefix(10)))
    #expect(try query.limit(10).offset(5).fetch() == Array(sorted.dropFirst(5).prefix(10)))
    #expect(try store.objects(Link.self).min(\.url) == sorted[0].url)
    var pages: [Link] = []
    var page = try query.page(size: 7)
    pages += page.objects
    while let next = page.next, pages.count < 200 {
      page = try query.page(after: next, size: 7)
      pages += page.objects
    }
    #expect(pages == sorted)
  }

  @Test func `A key that is taken at the end of a transaction stores nothing of it`() throws {
    try store.save([Seat(id: 1, number: 1), Seat(id: 2, number: 2)])
    let error = #expect(throws: ObjectError.self) {
      try store.write { transaction in
        try? transaction.save(Seat(id: 2, number: 1))
        try transaction.save(Seat(id: 3, number: 3))
      }
    }
    #expect(error?.code == .uniqueViolation)
    #expect(try store.objects(Seat.self).fetch().map(\.number) == [1, 2])
    #expect(try store.object(Seat.self, id: 2)?.number == 2)
    #expect(try store.storage.verify() == [])
  }

  @Test func `Limits and offsets of any size, and thousands of alternatives, do not trap`()
    throws
  {
    try store.save((0..<10).map { Seat(id: $0, number: $0) })
    let seats = store.objects(Seat.self)
    #expect(try seats.limit(20).offset(.max).fetch() == [])
    #expect(try seats.limit(.max).offset(3).fetch().count == 7)
    #expect(try seats.limit(.max).offset(3).count() == 7)
    #expect(try seats.page(size: .max).objects.count == 10)
    let some = (0..<20_000).map { \Seat.number == $0 * 3 }
    let any = some.dropFirst().reduce(some[0]) { $0 || $1 }
    #expect(try seats.where(any).fetch().map(\.id) == [0, 3, 6, 9])
    #expect(try seats.where(.all || some[0]).count() == 10)
  }

  @Test func `A remembered result is not given after the store was closed`() throws {
    try store.save(Seat(id: 1, number: 1))
    let query = store.objects(Seat.self).where(\.number == 1)
    #expect(try query.fetch().count == 1)
    #expect(try query.fetch().count == 1)
    store.close()
    #expect(throws: StoreError.self) { try query.fetch() }
    #expect(throws: StoreError.self) { try query.count() }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A range of a type with its own order is not taken from an index`() throws {
    let ground = try StoreFixture(StoreOptions())
    let tasks = (0..<12).map { Task(id: $0, level: Level.allCases[$0 % 4], due: nil) }
    let due = tasks.map { Task(id: $0.id, level: $0.level, due: $0.id % 3 == 0 ? nil : $0.level) }
    try ground.store.save(due)
    let all = ground.store.objects(Task.self)
    func check(_ predicate: ObjectPredicate<Task>, _ holds: (Task) -> Bool) throws {
      let query = all.where(predicate)
      #expect(try query.fetch() == due.filter(holds))
      #expect(try query.count() == due.filter(holds).count)
      #expect(try query.explain().hasPrefix("scan all"))
    }
    for level in Level.allCases {
      try check(\Task.level < level) { $0.level < level }
      try check(\Task.level <= level) { $0.level <= level }
      try check(\Task.level > level) { $0.level > level }
      try check(\Task.level >= level) { $0.level >= level }
      let range = PredicateProperty<Task, Level>(\.level).isIn(Level.low...level)
      try check(range) { $0.level <= level }
      try check(PredicateProperty<Task, Level?>(\.due) >= level) {
        $0.due.map { $0 >= level } ?? false
      }
      let equal = all.where(\.level == level)
      #expect(try equal.explain().hasPrefix("scan index \"level\""))
      #expect(try equal.fetch() == due.filter { $0.level == level })
    }
    #expect(try all.sorted(by: \.level).limit(12).fetch().map(\.level) == due.map(\.level).sorted())
  }
}

/// Has another order than its raw values.
private enum Level: String, Codable, Sendable, Comparable, CaseIterable, IndexValue {
  case low, medium, high, urgent

  static func < (left: Level, right: Level) -> Bool {
    allCases.firstIndex(of: left)! < allCases.firstIndex(of: right)!
  }
}

private struct Task: Storable, Equatable {
  let id: Int
  var level: Level
  var due: Level?
  static let storedName = "Task"
  static let indexes = [Index<Task>("level", \.level), Index("due", \.due)]
}
