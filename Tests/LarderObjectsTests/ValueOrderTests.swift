// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// Numbers and dates that may be none, with indexes.
private struct Reading: Storable, Equatable {
  let id: Int
  var value: Double
  var perhaps: Double?
  var time: Date
  static let storedName = "Reading"
  static let indexes = [Index<Reading>("value", \.value), Index("time", \.time)]
}

/// The same without.
private struct PlainReading: Storable, Equatable {
  let id: Int
  var value: Double
  var perhaps: Double?
  var time: Date
  static let storedName = "PlainReading"
}

private struct Text: Storable, Equatable {
  let id: Int
  var text: String
  static let storedName = "Text"
  static let indexes = [Index<Text>("text", \.text)]
}

/// Returns the sort position of a number: missing values first, NaN last.
private func rank(_ number: Double?) -> (Int, Double) {
  guard let number else { return (-1, 0) }
  return number.isNaN ? (1, 0) : (0, number)
}

@Suite(.timeLimit(.minutes(60))) struct ValueOrderTests {
  private let ground: StoreFixture
  private var store: ObjectStore { ground.store }

  init() throws { ground = try StoreFixture(StoreOptions()) }

  private func numbers(_ random: inout SeededRandom) -> [Double?] {
    let some: [Double?] = [nil, .nan, -.nan, 0, -0.0, .infinity, -.infinity, 1, 2, 3.5, -4]
    return (0..<Int.random(in: 3...150, using: &random)).map { _ in
      some.randomElement(using: &random)!
    }
  }

  @Test func `NaN is sorted last, with limits, in pages, by an index`()
    throws
  {
    var random = Seed.announce().generator()
    for _ in 0..<12 {
      let all = numbers(&random).enumerated().map { id, number in
        Reading(
          id: id, value: number ?? 7, perhaps: number,
          time: Date(timeIntervalSinceReferenceDate: number ?? 7))
      }
      try store.reset()
      try store.save(all)
      try store.save(
        all.map { PlainReading(id: $0.id, value: $0.value, perhaps: $0.perhaps, time: $0.time) })
      for direction in [SortDirection.ascending, .descending] {
        func ids(_ value: (Reading) -> Double?) -> [Int] {
          let ascending = all.sorted { left, right in
            let (first, second) = (rank(value(left)), rank(value(right)))
            return first == second ? left.id < right.id : first < second
          }
          return (direction == .ascending ? ascending : ascending.reversed()).map(\.id)
        }
        let readings = store.objects(Reading.self)
        let plain = store.objects(PlainReading.self)
        try expect(readings.sorted(by: \.value, direction), ids { $0.value })
        try expect(readings.sorted(by: \.perhaps, direction), ids { $0.perhaps })
        try expect(
          readings.sorted(by: \.time, direction), ids { $0.time.timeIntervalSinceReferenceDate })
        try expect(plain.sorted(by: \.value, direction), ids { $0.value })
        try expect(
          plain.sorted(by: \.time, direction), ids { $0.time.timeIntervalSinceReferenceDate })
      }
      let least = all.map(\.value).filter { !$0.isNaN }.min()
      let none = all.contains { $0.value.isNaN }
      for (first, last) in [
        (
          try store.objects(Reading.self).min(\.value), try store.objects(Reading.self).max(\.value)
        ),
        (
          try store.objects(PlainReading.self).min(\.value),
          try store.objects(PlainReading.self).max(\.value)
        ),
      ] {
        #expect(least == nil || first == least)
        #expect(last?.isNaN == none)
      }
    }
    let latest = store.objects(Reading.self).sorted(by: \.time, .descending).limit(3)
    #expect(try latest.explain().hasPrefix("scan index \"time\""))
  }

  private func expect<Object: Storable>(
    _ query: Query<Object>, _ ids: [Int], location: SourceLocation = #_sourceLocation
  ) throws where Object.ID == Int {
    #expect(try query.fetch().map(\.id) == ids, sourceLocation: location)
    #expect(
      try query.offset(1).limit(2).fetch().map(\.id) == Array(ids.dropFirst().prefix(2)),
      sourceLocation: location)
    var paged: [Int] = []
    var page = try query.page(size: 4)
    paged += page.objects.map(\.id)
    while let next = page.next, paged.count <= ids.count {
      page = try query.page(after: next, size: 4)
      paged += page.objects.map(\.id)
    }
    #expect(paged == ids, sourceLocation: location)
  }

  @Test func `Texts are found and sorted by an index as Swift compares them, however composed`()
    throws
  {
    let texts = [
      "", "e", "é", "e\u{301}", "e\u{301}a", "éa", "q", "q\u{301}", "qa", "\u{1100}\u{1161}", "가나",
      "\r\n", "\r", "\0", "a\0b", "a", "👨‍👩‍👧", "👨", "ß", "SS", "ss", "İ", "i\u{307}", "Σ", "σ", "ς",
      "\u{301}",
      "a\u{315}\u{300}", "a\u{300}\u{315}", "\u{212B}", "Å", "\u{FB01}", "fi",
    ]
    try store.save(texts.enumerated().map { Text(id: $0.offset, text: $0.element) })
    for text in texts {
      let beginning = try store.objects(Text.self).where { $0.text.hasPrefix(text) }.fetch()
      #expect(beginning.map(\.id).sorted() == texts.indices.filter { texts[$0].hasPrefix(text) })
      let equal = try store.objects(Text.self).where(\.text == text).fetch()
      #expect(equal.map(\.id).sorted() == texts.indices.filter { texts[$0] == text })
    }
  }
}
