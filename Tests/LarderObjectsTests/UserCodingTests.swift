// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

/// A model with a decimal number at the top.
private struct Invoice: Storable, Equatable {
  let id: Int
  var amount: Decimal
  var currency: String
  var discount: Decimal?
  static let storedName = "Invoice"
}

/// A type whose `init(from:)` traps on anything but what it has written itself.
private struct Strict: Storable, Equatable {
  let id: Int
  var link: URL
  var percent: Int
  var doubled: Int
  var half: Int
  static let storedName = "Strict"

  init(_ number: Int) {
    id = number
    link = URL(string: "https://example.org/\(number)")!
    percent = 1 + number % 100
    half = number
    doubled = number * 2
  }

  enum CodingKeys: CodingKey { case id, link, percent, half }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    let text = try container.decode(String.self, forKey: .link)
    link = URL(string: text)!
    precondition(text.hasPrefix("https://example.org/"))
    percent = try container.decode(Int.self, forKey: .percent)
    precondition((1...100).contains(percent))
    half = try container.decode(Int.self, forKey: .half)
    doubled = half * 2
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(link.absoluteString, forKey: .link)
    try container.encode(percent, forKey: .percent)
    try container.encode(half, forKey: .half)
  }
}

/// A type that reads an older name of a value, and the value of another field for a missing one.
private struct Priced: Storable, Equatable {
  let id: Int
  var code: String
  var model: String
  var title: String
  static let storedName = "Priced"

  enum CodingKeys: CodingKey { case id, code, model, title }

  init(id: Int, code: String, model: String, title: String) {
    (self.id, self.code, self.model, self.title) = (id, code, model, title)
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    let code = try container.decode(String.self, forKey: .code)
    self.code = code == "EURO" ? "EUR" : code
    model = try container.decode(String.self, forKey: .model)
    title = try container.decodeIfPresent(String.self, forKey: .title) ?? model
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(code, forKey: .code)
    try container.encode(model, forKey: .model)
    if title != model { try container.encode(title, forKey: .title) }
  }
}

/// The values that were decoded.
private let decoded = Mutex<[Int]>([])

private struct Counted: Storable, Equatable {
  let id: Int
  var year: Int
  var note: String?
  @HasOne var owner: Person? = nil
  static let storedName = "Counted"
  static let indexes = [Index<Counted>("year", \.year)]

  init(id: Int, year: Int) { (self.id, self.year) = (id, year) }

  enum CodingKeys: CodingKey { case id, year, note, owner }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    id = try container.decode(Int.self, forKey: .id)
    year = try container.decode(Int.self, forKey: .year)
    note = try container.decodeIfPresent(String.self, forKey: .note)
    _owner = try container.decode(HasOne<Person?>.self, forKey: .owner)
    decoded.withLock { [id, year] in $0 += [id, year] }
  }
}

@Suite(.timeLimit(.minutes(60)), .serialized) struct UserCodingTests {
  @Test func `A model with a Decimal is filtered, sorted and summed`() throws {
    let ground = try StoreFixture(StoreOptions())
    let invoices = (0..<64).map {
      Invoice(
        id: $0, amount: Decimal($0 % 16) / 4, currency: $0 % 2 == 0 ? "EUR" : "CHF",
        discount: $0 % 3 == 0 ? nil : Decimal($0))
    }
    try ground.store.save(invoices)
    let all = ground.store.objects(Invoice.self)
    #expect(try all.where(\.amount == Decimal(string: "0.25")!).count() == 4)
    #expect(try all.where(\.amount >= 2).fetch() == invoices.filter { $0.amount >= 2 })
    #expect(try all.where(\.currency == "EUR").fetch().count == 32)
    #expect(try all.where(\.discount == nil).fetch() == invoices.filter { $0.discount == nil })
    let amounts = invoices.map(\.amount)
    let sum: Decimal = amounts.reduce(0, +)
    #expect(
      try all.sorted(by: \.amount, .descending).fetch().map(\.amount) == amounts.sorted(by: >))
    let values: [Decimal] = try all.values(of: \.amount)
    #expect(values.reduce(0, +) == sum)
    #expect(try all.sum(\.amount) == sum)
    #expect(try all.max(\.amount) == Decimal(string: "3.75"))
  }

  @Test func `A type that traps on values of others is queried by every property`() throws {
    let ground = try StoreFixture(StoreOptions())
    let objects = (1...200).map(Strict.init)
    try ground.store.save(objects)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for store in [ground.store, other] {
      let all = store.objects(Strict.self)
      #expect(try all.where(\.percent == 7).count() == 2)
      #expect(try all.where(\.doubled > 390).fetch() == objects.filter { $0.doubled > 390 })
      #expect(try all.where(\.link == objects[3].link).fetch() == [objects[3]])
      #expect(try all.sorted(by: \.half, .descending).fetch() == objects.reversed())
      #expect(try all.sum(\.half) == objects.map(\.half).reduce(0, +))
      #expect(try store.object(Strict.self, id: 5) == objects[4])
      try store.save(objects[7])
    }
  }

  @Test func `What a type makes of a field counts for a filter`() throws {
    let ground = try StoreFixture(StoreOptions())
    let codes = ["EURO", "EUR", "CHF", "USD"]
    try ground.store.save(
      (0..<32).map {
        Priced(
          id: $0, code: codes[$0 % 4], model: "m\($0 % 3)", title: $0 % 2 == 0 ? "m\($0 % 3)" : "t")
      })
    let all = try ObjectStore(at: ground.path, StoreOptions()).objects(Priced.self)
    #expect(try all.where(\.code == "EUR").count() == 16)
    #expect(try all.where(\.code == "EURO").count() == 0)
    #expect(try all.counts(by: \.code)["EUR"] == 16)
    let read = try all.fetch()
    for title in ["m0", "m1", "m2", "t"] {
      #expect(try all.where(\.title == title).fetch() == read.filter { $0.title == title })
    }
  }

  @Test func `init(from:) is called with stored objects and with nothing else`() throws {
    let ground = try StoreFixture(StoreOptions())
    decoded.withLock { $0 = [] }
    let objects = (0..<50).map { Counted(id: 1000 + $0, year: 5000 + $0 % 10) }
    try ground.store.save(objects)
    try ground.store.prepare(Counted.self)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for store in [ground.store, other] {
      let all = store.objects(Counted.self)
      #expect(try all.where(\.year == 5003).count() == 5)
      #expect(try all.where(\.note == nil).count() == 50)
      #expect(try all.sorted(by: \.note).fetch().count == 50)
      #expect(try all.sum(\.id) == objects.map(\.id).reduce(0, +))
      try store.save(objects[0])
      try store.delete(objects[1])
      try store.save(objects[1])
    }
    let step = ObjectMigration.objects("same again") { (old: Counted) in
      CountedLater(id: old.id, year: old.year)
    }
    try other.migrate([step])
    #expect(try other.objects(CountedLater.self).count() == 50)
    let seen = decoded.withLock { $0 }
    #expect(
      !seen.isEmpty && seen.allSatisfy { (1000..<1050).contains($0) || (5000..<5010).contains($0) })
  }
}

private struct CountedLater: Storable {
  let id: Int
  var year: Int
  static let schemaVersion = 2
  static let storedName = Counted.storedName
}
