// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// The clocks that the store reads directly. All expiration times use the store's injected clock
/// instead.
package enum Clocks {
  /// Wall time in milliseconds since 1970.
  package static func wallMilliseconds() -> Int64 {
    var time = timespec()
    #if canImport(Darwin)
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    #else
    // The coarse clock costs a quarter of the exact one and is right to a few milliseconds.
    unsafe clock_gettime(CLOCK_REALTIME_COARSE, &time)
    #endif
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
  }

  /// Wall time in nanoseconds since 1970, from the exact clock.
  package static func wallNanoseconds() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_REALTIME, &time)
    return UInt64(max(time.tv_sec, 0)) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// Nanoseconds of a clock that never steps and is one for all processes of the machine.
  package static func monotonicNanoseconds() -> UInt64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }

  /// Nanoseconds of the same clock, which costs a quarter and lags it by up to 10 ms.
  package static func coarseMonotonicNanoseconds() -> UInt64 {
    #if canImport(Darwin)
    return monotonicNanoseconds()
    #else
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    #endif
  }

  /// A duration in nanoseconds; what is that far away is never, and what is negative is zero.
  package static func nanoseconds(of duration: Duration) -> UInt64 {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0 else { return 0 }
    guard seconds < 1 << 33 else { return UInt64.max / 4 }
    return UInt64(seconds) * 1_000_000_000 + UInt64(max(attoseconds, 0)) / 1_000_000_000
  }

  /// The time of the monotonic clock after a duration, in nanoseconds.
  package static func deadline(after duration: Duration) -> UInt64 {
    let (sum, isEndless) = monotonicNanoseconds().addingReportingOverflow(nanoseconds(of: duration))
    return isEndless ? .max : sum
  }
}
