// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The rules of this module that a test breaks: `LARDER_MUTANT=name`.
extension Mutant {
  // Coherence: stamps, read versions, fences, conditional fills and the budget.
  static var stampsAfterCommit: Mutant { Mutant("stampsAfterCommit") }
  static var stampsOneLow: Mutant { Mutant("stampsOneLow") }
  static var filedOneHigh: Mutant { Mutant("filedOneHigh") }
  static var noRenewCheck: Mutant { Mutant("noRenewCheck") }
  static var fillIgnoresCancel: Mutant { Mutant("fillIgnoresCancel") }
  static var combinerFilesFirst: Mutant { Mutant("combinerFilesFirst") }
  static var labelsWithoutBase: Mutant { Mutant("labelsWithoutBase") }
  static var condemnWithoutFloor: Mutant { Mutant("condemnWithoutFloor") }
  static var noBump: Mutant { Mutant("noBump") }
  static var budgetOffByOne: Mutant { Mutant("budgetOffByOne") }
  static var leaseOutlivesHolder: Mutant { Mutant("leaseOutlivesHolder") }

  // A read through the location cache skips validation.
  static var placesIgnoreStamps: Mutant { Mutant("placesIgnoreStamps") }

  // Relaxed stores, tested by the power cut: the snapshot of the checkpoint is not pinned; it is
  // recorded before it is synced.
  static var recordUnpinned: Mutant { Mutant("recordUnpinned") }
  static var recordedUnsynced: Mutant { Mutant("recordedUnsynced") }

  // Objects: an update does not remove the old index key, a unique index is not checked, a
  // migration ignores concurrent changes.
  static var indexKeyLeft: Mutant { Mutant("indexKeyLeft") }
  static var uniqueUnchecked: Mutant { Mutant("uniqueUnchecked") }
  static var changesUnnoticed: Mutant { Mutant("changesUnnoticed") }

  // Bounded types: one object too many stays, the index keys of an evicted object stay, recency is
  // ignored.
  static var objectBudgetOffByOne: Mutant { Mutant("objectBudgetOffByOne") }
  static var evictedKeysLeft: Mutant { Mutant("evictedKeysLeft") }
  static var evictionIgnoresUse: Mutant { Mutant("evictionIgnoresUse") }
}
