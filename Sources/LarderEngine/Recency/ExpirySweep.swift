// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// THE REMOVAL OF EXPIRED ENTRIES
//
// An entry is invisible from its expiration time on. Its data is removed later, in the order of the
// table `expiries`:
//
//   by a transaction that stores entries   two for each stored entry, and two more
//   by an eviction                         as many as make room (`StoreTransaction+Eviction.swift`)
//   by the store's thread                  all of them, in steps, about once a second
//   by `removeExpired()`                   all of them, in steps
//
// Each of them is bounded in entries, and the first and third in time. The thread of a process that
// has written nothing removes nothing, so such a process does not change the files.
//
// The word "earliest expiry" of `shared.table` is a time before which no committed entry expires, or
// zero if that is unknown. While it is later than the clock, no transaction searches for expired
// entries. The holder of the writer lock maintains it:
//
//   X1  Before a commit that adds an earlier expiration time: lower the word to it.
//   X2  After W3, if a search found the first expiration time that has not passed: store that time.
//   X3  At W1, if the stamps of a transaction with this commit version were stored already: it was
//       not committed, and X2 may have stored its time. Set the word to zero.
//
// A word that is too low costs one search, which X2 ends. The first transaction of each process that
// stores an entry searches in any case, so a damaged word has no lasting effect.

extension StoreTransaction {
  private static var largestShare: Int { 256 }
  private static var shareNanoseconds: UInt64 { 2_000_000 }

  /// Records the expiration time of an entry that the transaction stores.
  mutating func addExpiry(of header: EntryHeader, hash: UInt64) throws {
    let expires = header.keptUntil
    guard expires != EntryHeader.never else { return }
    // X1. Zero is lower than any time, and stays.
    if expires < generation.table.earliestExpiry { generation.table.earliestExpiry = expires }
    earliestExpiry = earliestExpiry.map { min($0, expires) }
    try transaction.put(
      ExpiryKey.value(lifetime: header.lifetime),
      forKey: ExpiryKey.key(expires: expires, hash: hash), in: generation.expiries)
  }

  /// Removes expired entries, oldest first.
  ///
  /// - Parameter end: The time of the monotonic clock after which no more entries are removed.
  /// - Returns: Whether no expired entry is left.
  @discardableResult
  mutating func removeExpired(
    limit: Int, until end: UInt64 = .max, while wanted: (StoreTotals) -> Bool = { _ in true }
  ) throws -> Bool {
    for _ in 0..<limit {
      guard wanted(totals), end == .max || Clocks.monotonicNanoseconds() < end else {
        return false
      }
      var first: (expires: Int64, hash: UInt64)?
      var damaged: [UInt8]?
      do {
        var cursor = try Cursor(over: generation.expiries, in: transaction)
        if try cursor.moveToFirst() {
          first = ExpiryKey.parse(cursor.currentKey)
          if first == nil { damaged = cursor.currentKey.copied() }
        }
      }
      if let damaged {
        try transaction.remove(key: damaged, in: generation.expiries)
        continue
      }
      guard let first, first.expires <= now else {
        earliestExpiry = first?.expires ?? EntryHeader.never
        return true
      }
      let removed = try removeItems(hash: first.hash, .expired) { [generation, now] item in
        item.header.keptUntil == first.expires
          && generation.table.isExpired(item.header, hash: first.hash, at: now)
      }
      expired += UInt64(removed)
      let isRenewed = try renewSliding(first.hash, expires: first.expires)
      if removed == 0, !isRenewed {
        try transaction.remove(
          key: ExpiryKey.key(expires: first.expires, hash: first.hash), in: generation.expiries)
      }
    }
    return false
  }

