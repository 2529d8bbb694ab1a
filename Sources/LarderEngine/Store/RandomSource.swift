// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

#if canImport(Darwin)
internal import Darwin
#elseif canImport(Musl)
internal import Musl
#else
internal import Glibc
#endif

/// The random generator of this process for lifetimes: SplitMix64, without a lock or a system call.
package enum RandomSource {
  private static let state = Atomic<UInt64>(UInt64.random(in: 0...UInt64.max))

  /// Returns a number from zero to one, which is not included, in steps of 2^-53.
  static func share() -> Double {
    var bits = state.wrappingAdd(0x9E37_79B9_7F4A_7C15, ordering: .relaxed).newValue
    bits = (bits ^ bits >> 30) &* 0xBF58_476D_1CE4_E5B9
    bits = (bits ^ bits >> 27) &* 0x94D0_49BB_1331_11EB
    bits ^= bits >> 31
    return Double(bits >> 11) * 0x1p-53
  }

  /// The largest number that ``exponential()`` returns, rounded up.
  package static var largestExponential: Double { 37 }

  /// Returns a number of the exponential distribution with the mean 1.
  package static func exponential() -> Double { -log(1 - share()) }
}
