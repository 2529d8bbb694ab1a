// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

// THE FORMAT OF A RESULT
//
//      0  version   u8   1
//      1  kind      u8   0: exited, 1: ended by a signal
//      2  number    u8   the exit status, or the signal
//      3  zero      5 bytes
//      8  duration  u64  milliseconds the command ran, little-endian
//     16  segments, in the order in which they arrived:
//           descriptor  u8   1: standard output, 2: standard error
//           length      u32  little-endian
//           bytes

/// The recorded output of a command, in its stored form: memory holds it once.
package struct OutputRecorder: Sendable {
  private static let headSize = 16
  private static let segmentHeadSize = 5

  private var bytes = [UInt8](repeating: 0, count: headSize)
  /// The offset of the last segment's header, or zero without a segment.
  private var last = 0
  private let limit: Int
  /// Whether the output exceeds the limit; it is not a result then.
  package private(set) var isTooLarge = false

  package init(limit: Int) { self.limit = limit }

  /// Appends output of a descriptor.
  package mutating func append(_ piece: [UInt8], of descriptor: UInt8) {
    guard !isTooLarge, !piece.isEmpty else { return }
    guard bytes.count + piece.count <= limit else {
      isTooLarge = true
      return
    }
    if last > 0, bytes[last] == descriptor {
      setLength(bytes.count - last - Self.segmentHeadSize + piece.count)
    } else {
      last = bytes.count
      bytes += [descriptor, 0, 0, 0, 0]
      setLength(piece.count)
    }
    bytes += piece
  }

  private mutating func setLength(_ length: Int) {
    for index in 0..<4 {
      bytes[last + 1 + index] = UInt8(truncatingIfNeeded: length >> (8 * index))
    }
  }

  /// Discards the recorded output and all that follows.
  package mutating func drop() {
    bytes = []
    isTooLarge = true
  }

  /// Returns the complete result.
  package consuming func finish(_ end: TerminationStatus, milliseconds: UInt64) -> MemoResult {
    bytes[0] = 1
    switch end {
    case .exited(let code): bytes[2] = code
    case .killed(let signal): (bytes[1], bytes[2]) = (1, signal)
    }
    for index in 0..<8 { bytes[8 + index] = UInt8(truncatingIfNeeded: milliseconds >> (8 * index)) }
    return MemoResult(bytes: bytes, end: end)
  }
}

/// The result of a command: its output in order, and its termination status.
package struct MemoResult: Sendable {
  package let bytes: [UInt8]
  package let end: TerminationStatus

  fileprivate init(bytes: [UInt8], end: TerminationStatus) {
    self.bytes = bytes
    self.end = end
  }

  /// Parses stored bytes. Returns nil if they are not a result, or one of a newer version.
  package init?(_ bytes: [UInt8]) {
    guard bytes.count >= 16, bytes[0] == 1, bytes[1] <= 1 else { return nil }
    self.bytes = bytes
    end = bytes[1] == 0 ? .exited(bytes[2]) : .killed(signal: bytes[2])
    var position = 16
    while position < bytes.count {
      guard let segment = Self.segment(bytes, at: position),
        segment.descriptor == 1
          || segment.descriptor == 2
      else { return nil }
      position = segment.range.upperBound
    }
  }

  private static func segment(
    _ bytes: [UInt8], at position: Int
  ) -> (descriptor: UInt8, range: Range<Int>)? {
    let start = position + 5
    guard start <= bytes.count else { return nil }
    var length = 0
    for index in 0..<4 { length |= Int(bytes[position + 1 + index]) << (8 * index) }
    guard start + length <= bytes.count else { return nil }
    return (bytes[position], start..<(start + length))
  }

  /// Calls a closure with each segment and its descriptor, in order.
  package func forEachSegment<E: Error>(
    _ body: (UInt8, ArraySlice<UInt8>) throws(E) -> Void
  ) throws(E) {
    var position = 16
    while position < bytes.count, let segment = Self.segment(bytes, at: position) {
      try body(segment.descriptor, bytes[segment.range])
      position = segment.range.upperBound
    }
  }
}
