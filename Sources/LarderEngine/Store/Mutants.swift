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

  // Removal by tag: the slot of the tag is not stamped; a computation that began before the removal is
  // stored.
  static var tagUnstamped: Mutant { Mutant("tagUnstamped") }
  static var fillIgnoresTags: Mutant { Mutant("fillIgnoresTags") }

  // A read through the location cache skips validation.
  static var placesIgnoreStamps: Mutant { Mutant("placesIgnoreStamps") }

  // Locks: a dead holder is never removed; a lock is granted while it is held; a token is given twice.
  static var lockOutlivesHolder: Mutant { Mutant("lockOutlivesHolder") }
  static var lockGrantsTwice: Mutant { Mutant("lockGrantsTwice") }
  static var lockTokenRepeats: Mutant { Mutant("lockTokenRepeats") }

  // Offered writes of a killed writer: all count as executed; none does.
  static var offersCountAsDone: Mutant { Mutant("offersCountAsDone") }
  static var offersCountAsRefused: Mutant { Mutant("offersCountAsRefused") }

  // Relaxed stores, tested by the power cut: the snapshot of the checkpoint is not pinned; it is
  // recorded before it is synced.
  static var recordUnpinned: Mutant { Mutant("recordUnpinned") }
  static var recordedUnsynced: Mutant { Mutant("recordedUnsynced") }

  // The redo log: it is not synced; the word `durable` is ahead of the sync; records are valid without those
  // before them; a segment is used again before a checkpoint.
  static var logUnsynced: Mutant { Mutant("logUnsynced") }
  static var durableAhead: Mutant { Mutant("durableAhead") }
  static var logUnchained: Mutant { Mutant("logUnchained") }
  /// A sync of a relaxed store syncs only the segments that are newer than those of the last one.
  static var logLeftUnsynced: Mutant { Mutant("logLeftUnsynced") }
  static var logOrphanKept: Mutant { Mutant("logOrphanKept") }
  static var logRecycledEarly: Mutant { Mutant("logRecycledEarly") }
  /// A segment has bytes before its name is on the disk.
  static var logNamedLate: Mutant { Mutant("logNamedLate") }
  /// An opener takes the names of a generation and of `CURRENT` for synced.
  static var namesUnconfirmed: Mutant { Mutant("namesUnconfirmed") }
}
