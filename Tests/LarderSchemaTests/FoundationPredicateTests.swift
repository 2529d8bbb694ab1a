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

@Suite(.timeLimit(.minutes(60))) struct FoundationPredicateTests {
  let temporary: TemporaryStore
  let objects: ObjectStore
  private let reports = Reports()
  private let orders: [Order]

  private final class Reports: Sendable {
    let errors = Mutex<[any Error]>([])
  }

  init() throws {
    let reports = reports
    temporary = try TemporaryStore(
      StoreOptions(onError: { error in reports.errors.withLock { $0.append(error) } }))
    objects = ObjectStore(temporary.store)
    orders = (0..<120).map { number in
      Order(
        id: number, city: ["Oslo", "Rome", "Zürich"][number % 3], amount: number * 7 % 50,
        discount: number % 4 == 0 ? nil : number % 4,
        tags: number % 5 == 0 ? [] : ["t\(number % 5)"], isPaid: number % 2 == 0)
    }
    try objects.save(orders)
  }

  private func check(
    _ predicate: Predicate<Order>, _ plan: String..., line: Int = #line
  ) throws {
    let query = objects.objects(Order.self).filter(predicate)
    #expect(try query.fetch() == orders.filter { try predicate.evaluate($0) }, "line \(line)")
    let text = try query.explain()
    for part in plan { #expect(text.contains(part), "line \(line): \(text)") }
  }

  @Test func `A #Predicate finds what Foundation finds, over an index where one fits`() throws {
    let (limit, names) = (20, ["Oslo", "Bonn"])
    try check(#Predicate { $0.amount > 30 }, "scan index \"amount\"")
    try check(#Predicate { $0.amount == 21 }, "scan index \"amount\"")
    try check(#Predicate { limit >= $0.amount }, "scan index \"amount\"")
    try check(#Predicate { (5...10).contains($0.amount) }, "scan index \"amount\"")
    try check(#Predicate { (5..<10).contains($0.amount) }, "scan index \"amount\"")
    try check(#Predicate { [1, 2, 3].contains($0.amount) }, "scan index \"amount\"")
    try check(#Predicate { $0.amount < 10 && $0.city == "Rome" }, "scan index", "stored fields")
    try check(#Predicate { $0.city != "Rome" }, "filter stored fields")
    try check(#Predicate { names.contains($0.city) }, "filter stored fields")
    try check(#Predicate { $0.city.contains("o") }, "filter stored fields")
    try check(#Predicate { $0.city.starts(with: "Zü") }, "filter stored fields")
    try check(#Predicate { $0.isPaid }, "filter stored fields")
    try check(#Predicate { !$0.isPaid || $0.amount < 3 }, "filter stored fields")
    try check(#Predicate { $0.discount == nil }, "filter stored fields")
    try check(#Predicate { $0.discount == 2 }, "filter stored fields")
    try check(#Predicate { $0.discount != 2 }, "filter stored fields")
    try check(#Predicate { $0.tags.contains("t1") }, "filter stored fields")
    try check(#Predicate { $0.amount > 2 * 10 }, "scan index \"amount\"")
    try check(#Predicate { _ in true })
  }

  @Test func `Other parts of a #Predicate are evaluated on decoded objects`() throws {
    try check(#Predicate { ($0.discount ?? 0) > 1 }, "filter decoded objects", "#Predicate {")
    try check(#Predicate { $0.tags.isEmpty }, "filter decoded objects")
    try check(#Predicate { $0.discount == $0.discount }, "filter decoded objects", "#Predicate {")
    try check(#Predicate { $0.discount != $0.discount }, "filter decoded objects", "#Predicate {")
    try check(#Predicate { $0.city == ($0.isPaid ? "Oslo" : "Rome") }, "filter decoded objects")
    try check(#Predicate { $0.tags.count == 1 }, "filter decoded objects")
    try check(#Predicate { $0.amount > $0.id }, "filter decoded objects", "#Predicate {")
    try check(#Predicate { $0.amount + 1 < $0.id }, "filter decoded objects")
    try check(#Predicate { order in order.tags.contains { $0.count > 3 } }, "decoded objects")
    try check(
      #Predicate { $0.amount > 40 && $0.amount > $0.id }, "scan index \"amount\"",
      "filter stored fields, then decoded objects")
    #expect(reports.errors.withLock { $0.isEmpty })
  }

  @Test func `An object for which a #Predicate fails matches neither it nor its negation`() throws {
    let query = objects.objects(Order.self)
    #expect(
      try query.filter(#Predicate { $0.discount! > 1 }).fetch()
        == orders.filter { $0.discount.map { $0 > 1 } ?? false })
    #expect(
      try query.filter(#Predicate { !($0.discount! > 1) }).fetch()
        == orders.filter { $0.discount.map { $0 <= 1 } ?? false })
    #expect(reports.errors.withLock { $0.count } == 60)
  }

  @Test func `A #Predicate combines with conditions, sorts and limits`() throws {
    let found = try objects.objects(Order.self).where(\.isPaid == true)
      .filter(#Predicate { $0.amount > 10 }).sorted(by: \.amount, .descending).limit(3).fetch()
    #expect(found.count == 3 && found.allSatisfy { $0.isPaid && $0.amount > 10 })
    #expect(
      try objects.objects(Order.self).filter(#Predicate { $0.amount > 10 }).delete()
        == orders.count { $0.amount > 10 })
    #expect(try objects.objects(Order.self).count() == orders.count { $0.amount <= 10 })
  }
}
#endif
