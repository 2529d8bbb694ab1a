// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder

/// What takes more than one process to measure.
struct ProcessFigures {
  let directory: String
  let isQuick: Bool

  private static let bigValue = 16 << 10
  private static let budget = ByteCount.gigabytes(3)

  // MARK: Opening

  /// A store with 1 GB in it, closed in order, opened by fresh processes of the same boot.
  func open() throws -> Figure {
    let path = directory + "/big"
    do {
      let store = try SharedStore(at: path, .init(budget: Self.budget))
      defer { store.close() }
      var numbers = Numbers(seed: 3)
      let value = (0..<Self.bigValue).map { _ in UInt8(truncatingIfNeeded: numbers.next()) }
      for start in stride(from: 0, to: (1 << 30) / Self.bigValue, by: 256) {
        try store.write { transaction in
          for key in start..<start + 256 { try transaction.setBytes(value, forKey: key) }
        }
      }
    }
    defer { Files.remove(path) }
    var times: [Double] = []
    for round in 0...(isQuick ? 5 : 15) {
      let child = try Child(["--child-open", path])
      let time = try child.number()
      let size = try child.number()
      try child.finish()
      guard size >= Double(1 << 30) else {
        throw BenchFailure("The store holds \(size) bytes only.")
      }
      if round > 0 { times.append(time / 1e6) }
    }
    let time = Rounds.median(times)
    return Figure(
      id: "core.open_1gb", value: time, unit: "ms", bar: .atMost(10), own: time,
      rival: "none; slowest of \(times.count) processes", rivalValue: times.max()!, rivalUnit: "ms",
      spread: Rounds.quartiles(times))
  }

  static func openChild(_ path: String) throws {
    let start = bench_now()
    let store = try SharedStore(at: path, .init(budget: budget))
    let time = bench_now() - start
    guard try store.bytes(forKey: 77)?.count == bigValue else {
      throw BenchFailure("The opened store lacks a value.")
    }
    Child.say("\(time)")
    Child.say("\(try store.statistics().bytes)")
    store.close()
  }

  // MARK: Two readers

  /// Random reads of 256 bytes for a while, by one process and by two at once.
  func twoReaders(_ population: StoreDataset) throws -> Figure {
    let path = population.store.path
    let children = [
      try Child(["--child-read", path, "1"]), try Child(["--child-read", path, "2"]),
    ]
    for child in children { _ = try child.line() }
    let seconds = isQuick ? 0.2 : 0.5
    func reads(_ readers: some Sequence<Child>) throws -> Double {
      for child in readers { try child.send("\(seconds)") }
      return try readers.reduce(0) { try $0 + $1.number() }
    }
    let result = try Rounds.compare(count: isQuick ? 5 : 21) { _ in
      try reads(children)
    } rival: { round in
      try reads([children[round % 2]])
    }
    for child in children { try child.finish() }
    return Figure(
      id: "core.two_readers", value: result.ratio, unit: "x", bar: .atLeast(1.7),
      own: result.own / 1000, rival: "one reading process (thousand reads a second)",
      rivalValue: result.rival / 1000, rivalUnit: "k/s", spread: result.spread)
  }

  static func readChild(_ path: String, seed: Int) throws {
    let store = try SharedStore(at: path)
    let namespace = try store.namespace("values")
    let order = StoreDataset.order(seed)
    let keys = order.map { index in
      let digits = String(index)
      return "key-" + String(repeating: "0", count: 6 - digits.count) + digits
    }
    var position = 0
    Child.say("ready")
    while let line = readLine(), let seconds = Double(line) {
      let start = bench_now()
      let end = start + UInt64(seconds * 1e9)
      var count = 0
      while bench_now() < end {
        for _ in 0..<100 {
          guard try namespace.bytes(forKey: keys[position])?.count == StoreDataset.size else {
            throw BenchFailure("A reader lacks a value.")
          }
          position = (position + 1) % keys.count
        }
        count += 100
      }
      Child.say("\(Double(count) * 1e9 / Double(bench_now() - start))")
    }
    store.close()
  }
}
