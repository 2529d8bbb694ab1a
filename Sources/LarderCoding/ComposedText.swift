// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The one thing here that needs all of Foundation, for text beyond ASCII in index keys and ids of objects.
internal import Foundation

/// Text in Unicode's normalization form C: the same bytes for all texts that are equal.
package func composed(_ text: String) -> String {
  text.utf8.allSatisfy { $0 < 0x80 } ? text : text.precomposedStringWithCanonicalMapping
}

/// Whether the bytes of a text's normalization form C are before those of another. Texts of which
/// neither is before the other are equal.
package func textIsBelow(_ left: String, _ right: String) -> Bool {
  // Below U+0300 nothing composes with anything.
  if left.utf8.allSatisfy({ $0 < 0xCC }), right.utf8.allSatisfy({ $0 < 0xCC }) {
    return left.utf8.lexicographicallyPrecedes(right.utf8)
  }
  return composed(left).utf8.lexicographicallyPrecedes(composed(right).utf8)
}
