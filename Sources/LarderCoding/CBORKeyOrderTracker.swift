// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Watches the keys of a map pass by: as long as they are in bytewise order, no two can be equal.
struct CBORKeyOrderTracker {
  private var start = 0
  private var end = 0
  private var inOrder = true

  /// All keys so far have one encoding only, so that equal keys are equal bytes.
  private(set) var areSimple = true

  /// No two keys so far are equal.
  var areKnownDistinct: Bool { inOrder && areSimple }

  /// Records the key in `[start, end)`.
  @inline(__always)
  mutating func add(_ input: Span<UInt8>, _ start: Int, _ end: Int) {
    let initial = input[start]
    if initial < 0x60 || initial > 0x77, !Self.hasOneEncoding(input, start) { areSimple = false }
    if self.end != 0, inOrder {
      // Usually the heads, that is the lengths, or the first letters differ.
      let previous = input[self.start]
      inOrder =
        previous == initial
        ? Self.precedes(input, self.start, self.end, start, end) : previous < initial
    }
    self.start = start
    self.end = end
  }

  /// Whether the item is an integer, a string or a simple value in its shortest form. Floats, tags
  /// and containers have several, and so have long heads and indefinite lengths.
  private static func hasOneEncoding(_ input: Span<UInt8>, _ start: Int) -> Bool {
    let initial = input[start]
    let info = initial & 0x1f
    switch initial >> 5 {
    case 0...3:
      if info < 24 { return true }
      // Longer heads are the only encoding if they have to be as long as they are.
      let least: UInt64
      switch info {
      case 24: least = 24
      case 25: least = 0x100
      case 26: least = 0x1_0000
      case 27: least = 0x1_0000_0000
      default: return false
      }
      var argument: UInt64 = 0
      for index in start + 1...start + (1 << Int(info - 24)) {
        argument = argument << 8 | UInt64(input[index])
      }
      return argument >= least
    case 7:
      return info < 25
    default:
      return false
    }
  }

  static func precedes(
    _ input: Span<UInt8>, _ start: Int, _ end: Int, _ otherStart: Int, _ otherEnd: Int
  ) -> Bool {
    var index = start
    var other = otherStart
    while index < end, other < otherEnd {
      let byte = input[index]
      let otherByte = input[other]
      if byte != otherByte { return byte < otherByte }
      index += 1
      other += 1
    }
    return end - start < otherEnd - otherStart
  }
}

extension CBORDocument {
  /// Searches for equal keys in a map whose keys are not in order, or may be encoded in several
  /// ways.
  func checkKeysAreDistinct(_ pairs: Range<Int>, areSimple: Bool) throws(CBORSyntaxError) {
    var keys: Set<[UInt8]> = []
    var key = pairs.lowerBound
    while key < pairs.upperBound {
      let value = next(after: key)
      let encoded = areSimple ? Array(bytes[key..<value]) : self.value(at: key).encoded
      guard keys.insert(encoded).inserted else {
        throw CBORSyntaxError(
          code: .malformed, offset: key, problem: "a key that the map has already")
      }
      key = next(after: value)
    }
  }
}
