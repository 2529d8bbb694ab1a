// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderSchema
import LarderTesting
import Synchronization
import Testing

private enum Count {
  static let builds = Atomic<Int>(0)
}

@Storable struct Observed {
  let id: Int
  var name: String { didSet { changes += 1 } }
  var changes = 0
}

@Storable struct WideBook {
  let id: Int
  var title: String
  var pages: Int?
  static let storedName = "Book"
}

/// The same type before it had pages.
@Storable struct NarrowBook {
  let id: Int
  var title: String
  static let storedName = "Book"
}

/// An article of a program that stores the body under its old name.
struct OldPage: Storable {
  let id: Int
  var title: String
  var body: String
  static let storedName = "Page"
  static let indexes = [
    Index<OldPage>("text", fullText: \.title, \.body), Index("body", \.body, \.title),
  ]
}

@Storable struct RenamedPage {
  let id: Int
  var title: String
  @Attribute(name: "body") var text: String
  static let storedName = "Page"
  static let indexes = [
    Index<RenamedPage>("text", fullText: \.title, \.text), Index("body", \.text, \.title),
  ]
}

private struct Parcel: Storable {
  let id: Int
  @HasOne var order: Order?
  static let storedName = "Parcel"
}

@Suite(.timeLimit(.minutes(60))) struct StoredChangesTests {
  let temporary: TemporaryStore
  let objects: ObjectStore

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
  }

  @Test func `Objects and results in memory are not older than a change of one property`() throws {
    try objects.save((0..<40).map(Order.sample))
    let other = ObjectStore(temporary.store)
    let query = other.objects(Order.self).where(\.amount >= 0).sorted(by: \.amount)
    func check(_ weight: Double) throws {
      #expect(try query.fetch().allSatisfy { $0.weight == weight })
      for id in 0..<40 { #expect(try other.object(Order.self, id: id)?.weight == weight) }
    }
    for weight in [2.0, 3.5, 1e9] {
      #expect(try objects.objects(Order.self).set(\.weight, to: weight) == 40)
      try check(weight)
      // Once more, from memory.
      try check(weight)
    }
  }

  @Test func `No changed byte of an object gets into an answer`() throws {
    let directory = try TemporaryDirectory()
    let store = try ObjectStore(at: directory.appending("store"))
    var orders = (100..<300).map(Order.sample)
    for position in orders.indices { orders[position].city = "city-\(position + 100)" }
    try store.save(orders)
    let query = store.objects(Order.self)
    let path = try #require(Self.dataFile(below: directory.appending("store")))
    let bytes = try TestFiles.contents(of: path)
    let name = Array("city-117".utf8)
    let places = (0..<bytes.count - name.count).filter {
      bytes[$0] == name[0] && bytes[$0..<$0 + name.count].elementsEqual(name)
    }
    try #require(!places.isEmpty)
    for offset in 5..<8 {
      let wrong =
        "city-" + (5..<8).map { $0 == offset ? "9" : String(Array("city-117")[$0]) }.joined()
      for place in places { try TestFiles.overwrite([0x39], at: place + offset, in: path) }
      let isOther = orders.contains { $0.city == wrong }
      #expect(try query.where(\.city == wrong).count() == (isOther ? 1 : 0))
      #expect(try query.where(\.city == "city-117").count() == 0)
      #expect(try query.where(\.city != "city-117").count() == 199)
      #expect(try query.grouped(by: \.city).count().values.reduce(0, +) == 199)
      #expect(try query.grouped(by: \.city).count()["city-117"] == nil)
      #expect(try query.sum(\.id) == orders.reduce(0) { $0 + $1.id } - 117)
      #expect(try query.where(\.city != "x").update(\.weight) { $0 = 5 } == 199)
      for place in places {
        try TestFiles.overwrite([bytes[place + offset]], at: place + offset, in: path)
      }
    }
  }

  private static func dataFile(below path: String) -> String? {
    for name in TestFiles.names(in: path) {
      let inner = path + "/" + name
      if name == "data.mdb" { return inner }
      if let found = dataFile(below: inner) { return found }
    }
    return nil
  }

  @Test func `A change of one property sees its transaction, and an error keeps everything`()
    throws
  {
    struct Stop: Error {}
    let orders = (0..<100).map(Order.sample)
    try objects.save(orders)
    #expect(throws: Stop.self) {
      try objects.objects(Order.self).update(\.weight) { weight in
        if weight == 1.5 { throw Stop() }
        weight = 9
      }
    }
    #expect(try objects.objects(Order.self).fetch() == orders)
    let after = try objects.write { transaction in
      let query = objects.objects(Order.self).where(\.isPaid == true)
      try transaction.update(query, \.weight) { $0 = 7 }
      try transaction.update(query.where(\.weight == 7), \.discount) { $0 = nil }
      try transaction.update(query.where(\.discount == nil), \.city) {
        $0 = String(repeating: "long ", count: 1000)
      }
      return try transaction.fetch(query)
    }
    #expect(after.count == 50)
    #expect(after.allSatisfy { $0.weight == 7 && $0.discount == nil && $0.city.count == 5000 })
    #expect(try objects.objects(Order.self).where(\.isPaid == true).fetch() == after)
    // Objects in several pieces, and an indexed property.
    #expect(try objects.objects(Order.self).update(\.city) { $0 += "!" } == 100)
    #expect(
      try objects.objects(Order.self).where(\.amount < 10).update(\.amount) { $0 += 50 } > 0)
    #expect(try objects.objects(Order.self).where(\.amount < 10).count() == 0)
    let amounts = try objects.objects(Order.self).fetch().map { $0.amount }
    #expect(
      amounts == orders.map { order in order.amount < 10 ? order.amount + 50 : order.amount })
    #expect(try temporary.store.verify() == [])
  }

  @Test func `A reference leads to the changed object before the commit`() throws {
    let orders = (0..<40).map(Order.sample)
    try objects.save(orders)
    try objects.save(orders.map { Parcel(id: $0.id, order: $0) }, children: .ignore)
    let weights = try objects.write { transaction in
      let query = objects.objects(Order.self).where(\.amount >= 10)
      try transaction.update(query, \.weight) { $0 += 10 }
      return try transaction.fetch(objects.objects(Parcel.self)).map { $0.order?.weight }
    }
    #expect(weights == orders.map { $0.weight + ($0.amount >= 10 ? 10 : 0) })
  }

  @Test func `A property with observers is set on the object`() throws {
    try objects.save([Observed(id: 1, name: "a"), Observed(id: 2, name: "b")])
    #expect(try objects.objects(Observed.self).set(\.name, to: "c") == 2)
    #expect(try objects.objects(Observed.self).fetch().map(\.changes) == [1, 1])
  }

  @Test func `Fields that a program does not know survive a change of another`() throws {
    try objects.save((0..<10).map { WideBook(id: $0, title: "t\($0)", pages: 100 + $0) })
    let older = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    try older.save(NarrowBook(id: 10, title: "t10"))
    #expect(try older.objects(NarrowBook.self).update(\.title) { $0 += "!" } == 11)
    let books = try objects.objects(WideBook.self).fetch()
    #expect(books.map(\.title) == (0...10).map { "t\($0)!" })
    #expect(books.map(\.pages) == (0..<10).map { 100 + $0 } + [nil])
  }

  @Test func `A property with another name has the same indexes`() throws {
    let temporary = try TemporaryStore(
      StoreOptions(onEvent: { event in
        if case .indexBuilding = event { Count.builds.add(1, ordering: .relaxed) }
      }))
    let old = ObjectStore(temporary.store)
    try old.save((0..<2500).map { OldPage(id: $0, title: "t\($0)", body: "word \($0)") })
    let new = ObjectStore(temporary.store)
    try new.prepare(RenamedPage.self)
    let query = new.objects(RenamedPage.self)
    for id in 2500..<2510 {
      try old.save(OldPage(id: id, title: "old", body: "word new"))
      try new.save(RenamedPage(id: id + 100, title: "new", text: "word new"))
      #expect(try query.matching("new").count() == (id - 2499) * 2)
      #expect(try query.where(\.text == "word new").count() == (id - 2499) * 2)
    }
    #expect(try query.where(\.text == "word 7").explain().contains("scan index \"body\""))
    #expect(Count.builds.load(ordering: .relaxed) == 0)
    #expect(try temporary.store.verify() == [])
  }
}
#endif
