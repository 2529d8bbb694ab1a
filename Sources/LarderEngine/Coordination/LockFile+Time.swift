// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE TIME OF RATES, LEASES AND DELAYS
//
// The state of a limiter, and the claims of a deque, outlive processes and the machine's boot, and a change
// of the wall clock must neither permit calls twice nor block them. So their times are those of the monotonic clock plus a base,
// which the first process of a boot stores in the header: the wall time minus the monotonic time, in
// nanoseconds. All processes use the same base, so time goes on evenly until the next boot.
//
// The lowest 20 bits of the base are a checksum of the others and of the boot's id. A base of another
// boot, a damaged one and none are replaced by an exchange, which one process wins.

extension LockFile {
  /// The time in nanoseconds. A clock that the program has set is followed as it is.
  var nowNanoseconds: UInt64 {
    guard clock.isSystem else { return UInt64(clamping: clock.now()) &* 1_000_000 }
    return Clocks.monotonicNanoseconds() &+ timeBase
  }

  /// The time in milliseconds.
  var milliseconds: Int64 {
    clock.isSystem ? Int64(clamping: nowNanoseconds / 1_000_000) : clock.now()
  }

  private static let checkMask: UInt64 = 1 << 20 - 1

  private static func withCheck(_ base: UInt64) -> UInt64 {
    let rest = base & ~checkMask
    return rest | ((rest ^ ProcessIdentity.bootID) &* 0x9E37_79B9_7F4A_7C15) >> 44
  }

  private var timeBase: UInt64 {
    let found = words.load(Layout.timeBase)
    if found == Self.withCheck(found) { return found & ~Self.checkMask }
    let monotonic = Clocks.monotonicNanoseconds()
    let fresh = Self.withCheck(max(Clocks.wallNanoseconds(), monotonic) - monotonic)
    if !words.replace(found, by: fresh, at: Layout.timeBase) {
      let other = words.load(Layout.timeBase)
      if other == Self.withCheck(other) { return other & ~Self.checkMask }
    }
    return fresh & ~Self.checkMask
  }
}
