// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine
import LarderObjects
import LarderTesting

// The same query by an index and by a scan of every object, in one transaction; and the same query
// repeated, after changes and without.

extension Worker {
  /// Returns pairs of queries with one result: by an index, and by a scan.
  private func queryPairs(
    _ objects: ObjectStore
  ) -> [(indexed: Query<StressItem>, scan: Query<StressItem>)] {
    let all = objects.objects(StressItem.self)
    let group = Int.random(in: 0..<5)
    let tag = Int.random(in: 0..<3)
    return [
      (all.where(\.group == group), all.filter { $0.group == group }),
      (
        all.matching("group\(group) tag\(tag)"),
        all.filter { $0.group == group && $0.tags.contains(tag) }
      ),
      (all.where { $0.tags.contains(tag) }, all.filter { $0.tags.contains(tag) }),
      (all.where(\.isKept == true), all.filter(\.isKept)),
      (
        all.where(\.group == group && \.sequence >= 20).sorted(by: \.sequence, .descending),
        all.filter { $0.group == group && $0.sequence >= 20 }
          .sorted(by: \.sequence, .descending)
      ),
      (
        all.where(\.group == 3).sorted(by: \.sequence),
        all.filter { $0.group == 3 }.sorted(by: \.sequence)
      ),
    ]
  }

  func query() -> [Operation] {
    let objects = ObjectStore(store)
    // Queries that live as long as the worker cache their results.
    let kept = objects.objects(StressItem.self).where(\.isKept == true)
    let groups = (0..<5).map { objects.objects(StressItem.self).where(\.group == $0) }
    return [
      Operation(1) {
        for _ in 0..<20 {
          try self.repeatQuery(kept, isAll: true)
          try self.repeatQuery(groups.randomElement()!, isAll: false)
        }
        let (indexed, scan) = self.queryPairs(objects).randomElement()!
        let (left, right) = try objects.write { transaction in
          let left = try transaction.fetch(indexed).map { [UInt64($0.id), $0.sequence] }
          return (left, try transaction.fetch(scan).map { [UInt64($0.id), $0.sequence] })
        }
        // Sequences of different keys may be equal, and then each query orders them its own way.
        if Set(left) != Set(right) || left.count != right.count {
          self.violation("an index returns \(left), a scan \(right)")
        }
      }
    ]
  }

  /// Checks that a repeated query is not older than the writes acknowledged before it.
  private func repeatQuery(_ query: Query<StressItem>, isAll: Bool) throws {
    let keys = OracleRegion.keptItems.keys
    let before = keys.map { expectation(.keptItems, $0) }
    let found = try query.fetch()
    let issued = keys.map { board[.keptItems, $0, .issued] }
    var seen: Set<Int> = []
    for item in found where keys.contains(item.id) {
      if !seen.insert(item.id).inserted { violation("object \(item.id) was found twice") }
      judge(item, item.id, of: .keptItems, before[item.id], everyByte: false)
    }
    if isAll {
      for key in keys where before[key].acknowledged > 0 && !seen.contains(key) {
        violation("object \(key) was not found, though it is kept")
      }
      return
    }
    guard let group = found.first?.group else { return }
    for item in found where item.group != group {
      violation("a query for one group returned \(item.group) and \(group)")
    }
    for key in keys
    where before[key].acknowledged == issued[key] && issued[key] > 0 && !seen.contains(key) {
      if StressItem.group(issued[key]) == group {
        violation("object \(key) of group \(group) was not found")
      }
    }
  }

  // MARK: Observation

  /// Observes an object and a query.
  func observe() async {
    let objects = ObjectStore(store)
    let keys = OracleRegion.keptItems.keys
    let key = keys.randomElement()!
    await observe(
      [
        ObservedStream("the stream of object \(key)", .keptItems, [key]) { stream in
          for try await item in objects.values(of: StressItem.self, id: key) {
            if let item { self.take(item, item.id, stream) }
          }
        },
        ObservedStream("the stream of a query", .keptItems, Array(keys)) { stream in
          let kept = objects.objects(StressItem.self).where(\.isKept == true)
          for try await items in kept.observe() {
            for item in items { self.take(item, item.id, stream) }
          }
        },
      ], turns: 800)
  }
}
#endif
