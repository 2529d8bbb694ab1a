// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// What a storm stores: a value that knows its key and its place in the order of writes.
struct StressValue: Codable, Sendable {
  let key: Int
  let sequence: UInt64
  /// Milliseconds of the store's clock; zero: never.
  let deadline: Int64
  let check: UInt64
  let padding: [UInt8]

  init(key: Int, sequence: UInt64, deadline: Int64 = 0, size: Int? = nil) {
    self.key = key
    self.sequence = sequence
    self.deadline = deadline
    self.check = StressValue.check(key, sequence)
    // Now and then a value that goes into chunks.
    let size = size ?? (sequence % 41 == 0 ? 40_000 : Int(sequence % 200))
    self.padding = [UInt8](repeating: UInt8(truncatingIfNeeded: sequence), count: size)
  }

  static func check(_ key: Int, _ sequence: UInt64) -> UInt64 {
    (sequence &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(key)
  }

  /// Whether key and sequence belong together.
  func isOwn(_ key: Int) -> Bool {
    self.key == key && check == StressValue.check(key, sequence)
  }

  /// Whether every byte does.
  func isWhole(_ key: Int) -> Bool {
    isOwn(key) && padding.allSatisfy { $0 == UInt8(truncatingIfNeeded: sequence) }
  }
}
