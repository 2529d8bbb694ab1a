// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// Sleeping on a 32-bit word that several processes map.
package enum Futex {
  /// Sleeps while the word is `expected`, at most `nanoseconds`. May return early.
  @unsafe
  package static func wait(
    _ word: UnsafeMutableRawPointer, while expected: UInt32, nanoseconds: Int64
  ) {
    unsafe larder_futex_wait(
      word.assumingMemoryBound(to: UInt32.self), expected, max(nanoseconds, 0))
  }

  /// Wakes every sleeper of every process.
  @unsafe
  package static func wakeAll(_ word: UnsafeMutableRawPointer) {
    unsafe larder_futex_wake(word.assumingMemoryBound(to: UInt32.self), .max)
  }

  /// Wakes one sleeper, of any process. The memory may be mapped for reading only.
  @unsafe
  package static func wakeOne(_ word: UnsafeMutableRawPointer) {
    unsafe larder_futex_wake(word.assumingMemoryBound(to: UInt32.self), 1)
  }
}
