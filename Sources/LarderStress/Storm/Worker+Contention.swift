// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#else
  import Darwin
#endif

// Those who make it hard for the others.

extension Worker {
  /// Fills the store to its budget and watches the books.
  func budgetFiller() {
    loop {
      let key = Int.random(in: 0..<2000)
      let size =
        Int.random(in: 0..<20) == 0
        ? Int.random(in: 30_000...200_000) : Int.random(in: 0...2000)
      try store.setBytes(
        [UInt8](repeating: UInt8(truncatingIfNeeded: key), count: size), forKey: key, in: "hog")
      let bytes = try store.statistics().bytes
      if bytes > plan.budget { violation("\(bytes) of \(plan.budget) bytes are stored") }
      let other = Int.random(in: 0..<2000)
      if let found = try store.bytes(forKey: other, in: "hog"),
        !found.allSatisfy({ $0 == UInt8(truncatingIfNeeded: other) })
      {
        violation("bytes of key \(other) are another key's")
      }
    }
  }

  /// Opens handles and closes them; goes without closing now and then.
  func openAndClose() throws {
    let options = plan.options(slot, board)
    // The handle of this worker would keep the files open.
    store.close()
    loop {
      let begin = Clocks.monotonicNanoseconds()
      let first = try SharedStore(at: directory + "/store", options)
      let milliseconds = (Clocks.monotonicNanoseconds() - begin) / 1_000_000
      // Somebody may be stopped in the gate for a while.
      if milliseconds > 20_000 { violation("opening took \(milliseconds) ms") }
      let second = try SharedStore(at: directory + "/store", options)
      let cache = PersistentCache<Int, StressValue>(storage: second, namespace: "kept")
      for key in LedgerKeys.kept where Bool.random() {
        let acknowledged = board.ledger(key, .acknowledged)
        judge(cache[key], key, acknowledged: acknowledged, before: 0, deadline: 0)
      }
      first.close()
      if Int.random(in: 0..<40) == 0 { exit(0) }
      if Bool.random() { second.close() }
    }
  }

  /// Compacts, verifies, lists and counts, as an operator would while everybody works.
  func keep() {
    loop {
      switch Int.random(in: 0..<8) {
      case 0 where plan.compacts: try store.compact()
      case 1:
        for finding in try store.verify() { violation("verify: \(finding)") }
      case 2: _ = try kept.keys()
      case 3: _ = try store.removeExpired()
      default:
        let statistics = try store.statistics()
        if statistics.bytes > plan.budget {
          violation("\(statistics.bytes) of \(plan.budget) bytes are stored")
        }
      }
      Event().wait(nanoseconds: UInt64.random(in: 0...100_000_000))
    }
  }
}
