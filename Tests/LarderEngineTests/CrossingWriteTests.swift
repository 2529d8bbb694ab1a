// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

/// Closures of transactions that write to other stores.
@Suite(.timeLimit(.minutes(60))) struct CrossingWriteTests {
  let directory: TemporaryDirectory

  init() throws { directory = try TemporaryDirectory() }

  private func stores(_ count: Int) throws -> [SharedStore] {
    // A circle that is not found would end after this time.
    try (0..<count).map {
      try SharedStore(at: directory.appending("\($0)"), StoreOptions(writeTimeout: .seconds(600)))
    }
  }

  @Test(arguments: [2, 3, 5])
  func `Of transactions that wait in a circle one fails at once, and the others are stored`(
    count: Int
  ) throws {
    let stores = try stores(count)
    for round in 0..<20 {
      let meeting = Meeting(of: count)
      let threads = (0..<count).map { number in
        JoinableThread { () -> StoreError.Code? in
          do {
            try stores[number].write { transaction in
              try transaction.setBytes([UInt8(number)], forKey: "own \(round)")
              try meeting.meet()
              try stores[(number + 1) % count].setBytes([UInt8(number)], forKey: "next \(round)")
            }
            return nil
          } catch {
            return (error as? StoreError)?.code ?? .system
          }
        }
      }
      let codes = threads.map { $0.join() }
      #expect(codes.count { $0 == .crossingWrites } == 1 && codes.count { $0 == nil } == count - 1)
      for (number, code) in codes.enumerated() {
        let next = stores[(number + 1) % count]
        let value = code == nil ? [UInt8(number)] : nil
        #expect(try stores[number].bytes(forKey: "own \(round)") == value)
        #expect(try next.bytes(forKey: "next \(round)") == value)
      }
    }
  }

  @Test func `Asynchronous transactions that wait in a circle fail at once too`() async throws {
    let stores = try stores(2)
    let meeting = Meeting(of: 2)
    let tasks = (0..<2).map { number in
      Task.detached { () -> StoreError.Code? in
        do {
          try await stores[number].write { transaction in
            try transaction.setBytes([1], forKey: "own")
            try meeting.meet()
            try stores[1 - number].write { try $0.setBytes([2], forKey: "other") }
          }
          return nil
        } catch {
          return (error as? StoreError)?.code ?? .system
        }
      }
    }
    var codes: [StoreError.Code?] = []
    for task in tasks { codes.append(await task.value) }
    #expect(codes.count { $0 == .crossingWrites } == 1 && codes.count { $0 == nil } == 1)
  }

  @Test func `A transaction that writes to another store in one order is never refused`() throws {
    let stores = try stores(2)
    let threads = (0..<6).map { number in
      JoinableThread {
        Result {
          for round in 0..<50 {
            if number % 2 == 0 {
              try stores[0].write { transaction in
                try transaction.setBytes([1], forKey: round)
                try stores[1].setBytes([UInt8(number)], forKey: round)
              }
            } else {
              try stores[number % 4 / 2].write { try $0.setBytes([3], forKey: -round) }
            }
          }
        }
      }
    }
    for thread in threads { try thread.join().get() }
    #expect(try stores.allSatisfy { try $0.verify() == [] })
  }
}
