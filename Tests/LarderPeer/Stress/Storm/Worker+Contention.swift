// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
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

// Processes that hold locks, evict and compact while the others work.

extension Worker {
  /// Fills the store to its budget and checks the stored sizes.
  func fillBudget() -> [Operation] {
    [
      Operation(1) {
        let key = Int.random(in: 0..<2000)
        let size =
          Int.random(in: 0..<20) == 0
          ? Int.random(in: 30_000...200_000) : Int.random(in: 0...2000)
        try self.store.setBytes(
          [UInt8](repeating: UInt8(truncatingIfNeeded: key), count: size), forKey: key, in: "hog")
        try self.checkBudget()
        let other = Int.random(in: 0..<2000)
        if let found = try self.store.bytes(forKey: other, in: "hog"),
          !found.allSatisfy({ $0 == UInt8(truncatingIfNeeded: other) })
        {
          self.violation("bytes of key \(other) are another key's")
        }
      }
    ]
  }

  /// Opens and closes the store, and sometimes exits without closing it.
  func openAndClose() -> [Operation] {
    let options = plan.options(slot, board)
    // The store of this worker would keep the files open.
    store.close()
    return [
      Operation(1) {
        let begin = Clocks.monotonicNanoseconds()
        let first = try SharedStore(at: self.directory + "/store", options)
        let milliseconds = (Clocks.monotonicNanoseconds() - begin) / 1_000_000
        // A process may be stopped for a while with the open lock.
        if milliseconds > 20_000 { self.violation("opening took \(milliseconds) ms") }
        let second = try SharedStore(at: self.directory + "/store", options)
        let cache = PersistentCache<Int, StressValue>(storage: second, namespace: "kept")
        for key in OracleRegion.kept.keys where Bool.random() {
          self.check(key, of: .kept, everyByte: false) { cache[key] }
        }
        first.close()
        if Int.random(in: 0..<40) == 0 { exit(0) }
        if Bool.random() { second.close() }
      }
    ]
  }

  /// Compacts, verifies, lists and counts, as an operator does while other processes work.
  func maintain() -> [Operation] {
    var cursor: ChangeCursor?
    func operation(_ weight: Int, _ step: @escaping () throws -> Void) -> Operation {
      Operation(weight) {
        try step()
        Event().wait(nanoseconds: UInt64.random(in: 0...100_000_000))
      }
    }
    return [
      operation(plan.compacts ? 1 : 0) { try self.store.compact() },
      operation(1) { try self.verify(self.store) },
      operation(1) { _ = try self.kept.keys() },
      operation(1) { _ = try self.store.removeExpired() },
      operation(plan.compacts ? 4 : 5) { try self.checkBudget() },
      operation(2) { try self.followChanges(&cursor) },
    ]
  }

  /// Reads the changes since the last call. Commits come once each and in their order, and those of a gap
  /// do not come.
  private func followChanges(_ cursor: inout ChangeCursor?) throws {
    guard var place = cursor else {
      cursor = try store.changeCursor()
      return
    }
    for event in try store.recentChanges(since: place) {
      switch event {
      case .commit(let changes, let next):
        if next.commitVersion <= place.commitVersion || changes.isEmpty {
          violation("commit \(next.commitVersion) was reported after \(place.commitVersion)")
        }
      case .gap(let from, let to, let next):
        if from <= place.commitVersion || to < from || next.commitVersion < to {
          violation("gap from \(from) to \(to) was reported after \(place.commitVersion)")
        }
      }
      place = event.cursor
    }
    cursor = place
  }
}
#endif
