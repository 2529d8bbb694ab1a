// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The standard library's own normalisation: Foundation's would link all of Foundation, with its tables of
// 30 MB, into every static executable.
@_spi(_Unicode) internal import Swift

/// Text in Unicode's normalisation form C.
func composed(_ text: String) -> String {
  var scalars = String.UnicodeScalarView()
  scalars.append(contentsOf: text._nfc)
  return String(scalars)
}
