// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import LarderObjects

/// Queries. None is asked twice, but where that is what is measured.
struct ObjectQueryFigures {
  let population: ObjectPopulation
  let isQuick: Bool

  init(_ population: ObjectPopulation, isQuick: Bool) {
    self.population = population
    self.isQuick = isQuick
  }

  private var rounds: Int { isQuick ? 5 : 21 }

  /// Both sides' results of the same questions, which must be equal.
  ///
  /// Each round asks an `ObjectStore` of its own, whose memory is empty: what is compared is finding
  /// and decoding, as the rival has to.
  ///
  /// - Parameter isInMemory: Whether the same was asked just before, without being measured, so that
  ///   the objects are in memory; the rival has none for objects.
  private func compare(
    _ id: String, _ bar: Figure.Bar, _ rival: String, questions: Int, unit: (String, Double),
    isInMemory: Bool = false,
    own: (ObjectStore, Int) throws -> [Part], theirs: (Database, Int) throws -> [PartRow]
  ) throws -> Figure {
    var mine: [[Part]] = []
    let result = try Rounds.compare(count: rounds) { round in
      let numbers = population.order(round).prefix(questions)
      let store = ObjectStore(population.store.storage)
      // What was there before goes outside of the time.
      mine = []
      mine.reserveCapacity(questions)
      if isInMemory { for number in numbers { keep(try own(store, number)) } }
      return try Rounds.nanoseconds {
        for number in numbers { mine.append(try own(store, number)) }
      } / Double(questions)
    } rival: { round in
      let numbers = population.order(round).prefix(questions)
      var found: [[PartRow]] = []
      found.reserveCapacity(questions)
      let time = try Rounds.nanoseconds {
        for number in numbers {
          found.append(try population.pool.read { try theirs($0, number) })
        }
      }
      guard found == mine.map({ $0.map(\.row) }) else {
        throw BenchFailure("\(id): the answers differ.")
      }
      return time / Double(questions)
    }
    return Figure(
      id: id, value: 1 / result.ratio, unit: "x", bar: bar, own: result.own / unit.1,
      rival: rival, rivalValue: result.rival / unit.1, rivalUnit: unit.0,
      spread: result.inverseSpread)
  }

  private static func memory(_ isInMemory: Bool) -> String {
    isInMemory ? "; Larder's objects in memory" : "; Larder's memory empty"
  }

  /// The ten parts of a lot.
  func indexedEqual(isInMemory: Bool) throws -> Figure {
    try compare(
      "objects.indexed_equal" + (isInMemory ? "" : "_cold"), .atLeast(isInMemory ? 5 : 3),
      "GRDB: PartRow.filter(lot == n).fetchAll" + Self.memory(isInMemory),
      questions: isQuick ? 500 : 2000, unit: ("us", 1000), isInMemory: isInMemory
    ) { store, number in
      try store.objects(Part.self).where(\.lot == number % 10_000).fetch()
    } theirs: { db, number in
      try PartRow.filter(PartRow.Columns.lot == number % 10_000).fetchAll(db)
    }
  }

  /// The twenty cheapest parts from a price on, below another.
  func indexedRange(isInMemory: Bool) throws -> Figure {
    try compare(
      "objects.indexed_range" + (isInMemory ? "" : "_cold"), .atLeast(isInMemory ? 5 : 3),
      "GRDB: PartRow.filter(price >= n && price < m).order(price).limit(20)"
        + Self.memory(isInMemory),
      questions: isQuick ? 500 : 2000, unit: ("us", 1000), isInMemory: isInMemory
    ) { store, number in
      try store.objects(Part.self).where(\.price >= number * 9 && \.price < number * 9 + 50_000)
        .sorted(by: \.price).limit(20).fetch()
    } theirs: { db, number in
      try PartRow.filter(
        PartRow.Columns.price >= number * 9 && PartRow.Columns.price < number * 9 + 50_000
      ).order(PartRow.Columns.price).limit(20).fetchAll(db)
    }
  }

