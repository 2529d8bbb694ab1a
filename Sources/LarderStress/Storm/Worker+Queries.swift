// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderSystem
import LarderTesting
import Synchronization

// The same question by an index and by looking at every object, in one transaction; and the same
// question again, when nobody or somebody has changed anything.

extension Worker {
  /// What there is to ask: by an index, and without any.
  private func questions(
    _ objects: ObjectStore
  ) -> [(indexed: Query<StressItem>, scan: Query<StressItem>)] {
    let all = objects.objects(StressItem.self)
    let group = Int.random(in: 0..<5)
    let tag = Int.random(in: 0..<3)
    return [
      (all.where(\.group == group), all.filter { $0.group == group }),
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

  func ask() throws {
    let objects = ObjectStore(store)
    // Kept, they remember.
    let kept = objects.objects(StressItem.self).where(\.isKept == true)
    let groups = (0..<5).map { objects.objects(StressItem.self).where(\.group == $0) }
    loop {
      for _ in 0..<20 {
        try askAgain(kept, isAll: true)
        try askAgain(groups.randomElement()!, isAll: false)
      }
      let (indexed, scan) = questions(objects).randomElement()!
      let (left, right, count) = try objects.write { transaction in
        let left = try transaction.fetch(indexed).map { [UInt64($0.id), $0.sequence] }
        let right = try transaction.fetch(scan).map { [UInt64($0.id), $0.sequence] }
        return (left, right, left.count)
      }
      // Sequences of different keys may be equal, and their order then is the query's own.
      if Set(left) != Set(right) || left.count != right.count || count != left.count {
        violation("an index says \(left), a scan \(right)")
      }
    }
  }

  /// A repeated query is never older than what was acknowledged before it.
  private func askAgain(_ query: Query<StressItem>, isAll: Bool) throws {
    let acknowledged = ItemKeys.kept.map { board.item($0, .acknowledged) }
    let found = try query.fetch()
    let issued = ItemKeys.kept.map { board.item($0, .issued) }
    var seen: Set<Int> = []
    for item in found where ItemKeys.kept.contains(item.id) {
      if !seen.insert(item.id).inserted { violation("object \(item.id) was found twice") }
      judge(item, item.id, acknowledged: acknowledged[item.id])
    }
    for key in ItemKeys.kept where acknowledged[key] > 0 && !seen.contains(key) {
      if isAll { violation("object \(key) was not found, though it is kept") }
    }
    guard !isAll, let group = found.first?.group else { return }
    for item in found where item.group != group {
      violation("a query for one group gave \(item.group) and \(group)")
    }
    for key in ItemKeys.kept
    where acknowledged[key] == issued[key] && issued[key] > 0 && !seen.contains(key) {
      if StressItem.group(issued[key]) == group {
        violation("object \(key) of group \(group) was not found")
      }
    }
  }

  // MARK: Watching

  /// What a stream has delivered, and in which turn of its own.
  private final class Delivered: Sendable {
    let sequences = ItemKeys.kept.map { _ in Watched() }
    let isLive = Atomic<Bool>(false)
  }

  private final class Watched: Sendable {
    let sequence = Atomic<UInt64>(0)
  }

  /// How long the last state may be under way, in time of this process.
  private static let deadlineTurns = 800

  /// Watches an object and a query: nothing goes backwards, and the last state comes in time.
  func observe() async throws {
    let objects = ObjectStore(store)
    let key = Int.random(in: ItemKeys.kept)
    let (object, query) = (Delivered(), Delivered())
    let tasks = [
      Task.detached { [self] in
        await watch(object) {
          for try await item in objects.values(of: StressItem.self, id: key) {
            object.isLive.store(true, ordering: .relaxed)
            take(item.map { [$0] } ?? [], object)
          }
        }
      },
      Task.detached { [self] in
        let kept = objects.objects(StressItem.self).where(\.isKept == true)
        await watch(query) {
          for try await items in kept.observe() {
            query.isLive.store(true, ordering: .relaxed)
            take(items, query)
          }
        }
      },
    ]
    let pause = Event()
    while !board.isOver {
      let wanted = ItemKeys.kept.map { board.item($0, .acknowledged) }
      var turns = 0
      while !board.isOver {
        board.beat(slot)
        board.add(.operations)
        let isObjectThere = object.sequences[key].sequence.load(ordering: .relaxed) >= wanted[key]
        let isQueryThere = zip(query.sequences, wanted).allSatisfy {
          $0.sequence.load(ordering: .relaxed) >= $1
        }
        if isObjectThere, isQueryThere { break }
        turns += 1
        if turns > Self.deadlineTurns {
          violation(
            "\(isObjectThere ? "a query's" : "an object's") stream has not delivered what was "
              + "acknowledged, after \(turns) turns")
          break
        }
        pause.wait(nanoseconds: 5_000_000)
      }
      pause.wait(nanoseconds: 1_000_000)
    }
    // Cancelling ends a wait: nobody looks at the store when it is closed.
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
  }

  /// Runs a stream, again when it ends.
  private func watch(_ delivered: Delivered, _ body: () async throws -> Void) async {
    while !board.isOver, !Task.isCancelled {
      do { try await body() } catch { Worker.judge(error, board) }
      delivered.isLive.store(false, ordering: .relaxed)
    }
  }

  private func take(_ items: [StressItem], _ delivered: Delivered) {
    for item in items where ItemKeys.kept.contains(item.id) {
      if !item.isOwn(item.id) { violation("a stream gave a torn object \(item.id)") }
      let before = delivered.sequences[item.id].sequence.exchange(
        item.sequence, ordering: .relaxed)
      if item.sequence < before {
        violation("a stream gave \(item.sequence) of object \(item.id) after \(before)")
      }
    }
  }
}
