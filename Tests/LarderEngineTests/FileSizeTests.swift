// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// The size of the data file of a store whose contents are replaced all the time.
@Suite(.timeLimit(.minutes(60))) struct FileSizeTests {
  private static let budget = 8 << 20

  struct Values: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let sizes: [Int]
    /// The percentage of the budget that the file may have.
    var limit = 200
  }

  static let values = [
    Values(testDescription: "a little longer than a page", sizes: [4016, 4100, 4200]),
    Values(testDescription: "longer than half a page", sizes: [2000, 2050, 2100]),
    Values(testDescription: "short", sizes: [100, 200, 300], limit: 300),
    Values(testDescription: "of all lengths", sizes: [100, 2000, 4100, 8200, 30_000, 200_000]),
  ]

  @Test(arguments: values)
  func `The file stays within its multiple of the budget when its contents are replaced`(
    values: Values
  ) throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let directory = try TemporaryDirectory()
    let store = try SharedStore(
      at: directory.appending("store"), StoreOptions(budget: .bytes(Self.budget)))
    let average = values.sizes.reduce(0, +) / values.sizes.count
    let keys = 3 * Self.budget / (average + 72)
    var rest = 5 * Self.budget
    var largest = 0
    while rest > 0 {
      // Ten writes a commit, so that the test is short.
      let writes = (0..<10).map { _ in
        (
          key: Int.random(in: 0..<keys, using: &random),
          size: values.sizes.randomElement(using: &random)!
        )
      }
      try store.write { transaction in
        for write in writes {
          try transaction.setBytes([UInt8](repeating: 7, count: write.size), forKey: write.key)
        }
      }
      rest -= writes.reduce(0) { $0 + $1.size }
      let statistics = try store.statistics()
      try #require(statistics.bytes <= Self.budget)
      largest = max(largest, statistics.fileBytes)
    }
    let statistics = try store.statistics()
    // It is bounded, not empty.
    #expect(statistics.bytes > Self.budget / 2, "\(statistics.bytes)")
    print("\(values.testDescription): \(statistics.bytes) bytes in a file of \(largest)")
    #expect(largest <= Self.budget / 100 * values.limit)
    #expect(try store.verify() == [])
  }
}