  /// One part in a hundred by a property without an index. GRDB decodes all of them and a closure
  /// judges, which is what the figure is against; what SQLite takes when it judges itself is told
  /// besides.
  func scan() throws -> Figure {
    var times: [Double] = []
    let figure = try compare(
      "objects.scan", .atLeast(1), "GRDB: PartRow.fetchAll and filter", questions: 1,
      unit: ("ms", 1_000_000)
    ) { store, number in
      try store.objects(Part.self).where(Self.predicate(number)).fetch()
    } theirs: { db, number in
      let maker = "Maker \(number % 97)"
      return try PartRow.fetchAll(db).filter {
        $0.maker == maker && $0.weight >= Double(number % 1000)
      }
    }
    for round in 0..<rounds {
      let number = population.order(round)[0]
      times.append(
        try Rounds.nanoseconds {
          let found = try population.pool.read { db in
            try PartRow.filter(
              PartRow.Columns.maker == "Maker \(number % 97)"
                && PartRow.Columns.weight >= Double(number % 1000)
            ).fetchAll(db)
          }
          keep(found)
        } / 1e6)
    }
    let inSQL = (Rounds.median(times) * 100).rounded() / 100
    return Figure(
      id: figure.id, value: figure.value, unit: figure.unit, bar: figure.bar, own: figure.own,
      rival: figure.rival + "; \(inSQL) ms when SQLite filters", rivalValue: figure.rivalValue,
      rivalUnit: figure.rivalUnit, spread: figure.spread)
  }

  private static func predicate(_ number: Int) -> ObjectPredicate<Part> {
    \.maker == "Maker \(number % 97)" && \.weight >= Double(number % 1000)
  }

  /// A query that is kept, asked again. Another process changes an object now and then: the next
  /// answer must know.
  func repeated() throws -> Figure {
    let query = population.store.objects(Part.self).where(\.lot == 77).sorted(by: \.id)
    let repeats = isQuick ? 20_000 : 100_000
    let child = try Child(["--child-save", population.path])
    _ = try child.line()
    var count = 0
    let result = try Rounds.compare(count: rounds) { round in
      try child.send("\(round)")
      _ = try child.line()
      guard try query.fetch().first?.note == "round \(round)" else {
        throw BenchFailure("A repeated query gave what another process had changed.")
      }
      count = 0
      return try Rounds.nanoseconds {
        for _ in 0..<repeats { count += try query.fetch().count }
      } / Double(repeats)
    } rival: { round in
      try population.pool.write { db in
        try db.execute(
          sql: "UPDATE part SET note = ? WHERE id = ?", arguments: ["round \(round)", Part.id(77)])
      }
      let fewer = repeats / 1000
      var theirs = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<fewer {
          theirs += try population.pool.read { db in
            try PartRow.filter(PartRow.Columns.lot == 77).order(Column("id")).fetchAll(db).count
          }
        }
      }
      guard theirs * 1000 == count else { throw BenchFailure("The repeated queries differ.") }
      return time / Double(fewer)
    }
    try child.finish()
    let own = try query.fetch().map(\.row)
    let theirs = try population.pool.read {
      try PartRow.filter(PartRow.Columns.lot == 77).order(Column("id")).fetchAll($0)
    }
    guard own == theirs else { throw BenchFailure("The repeated queries differ.") }
    return Figure(
      id: "objects.repeat", value: result.own / 1000, unit: "us", bar: .atMost(1),
      own: result.own / 1000, rival: "GRDB: the same query again", rivalValue: result.rival / 1000,
      rivalUnit: "us", spread: result.ownSpread.divided(by: 1000))
  }

  /// A filtered and sorted query over 5,000 objects, without an index, against what Papyrus was
  /// measured to take for one.
  func fiveThousand() throws -> Figure {
    let store = population.store
    let papyrus = 507.0
    var times: [Double] = []
    for round in 0...(isQuick ? 20 : 100) {
      let number = population.order(round)[0]
      var found: [Part] = []
      let time = try Rounds.nanoseconds {
        found = try store.objects(Part.self).where(Self.predicate(number)).sorted(by: \.name)
          .fetch()
      }
      let all = (0..<population.count).map(Part.sample)
      let expected = all.filter { Self.predicate(number).holds(for: $0) }
        .sorted { $0.name < $1.name }
      guard found == expected else { throw BenchFailure("A query gave something else.") }
      if round > 0 { times.append(time / 1e6) }
    }
    let own = Rounds.median(times)
    return Figure(
      id: "objects.query_5000", value: papyrus / own, unit: "x", bar: .atLeast(100), own: own,
      rival: "Papyrus, as it was measured", rivalValue: papyrus, rivalUnit: "ms",
      spread: Rounds.quartiles(times.map { papyrus / $0 }))
  }
}
