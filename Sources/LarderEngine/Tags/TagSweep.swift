// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE DELETION OF ENTRIES THAT WERE REMOVED TOGETHER
//
// A removal by tag, and the clear of a namespace, which is recorded as the removal of a tag that no
// entry has, leave their entries in the file.
//
// The store's thread of a process that has written visits all entries in steps (a pass), deletes
// those that are removed, and after the last step deletes the records of the removals that all its
// steps have seen. Two words of `shared.table` say whether a pass is due:
//
//   tags removed   commit version of the newest removal by tag; stored in W3
//   tags swept     every removal up to this commit version is swept
//
// A new table contains a removal in the first word, so that a lost table costs one pass over the
// entries, or a look at `tags` if it is empty. One process sweeps at a time: it stores in "tag sweeper" the
// time until which the others wait. A pass costs time in proportion to all entries; the next one
// begins after a pause of twenty times its duration. Evictions delete removed entries as well.
//
// The total `forgotten tags` is the commit version up to which records were deleted: a computation
// that began earlier cannot tell whether its tags were removed (`allowsFill`).

/// A pass over the entries in which removed ones are deleted.
struct TagPass: Sendable {
  let incarnation: UInt64
  /// The commit version of the newest removal that all of its steps see.
  let target: UInt64
  /// The hash at which the next step begins.
  var position: UInt64 = 0
  let begun: UInt64
}

extension StoreTransaction {
  private static var sweptEntries: Int { 500 }
  private static var forgottenRecords: Int { 1000 }

  /// Performs one step of a pass.
  ///
  /// - Returns: The pass with which the next step goes on, or `nil` if nothing is left to do.
  mutating func sweepTags(_ pass: TagPass?) throws -> TagPass? {
    let table = generation.table
    guard table.tagsRemoved > table.tagsSwept else { return nil }
    var pass = pass
    if pass?.incarnation != generation.incarnation {
      pass = TagPass(
        incarnation: generation.incarnation,
        // The word may be that of a transaction that was not committed, whose version this one has.
        target: min(table.tagsRemoved, commitVersion - 1),
        begun: Clocks.monotonicNanoseconds())
    }
    guard var pass else { return nil }
    if pass.position != .max {
      pass.position = try sweep(from: pass.position, limit: Self.sweptEntries) ?? .max
      return pass
    }
    return try forgetTags(upTo: pass.target) ? nil : pass
  }

  /// Deletes records whose removals are swept.
  ///
  /// - Returns: Whether none is left.
  private mutating func forgetTags(upTo target: UInt64) throws -> Bool {
    var swept: [UInt64] = []
    do {
      var cursor = try Cursor(over: generation.tags, in: transaction)
      var more = try cursor.moveToFirst()
      while more, swept.count < Self.forgottenRecords {
        let tag = cursor.currentInteger
        guard let record = TagRecord(cursor.currentValue, tag: tag) else {
          throw LMDBError(.corrupted, during: "the record of a tag")
        }
        if record.newest <= target { swept.append(tag) }
        more = try cursor.moveToNext()
      }
    }
    for tag in swept { try transaction.remove(key: tag, in: generation.tags) }
    if !swept.isEmpty {
      totals.forgottenTags = max(totals.forgottenTags, target)
      // Also if the total is as before: the deletions are to be committed.
      force()
    }
    return swept.count < Self.forgottenRecords
  }
}

extension StoreCore {
  private static var claimMilliseconds: UInt64 { 2000 }
  private static var shortestPause: UInt64 { 1_000_000_000 }

  /// Returns whether entries that were removed by tag are to be deleted by this process.
  func isTagSweepDue(in generation: Generation) -> Bool {
    guard generation.table.tagsRemoved > generation.table.tagsSwept else { return false }
    let now = Clocks.monotonicNanoseconds()
    let isMyTurn = tagSweep.withLock { state in
      if state.pass != nil { return true }
      guard now >= state.pauseEnd else { return false }
      // A time beyond what a process claims is that of another clock.
      let claim = generation.table.tagSweeper
      return claim <= now / 1_000_000 || claim > now / 1_000_000 + 2 * Self.claimMilliseconds
    }
    return isMyTurn && (try? hasTagRecords(in: generation)) ?? false
  }

  /// Returns whether there are removals to sweep. If there are none, the words of the table say so from
  /// then on, without a transaction.
  private func hasTagRecords(in generation: Generation) throws -> Bool {
    let target = generation.table.tagsRemoved
    return try generation.withSnapshot { snapshot in
      var cursor = try Cursor(over: generation.tags, in: snapshot.transaction)
      if try cursor.moveToFirst() { return true }
      // The transaction that stored the word may not be committed yet.
      if snapshot.commitVersion >= target {
        generation.table.tagsSwept = max(generation.table.tagsSwept, target)
      }
      return false
    }
  }

  /// Performs one step, and commits it.
  ///
  /// - Returns: Whether no step is left for now.
  func performTagStep() throws -> Bool {
    let before = tagSweep.withLock { $0.pass }
    let next = try withGeneration { generation in
      guard before != nil || isTagSweepDue(in: generation) else { return nil as TagPass? }
      let now = Clocks.monotonicNanoseconds()
      generation.table.tagSweeper = now / 1_000_000 + Self.claimMilliseconds
      let next = try transact(in: generation) { try $0.sweepTags(before) }.result
      if next == nil {
        generation.table.tagSweeper = 0
        if let before, before.incarnation == generation.incarnation {
          generation.table.tagsSwept = max(generation.table.tagsSwept, before.target)
        }
      }
      return next
    }
    tagSweep.withLock { state in
      state.pass = next
      guard next == nil, let before else { return }
      let now = Clocks.monotonicNanoseconds()
      state.pauseEnd = now + max(Self.shortestPause, 20 * (now - before.begun))
    }
    return next == nil
  }
}

extension StoreCore {
  /// Returns the number of tags whose removals are recorded. For tests.
  package func tagRecords() throws -> Int {
    try withSnapshot("statistics") { snapshot in
      try snapshot.transaction.statistics(of: snapshot.generation.tags).entries
    }
  }
}

extension StoreCore {
  /// Stores the words of W3 as a removal by tag does that was not committed. For tests.
  package func pretendRemovalByTag() throws {
    let table = try generation().table
    let version = table.lastStamped + 1
    table.tagsRemoved = version
    table.lastStamped = version
  }
}

/// The state of a process's sweep of removed tags.
struct TagSweepState: Sendable {
  var pass: TagPass?
  /// The time of the monotonic clock before which no pass begins.
  var pauseEnd: UInt64 = 0
}
