// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderTesting

// FUZZING
//
// A target is one decoder of bytes that come from a file. It must take any bytes: with an error,
// with nothing, with a value; never with a trap. Where it can, a target also holds what it decoded
// against a law (what was decoded encodes to the same again, a file that passes the verifier can be
// walked by LMDB), and a broken law is a trap too, so that whatever drives the target sees it.
//
// Two drivers share the targets. The one built in (FuzzLoop.swift) starts from what the real
// encoders produce, mutates it, and keeps inputs whose outcome is new: targets return a number that
// differs between outcomes. The other is libFuzzer, by scripts/fuzz, which measures coverage
// instead.

/// A decoder that must take any bytes.
protocol FuzzTarget: Sendable {
  var name: String { get }
  /// Valid inputs, made by the real encoders.
  func seeds(_ random: inout SeededRandom) throws -> [[UInt8]]
  /// Corrects checksums, so that the bytes they protect are decoded.
  func repair(_ bytes: inout [UInt8])
  /// Decodes the bytes and returns a number that differs between outcomes.
  func run(_ bytes: [UInt8]) -> UInt64
}

extension FuzzTarget {
  func repair(_ bytes: inout [UInt8]) {}
}

enum FuzzTargets {
  static let all: [any FuzzTarget] = [
    EntryFuzz(), RecordsFuzz(), CBORFuzz(), StateFuzz(), CurrentFuzz(), KeyFuzz(), TableFuzz(),
    VerifierFuzz(), QueryFuzz(), LineFuzz(), IndexKeyFuzz(), ObjectFuzz(), CatalogFuzz(),
  ]

  static func named(_ name: String) -> (any FuzzTarget)? {
    name == "canary" ? CanaryFuzz() : all.first { $0.name == name }
  }
}

/// A target that traps after two comparisons, with which the tests prove that a fuzzer finds traps.
struct CanaryFuzz: FuzzTarget {
  let name = "canary"

  func seeds(_ random: inout SeededRandom) -> [[UInt8]] { [[1, 2, 3, 4], [9, 9]] }

  func run(_ bytes: [UInt8]) -> UInt64 {
    guard bytes.first == 1 else { return 0 }
    guard bytes.count > 2, bytes[1] == 0xFF else { return 1 }
    law(bytes[2] & 0x80 == 0, "the canary")
    return 2
  }
}

/// Traps if a law does not hold.
func law(_ holds: Bool, _ text: @autoclosure () -> String) {
  if !holds { fatalError("a law is broken: \(text())") }
}

/// Folds small facts into one number.
struct DecodingFacts {
  private(set) var value: UInt64 = 14_695_981_039_346_656_037

  mutating func add(_ fact: Int) {
    value = (value ^ UInt64(truncatingIfNeeded: fact)) &* 1_099_511_628_211
  }

  /// Adds the magnitude of a count, so that similar counts give one outcome.
  mutating func add(count: Int) { add(Int.bitWidth - count.leadingZeroBitCount) }

  mutating func add(_ text: String) {
    for byte in text.utf8 where !(48...57).contains(byte) { add(Int(byte)) }
  }
}
#endif
