// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The rules of this module that a test breaks: `LARDER_MUTANT=name`.
extension Mutant {
  // A repeated query skips the stamp; children survive a cascading delete.
  static var memoIgnoresStamp: Mutant { Mutant("memoIgnoresStamp") }
  static var cascadeForgotten: Mutant { Mutant("cascadeForgotten") }

  // The reads of a snapshot are of several commits; a page begins after all objects equal to the
  // last one.
  static var snapshotMoves: Mutant { Mutant("snapshotMoves") }
  static var cursorSkipsEquals: Mutant { Mutant("cursorSkipsEquals") }
}
