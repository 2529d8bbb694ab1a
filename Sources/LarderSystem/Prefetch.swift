// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// Prefetches the cache line at an address without waiting. It is a hint: any address is allowed,
/// and the call has no observable effect.
@unsafe
package func prefetch(_ address: UnsafeRawPointer) { unsafe larder_prefetch(address, 1) }

extension RawSpan {
  /// Prefetches the cache lines of the first `limit` bytes in parallel.
  package func prefetch(limit: Int) {
    unsafe withUnsafeBytes { bytes in
      guard let base = bytes.baseAddress else { return }
      unsafe larder_prefetch(base, min(bytes.count, limit))
    }
  }
}
