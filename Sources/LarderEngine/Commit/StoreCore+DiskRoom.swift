// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// A FULL DISK
//
// A cache on a full disk makes room by eviction, so that a write reuses pages and the file need not
// grow. Eviction copies pages as well (`FileRoom.swift`). So
//
//   reserve   a transaction that stores something must leave some pages (`DiskRoom.swift`);
//   estimate  eviction begins only if it will leave some: with few pages it evicts few neighbours;
//   age       two further transactions that change almost nothing make the freed pages available,
//             unless a snapshot of a killed process still pins them.

extension StoreCore {
  private static let diskRounds = 12
  /// The pages that the last attempt leaves, and if nothing can be evicted.
  private static let (leastPages, fewestPages) = (16, 4)

  /// Runs an attempt to write. On the full disk of a cache, evicts and repeats it.
  ///
  /// - Parameters:
  ///   - first: The error of an attempt before this call.
  ///   - repeatsErrors: Whether an error of the disk is a reason too, and not only a measured lack of
  ///     pages. A closure of the user has then run to its end, perhaps with effects elsewhere.
  ///   - attempt: Its argument is to be passed to the transaction.
  func makingDiskRoom<R>(
    after first: (any Error)? = nil, repeatsErrors: Bool = true,
    _ attempt: (DiskAttempt) throws -> R
  ) throws -> R {
    let state = DiskAttempt()
    // A batch with too little room says nothing about one of its requests.
    let isOfBatch = (first as? StoreError)?.code == .storageFull
    var failure = isOfBatch ? nil : first
    var round = 0
    while true {
      if let failure {
        let isFull =
          repeatsErrors && isFromDisk(failure) || state.isShort && !state.isHopeless
        guard round < Self.diskRounds, options.durability == .cache, isFull else { throw failure }
        round += 1
        let hasEvicted = evictForDiskSpace(round)
        if !hasEvicted { round = Self.diskRounds }
        if round == Self.diskRounds {
          state.reserve = hasEvicted ? Self.leastPages : Self.fewestPages
        }
      }
      state.isShort = false
      do { return try attempt(state) } catch { failure = error }
    }
  }

  /// Lets a transaction of a cache store only what a full disk has room for.
  func limitRoom(of transaction: inout StoreTransaction, _ attempt: DiskAttempt? = nil) {
    if options.durability == .cache { transaction.limitRoom(of: attempt) }
  }

  /// Whether the system has refused a write. A ``StoreError`` can be that of another store, which a user's
  /// transaction has thrown.
  private func isFromDisk(_ error: any Error) -> Bool {
    guard error is LMDBError || error is SystemError else { return false }
    return StoreError(wrapping: error, during: "write").code == .storageFull
  }

  /// Evicts the least recently used entries, or with few free pages neighbours.
  ///
  /// - Returns: Whether an entry was evicted.
  private func evictForDiskSpace(_ round: Int) -> Bool {
    _ = try? withGeneration { try $0.whileOpen { try $0.clearDeadReaders() } }
    func evict(
      needing pages: Int, _ body: @escaping (inout StoreTransaction) throws -> Void
    ) -> Bool {
      let done = try? withGeneration {
        try transact(in: $0) { transaction in
          try transaction.requirePages(pages)
          let before = transaction.totals.entries
          try body(&transaction)
          return transaction.totals.entries < before
        }
      }
      return done?.result ?? false
    }
    let hasEvicted =
      round == 1 && evict(needing: 640) { try $0.evict(share: 256) }
      || evict(needing: 256) { try $0.evictNeighbours(pages: 128) }
      || [(32, 64), (8, 32), (1, 16), (1, 0)].contains { count, pages in
        evict(needing: pages) { try $0.evictNeighbours(count) }
      }
    for _ in 0..<2 { try? commitNoOp() }
    return hasEvicted
  }
}
