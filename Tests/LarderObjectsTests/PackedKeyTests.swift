// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjectEngine
import LarderSystem
import Testing

@Suite struct PackedKeyTests {
  /// Both sides of every limit of the sizes.
  private static let sequences: [UInt64] =
    [17, 25, 41, 63].flatMap { shift -> [UInt64] in
      let limit = 1 << shift as UInt64
      return [limit - 1, limit, limit + 1]
    } + [0, 1, 2, 255, 256, 65_535, 65_536, .max - 1, .max]
  private static let numbers: [UInt32] = [
    0, 1, 127, 239, 240, 241, 495, 496, 4079, 4080, 4081, 65_536, 1 << 31, .max - 1, .max,
  ]

  @Test func `A key is read as it was made, in the order of its numbers`() throws {
    var keys: [(number: UInt32, sequence: UInt64, bytes: [UInt8])] = []
    for number in Self.numbers {
      for sequence in Self.sequences.sorted() {
        let key = ObjectFormat.objectKey(type: number, sequence: sequence)
        let place = try #require(key.withRawSpan { ObjectFormat.place($0) })
        #expect(place == (number, sequence))
        #expect(
          key.withRawSpan { ObjectFormat.sequence(ofObjectKey: $0, type: number) } == sequence)
        keys.append((number, sequence, key))
      }
    }
    for (left, right) in zip(keys, keys.dropFirst()) {
      #expect(left.bytes.lexicographicallyPrecedes(right.bytes), "\(left) \(right)")
    }
  }

  @Test func `The bytes between the numbers are found, whatever they are`() throws {
    for number in Self.numbers {
      for bytes in [[], [0], [0xFF], [3], [0x08, 1, 2, 1], Array("word".utf8)] as [[UInt8]] {
        for sequence in Self.sequences {
          let key = ObjectIndexKey(index: number, bytes: bytes)
          let entry = ObjectFormat.indexEntry(key, sequence: sequence)
          entry.withRawSpan { entry in
            let parts = PackedKey(entry)
            #expect(parts?.number == number && parts?.sequence == sequence)
            #expect(parts.flatMap { entry.slice($0.bytes)?.copied() } == bytes)
          }
        }
      }
    }
  }

  @Test func `The entries of a word are before those of a longer word`() {
    let short = ObjectFormat.indexEntry(
      ObjectIndexKey(index: 7, bytes: Array("car".utf8)), sequence: .max)
    let long = ObjectFormat.indexEntry(
      ObjectIndexKey(index: 7, bytes: Array("car'a".utf8)), sequence: 0)
    #expect(short.lexicographicallyPrecedes(long))
  }

  @Test func `Bytes in which no number has its shortest form are no key`() {
    for bytes in [
      [], [1], [1, 0], [1, 0, 0], [0xF0, 0, 0, 0], [0xFF, 0, 0, 0, 1, 0, 0, 4],
      // Sequence 1 in four bytes, and classes that differ.
      [1, 0x08, 0, 0, 5], [1, 0, 0, 5], [1, 0x10, 0, 0, 5],
    ] as [[UInt8]] {
      #expect(bytes.withRawSpan { PackedKey($0) == nil }, "\(bytes)")
    }
  }
}
