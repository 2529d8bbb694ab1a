// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The stamp slots of the keys that a transaction wrote or removed. A single slot needs no array.
package struct TouchedSlots {
  private var first: StampSlot?
  private var others: [StampSlot] = []

  package var isEmpty: Bool { first == nil }

  /// The number of times that a slot was added.
  var count: Int { first == nil ? 0 : 1 + others.count }

  mutating func append(_ slot: StampSlot) {
    if first == nil { first = slot } else { others.append(slot) }
  }

  package func contains(_ slot: StampSlot) -> Bool {
    first == slot || (!others.isEmpty && others.contains(slot))
  }

  /// Calls `body` with each slot, possibly more than once.
  func forEach(_ body: (StampSlot) -> Void) {
    guard let first else { return }
    body(first)
    for slot in others { body(slot) }
  }
}
