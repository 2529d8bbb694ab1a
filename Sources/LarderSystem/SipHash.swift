// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// SipHash-1-3, the keyed hash that places entries and slots.
///
/// Jean-Philippe Aumasson and Daniel J. Bernstein, "SipHash: a fast short-input PRF" (2012), with
/// one compression and three finalisation rounds. Keyed by a secret of the store, so that a caller
/// that chooses keys cannot choose collisions. Feeding is by bytes: hashing a prefix and then the
/// rest gives the hash of both, so a namespace hashes its prefix once.
@frozen
public struct SipHash13: Sendable {
  @usableFromInline var v0: UInt64
  @usableFromInline var v1: UInt64
  @usableFromInline var v2: UInt64
  @usableFromInline var v3: UInt64
  @usableFromInline var tail: UInt64 = 0
  @usableFromInline var count: UInt64 = 0

  @inlinable
  public init(key: (UInt64, UInt64)) {
    v0 = key.0 ^ 0x736F_6D65_7073_6575
    v1 = key.1 ^ 0x646F_7261_6E64_6F6D
    v2 = key.0 ^ 0x6C79_6765_6E65_7261
    v3 = key.1 ^ 0x7465_6462_7974_6573
  }

  @inlinable @inline(__always)
  mutating func round() {
    v0 = v0 &+ v1
    v1 = (v1 &<< 13) | (v1 &>> 51)
    v1 ^= v0
    v0 = (v0 &<< 32) | (v0 &>> 32)
    v2 = v2 &+ v3
    v3 = (v3 &<< 16) | (v3 &>> 48)
    v3 ^= v2
    v0 = v0 &+ v3
    v3 = (v3 &<< 21) | (v3 &>> 43)
    v3 ^= v0
    v2 = v2 &+ v1
    v1 = (v1 &<< 17) | (v1 &>> 47)
    v1 ^= v2
    v2 = (v2 &<< 32) | (v2 &>> 32)
  }

  @inlinable @inline(__always)
  mutating func compress(_ word: UInt64) {
    v3 ^= word
    round()
    v0 ^= word
  }

  /// Feeds one byte.
  @inlinable @inline(__always)
  public mutating func combine(byte: UInt8) {
    tail |= UInt64(byte) &<< ((count & 7) &* 8)
    count &+= 1
    if count & 7 == 0 {
      compress(tail)
      tail = 0
    }
  }

  /// Feeds the eight bytes of `word`, least significant first.
  @inlinable @inline(__always)
  public mutating func combine(word: UInt64) {
    let shift = (count & 7) &* 8
    count &+= 8
    if shift == 0 {
      compress(word)
    } else {
      compress(tail | (word &<< shift))
      tail = word &>> (64 &- shift)
    }
  }

  /// Feeds all bytes of an array.
  public mutating func combine(bytes: [UInt8]) {
    unsafe bytes.withUnsafeBytes { unsafe combine($0) }
  }

  /// Feeds borrowed bytes.
  package mutating func combine(_ bytes: RawSpan) {
    unsafe bytes.withUnsafeBytes { unsafe combine($0) }
  }

  package mutating func combine(_ bytes: UnsafeRawBufferPointer) {
    var index = 0
    while index &+ 8 <= bytes.count {
      let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
      combine(word: UInt64(littleEndian: word))
      index &+= 8
    }
    while index < bytes.count {
      unsafe combine(byte: bytes[index])
      index &+= 1
    }
  }

  /// Returns the hash of all bytes fed so far; the original accepts more afterwards.
  @inlinable
  public consuming func finish() -> UInt64 {
    compress(tail | (count &<< 56))
    v2 ^= 0xFF
    round()
    round()
    round()
    return v0 ^ v1 ^ v2 ^ v3
  }
}
