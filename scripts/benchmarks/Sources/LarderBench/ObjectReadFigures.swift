// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import GRDB
import LarderObjects

/// Objects by id: from the store, decoded; and from this process's memory.
struct ObjectReadFigures {
  let population: ObjectPopulation
  let isQuick: Bool

  init(_ population: ObjectPopulation, isQuick: Bool) {
    self.population = population
    self.isQuick = isQuick
  }

  /// Each round over an `ObjectStore` of its own, whose memory is empty, and ids that occur once.
  func cold() throws -> Figure {
    let reads = isQuick ? 5000 : 20_000
    var own: [Part] = []
    var theirs: [PartRow] = []
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { round in
      let ids = population.order(round).prefix(reads).map(Part.id)
      let objects = ObjectStore(population.store.storage).collection(Part.self)
      own = []
      own.reserveCapacity(reads)
      return try Rounds.nanoseconds {
        for id in ids {
          guard let part = try objects.object(id: id) else { throw BenchFailure("A part is gone.") }
          own.append(part)
        }
      } / Double(reads)
    } rival: { round in
      let ids = population.order(round).prefix(reads).map(Part.id)
      theirs = []
      theirs.reserveCapacity(reads)
      let time = try Rounds.nanoseconds {
        for id in ids {
          guard let part = try population.pool.read({ try PartRow.fetchOne($0, key: id) }) else {
            throw BenchFailure("A part is gone.")
          }
          theirs.append(part)
        }
      }
      guard own.map(\.row) == theirs else { throw BenchFailure("Parts by id differ.") }
      return time / Double(reads)
    }
    return Figure(
      id: "objects.fetch_cold", value: 1 / result.ratio, unit: "x", bar: .atLeast(12),
      own: result.own / 1000, rival: "GRDB: pool.read { PartRow.fetchOne($0, key:) }",
      rivalValue: result.rival / 1000, rivalUnit: "us", spread: result.inverseSpread)
  }

  /// A thousand parts again and again.
  func hot() throws -> Figure {
    let ids = population.order(1).prefix(1000).map(Part.id)
    let objects = population.store.collection(Part.self)
    let repeats = isQuick ? 50 : 200
    var sum = 0
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { _ in
      var mine = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          for id in ids {
            guard let part = try objects.object(id: id) else {
              throw BenchFailure("A part is gone.")
            }
            mine &+= part.lot
          }
        }
      }
      sum = mine / repeats
      return time / Double(repeats * ids.count)
    } rival: { _ in
      var theirs = 0
      let time = try Rounds.nanoseconds {
        for id in ids {
          guard let part = try population.pool.read({ try PartRow.fetchOne($0, key: id) }) else {
            throw BenchFailure("A part is gone.")
          }
          theirs &+= part.lot
        }
      }
      guard sum == theirs else { throw BenchFailure("Hot parts differ.") }
      return time / Double(ids.count)
    }
    return Figure(
      id: "objects.fetch_hot", value: result.own, unit: "ns", bar: .atMost(150), own: result.own,
      rival: "GRDB: pool.read { PartRow.fetchOne($0, key:) }, the same ids",
      rivalValue: result.rival, rivalUnit: "ns", spread: result.ownSpread)
  }
}
