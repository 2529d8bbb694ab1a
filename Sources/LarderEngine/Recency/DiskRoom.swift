// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

// ROOM ON A FULL DISK
//
// A transaction of a cache that stores something must leave pages for the transactions that make room by
// eviction, else these can never be committed again (`FileRoom.swift`). What only removes has no limit.
// So each stored entry is counted before it is written: the pages of its value and a copied page. The
// pages that are left are measured when the count first exceeds those that were found before; with the
// write map, where blocks ahead of the last page are a condition of the transaction, and for a tenth of a
// second after much room was found, never.

/// The attempts of one write on a disk that may be full.
final class DiskAttempt {
  /// The pages to leave for eviction.
  var reserve = DiskRoom.reserve
  /// Whether the last attempt was refused for lack of pages.
  var isShort = false
  /// Whether eviction cannot make enough room.
  var isHopeless = false
}

/// The pages that a transaction may still use.
struct DiskRoom {
  /// The pages that eviction on a full disk needs, if it begins with few entries.
  static var reserve: Int { 64 }
  /// The pages that a small transaction copies.
  static var base: Int { 32 }
  /// The pages of a disk that is not nearly full: 64 MiB.
  static var plenty: Int { 16_384 }
  static var plentyNanoseconds: UInt64 { 100_000_000 }

  let attempt: DiskAttempt?
  /// The pages for what was stored so far.
  var stored = 0
  /// The most pages for stored entries; zero until they were measured.
  var limit = 0
}

extension StoreTransaction {
  /// Limits what the transaction stores to the pages that a full disk has left. The caller's store is a
  /// cache.
  mutating func limitRoom(of attempt: DiskAttempt? = nil) {
    guard !generation.environment.usesWriteMap,
      Clocks.monotonicNanoseconds() >= generation.roomyUntil.load(ordering: .relaxed)
    else { return }
    room = DiskRoom(attempt: attempt)
  }

  /// Counts an entry or objects before the change.
  ///
  /// - Throws: ``StoreError/Code/storageFull`` if too few pages are left. Nothing has changed.
  @inline(__always)
  mutating func requireRoom(forBytes bytes: Int) throws {
    if room != nil { try countRoom(bytes) }
  }

  @inline(never)
  private mutating func countRoom(_ bytes: Int) throws {
    guard var room else { return }
    defer { self.room = room }
    let environment = generation.environment
    let file = environment.information
    room.stored += 1 + (bytes + bytes / 8) / file.pageSize
    if room.stored <= room.limit { return }
    let wanted = room.stored + (room.attempt?.reserve ?? DiskRoom.reserve) + DiskRoom.base
    let growth = environment.pagesOfGrowth(limit: max(2 * wanted, DiskRoom.plenty))
    if growth >= DiskRoom.plenty {
      generation.roomyUntil.store(
        Clocks.monotonicNanoseconds() + DiskRoom.plentyNanoseconds, ordering: .relaxed)
    }
    let free = growth < wanted ? try freePages(limit: 2 * wanted) : 0
    // Of very few pages, a share.
    let all = file.lastPage + growth
    let kept =
      min(room.attempt?.reserve ?? DiskRoom.reserve, all / 4) + min(DiskRoom.base, all / 8)
    room.limit = growth + free - kept
    if room.stored <= room.limit { return }
    let bytesToEvict = totals.bytes - min(totals.bytes, totals.pinned.bytes)
    room.attempt?.isShort = true
    room.attempt?.isHopeless =
      room.stored - room.limit > 64 + Int(clamping: bytesToEvict) / file.pageSize * 2
    throw tooFewPages(growth + free)
  }

  /// Requires, before the first change, that the transaction can copy or add a number of pages.
  ///
  /// - Throws: ``StoreError/Code/storageFull``.
  func requirePages(_ pages: Int) throws {
    let growth = generation.environment.pagesOfGrowth(limit: pages)
    if growth >= pages { return }
    let free = try freePages(limit: pages - growth)
    if growth + free < pages { throw tooFewPages(growth + free) }
  }

  private func freePages(limit: Int) throws -> Int {
    do {
      return try transaction.freePages(in: generation.environment, limit: limit)
    } catch  where error.code == .readersFull {
      // Without a reader slot the number is unknown; the commit shows it.
      return limit
    }
  }

  private func tooFewPages(_ count: Int) -> StoreError {
    StoreError.storageFull(
      during: "write", path: generation.directory.path, errorNumber: 28,
      detail: "\(count) pages are left, which eviction needs")
  }
}
