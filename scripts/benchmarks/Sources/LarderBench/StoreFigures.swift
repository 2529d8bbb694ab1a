// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline
import Larder

/// The store's reads and writes of bytes against the same liblmdb called from C.
struct StoreFigures {
  let population: StoreDataset
  let isQuick: Bool

  /// Random reads over all keys; each gives a copy of the value whose checksum was verified. The
  /// rival renews, gets, copies all bytes to its stack, resets; it verifies nothing.
  func get() throws -> Figure {
    let reads = isQuick ? 20_000 : 50_000
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { round in
      let order = StoreDataset.order(round)
      var sum: UInt64 = 0
      let time = try Rounds.nanoseconds {
        for index in 0..<reads {
          let key = population.keys[Int(order[index])]
          guard let bytes = try population.namespace.bytes(forKey: key) else {
            throw BenchFailure("A key is missing.")
          }
          sum &+= first(bytes)
        }
      }
      sums.own = sum
      return time / Double(reads)
    } rival: { round in
      let order = StoreDataset.order(round)
      var sum: UInt64 = 0
      let time = rival_get(population.rival, order, reads, &sum)
      guard sum == sums.own else { throw BenchFailure("The values read differ from the rival's.") }
      return Double(time) / Double(reads)
    }
    return Figure(
      id: "core.store_get", value: result.ratio, unit: "x", bar: .atMost(1.4), own: result.own,
      rival: "C: mdb_txn_renew, mdb_get, memcpy, mdb_txn_reset", rivalValue: result.rival,
      rivalUnit: "ns", spread: result.spread)
  }

  /// One write, committed when the call returns, over the existing keys.
  func setCommitted() throws -> Figure {
    let writes = isQuick ? 1000 : 2000
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { round in
      let order = StoreDataset.order(round)
      let time = try Rounds.nanoseconds {
        for index in 0..<writes {
          let key = Int(order[index])
          try population.namespace.setBytes(
            population.values[(key + round) % StoreDataset.count], forKey: population.keys[key])
        }
      }
      return time / Double(writes)
    } rival: { round in
      let order = StoreDataset.order(round)
      return Double(rival_put_each(population.rival, order, writes, UInt32(round))) / Double(writes)
    }
    try population.verify()
    return Figure(
      id: "core.set_committed", value: result.ratio, unit: "x",
      bar: .atMost(population.usesWriteMap ? 1.8 : 1.5), own: result.own / 1000,
      rival: "C: mdb_txn_begin, mdb_put, mdb_txn_commit (NOSYNC, NOTLS"
        + (population.usesWriteMap ? ", WRITEMAP)" : ")"),
      rivalValue: result.rival / 1000, rivalUnit: "us", spread: result.spread)
  }

  /// The same to a relaxed store, which is synced in the background meanwhile, against a cache that
  /// writes as it does: with calls of the system, not through the map.
  func setRelaxed(in directory: String) throws -> Figure {
    let (keys, values) = (population.keys, population.values)
    func filled(_ name: String, _ options: StoreOptions) throws -> SharedStore {
      let store = try SharedStore(at: directory + "/" + name, options)
      for start in stride(from: 0, to: StoreDataset.count, by: 1000) {
        try store.write { transaction in
          for key in start..<start + 1000 {
            try transaction.setBytes(values[key], forKey: keys[key], in: "values")
          }
        }
      }
      return store
    }
    let relaxed = try filled("relaxed", .init(durability: .relaxed, budget: .megabytes(256)))
    defer { relaxed.close() }
    var options = StoreOptions(budget: .megabytes(256))
    options.usesWriteMap = false
    let cache = try filled("unmapped", options)
    defer { cache.close() }
    let (namespace, other) = (try relaxed.namespace("values"), try cache.namespace("values"))
    let writes = isQuick ? 1000 : 2000
    func time(_ namespace: StoreNamespace, _ round: Int) throws -> Double {
      let order = StoreDataset.order(round)
      return try Rounds.nanoseconds {
        for index in 0..<writes {
          let key = Int(order[index])
          try namespace.setBytes(values[(key + round) % StoreDataset.count], forKey: keys[key])
        }
      } / Double(writes)
    }
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { round in
      try time(namespace, round)
    } rival: { round in
      try time(other, round)
    }
    return Figure(
      id: "core.set_relaxed", value: result.ratio, unit: "x", bar: .atMost(1.3),
      own: result.own / 1000,
      rival: "Larder: the same writes to a .cache store, not through the map",
      rivalValue: result.rival / 1000, rivalUnit: "us", spread: result.spread)
  }

  /// 1,000 writes in one transaction, over the existing keys.
  func setBatch() throws -> Figure {
    let (keys, values, store) = (population.keys, population.values, population.store)
    let result = try Rounds.compare(count: isQuick ? 15 : 61) { round in
      let order = StoreDataset.order(round).prefix(1000)
      return try Rounds.nanoseconds {
        try store.write { transaction in
          for key in order {
            try transaction.setBytes(
              values[(Int(key) + round) % StoreDataset.count], forKey: keys[Int(key)], in: "values")
          }
        }
      } / 1000
    } rival: { round in
      let order = StoreDataset.order(round)
      return Double(rival_put_batch(population.rival, order, 1000, UInt32(round))) / 1000
    }
    try population.verify()
    return Figure(
      id: "core.set_batch", value: 1 / result.ratio, unit: "x", bar: .atLeast(0.5),
      own: 1_000_000 / result.own, rival: "C: 1,000 mdb_put in one transaction",
      rivalValue: 1_000_000 / result.rival, rivalUnit: "k/s", spread: result.inverseSpread)
  }

  /// What the last own round read, for the rival's to be compared with.
  private final class Sums { var own: UInt64 = 0 }
  private let sums = Sums()

  init(_ population: StoreDataset, isQuick: Bool) {
    self.population = population
    self.isQuick = isQuick
  }

  @inline(__always)
  private func first(_ bytes: [UInt8]) -> UInt64 {
    bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt64.self) }
  }
}
