// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The stamp slots of the keys a transaction wrote or removed. Of a single one no array is made.
package struct TouchedSlots {
  private var first = -1
  private var others: [Int] = []

  package var isEmpty: Bool { first < 0 }

  mutating func append(_ slot: Int) {
    if first < 0 { first = slot } else { others.append(slot) }
  }

  package func contains(_ slot: Int) -> Bool {
    first == slot || (!others.isEmpty && others.contains(slot))
  }

  /// Each, perhaps more than once.
  func forEach(_ body: (Int) -> Void) {
    guard first >= 0 else { return }
    body(first)
    for slot in others { body(slot) }
  }
}
