// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The standard library's own normalisation: Foundation's would link all of Foundation, with its tables of
// 30 MB, into every static executable.
@_spi(_Unicode) internal import Swift

/// Text in Unicode's normalisation form C: the same bytes for all texts that are equal.
package func composed(_ text: String) -> String {
  if text.utf8.allSatisfy({ $0 < 0x80 }) { return text }
  var scalars = String.UnicodeScalarView()
  scalars.append(contentsOf: text._nfc)
  return String(scalars)
}

/// Whether the bytes of a text's normalisation form C are before those of another. Texts of which
/// neither is before the other are equal.
package func textIsBelow(_ left: String, _ right: String) -> Bool {
  // Below U+0300 nothing composes with anything.
  if left.utf8.allSatisfy({ $0 < 0xCC }), right.utf8.allSatisfy({ $0 < 0xCC }) {
    return left.utf8.lexicographicallyPrecedes(right.utf8)
  }
  return composed(left).utf8.lexicographicallyPrecedes(composed(right).utf8)
}
