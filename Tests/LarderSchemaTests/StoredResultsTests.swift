// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderSchema
import LarderTesting
import Synchronization
import Testing

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

@Storable struct Phrase: Equatable {
  let id: Int
  var text: String
  var remark: String?
}

@Storable struct Order: Equatable {
  let id: Int
  var city: String
  @Indexed var amount: Int
  var weight = 1.5
  var discount: Int?
  var tags: [String] = []
  var isPaid = false

  static func sample(_ number: Int) -> Order {
    Order(
      id: number, city: ["Oslo", "Rome", "Zürich"][number % 3], amount: number * 7 % 50,
      weight: Double(number % 4) / 2, discount: number % 4 == 0 ? nil : number % 4,
      tags: number % 5 == 0 ? [] : ["t\(number % 5)", "all"], isPaid: number % 2 == 0)
  }
}

/// The fields of ``Order`` as a type without a schema.
struct PlainOrder: Storable, Equatable {
  let id: Int
  var city: String
  var amount: Int
  var weight = 1.5
  var discount: Int?
  var tags: [String] = []
  var isPaid = false
  static let indexes = [Index("amount", \PlainOrder.amount)]
}

@Suite(.timeLimit(.minutes(60))) struct StoredResultsTests {
  let temporary: TemporaryStore
  let objects: ObjectStore

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
  }

  private func order(_ number: Int) -> Order { Order.sample(number) }

  private func plain(_ order: Order) -> PlainOrder {
    PlainOrder(
      id: order.id, city: order.city, amount: order.amount, weight: order.weight,
      discount: order.discount, tags: order.tags, isPaid: order.isPaid)
  }

  @Test func `Text conditions on stored bytes give what strings give`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let parts = [
      "a", "A", "b", "Z", "é", "e\u{301}", "\u{301}", "ß", "\r\n", "\r", "\n", "😀", "K",
      "\u{212A}", " ", "\u{0}", "i", "I", "İ",
    ]
    func text(_ length: ClosedRange<Int>) -> String {
      (0..<Int.random(in: length, using: &random)).map { _ in
        parts.randomElement(using: &random)!
      }.joined()
    }
    let phrases = (0..<400).map { number in
      Phrase(id: number, text: text(0...5), remark: number % 3 == 0 ? nil : text(0...3))
    }
    try objects.save(phrases)
    let arguments = (0..<60).map { _ in text(0...2) } + parts
    for argument in arguments {
      // The decoded objects decide without the bytes.
      func check(_ predicate: ObjectPredicate<Phrase>) throws {
        let count = try objects.objects(Phrase.self).where(predicate).count()
        #expect(count == phrases.count { predicate.holds(for: $0) }, "\(predicate)")
      }
      let text = PredicateProperty<Phrase, String>(\.text)
      try check(\.text == argument)
      try check(\.text != argument)
      try check(\.text < argument)
      try check(\.text >= argument)
      try check(\.remark == argument)
      try check(\.remark != argument)
      try check(\.remark <= argument)
      try check(\.remark > argument)
      try check(PredicateProperty(\Phrase.remark).contains(argument))
      try check(text.hasPrefix(argument))
      try check(text.hasSuffix(argument))
      try check(text.contains(argument))
      try check(text.equalsIgnoringCase(argument))
      try check(text.containsIgnoringCase(argument))
      #expect(
        try objects.objects(Phrase.self).where(\.text == argument).count()
          == phrases.count { $0.text == argument })
    }
  }

  @Test func `Groups, tuples and means are those of an array, with a schema and without`() throws {
    let orders = (0..<200).map(order)
    try objects.save(orders)
    try objects.save(orders.map(plain))
    let cities = Dictionary(grouping: orders, by: \.city)
    let declared = objects.objects(Order.self)
    let codable = objects.objects(PlainOrder.self)
    #expect(try declared.grouped(by: \.city).count() == cities.mapValues(\.count))
    #expect(try codable.grouped(by: \.city).count() == cities.mapValues(\.count))
    #expect(try declared.counts(by: \.discount)[nil] == orders.count { $0.discount == nil })
    let sums = cities.mapValues { $0.reduce(0) { $0 + $1.amount } }
    #expect(try declared.grouped(by: \.city).sum(\.amount) == sums)
    #expect(try codable.grouped(by: \.city).sum(\.amount) == sums)
    #expect(
      try declared.grouped(by: \.city).min(\.amount)
        == cities.mapValues { $0.map(\.amount).min()! })
    #expect(
      try codable.grouped(by: \.city).max(\.amount)
        == cities.mapValues { $0.map(\.amount).max()! }
    )
    let means = cities.mapValues { $0.reduce(0) { $0 + $1.weight } / Double($0.count) }
    #expect(try declared.grouped(by: \.city).average(\.weight) == means)
    #expect(try declared.where(\.isPaid == true).grouped(by: \.isPaid).count() == [true: 100])
    #expect(try declared.average(\.amount) == codable.average(\.amount))
    #expect(try declared.where(\.id < 0).average(\.weight) == nil)
    #expect(try declared.limit(10).grouped(by: \.city).count().values.reduce(0, +) == 10)

    let rows = try declared.sorted(by: \.amount).limit(20).select(\.city, \.amount, \.discount)
    let same = try codable.sorted(by: \.amount).limit(20).select(\.city, \.amount, \.discount)
    #expect(rows.elementsEqual(same) { $0 == $1 })
    let all = try declared.select(\.id, \.tags)
    #expect(all.elementsEqual(orders) { $0.0 == $1.id && $0.1 == $1.tags })

    let discounts = orders.compactMap(\.discount)
    #expect(try declared.sum(\.discount) == discounts.reduce(0, +))
    #expect(try declared.min(\.discount) == discounts.min())
    #expect(try codable.max(\.discount) == discounts.max())
    #expect(try declared.where(\.discount == nil).max(\.discount) == nil)
  }

  @Test func `Equal values of several stored forms are one group`() throws {
    let words = ["é", "e\u{301}", "z", "\u{212A}", "K"]
    let phrases = (0..<500).map { number in
      Phrase(
        id: number, text: words[number % 5], remark: number % 7 == 0 ? nil : words[number % 4])
    }
    try objects.save(phrases)
    let query = objects.objects(Phrase.self)
    #expect(
      try query.grouped(by: \.text).count()
        == Dictionary(grouping: phrases, by: \.text).mapValues(\.count))
    #expect(
      try query.grouped(by: \.remark).sum(\.id)
        == Dictionary(grouping: phrases, by: \.remark)
        .mapValues { $0.reduce(0) { $0 + $1.id } })
    // More groups than the first table of forms has room for.
    #expect(
      try query.grouped(by: \.id).min(\.text)
        == Dictionary(uniqueKeysWithValues: phrases.map { ($0.id, $0.text) }))
  }

  @Test func `Number conditions on stored bytes give what numbers give`() throws {
    let numbers = [
      0, -0.0, 1, -1, 0.5, 0.1, 65_504, 1e300, -1e300, .infinity, -.infinity, .nan,
      .leastNonzeroMagnitude,
    ]
    let integers = [0, 1, -1, 23, 24, -25, 255, 256, 65_536, .max, .min]
    let orders = (0..<numbers.count * integers.count).map { number in
      Order(
        id: number, city: "", amount: integers[number % integers.count],
        weight: numbers[number % numbers.count],
        discount: number % 3 == 0 ? nil : integers[number % integers.count])
    }
    try objects.save(orders)
    func check(_ predicate: ObjectPredicate<Order>) throws {
      #expect(
        try objects.objects(Order.self).where(predicate).count()
          == orders.count { predicate.holds(for: $0) }, "\(predicate)")
    }
    for number in numbers {
      try check(\.weight == number)
      try check(\.weight != number)
      try check(\.weight < number)
      try check(\.weight <= number)
      try check(\.weight > number)
      try check(\.weight >= number)
    }
    for integer in integers {
      try check(\.discount == integer)
      try check(\.discount != integer)
      try check(\.discount <= integer)
      try check(\.discount > integer)
      try check(\.amount < integer && \.weight > 0)
      try check(\.amount >= integer && \.weight > 0)
    }
  }

  @Test func `Missing values do not count in means, sums and extremes`() throws {
    let orders = (0..<200).map(order)
    try objects.save(orders)
    let query = objects.objects(Order.self)
    let discounts = orders.compactMap(\.discount)
    #expect(
      try query.average(\.discount) == Double(discounts.reduce(0, +)) / Double(discounts.count))
    #expect(try query.where(\.discount == nil).average(\.discount) == nil)
    let groups = Dictionary(grouping: orders.filter { $0.discount != nil }, by: \.city)
      .mapValues { $0.map { $0.discount! } }
    let grouped = query.grouped(by: \.city)
    #expect(try grouped.sum(\.discount) == groups.mapValues { $0.reduce(0, +) })
    #expect(try grouped.min(\.discount) == groups.mapValues { $0.min()! })
    #expect(try grouped.max(\.discount) == groups.mapValues { $0.max()! })
    #expect(
      try grouped.average(\.discount)
        == groups.mapValues { Double($0.reduce(0, +)) / Double($0.count) })
    #expect(try query.where(\.discount == nil).grouped(by: \.city).sum(\.discount) == [:])
    #expect(try query.limit(50).grouped(by: \.city).max(\.discount).values.max() == 3)
  }

  @Test func `Floating-point numbers are added in the order of the query`() throws {
    try objects.save(
      [(1, 1e16), (3, 1.0), (2, -1e16)].map { (number, weight) -> Order in
        var order = order(number)
        (order.amount, order.weight) = (number, weight)
        return order
      })
    for query in [
      objects.objects(Order.self), objects.objects(Order.self).sorted(by: \.amount),
      objects.objects(Order.self).where(\.amount > 0),
    ] {
      let sum = try query.values(of: \.weight).reduce(0, +)
      #expect(try query.sum(\.weight) == sum, "\(query)")
      #expect(try query.limit(10).sum(\.weight) == sum, "\(query)")
    }
  }

  @Test func `Groups, tuples and changes of declared fields decode no object`() throws {
    try objects.save((0..<50).map { Traced(id: $0, kind: $0 % 3) })
    let query = objects.objects(Traced.self)
    Trace.decoded.store(0, ordering: .relaxed)
    #expect(try query.grouped(by: \.kind).count() == [0: 17, 1: 17, 2: 16])
    #expect(try query.grouped(by: \.kind).sum(\.id).values.reduce(0, +) == 1225)
    #expect(try query.select(\.id, \.kind).count == 50)
    #expect(try query.max(\.kind) == 2)
    #expect(try query.where(\.kind == 1).update(\.kind) { $0 += 10 } == 17)
    #expect(try query.where(\.kind == 2).set(\.kind, to: 300) == 16)
    #expect(try query.grouped(by: \.kind).count() == [0: 17, 11: 17, 300: 16])
    #expect(Trace.decoded.load(ordering: .relaxed) == 0)
    _ = try query.fetch()
    #expect(Trace.decoded.load(ordering: .relaxed) == 50)
  }

  @Test func `Conditions of Boolean, optional and compared properties are those of an array`()
    throws
  {
    let orders = (0..<60).map(order)
    try objects.save(orders)
    func check(
      _ query: Query<Order>, _ plan: String, line: Int = #line, _ holds: (Order) -> Bool
    ) throws {
      #expect(try query.fetch() == orders.filter(holds), "line \(line)")
      #expect(try query.explain().contains(plan), "line \(line): \(query)")
    }
    let all = objects.objects(Order.self)
    let (stored, index, decoded) = ("filter stored fields:", "scan index", "decoded objects")
    try check(all.where { $0.isPaid }, stored) { $0.isPaid }
    try check(all.where { !$0.isPaid }, stored) { !$0.isPaid }
    try check(all.where { $0.isPaid && $0.city == "Oslo" }, stored) {
      $0.isPaid && $0.city == "Oslo"
    }
    try check(all.where { $0.amount < 5 || !$0.isPaid }, stored) { $0.amount < 5 || !$0.isPaid }
    try check(all.where { 20 < $0.amount && 30 >= $0.amount }, index) {
      20 < $0.amount && 30 >= $0.amount
    }
    try check(all.where { "Oslo" != $0.city }, stored) { $0.city != "Oslo" }
    try check(all.where { $0.amount > $0.id }, decoded) { $0.amount > $0.id }
    try check(all.where { $0.amount == $0.id || $0.isPaid }, decoded) {
      $0.amount == $0.id || $0.isPaid
    }
    try check(all.where { $0.tags.isEmpty }, decoded) { $0.tags.isEmpty }
    try check(all.where { $0.tags.count >= 2 && $0.isPaid }, decoded) {
      $0.tags.count >= 2 && $0.isPaid
    }
  }

  @Test func `An update changes all matching objects or none`() throws {
    let orders = (0..<100).map(order)
    try objects.save(orders)
    let cheap = objects.objects(Order.self).where(\.amount < 10)
    let count = try cheap.count()
    #expect(try cheap.update { $0.amount += 100 } == count)
    #expect(try cheap.count() == 0)
    #expect(try objects.objects(Order.self).where(\.amount >= 100).count() == count)
    #expect(try objects.objects(Order.self).set(\.city, to: "Bonn") == 100)
    #expect(try objects.objects(Order.self).distinct(\.city) == ["Bonn"])

    struct Refusal: Error {}
    #expect(throws: Refusal.self) {
      try objects.objects(Order.self).update { order in
        if order.id == 60 { throw Refusal() }
        order.city = "Lyon"
      }
    }
    #expect(try objects.objects(Order.self).distinct(\.city) == ["Bonn"])
    #expect(try objects.objects(Order.self).where(\.id < 0).update { $0.city = "" } == 0)
  }

  @Test func `An update that changes an id is a typed error`() throws {
    try objects.save([Renamed(id: "a"), Renamed(id: "b")])
    let error = #expect(throws: ObjectError.self) {
      try objects.objects(Renamed.self).update { $0.id = "c" }
    }
    #expect(error?.code == .identityChanged)
    #expect(try objects.objects(Renamed.self).values(of: \.id) == ["a", "b"])
  }
}

@Storable struct Renamed {
  var id: String
}

enum Trace {
  static let decoded = Atomic<Int>(0)
}

/// Counts how often an object is decoded.
@Storable struct Traced {
  let id: Int
  var kind: Int
  var trace = Tracer()
}

struct Tracer: Codable {
  init() {}
  init(from decoder: any Decoder) throws { Trace.decoded.add(1, ordering: .relaxed) }
  func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(true)
  }
}
#endif
