// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
/// The bytes of a stored value: everything follows from its key and its sequence, so a byte of
/// another write is found.
protocol StressPayload: OracleValue {
  var storedKey: Int { get }
  var check: UInt64 { get }
  var padding: [UInt8] { get }
  /// A Boolean value that indicates whether the remaining properties follow from the sequence.
  var hasOwnProperties: Bool { get }
}

extension StressPayload {
  var hasOwnProperties: Bool { true }

  static func check(_ write: StormOracle.Write) -> UInt64 {
    (write.sequence &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(write.key)
  }

  /// - Parameter size: By default small, and sometimes large enough to be stored in chunks.
  static func padding(_ sequence: UInt64, _ size: Int?) -> [UInt8] {
    [UInt8](
      repeating: UInt8(truncatingIfNeeded: sequence),
      count: size ?? (sequence % 41 == 0 ? 40_000 : Int(sequence % 200)))
  }

  /// Returns whether the key and the sequence belong together.
  func isOwn(_ key: Int) -> Bool {
    storedKey == key && check == Self.check((key, sequence)) && hasOwnProperties
  }

  func isWhole(_ key: Int) -> Bool {
    isOwn(key) && padding.allSatisfy { $0 == UInt8(truncatingIfNeeded: sequence) }
  }
}

/// A value of the cache, of defaults and of storages.
struct StressValue: Codable, Sendable, StressPayload {
  let key: Int
  let sequence: UInt64
  let deadline: Int64
  let check: UInt64
  let padding: [UInt8]
  var storedKey: Int { key }

  init(_ write: StormOracle.Write, deadline: Int64 = 0, size: Int? = nil) {
    key = write.key
    sequence = write.sequence
    self.deadline = deadline
    check = Self.check(write)
    padding = Self.padding(sequence, size)
  }
}
#endif
