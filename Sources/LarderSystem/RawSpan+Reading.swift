// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

/// Bounds-checked reading of untrusted bytes: a range outside the span yields `nil`, never a trap.
extension RawSpan {
  /// The little-endian integer at `offset`, or `nil` when it does not fit.
  @inlinable @inline(__always)
  package func integer<T: FixedWidthInteger & BitwiseCopyable>(
    at offset: Int, as type: T.Type = T.self
  ) -> T? {
    guard offset >= 0, offset &+ MemoryLayout<T>.size <= byteCount else { return nil }
    return unsafe T(littleEndian: unsafeLoadUnaligned(fromByteOffset: offset, as: T.self))
  }

  /// The bytes `range`, or `nil` when they do not all exist.
  @inlinable @inline(__always)
  @_lifetime(copy self)
  package func slice(_ range: Range<Int>) -> RawSpan? {
    guard range.lowerBound >= 0, range.upperBound <= byteCount else { return nil }
    return unsafe extracting(unchecked: range)
  }

  /// A copy of all bytes.
  package func copied() -> [UInt8] {
    // What makes an array of a buffer is specialized here; what makes one of a given capacity goes
    // through the runtime's generic types, at three times the cost.
    unsafe withUnsafeBytes { source in
      unsafe Array(source.assumingMemoryBound(to: UInt8.self))
    }
  }

  /// Returns the bytes as a string, or `nil` if they are not UTF-8.
  package func text() -> String? {
    // Validation goes through the runtime's generic types; nearly all strings are ASCII.
    let isASCII = isASCII
    return unsafe withUnsafeBytes { bytes in
      let bytes = unsafe bytes.bindMemory(to: UInt8.self)
      return unsafe isASCII
        ? String(decoding: bytes, as: UTF8.self) : String(validating: bytes, as: UTF8.self)
    }
  }

  /// Whether the bytes equal those of `other`.
  package func equals(_ other: RawSpan) -> Bool {
    guard byteCount == other.byteCount else { return false }
    return unsafe withUnsafeBytes { mine in
      unsafe other.withUnsafeBytes { theirs in
        guard let left = mine.baseAddress, let right = theirs.baseAddress else { return true }
        return unsafe compareBytes(left, right, mine.count) == 0
      }
    }
  }

  /// Whether these bytes come before others in the order of bytes; what begins like them is after.
  package func precedes(_ other: [UInt8]) -> Bool {
    other.withRawSpan { precedes($0) }
  }

  /// Whether these bytes come before others in the order of bytes; what begins like them is after.
  package func precedes(_ other: RawSpan) -> Bool {
    let count = min(byteCount, other.byteCount)
    let order = unsafe withUnsafeBytes { left in
      unsafe other.withUnsafeBytes { right in
        count == 0 ? 0 : unsafe compareBytes(left.baseAddress!, right.baseAddress!, count)
      }
    }
    return order != 0 ? order < 0 : byteCount < other.byteCount
  }

  /// Whether every byte is below 128.
  package var isASCII: Bool {
    unsafe withUnsafeBytes { bytes in
      // The loop without a branch is vectorised.
      var all: UInt8 = 0
      for index in 0..<bytes.count { all |= unsafe bytes[index] }
      return all < 0x80
    }
  }

  /// Whether the bytes contain those of `part`; they do if it is empty.
  package func contains(_ part: [UInt8]) -> Bool {
    guard part.count <= byteCount else { return false }
    return unsafe withUnsafeBytes { mine in
      unsafe part.withUnsafeBytes { theirs in
        guard let all = mine.baseAddress, let part = theirs.baseAddress else { return true }
        return unsafe larder_contains(all, mine.count, part, theirs.count) != 0
      }
    }
  }

  /// Whether the bytes equal those of an array.
  package func equals(_ other: [UInt8]) -> Bool {
    guard byteCount == other.count else { return false }
    return unsafe withUnsafeBytes { mine in
      unsafe other.withUnsafeBytes { theirs in
        guard let left = mine.baseAddress, let right = theirs.baseAddress else { return true }
        return unsafe compareBytes(left, right, mine.count) == 0
      }
    }
  }
}

extension String {
  /// Calls `body` with the UTF-8 bytes. (`String.utf8Span` needs newer systems than Larder does.)
  @inline(__always)
  package func withUTF8Span<R>(_ body: (RawSpan) throws -> R) rethrows -> R {
    var text = self
    return try text.withUTF8 { try body(unsafe RawSpan(_unsafeElements: $0)) }
  }
}

/// Appending and reading little-endian integers in byte arrays.
extension [UInt8] {
  /// Calls `body` with the bytes. (`Array.span` needs newer systems than Larder does.)
  @inlinable @inline(__always)
  package func withRawSpan<R, E: Error>(_ body: (RawSpan) throws(E) -> R) throws(E) -> R {
    try unsafe withUnsafeBufferPointer { buffer throws(E) in
      try body(unsafe RawSpan(_unsafeElements: buffer))
    }
  }

  @inlinable
  package mutating func append<T: FixedWidthInteger>(littleEndian value: T) {
    unsafe Swift.withUnsafeBytes(of: value.littleEndian) { unsafe append(contentsOf: $0) }
  }

  package mutating func append(_ span: RawSpan) {
    unsafe span.withUnsafeBytes { unsafe append(contentsOf: $0) }
  }

  /// The little-endian integer at `offset`, or `nil` when it does not fit.
  @inlinable
  package func integer<T: FixedWidthInteger & BitwiseCopyable>(
    at offset: Int, as type: T.Type = T.self
  ) -> T? {
    withRawSpan { $0.integer(at: offset, as: type) }
  }

  @inlinable
  package mutating func store<T: FixedWidthInteger>(_ value: T, at offset: Int) {
    precondition(offset >= 0 && offset + MemoryLayout<T>.size <= count, "store outside the array")
    unsafe withUnsafeMutableBytes { buffer in
      unsafe buffer.storeBytes(of: value.littleEndian, toByteOffset: offset, as: T.self)
    }
  }
}

extension [UInt8] {
  /// Zeros, to be written over: for the fixed parts of records, for which see ``RawSpan/copied()``.
  package static func zeros(_ count: Int) -> [UInt8] {
    unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { buffer in
      unsafe buffer.initialize(repeating: 0)
      return unsafe Array(UnsafeBufferPointer(buffer))
    }
  }
}
