// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The rules of this module that a test breaks: `LARDER_MUTANT=name`.
extension Mutant {
  // An update reads before its transaction, a write is acknowledged before its commit, a watch
  // treats all numbers as equal.
  static var defaultsUpdateUnlocked: Mutant { Mutant("defaultsUpdateUnlocked") }
  static var defaultsSetBehind: Mutant { Mutant("defaultsSetBehind") }
  static var defaultsWatchDeaf: Mutant { Mutant("defaultsWatchDeaf") }
}
