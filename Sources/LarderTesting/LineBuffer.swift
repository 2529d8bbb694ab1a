// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A buffer that receives bytes and returns lines. The last line needs no line break.
struct LineBuffer {
  private(set) var isAtEnd = false
  private var bytes: [UInt8] = []
  private var start = 0
  private var searched = 0

  /// Appends bytes; an empty array is the end of the file.
  mutating func append(_ piece: [UInt8]) {
    if piece.isEmpty { isAtEnd = true }
    bytes.append(contentsOf: piece)
  }

  /// Removes and returns the next line without its line break, or returns `nil` if none is complete.
  mutating func takeLine() -> String? {
    if let end = bytes[searched...].firstIndex(of: UInt8(ascii: "\n")) {
      return take(upTo: end, skippingTo: end + 1)
    }
    searched = bytes.count
    if !isAtEnd || start == bytes.count { return nil }
    return take(upTo: bytes.count, skippingTo: bytes.count)
  }

  /// The received part of an incomplete line.
  var unfinishedLine: String { String(decoding: bytes[start...], as: UTF8.self) }

  private mutating func take(upTo end: Int, skippingTo next: Int) -> String {
    let line = String(decoding: bytes[start..<end], as: UTF8.self)
    start = next
    searched = next
    if start == bytes.count || start > 65_536 {
      bytes.removeFirst(start)
      start = 0
      searched = 0
    }
    return line
  }
}

/// A wait for a condition that cannot be polled: 50 microseconds, then longer, at most a millisecond.
struct Backoff {
  private var nanoseconds = 50_000

  mutating func take() {
    var request = timespec(tv_sec: 0, tv_nsec: nanoseconds)
    _ = unsafe nanosleep(&request, nil)
    nanoseconds = min(nanoseconds * 2, 1_000_000)
  }
}
