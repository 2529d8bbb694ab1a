// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// PINNED AND NEGATIVE ENTRIES
//
// A pinned entry is in no eviction queue, and samples leave it out. It can expire, and be removed.
// Pinned entries have at most half of each budget, so that the others always have the other half. A
// write that would exceed that is an error.
//
// Negative entries have at most an eighth of each budget: requests for keys that do not exist, which
// anyone can make in any number, do not push out values. The next one replaces the least recently
// used negative entries of a random sample. If the sample has none, it is not stored.

/// The place of a key: its hash, and its namespace.
struct KeyPlace {
  let key: EncodedKey
  let hash: UInt64
  let number: UInt32
}

extension StoreTransaction {
  private static var pinnedShare: UInt64 { 2 }
  private static var absentShare: UInt64 { 8 }
  private static var absentRounds: Int { 8 }
  private static var maximumAbsentVictims: UInt64 { 64 }

  /// Checks that an entry of `cost` bytes can be pinned, in place of the key's present entry.
  ///
  /// - Throws: ``StoreError/Code/pinLimitReached``.
  mutating func requirePinRoom(for cost: Int, _ place: KeyPlace) throws {
    if try isPinOver(adding: cost, place) { try removeDeadPins() }
    if try isPinOver(adding: cost, place) {
      throw StoreError.pinLimitReached(
        try sum(totals.pinned, without: place) { $0.isPinned }, adding: cost, during: "set",
        path: generation.path)
    }
  }

  private mutating func isPinOver(adding cost: Int, _ place: KeyPlace) throws -> Bool {
    let pinned = try sum(totals.pinned, without: place) { $0.isPinned }
    return budget > 0 && pinned.bytes + UInt64(cost) > budget / Self.pinnedShare
      || entryBudget > 0 && pinned.entries + 1 > entryBudget / Self.pinnedShare
  }

  /// Checks, before other entries are evicted for it, that an entry of `cost` bytes fits together with
  /// the pinned entries.
  ///
  /// - Throws: ``StoreError/Code/valueTooLarge``.
  mutating func requireRoomBesidePins(for cost: Int, _ place: KeyPlace) throws {
    if totals.pinned.entries == 0 { return }
    if try isFullOfPins(adding: cost, place) { try removeDeadPins() }
    if try isFullOfPins(adding: cost, place) { throw try noRoom(for: cost) }
  }

  private mutating func isFullOfPins(adding cost: Int, _ place: KeyPlace) throws -> Bool {
    let pinned = try sum(totals.pinned, without: place) { $0.isPinned }
    return budget > 0 && pinned.bytes + UInt64(cost) > budget
      || entryBudget > 0 && pinned.entries + 1 > entryBudget
  }

  /// Returns a sum without the part of the present entry of a key.
  private mutating func sum(
    _ all: StoreTotals.Sum, without place: KeyPlace, _ isPart: (EntryHeader) -> Bool
  ) throws -> StoreTotals.Sum {
    var sum = all
    for item in try readableItems(hash: place.hash)
    where item.header.namespace == place.number && isPart(item.header) {
      if try hasKey(item, hash: place.hash, place.key) {
        sum.subtract(item.header)
        break
      }
    }
    return sum
  }

  /// Deletes pinned entries that no process can see any more.
  private mutating func removeDeadPins() throws {
    try removeExpired(limit: 1000)
    guard generation.table.tagsRemoved > generation.table.tagsSwept || tagRemovals > 0 else {
      return
    }
    var position: UInt64? = 0
    while let start = position { position = try sweep(from: start, limit: 1000) }
  }

  /// Throws if the pinned entries do not fit into their share of other budgets, or the minimums of the
  /// namespaces into the budget; zero means no budget.
  mutating func requireQuotas(fit budget: UInt64, entryBudget: UInt64) throws {
    let minimums = try sumOfMinimums()
    if budget > 0, minimums > budget {
      throw StoreError(
        .minimumsExceedBudget, during: "setLimits", path: generation.path,
        "The minimums of the namespaces are \(ByteCount(bytes: Int(clamping: minimums))), more than a "
          + "budget of \(ByteCount(bytes: Int(clamping: budget))). Lower them first.")
    }
    func isOver(_ pinned: StoreTotals.Sum) -> Bool {
      budget > 0 && pinned.bytes > budget / Self.pinnedShare
        || entryBudget > 0 && pinned.entries > entryBudget / Self.pinnedShare
    }
    if isOver(totals.pinned) { try removeDeadPins() }
    if isOver(totals.pinned) {
      throw StoreError.pinLimitReached(
        totals.pinned, adding: 0, during: "setLimits", path: generation.path)
    }
  }

  /// Evicts negative entries until another of `cost` bytes fits into their share.
  ///
  /// - Returns: Whether it fits.
  mutating func makeRoomForAbsent(_ cost: Int, _ place: KeyPlace) throws -> Bool {
    for _ in 0..<Self.absentRounds {
      if try isAbsentWithinShare(adding: cost, place) { return true }
      let removed = try evictFromSample(
        wanted: absentVictims(adding: cost), .init(visits: 256, isOfAbsent: true))
      if removed == 0 { return false }
    }
    return try isAbsentWithinShare(adding: cost, place)
  }

  /// Returns how many negative entries have to go: several after a budget was lowered.
  private func absentVictims(adding cost: Int) -> Int {
    let (bytes, entries) = (totals.absent.bytes, totals.absent.entries)
    var wanted: UInt64 = 1
    if budget > 0, bytes > budget / Self.absentShare {
      let average = max(bytes / max(entries, 1), 1)
      wanted = (bytes + UInt64(cost) - budget / Self.absentShare) / average
    }
    if entryBudget > 0, entries > entryBudget / Self.absentShare {
      wanted = max(wanted, entries + 1 - entryBudget / Self.absentShare)
    }
    return Int(min(max(wanted, 1), Self.maximumAbsentVictims))
  }

  private mutating func isAbsentWithinShare(adding cost: Int, _ place: KeyPlace) throws -> Bool {
    let absent = try sum(totals.absent, without: place) { $0.isAbsent }
    return (budget == 0 || absent.bytes + UInt64(cost) <= budget / Self.absentShare)
      && (entryBudget == 0 || absent.entries + 1 <= max(entryBudget / Self.absentShare, 1))
  }
}

extension StoreError {
  fileprivate static func pinLimitReached(
    _ pinned: StoreTotals.Sum, adding cost: Int, during operation: String, path: String
  ) -> StoreError {
    let size = ByteCount(bytes: Int(clamping: pinned.bytes))
    return StoreError(
      .pinLimitReached, during: operation, path: path,
      "\(pinned.entries) pinned entries have \(size)"
        + (cost == 0 ? "" : ", and this one has \(ByteCount(bytes: cost))")
        + "; together they may have half of each budget. Raise the budget, or remove pinned entries."
    )
  }
}
