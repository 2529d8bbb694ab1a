// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderTesting

/// A seeded source of random numbers (SplitMix64), so that a failure can be repeated.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &self) }
  }
}

/// A new seed, or that of `LARDER_SEED`; printed, so that a failure can be repeated.
func printedSeed(_ test: String = #function) -> UInt64 { Seed.announce(test).value }

/// The code of the failure that work ends with; `nil` if it succeeds or fails otherwise.
func failureCode(_ work: () throws -> Void) -> CodecError.Code? {
  do {
    try work()
    return nil
  } catch {
    return (error as? CodecError)?.code
  }
}

func hexadecimal(_ bytes: [UInt8]) -> String {
  KeyTextFormat.display(tag: .bytes, bytes: bytes)
}

func bytes(_ hexadecimal: String) throws -> [UInt8] {
  try KeyTextFormat.bytes.encode(hexadecimal.filter { $0 != " " }).bytes
}

/// Runs work on a thread with a stack as small as those of secondary threads on Apple's systems.
func onSmallStack<Result: Sendable>(
  _ work: @escaping @Sendable () throws -> Result
) async throws -> Result {
  try await withCheckedThrowingContinuation { continuation in
    let thread = Thread {
      continuation.resume(with: Swift.Result { try work() })
    }
    thread.stackSize = 512 * 1024
    thread.start()
  }
}
