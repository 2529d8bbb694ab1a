// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Pseudorandom numbers: the same seed gives the same test. The generator is xoshiro256**
// (Blackman and Vigna, 2018), its state filled by SplitMix64 as its authors advise. Both are pinned
// by published outputs in the tests, because a seed in a bug report must repeat the same test in later versions.

/// A fast generator whose numbers follow from its seed, on every platform and in every version.
public struct SeededRandom: RandomNumberGenerator, Sendable {
  private var state: (UInt64, UInt64, UInt64, UInt64)

  /// Creates a generator from a number; usually ``Seed/generator(stream:)`` creates one.
  public init(seed: UInt64) {
    var filler = SplitMix64(state: seed)
    state = (filler.next(), filler.next(), filler.next(), filler.next())
  }

  /// Creates a generator in a known state, which must not be all zero.
  package init(state: (UInt64, UInt64, UInt64, UInt64)) { self.state = state }

  /// Returns the next 64 bits.
  public mutating func next() -> UInt64 {
    let result = Self.rotate(state.1 &* 5, by: 7) &* 9
    let shifted = state.1 << 17
    state.2 ^= state.0
    state.3 ^= state.1
    state.1 ^= state.2
    state.0 ^= state.3
    state.2 ^= shifted
    state.3 = Self.rotate(state.3, by: 45)
    return result
  }

  /// Returns `true` with a probability of `percent`.
  public mutating func chance(_ percent: Int) -> Bool {
    Int.random(in: 0..<100, using: &self) < percent
  }

  /// Returns random bytes.
  public mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
  }

  private static func rotate(_ value: UInt64, by count: UInt64) -> UInt64 {
    (value << count) | (value >> (64 - count))
  }
}

/// The generator that initialises another one's state, and derives seeds.
package struct SplitMix64: RandomNumberGenerator, Sendable {
  private var state: UInt64

  package init(state: UInt64) { self.state = state }

  package mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}

/// The seed of a random test. Its description is the setting that repeats the test.
///
/// ```swift
/// let seed = Seed.announce()          // LARDER_SEED=0x5bd1e995 (myTest()), on standard error
/// var random = seed.generator()
/// #expect(law(holdsFor: &random), "\(seed)")
/// ```
public struct Seed: Hashable, Sendable, CustomStringConvertible {
  /// The environment variable that fixes the seed, decimal or with `0x`.
  public static let variable = "LARDER_SEED"

  /// The number.
  public let value: UInt64

  /// Creates a seed from a number.
  public init(_ value: UInt64) { self.value = value }

  /// The setting that repeats the test: `LARDER_SEED=0x…`.
  public var description: String { "\(Self.variable)=0x\(String(value, radix: 16))" }

  /// Returns the seed of this run and prints it to standard error, so that the seed of a test that
  /// hangs or crashes is known.
  ///
  /// The seed is the value of `LARDER_SEED` if that is set, and a new one otherwise.
  public static func announce(_ name: String = #function) -> Seed {
    let seed = given() ?? Seed(UInt64.random(in: 1 ... .max))
    let line = "\(seed) (\(name))\n"
    _ = try? POSIX.write(Array(line.utf8)[...], to: 2)
    return seed
  }

  /// Returns a generator for this seed. Different streams are independent.
  public func generator(stream: UInt64 = 0) -> SeededRandom {
    SeededRandom(seed: derived(stream).value)
  }

  /// Returns the seed of a part of the test: a trial, a process or a thread. Part 0 is the seed itself.
  public func derived(_ part: UInt64) -> Seed {
    if part == 0 { return self }
    var mixer = SplitMix64(state: part)
    return Seed(value ^ mixer.next())
  }

  /// Returns the seeds of `count` trials, the first of which is this seed.
  ///
  /// Print the seed of a trial that fails: as `LARDER_SEED` it makes that trial the first one.
  ///
  /// ```swift
  /// for trial in Seed.announce().trials(1000) {
  ///   var random = trial.generator()
  ///   #expect(law(holdsFor: &random), "\(trial)")
  /// }
  /// ```
  public func trials(_ count: Int) -> some Sequence<Seed> {
    (0..<UInt64(count)).lazy.map(derived)
  }

  private static func given() -> Seed? {
    guard let text = POSIX.environmentValue(variable), !text.isEmpty else { return nil }
    let number = text.hasPrefix("0x") ? UInt64(text.dropFirst(2), radix: 16) : UInt64(text)
    guard let number else {
      fatalError("\(variable) is \"\(text)\". Set it to a number, decimal or with 0x, or unset it.")
    }
    return Seed(number)
  }
}
