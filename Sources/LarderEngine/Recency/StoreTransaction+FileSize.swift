// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB

// THE SIZE OF THE FILE
//
// A budget counts bytes of entries, the file consists of pages. A value a few bytes longer than a page
// has two, and the pages of a table whose entries come and go are about two thirds full. On top of that
// come the pages that transactions have freed and that a reader may still read. So that the file has at
// most twice the bytes of the budget, entries and chunks have at most 1.6 times the budget in pages (or
// the budget and 2 MiB, for small ones), if most of these pages have one value each: above that each put
// evicts a few entries more than it needs, until they fit. So it is not exact, as a budget is. Where
// most pages contain many entries, evicting some of them frees no page, so the budget alone decides.

extension StoreTransaction {
  /// The bytes of pages that a small budget may have beyond itself.
  private static var smallest: UInt64 { 2 << 20 }
  /// The most entries that one put evicts for this reason. More of them change more pages in one
  /// transaction, and these copies make the file grow, too.
  private static var maximumVictims: Int { 2 }

  /// Evicts entries if their pages are too many for the budget.
  mutating func limitPages(adding cost: Int) throws {
    // Fewer bytes than half of the budget do not have three times as many pages.
    guard budget > 0, totals.charged > budget / 2 else { return }
    let own = budget - min(budget, totals.objectBytes)
    let limit = own + max(own / 5 * 3, Self.smallest)
    var victims = 0
    while victims < Self.maximumVictims, totals.entries > totals.pinned.entries {
      let (all, ofOne) = try pageBytes()
      guard all + UInt64(cost) > limit, ofOne > all / 2 else { return }
      let count = try evict(wanted: 1, round: 0, sparingOwn: sparesOwn)
      if count == 0 { return }
      victims += count
    }
  }

  /// Returns the bytes of all pages of entries and chunks, and of those that have one value each.
  private func pageBytes() throws -> (all: UInt64, ofOne: UInt64) {
    let entries = try transaction.statistics(of: generation.entries)
    let chunks = try transaction.statistics(of: generation.chunks)
    let overflow = (entries.overflowPages + chunks.overflowPages) * entries.pageSize
    return (UInt64(entries.bytes + chunks.bytes), UInt64(overflow))
  }
}
