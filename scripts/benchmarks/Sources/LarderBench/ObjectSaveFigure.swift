// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import LarderObjects

/// A thousand new objects in one transaction, beside 100,000 others, with two indexes.
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
    let result = try Rounds.compare(count: isQuick ? 7 : 41) { round in
      let parts = parts(round)
      return try Rounds.nanoseconds { try population.store.save(parts) } / 1e6
    } rival: { round in
      let parts = parts(round)
      return try Rounds.nanoseconds {
        try population.pool.write { db in for part in parts { try part.insert(db) } }
      } / 1e6
    }
    try population.verify()
    return Figure(
      id: "objects.save", value: 1 / result.ratio, unit: "x", bar: .atLeast(1), own: result.own,
      rival: "GRDB: pool.write { 1,000 x part.insert($0) }, synchronous = FULL",
      rivalValue: result.rival, rivalUnit: "ms")
  }
}
