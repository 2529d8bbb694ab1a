// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The rules of this module that a test breaks: `LARDER_MUTANT=name`.
extension Mutant {
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
