// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderEngine
internal import LarderObjectEngine
import LarderObjects
import LarderTesting
import Testing

struct Moment: Storable, Equatable {
  let id: Int
  var at: Date
  var exactly: Date?
  static let indexes = [
    Index<Moment>("at", \.at), Index("exactly", \.exactly, unique: true),
  ]
}

@Suite(.timeLimit(.minutes(60)))
struct DateIndexTests {
  /// Dates that lie next to each other: in seconds since 1970 some of them are one number.
  static let neighbours: [Date] = {
    var seconds = 786_000_000.123
    return (0..<8).map { _ in
      defer { seconds = seconds.nextUp }
      return Date(timeIntervalSinceReferenceDate: seconds)
    }
  }()

  @Test func `An index distinguishes dates that differ in their last bit`() throws {
    #expect(Set(Self.neighbours.map(\.timeIntervalSince1970)).count < Self.neighbours.count)
    let ground = try StoreFixture(StoreOptions())
    let moments = Self.neighbours.enumerated().map {
      Moment(id: $0.offset, at: $0.element, exactly: $0.element)
    }
    try ground.store.save(moments)
    let all = ground.store.objects(Moment.self)
    for date in Self.neighbours {
      #expect(try all.where(\.at == date).explain().hasPrefix("scan index \"at\""))
      #expect(try all.where(\.at == date).fetch() == moments.filter { $0.at == date })
      #expect(try all.where(\.at > date).fetch() == moments.filter { $0.at > date })
      #expect(try all.where(\.at >= date).count() == moments.count { $0.at >= date })
      #expect(try all.where(\.at < date).count() == moments.count { $0.at < date })
      #expect(try all.where(\.at <= date).fetch() == moments.filter { $0.at <= date })
      #expect(try all.where { $0.exactly.isIn([date]) }.fetch().map(\.exactly) == [date])
    }
    let error = #expect(throws: ObjectError.self) {
      try ground.store.save(Moment(id: 100, at: Date(), exactly: Self.neighbours[3]))
    }
    #expect(error?.code == .uniqueViolation && error?.ids.contains("3") == true)
    #expect(try ground.store.storage.verify() == [])
  }

  @Test func `Dates that are NaN are found as Swift compares them`() throws {
    let ground = try StoreFixture(StoreOptions())
    let dates = [.nan, 0, -0.0, 1, .infinity].map { Date(timeIntervalSinceReferenceDate: $0) }
    let moments = dates.enumerated().map { Moment(id: $0.offset, at: $0.element) }
    try ground.store.save(moments)
    let all = ground.store.objects(Moment.self)
    func check(_ query: Query<Moment>, _ holds: (Moment) -> Bool) throws {
      let explained = try query.explain()
      #expect(try query.fetch().map(\.id) == moments.filter(holds).map(\.id), "\(explained)")
      #expect(try query.count() == moments.count(where: holds))
    }
    for date in dates {
      try check(all.where(\.at == date)) { $0.at == date }
      try check(all.where(\.at < date)) { $0.at < date }
      try check(all.where(\.at <= date)) { $0.at <= date }
      try check(all.where(\.at > date)) { $0.at > date }
      try check(all.where(\.at >= date)) { $0.at >= date }
      try check(all.where { $0.at.isIn([date, dates[3]]) }) { [date, dates[3]].contains($0.at) }
    }
  }

  @Test func `The keys of dates are in the order of the dates`() {
    let seed = Seed.announce()
    var random = seed.generator()
    let edges: [Double] = [
      0, 1, -1, .infinity, -.infinity, .leastNonzeroMagnitude, 978_307_200, -978_307_200,
      .greatestFiniteMagnitude,
    ]
    func some() -> Double {
      switch Int.random(in: 0..<4, using: &random) {
      case 0: edges.randomElement(using: &random)!
      case 1: Double.random(in: -4e9...4e9, using: &random)
      case 2: Double(sign: .plus, exponent: 29, significand: 1.5).nextUp
      default: Double(Int.random(in: -1_000_000...1_000_000, using: &random)) / 8
      }
    }
    for _ in 0..<20_000 {
      let left = some()
      let right = random.chance(50) ? left.nextUp : some()
      let keys = [left, right].map { Date(timeIntervalSinceReferenceDate: $0).indexKey }
      #expect(
        keys[0].lexicographicallyPrecedes(keys[1]) == (left < right), "\(seed): \(left) \(right)")
      #expect((keys[0] == keys[1]) == (left == right), "\(seed): \(left) \(right)")
    }
  }

  @Test func `An index with keys of an older encoding is not used and is rebuilt`() throws {
    let ground = try StoreFixture(StoreOptions())
    let moments = Self.neighbours.enumerated().map { Moment(id: $0.offset, at: $0.element) }
    try ground.store.save(moments)
    // As a program of before has declared it.
    try ground.store.storage.write { transaction in
      var record = try #require(try transaction.objectType(named: Moment.storedName))
      for position in record.indexes.indices { record.indexes[position].keyRevision = nil }
      try transaction.putObjectType(record)
    }
    let later = ground.store.objects(Moment.self).where(\.at > Self.neighbours[4])
    #expect(try later.explain().hasPrefix("scan all"))
    #expect(try later.fetch() == Array(moments[5...]))
    try ground.store.prepare(Moment.self)
    #expect(try later.explain().hasPrefix("scan index \"at\""))
    #expect(try later.fetch() == Array(moments[5...]))
    #expect(try ground.store.storage.verify() == [])
  }
}
