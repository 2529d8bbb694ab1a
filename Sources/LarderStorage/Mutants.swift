// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The rules of this module that a test breaks: `LARDER_MUTANT=name`.
extension Mutant {
  // Files in a folder: writers do not wait for each other, a file is written in place.
  static var folderUnlocked: Mutant { Mutant("folderUnlocked") }
  static var folderWritesInPlace: Mutant { Mutant("folderWritesInPlace") }
}
