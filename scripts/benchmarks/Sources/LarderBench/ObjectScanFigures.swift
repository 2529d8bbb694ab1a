// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import LarderSchema

/// Queries over all objects that SQLite answers without making an object: counts, sums and groups by
/// properties without an index, and changes of many objects by one statement.
struct ObjectScanFigures {
  let population: ObjectPopulation
  let isQuick: Bool

  init(_ population: ObjectPopulation, isQuick: Bool) {
    self.population = population
    self.isQuick = isQuick
  }

  private var rounds: Int { isQuick ? 5 : 21 }

  /// Both sides' results of the same question, which must be equal; in milliseconds.
  static func compare<Answer: Equatable>(
    _ id: String, _ bar: Figure.Bar, _ rival: String, rounds: Int,
    own: (Int) throws -> Answer, theirs: (Int) throws -> Answer
  ) throws -> Figure {
    var answer: Answer?
    let result = try Rounds.compare(count: rounds) { round in
      try Rounds.nanoseconds { answer = try own(round) }
    } rival: { round in
      var other: Answer?
      let time = try Rounds.nanoseconds { other = try theirs(round) }
      guard other == answer else { throw BenchFailure("\(id): the answers differ.") }
      return time
    }
    return Figure(
      id: id, value: 1 / result.ratio, unit: "x", bar: bar, own: result.own / 1e6, rival: rival,
      rivalValue: result.rival / 1e6, rivalUnit: "ms", spread: result.inverseSpread)
  }

  func filter() throws -> Figure {
    let most = Double(population.count) * 0.25
    return try Self.compare(
      "objects.scan_filter", .atLeast(1), "SQLite: SELECT count(*) FROM part WHERE weight >= ?",
      rounds: rounds
    ) { round in
      try population.store.objects(Part.self).where(\.weight >= most - Double(round)).count()
    } theirs: { round in
      try population.pool.read { db in
        try Int.fetchOne(
          db, sql: "SELECT count(*) FROM part WHERE weight >= ?",
          arguments: [most - Double(round)])!
      }
    }
  }

  func aggregate() throws -> Figure {
    struct Answer: Equatable {
      var sum = 0
      var counts: [String: Int] = [:]
    }
    return try Self.compare(
      "objects.aggregate", .atLeast(1),
      "SQLite: SELECT sum(weight), SELECT maker, count(*) … GROUP BY maker", rounds: rounds
    ) { _ in
      let parts = population.store.objects(Part.self)
      return try Answer(
        sum: Int(parts.sum(\.weight)), counts: parts.grouped(by: \.maker).count())
    } theirs: { _ in
      try population.pool.read { db in
        var answer = Answer()
        answer.sum = Int(try Double.fetchOne(db, sql: "SELECT sum(weight) FROM part")!)
        let rows = try Row.fetchCursor(db, sql: "SELECT maker, count(*) FROM part GROUP BY maker")
        while let row = try rows.next() { answer.counts[row[0]] = row[1] }
        return answer
      }
    }
  }

  /// Changes ten of a hundred parts. It leaves both sides with the same changed parts.
  func update() throws -> Figure {
    let figure = try Self.compare(
      "objects.update_where", .atLeast(0.5),
      "SQLite: UPDATE part SET weight = weight + 1 WHERE lot < ?, synchronous = FULL",
      rounds: isQuick ? 3 : 11
    ) { _ in
      try population.store.objects(Part.self).where(\.lot < 1000).update(\.weight) { $0 += 1 }
    } theirs: { _ in
      try population.pool.write { db in
        try db.execute(sql: "UPDATE part SET weight = weight + 1 WHERE lot < 1000")
        return db.changesCount
      }
    }
    try population.verify()
    return figure
  }
}
