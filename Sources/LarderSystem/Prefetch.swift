// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// Asks the processor for the line of memory at an address that is going to be needed, and does not
/// wait for it. A hint: any address is allowed, and nothing observable happens.
@unsafe
package func prefetch(_ address: UnsafeRawPointer) { unsafe larder_prefetch(address, 1) }

extension RawSpan {
  /// Has the first `limit` bytes fetched side by side instead of one line after the other.
  package func prefetch(limit: Int) {
    unsafe withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      unsafe larder_prefetch(base, min(bytes.count, limit))
    }
  }
}
