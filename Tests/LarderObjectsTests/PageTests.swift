// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct PageTests {
  private let ground: StoreFixture
  private var store: ObjectStore { ground.store }

  init() throws { ground = try StoreFixture(StoreOptions()) }

  private func pages(
    of query: Query<Car>, size: Int, between: () throws -> Void = {}
  ) throws -> [[Car]] {
    var result: [[Car]] = []
    var cursor: PageCursor?
    repeat {
      let page = try query.page(after: cursor, size: size)
      result.append(page.objects)
      cursor = page.next
      try between()
    } while cursor != nil
    return result
  }

  @Test func `Pages together are the whole result, in its order, for any query`() throws {
    var random = Seed.announce().generator()
    try store.save((0..<80).map { QueryOracleTests.car($0, &random) })
    for _ in 0..<150 {
      var query = store.objects(Car.self)
      if random.chance(70) { query = query.where(QueryOracleTests.predicate(1, &random).0) }
      let direction = random.chance(50) ? SortDirection.ascending : .descending
      switch Int.random(in: 0..<6, using: &random) {
      case 0: query = query.sorted(by: \.year, direction)
      case 1: query = query.sorted(by: \.owner, direction).then(by: \.year, .ascending)
      case 2: query = query.where(\.owner == "a").sorted(by: \.year, direction)
      case 3: query = query.sorted(by: \.model, direction)
      case 4: query = query.sorted(by: \.price, direction).then(by: \.model, direction)
      default: break
      }
      let expected = try query.fetch()
      let size = Int.random(in: 1...9, using: &random)
      let pages = try pages(of: query, size: size)
      let explained = try query.limit(size).explain()
      #expect(pages.flatMap { $0 } == expected, "\(explained)")
      #expect(pages.dropLast().allSatisfy { $0.count == size })
      if let car = expected.randomElement(using: &random) {
        let position = expected.firstIndex(of: car)!
        let rest = Array(expected[(position + 1)...])
        #expect(try query.after(car).fetch() == rest, "\(explained)")
        #expect(try query.after(car).count() == rest.count)
        #expect(try query.after(car).limit(3).fetch() == Array(rest.prefix(3)))
      }
    }
  }

  @Test func `A cursor of a query with one closure is refused by a query with another`() throws {
    try store.save((0..<20).map { Car(id: "\($0)", model: "m", year: $0) })
    let all = store.objects(Car.self)
    func even() -> Query<Car> { all.filter { $0.year % 2 == 0 } }
    let odd = all.filter { $0.year % 2 == 1 }
    let next = try #require(try even().page(size: 3).next)
    // The same closure, created again.
    #expect(try even().page(after: next, size: 3).objects.map(\.year) == [6, 8, 10])
    let twice = [all.filter { $0.year > 1 }, all.filter { $0.year > 2 }]
    for query in [
      odd, all, even().filter { $0.year > 0 }, all.where(ObjectPredicate { $0.year > 0 }),
    ]
      + twice
    {
      let error = #expect(throws: ObjectError.self) { try query.page(after: next, size: 3) }
      #expect(error?.code == .invalidCursor)
    }
    // A query cannot distinguish captured values.
    func above(_ year: Int) -> Query<Car> { all.filter { $0.year > year } }
    let behind = try #require(try above(5).page(size: 2).next)
    #expect(try above(0).page(after: behind, size: 2).objects.map(\.year) == [8, 9])
    #expect(try even().explain().contains("filter decoded objects: a closure"))
  }

  @Test func `Inserts and deletions between two pages repeat nothing and leave nothing out`() throws
  {
    var random = Seed.announce().generator()
    let cars = (0..<60).map { Car(id: "\($0)", model: "m", year: $0 / 7) }
    try store.save(cars)
    var next = 1000
    let query = store.objects(Car.self).sorted(by: \.year)
    let pages = try pages(of: query, size: 7) {
      try store.save(
        Car(id: "\(next)", model: "new", year: Int.random(in: 0...9, using: &random)))
      next += 1
      // The very object a page ended with may go.
      try store.delete(Car.self, id: "\(1000 + Int.random(in: 0..<next - 999, using: &random))")
    }
    let old = pages.flatMap { $0 }.filter { $0.model == "m" }
    #expect(old == cars)
    let ids = pages.flatMap { $0 }.map(\.id)
    #expect(Set(ids).count == ids.count)
  }

  @Test func `A cursor outlives the object it was made from, and its text is all of it`() throws {
    try store.save((0..<10).map { Car(id: "\($0)", model: "m", year: 1) })
    let query = store.objects(Car.self).sorted(by: \.year)
    let page = try query.page(size: 3)
    try store.delete(Car.self, id: "2")
    let cursor = try #require(page.next)
    let text = cursor.description
    #expect(text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "-" || $0 == "_" })
    let coded = try JSONDecoder().decode(PageCursor.self, from: JSONEncoder().encode(cursor))
    for cursor in [PageCursor(text), coded] {
      #expect(try query.page(after: cursor, size: 3).objects.map(\.id) == ["3", "4", "5"])
    }
    #expect(throws: ObjectError.self) {
      try query.after(Car(id: "2", model: "m", year: 1)).fetch()
    }
  }

  @Test func `A cursor of another query, or a damaged one, is a typed error`() throws {
    try store.save((0..<10).map { Car(id: "\($0)", model: "m", year: $0) })
    try store.save((0..<10).map { Plate(id: $0, text: "\($0)") })
    let query = store.objects(Car.self).where(\.year > 1).sorted(by: \.year)
    let cursor = try #require(try query.page(size: 2).next)
    func isRefused<Object>(_ query: Query<Object>, _ cursor: PageCursor) -> Bool {
      do {
        _ = try query.page(after: cursor, size: 2)
        return false
      } catch {
        return (error as? ObjectError)?.code == .invalidCursor
      }
    }
    #expect(isRefused(store.objects(Car.self).where(\.year > 1).sorted(by: \.model), cursor))
    #expect(
      isRefused(
        store.objects(Car.self).where(\.year > 1).sorted(by: \.year, .descending), cursor))
    #expect(isRefused(store.objects(Car.self).where(\.year > 2).sorted(by: \.year), cursor))
    #expect(isRefused(store.objects(Car.self).where(\.year > 1), cursor))
    #expect(isRefused(store.objects(Plate.self), cursor))
    #expect(!isRefused(query.limit(3), cursor))
    var random = Seed.announce().generator()
    for text in ["", "x", "####", "AAAA", String(cursor.description.dropLast(4))] {
      #expect(isRefused(query, PageCursor(text)), "\(text)")
    }
    // Any change in it is an error, and no other place in the result.
    let text = cursor.description
    for _ in 0..<500 {
      var bytes = Array(text.utf8)
      bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(
        in: 45...122, using: &random)
      let changed = String(decoding: bytes, as: UTF8.self)
      if changed != text { #expect(isRefused(query, PageCursor(changed)), "\(changed)") }
    }
    for count in 1...text.count {
      #expect(isRefused(query, PageCursor(String(text.dropLast(count)))))
      #expect(isRefused(query, PageCursor(String(text.dropFirst(count)))))
    }
    for changed in [text + "\n", " " + text, text + "=", text + "A", text.uppercased()] {
      #expect(isRefused(query, PageCursor(changed)), "\(changed)")
    }
    #expect(!isRefused(query, PageCursor(text)))
  }

  @Test func `A page in the order of an index begins at its place`() throws {
    try store.save((0..<2000).map { Car(id: "\($0)", model: "m", year: $0 / 500, owner: "o") })
    for query in [
      store.objects(Car.self).sorted(by: \.year),
      store.objects(Car.self).sorted(by: \.year, .descending),
      store.objects(Car.self).where(\.owner == "o").sorted(by: \.year),
    ] {
      let all = try query.fetch()
      let far = query.after(all[1899]).limit(10)
      #expect(try far.fetch() == Array(all[1900..<1910]))
      #expect(try far.explain().contains("start after the position"))
    }
  }
}
