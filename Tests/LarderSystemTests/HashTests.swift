// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import Testing

@Suite struct HashTests {
  /// SipHash-1-3 of the bytes 0, 1, 2, … under the key 00 01 … 0f: the vectors the reference
  /// implementation (veorq/SipHash) publishes for the algorithm with these round counts.
  static let sipVectors: [Int: UInt64] = [
    0: 0xabac_0158_050f_c4dc, 1: 0xc9f4_9bf3_7d57_ca93, 2: 0x82cb_9b02_4dc7_d44d,
    3: 0x8bf8_0ab8_e7dd_f7fb, 7: 0xd392_7d98_9bb1_1140, 8: 0x3690_9511_8d29_9a8e,
    15: 0xd320_d86d_2a51_9956, 63: 0x9d19_9062_b7bb_b3a8,
  ]

  @Test func `SipHash-1-3 gives the published values`() {
    for (count, expected) in Self.sipVectors {
      var hasher = SipHash13(key: (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908))
      hasher.combine(bytes: (0..<count).map { UInt8($0) })
      #expect(hasher.finish() == expected, "of \(count) bytes")
    }
  }

  @Test func `wyhash gives the published values`() {
    // The vectors of version 4.2, each with its position as the seed.
    let letters = "abcdefghijklmnopqrstuvwxyz"
    let vectors: [(String, UInt64)] = [
      ("", 0x9322_8a4d_e0ee_c5a2), ("a", 0xc5ba_c3db_1787_13c4), ("abc", 0xa97f_2f7b_1d9b_3314),
      ("message digest", 0x786d_1f1d_f380_1df4), (letters, 0xdca5_a813_8ad3_7c87),
      (letters.uppercased() + letters + "0123456789", 0xb9e7_34f1_17cf_af70),
      (String(repeating: "1234567890", count: 8), 0x6cc5_eab4_9a92_d617),
    ]
    for (seed, vector) in vectors.enumerated() {
      let hash = Array(vector.0.utf8).withRawSpan { WyHash.hash($0, seed: UInt64(seed)) }
      #expect(hash == vector.1, "of \(vector.0)")
    }
  }

  @Test func `Feeding in pieces gives the hash of the whole`() {
    let bytes = (0..<100).map { UInt8($0) }
    for cut in 0...bytes.count {
      var whole = SipHash13(key: (1, 2))
      whole.combine(bytes: bytes)
      var pieces = SipHash13(key: (1, 2))
      pieces.combine(bytes: Array(bytes[..<cut]))
      for byte in bytes[cut...].prefix(3) { pieces.combine(byte: byte) }
      pieces.combine(bytes: Array(bytes[min(cut + 3, bytes.count)...]))
      #expect(whole.finish() == pieces.finish())
    }
    var words = SipHash13(key: (1, 2))
    words.combine(byte: 9)
    words.combine(word: 0x0807_0605_0403_0201)
    var byBytes = SipHash13(key: (1, 2))
    byBytes.combine(bytes: [9, 1, 2, 3, 4, 5, 6, 7, 8])
    #expect(words.finish() == byBytes.finish())
  }

  /// XXH64 of the bytes (7 i + 3) mod 256, with seeds 0 and 0x9E3779B1, from the reference
  /// implementation (xxHash 0.8).
  static let xxVectors: [Int: (UInt64, UInt64)] = [
    0: (0xef46_db37_51d8_e999, 0xac75_fda2_929b_17ef),
    1: (0x1f25_c8d0_bc1f_4bb6, 0x79cf_94f5_ace3_7fe1),
    3: (0x31d2_363f_52e5_64c9, 0x96d2_a5e5_83dd_d738),
    4: (0x9bb6_4b7d_66ee_9fda, 0x4a86_2fbb_4b73_776e),
    8: (0xdab9_9d95_c6f9_0092, 0xc6e7_5e2c_bd8e_07ee),
    14: (0xc7f1_d4d0_acfa_5a14, 0x5134_1a13_8b09_8941),
    31: (0xa2aa_5f33_cc4a_6119, 0x3818_22f3_3376_d6b6),
    32: (0x23c3_c17e_f790_fd97, 0x9abd_3154_70ac_276a),
    33: (0x50a7_cfc7_ba58_8784, 0x72cd_d326_2f46_7933),
    63: (0x5e3e_54b4_31c7_493c, 0x634d_a7d2_6597_9e61),
    222: (0x8488_aa61_fc67_f7eb, 0xa0e1_06fb_d1fd_fc38),
  ]

  @Test func `XXH64 gives the reference implementation's values`() {
    for (count, (plain, seeded)) in Self.xxVectors {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7 + 3) }
      #expect(XXH64.hash(bytes) == plain, "of \(count) bytes")
      #expect(XXH64.hash(bytes, seed: 0x9E37_79B1) == seeded, "of \(count) bytes")
    }
    #expect(XXH64.hash(Array("abc".utf8)) == 0x44bc_2cf5_ad77_0999)
  }

  @Test func `A word can be left out of a hash as if it were zero`() {
    var bytes = (0..<64).map { UInt8($0) }
    let hash = bytes.withRawSpan { XXH64.hash($0, zeroing: 40..<48, seed: 5) }
    for index in 40..<48 { bytes[index] = 0 }
    #expect(hash == XXH64.hash(bytes, seed: 5))
  }

  @Test func `Eight words have the hash of their bytes`() {
    let bytes = (0..<64).map { UInt8(truncatingIfNeeded: $0 * 5 + 1) }
    let words = (0..<8).map { bytes.integer(at: $0 * 8, as: UInt64.self)! }
    let hash = XXH64.hash(
      words: (
        words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7]
      ), seed: 5)
    #expect(hash == XXH64.hash(bytes, seed: 5))
  }
}
