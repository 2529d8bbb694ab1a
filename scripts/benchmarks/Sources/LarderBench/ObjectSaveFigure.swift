// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import LarderObjects

/// A thousand new objects in one transaction, beside 100,000 others, with two indexes.
///
/// A round is four such transactions in turn: every second or third of SQLite's writes its log back
/// into the database, which is a part of what saving costs. What one transaction takes in the median,
/// most of SQLite's without that, is told besides.
struct ObjectSaveFigure {
  let population: ObjectPopulation
  let isQuick: Bool

  init(_ population: ObjectPopulation, isQuick: Bool) {
    self.population = population
    self.isQuick = isQuick
  }

  func save() throws -> Figure {
    let count = 1000
    func parts(_ round: Int) -> [Part] {
      var numbers = Numbers(seed: UInt64(round))
      let start = population.count + round * count
      return (start..<start + count).map(Part.sample).shuffled(using: &numbers)
    }
    let transactions = 4
    var (own, theirs): ([Double], [Double]) = ([], [])
    func measure(_ round: Int, _ times: inout [Double], _ save: ([Part]) throws -> Void) throws
      -> Double
    {
      var sum = 0.0
      for number in 0..<transactions {
        let parts = parts(round * transactions + number)
        let time = try Rounds.nanoseconds { try save(parts) } / 1e6
        sum += time
        if round > 0 { times.append(time) }
      }
      return sum / Double(transactions)
    }
    let result = try Rounds.compare(count: isQuick ? 5 : 11) { round in
      try measure(round, &own) { try population.store.save($0) }
    } rival: { round in
      try measure(round, &theirs) { parts in
        try population.pool.write { db in for part in parts { try part.row.insert(db) } }
      }
    }
    let medians = [own, theirs].map { (Rounds.median($0) * 100).rounded() / 100 }
    try population.verify()
    return Figure(
      id: "objects.save", value: 1 / result.ratio, unit: "x", bar: .atLeast(1.5), own: result.own,
      rival: "GRDB: pool.write { 1,000 x part.insert($0) }, synchronous = FULL; the median "
        + "transaction \(medians[0]) against \(medians[1]) ms",
      rivalValue: result.rival, rivalUnit: "ms", spread: result.inverseSpread)
  }
}