  /// Removes a few expired entries, at the end of a transaction that stores entries.
  mutating func removeShareOfExpired() throws {
    guard puts > 0 else { return }
    let hasSearched = generation.hasSearchedExpiries.exchange(true, ordering: .relaxed)
    guard !hasSearched || generation.table.earliestExpiry <= now else { return }
    // An eviction of this transaction has removed some already.
    let limit = min(2 * puts + 2, Self.largestShare) - Int(clamping: expired)
    guard limit > 0 else { return }
    let end = Clocks.monotonicNanoseconds() + Self.shareNanoseconds
    if try !removeExpired(limit: limit, until: end), generation.table.earliestExpiry > now {
      generation.table.earliestExpiry = 0
    }
  }

  /// Stores the earliest expiration time that a search found (X2).
  func publishEarliestExpiry() {
    if let earliestExpiry { generation.table.earliestExpiry = earliestExpiry }
  }
}

extension StoreCore {
  private static var stepLimit: Int { 1000 }
  private static var stepNanoseconds: UInt64 { 5_000_000 }
  /// The pause after a step that failed, in milliseconds.
  private static var pauseAfterFailure: UInt64 { 60_000 }

  /// Begins to delete the entries of the store that have expired or were removed by tag on the store's
  /// thread, if this process has written to it. Called about once a second.
  ///
  /// - Returns: Whether there may be such entries.
  @discardableResult
  package func sweepExpired(in generation: Generation) -> Bool {
    let earliest = generation.table.earliestExpiry
    let hasExpired = earliest != EntryHeader.never && earliest <= options.clock.now()
    guard hasWritten.load(ordering: .relaxed), hasExpired || isTagSweepDue(in: generation),
      Clocks.monotonicNanoseconds() / 1_000_000 >= sweepPause.load(ordering: .relaxed)
    else { return false }
    if !isSweeping.exchange(true, ordering: .acquiringAndReleasing) { enqueueSweepStep() }
    return true
  }

  /// Whether the removal that ``sweepExpired(in:)`` began continues. For tests.
  package var isSweepingExpired: Bool { isSweeping.load(ordering: .acquiring) }

  /// Queues one step. Writes that were queued earlier are committed before it.
  private func enqueueSweepStep() {
    do {
      try enqueueWriteBehind(WriteRequest(.exclusive { $0.performSweepStep() }))
    } catch {
      isSweeping.store(false, ordering: .releasing)
    }
  }

  private func performSweepStep() {
    do {
      let isDone = try withGeneration { generation in
        try transact(in: generation) { transaction in
          try transaction.removeExpired(
            limit: Self.stepLimit, until: Clocks.monotonicNanoseconds() + Self.stepNanoseconds)
        }.result
      }
      let areTagsDone = try performTagStep()
      if !isDone || !areTagsDone, !isShuttingDown.load(ordering: .acquiring) {
        return enqueueSweepStep()
      }
    } catch {
      // A full disk or a stopped writer: the entries stay invisible, and a later step removes them.
      sweepPause.store(
        Clocks.monotonicNanoseconds() / 1_000_000 + Self.pauseAfterFailure, ordering: .relaxed)
      let failure = StoreError(wrapping: error, during: "remove expired", path: directory.path)
      let isExpected = [.storageFull, .writerStalled, .closed].contains(failure.code)
      if !isExpected { report(failure) }
    }
    isSweeping.store(false, ordering: .releasing)
  }
}

extension Snapshot {
  /// Returns the number of stored entries that have expired, at most `limit`. Two entries whose
  /// keys have the same 64-bit hash and that expire in the same millisecond count as one.
  func expiredEntries(at now: Int64, limit: Int) throws -> Int {
    var count = 0
    var cursor = try Cursor(over: generation.expiries, in: transaction)
    var more = try cursor.moveToFirst()
    while more, count < limit, let key = ExpiryKey.parse(cursor.currentKey), key.expires <= now {
      let lifetime = ExpiryKey.lifetime(cursor.currentValue)
      if lifetime == 0
        || generation.table.uses.deadline(hashPrefix(key.hash), of: lifetime, at: now) <= now
      {
        count += 1
      }
      more = try cursor.moveToNext()
    }
    return count
  }
}
