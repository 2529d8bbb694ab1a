// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The 64-bit checksum of the records of objects.
///
/// wyhash by Wang Yi, final version 4, from its published definition (public domain). A scan verifies
/// each record, of about a hundred bytes; for these, the independent multiplications of this hash take
/// a fifth of the time of ``XXH64``. Not keyed: it detects damage, not manipulation.
package enum WyHash {
  private static var s0: UInt64 { 0x2d35_8dcc_aa6c_78a5 }
  private static var s1: UInt64 { 0x8bb8_4b93_962e_acc9 }
  private static var s2: UInt64 { 0x4b33_a62e_d433_d4a3 }
  private static var s3: UInt64 { 0x4d5a_2da5_1de1_aa47 }

  package static func hash(_ bytes: RawSpan, seed: UInt64) -> UInt64 {
    unsafe bytes.withUnsafeBytes { unsafe hash($0, seed: seed) }
  }

  private static func hash(_ bytes: UnsafeRawBufferPointer, seed start: UInt64) -> UInt64 {
    let count = bytes.count
    var seed = start ^ mixed(start ^ s0, s1)
    guard var cursor = bytes.baseAddress, count > 16 else {
      let (a, b) = unsafe short(bytes)
      return finish(a, b, seed, count)
    }
    var left = count
    if left > 48 {
      var (second, third) = (seed, seed)
      repeat {
        seed = unsafe mixed(word(cursor) ^ s1, word(cursor + 8) ^ seed)
        second = unsafe mixed(word(cursor + 16) ^ s2, word(cursor + 24) ^ second)
        third = unsafe mixed(word(cursor + 32) ^ s3, word(cursor + 40) ^ third)
        unsafe cursor += 48
        left -= 48
      } while left > 48
      seed ^= second ^ third
    }
    while left > 16 {
      seed = unsafe mixed(word(cursor) ^ s1, word(cursor + 8) ^ seed)
      unsafe cursor += 16
      left -= 16
    }
    return unsafe finish(word(cursor + left - 16), word(cursor + left - 8), seed, count)
  }

  /// Returns the words of at most 16 bytes.
  private static func short(_ bytes: UnsafeRawBufferPointer) -> (UInt64, UInt64) {
    let count = bytes.count
    guard let start = bytes.baseAddress, count > 0 else { return (0, 0) }
    if count < 4 {
      let parts = unsafe (UInt64(bytes[0]), UInt64(bytes[count >> 1]), UInt64(bytes[count - 1]))
      return (parts.0 << 16 | parts.1 << 8 | parts.2, 0)
    }
    let step = (count >> 3) << 2
    let end = unsafe start + count - 4
    return unsafe (
      half(start) << 32 | half(start + step), half(end) << 32 | half(end - step)
    )
  }

  @inline(__always)
  private static func finish(_ a: UInt64, _ b: UInt64, _ seed: UInt64, _ count: Int) -> UInt64 {
    let product = (a ^ s1).multipliedFullWidth(by: b ^ seed)
    return mixed(product.low ^ s0 ^ UInt64(count), product.high ^ s1)
  }

  @inline(__always)
  private static func mixed(_ a: UInt64, _ b: UInt64) -> UInt64 {
    let product = a.multipliedFullWidth(by: b)
    return product.low ^ product.high
  }

  @inline(__always)
  private static func word(_ pointer: UnsafeRawPointer) -> UInt64 {
    unsafe UInt64(littleEndian: pointer.loadUnaligned(as: UInt64.self))
  }

  @inline(__always)
  private static func half(_ pointer: UnsafeRawPointer) -> UInt64 {
    unsafe UInt64(UInt32(littleEndian: pointer.loadUnaligned(as: UInt32.self)))
  }
}
