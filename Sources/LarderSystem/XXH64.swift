// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The 64-bit checksum of entries and chunks.
///
/// XXH64 by Yann Collet, from its published specification
/// (xxHash fast digest algorithm, version 0.1.1). Not keyed: it detects damage, not manipulation.
package enum XXH64 {
  private static var p1: UInt64 { 0x9E37_79B1_85EB_CA87 }
  private static var p2: UInt64 { 0xC2B2_AE3D_27D4_EB4F }
  private static var p3: UInt64 { 0x1656_67B1_9E37_79F9 }
  private static var p4: UInt64 { 0x85EB_CA77_C2B2_AE63 }
  private static var p5: UInt64 { 0x27D4_EB2F_1656_67C5 }

  package static func hash(_ bytes: [UInt8], seed: UInt64 = 0) -> UInt64 {
    unsafe bytes.withUnsafeBytes { unsafe hash($0, seed: seed) }
  }

  package static func hash(_ bytes: RawSpan, seed: UInt64 = 0) -> UInt64 {
    unsafe bytes.withUnsafeBytes { unsafe hash($0, seed: seed) }
  }

  /// Returns the hash of `bytes` with zeros in place of those in `range`: for records of up to a
  /// kilobyte that contain their checksum.
  package static func hash(
    _ bytes: RawSpan, zeroing range: Range<Int>, seed: UInt64 = 0
  ) -> UInt64 {
    precondition(range.lowerBound >= 0 && range.upperBound <= bytes.byteCount)
    return unsafe withUnsafeTemporaryAllocation(
      byteCount: max(bytes.byteCount, 1), alignment: 8
    ) { copy in
      unsafe bytes.withUnsafeBytes { unsafe copy.copyMemory(from: $0) }
      unsafe UnsafeMutableRawBufferPointer(rebasing: copy[range])
        .initializeMemory(as: UInt8.self, repeating: 0)
      return unsafe hash(
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(copy)[..<bytes.byteCount]),
        seed: seed)
    }
  }

  package typealias Words = (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)

  /// Returns the hash of the 64 bytes of these words, least significant byte first.
  package static func hash(words: Words, seed: UInt64) -> UInt64 {
    let a = round(round(seed &+ p1 &+ p2, words.0), words.4)
    let b = round(round(seed &+ p2, words.1), words.5)
    let c = round(round(seed, words.2), words.6)
    let d = round(round(seed &- p1, words.3), words.7)
    let result = rotate(a, 1) &+ rotate(b, 7) &+ rotate(c, 12) &+ rotate(d, 18)
    return finish(merge(merge(merge(merge(result, a), b), c), d) &+ 64)
  }

  package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
    guard let base = bytes.baseAddress else { return finish(seed &+ p5) }
    var cursor = unsafe base
    var remaining = bytes.count
    var result: UInt64

    if remaining >= 32 {
      var (a, b, c, d) = (seed &+ p1 &+ p2, seed &+ p2, seed, seed &- p1)
      while remaining >= 32 {
        a = unsafe round(a, word(cursor))
        b = unsafe round(b, word(cursor + 8))
        c = unsafe round(c, word(cursor + 16))
        d = unsafe round(d, word(cursor + 24))
        unsafe cursor += 32
        remaining -= 32
      }
      result = rotate(a, 1) &+ rotate(b, 7) &+ rotate(c, 12) &+ rotate(d, 18)
      result = merge(merge(merge(merge(result, a), b), c), d)
    } else {
      result = seed &+ p5
    }

    result &+= UInt64(bytes.count)
    while remaining >= 8 {
      result = unsafe rotate(result ^ round(0, word(cursor)), 27) &* p1 &+ p4
      unsafe cursor += 8
      remaining -= 8
    }
    if remaining >= 4 {
      let half = unsafe UInt64(UInt32(littleEndian: cursor.loadUnaligned(as: UInt32.self)))
      result = rotate(result ^ (half &* p1), 23) &* p2 &+ p3
      unsafe cursor += 4
      remaining -= 4
    }
    while remaining > 0 {
      result = unsafe rotate(result ^ (UInt64(cursor.load(as: UInt8.self)) &* p5), 11) &* p1
      unsafe cursor += 1
      remaining -= 1
    }
    return finish(result)
  }

  @inline(__always)
  private static func word(_ pointer: UnsafeRawPointer) -> UInt64 {
    unsafe UInt64(littleEndian: pointer.loadUnaligned(as: UInt64.self))
  }

  @inline(__always)
  private static func rotate(_ value: UInt64, _ count: UInt64) -> UInt64 {
    (value &<< count) | (value &>> (64 &- count))
  }

  @inline(__always)
  private static func round(_ accumulator: UInt64, _ input: UInt64) -> UInt64 {
    rotate(accumulator &+ (input &* p2), 31) &* p1
  }

  @inline(__always)
  private static func merge(_ result: UInt64, _ lane: UInt64) -> UInt64 {
    (result ^ round(0, lane)) &* p1 &+ p4
  }

  private static func finish(_ value: UInt64) -> UInt64 {
    var result = value
    result = (result ^ (result &>> 33)) &* p2
    result = (result ^ (result &>> 29)) &* p3
    return result ^ (result &>> 32)
  }
}
