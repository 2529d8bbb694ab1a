// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// Bytes on the stack in which to assemble a record without allocating an array.
///
/// ``withByteScratch(_:_:)`` provides it; it cannot be copied and cannot outlive the closure.
@safe
@usableFromInline
package struct ScratchBuffer: ~Copyable {
  @usableFromInline let base: UnsafeMutableRawPointer
  @usableFromInline package let count: Int

  @unsafe @usableFromInline @inline(__always)
  init(_ buffer: UnsafeMutableRawBufferPointer) {
    unsafe self.base = buffer.baseAddress!
    self.count = buffer.count
  }

  /// Stores a little-endian integer.
  @inlinable @inline(__always)
  package mutating func store<T: FixedWidthInteger & BitwiseCopyable>(_ value: T, at offset: Int) {
    precondition(
      offset >= 0 && offset <= count &- MemoryLayout<T>.size, "a store outside the bytes")
    unsafe base.storeBytes(of: value.littleEndian, toByteOffset: offset, as: T.self)
  }

  /// Stores a run of bytes.
  @inlinable @inline(__always)
  package mutating func store(_ bytes: [UInt8], at offset: Int) {
    precondition(offset >= 0 && offset <= count - bytes.count, "a store outside the bytes")
    unsafe bytes.withUnsafeBytes { source in
      guard let start = source.baseAddress else { return }
      unsafe (base + offset).copyMemory(from: start, byteCount: source.count)
    }
  }

  /// All of the bytes, as they are now.
  @inlinable
  package var span: RawSpan {
    @inline(__always) @_lifetime(borrow self) borrowing get {
      let span = unsafe RawSpan(_unsafeStart: base, byteCount: count)
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }

  /// The first bytes, as they are now.
  @inlinable @inline(__always)
  @_lifetime(borrow self)
  package borrowing func prefix(_ length: Int) -> RawSpan {
    precondition(length >= 0 && length <= count, "more bytes than there are")
    let span = unsafe RawSpan(_unsafeStart: base, byteCount: length)
    return unsafe _overrideLifetime(span, borrowing: self)
  }
}

/// Calls a closure with `count` zero bytes, valid during the call. For records of up to a kilobyte.
@inlinable @inline(__always)
package func withByteScratch<R>(
  _ count: Int, _ body: (inout ScratchBuffer) throws -> R
) rethrows -> R {
  precondition(count > 0, "a record of no bytes")
  return try unsafe withUnsafeTemporaryAllocation(byteCount: count, alignment: 8) { buffer in
    unsafe buffer.initializeMemory(as: UInt8.self, repeating: 0)
    var scratch = unsafe ScratchBuffer(buffer)
    return try body(&scratch)
  }
}
