// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

/// Mutates inputs: flips bits, changes bytes and lengths, cuts, and inserts pieces of other inputs.
struct FuzzMutator {
  private static let numbers: [UInt64] = [
    0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0x7FFF_FFFF,
    0x8000_0000, 0xFFFF_FFFF, 1 << 32, 1 << 40, 1 << 46, 1 << 62, 1 << 63, .max - 1, .max,
  ]

  static func mutate(
    _ input: [UInt8], other: [UInt8], _ random: inout SeededRandom
  ) -> [UInt8] {
    var bytes = input
    let rounds = [1, 1, 1, 2, 3, 8].randomElement(using: &random)!
    for _ in 0..<rounds { change(&bytes, other, &random) }
    return bytes
  }

  private static func change(
    _ bytes: inout [UInt8], _ other: [UInt8], _ random: inout SeededRandom
  ) {
    guard !bytes.isEmpty else {
      bytes = other.isEmpty ? random.bytes(8) : other
      return
    }
    let place = Int.random(in: 0..<bytes.count, using: &random)
    switch Int.random(in: 0..<12, using: &random) {
    case 0, 1: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
    case 2: bytes[place] = UInt8(truncatingIfNeeded: random.next())
    case 3: bytes[place] &+= random.chance(50) ? 1 : 255
    case 4, 5, 6: number(&bytes, place, &random)
    case 7: bytes.removeSubrange(place..<min(place + length(&random), bytes.count))
    case 8: bytes.insert(contentsOf: random.bytes(length(&random)), at: place)
    case 9: bytes.removeLast(bytes.count - place)
    case 10:
      // A piece of another input, over or between.
      guard !other.isEmpty else { return }
      let start = Int.random(in: 0..<other.count, using: &random)
      let piece = other[start..<min(start + 8 * length(&random), other.count)]
      let end = random.chance(50) ? place : min(place + piece.count, bytes.count)
      bytes.replaceSubrange(place..<end, with: piece)
    default:
      let end = min(place + 4 * length(&random), bytes.count)
      let value: UInt8 = [0, 0xFF, 0x20].randomElement(using: &random)!
      for index in place..<end { bytes[index] = value }
    }
  }

  private static func length(_ random: inout SeededRandom) -> Int {
    [1, 1, 2, 4, 8, 16, 64].randomElement(using: &random)!
  }

  /// Writes a boundary value in either byte order, usually at an aligned offset.
  private static func number(
    _ bytes: inout [UInt8], _ place: Int, _ random: inout SeededRandom
  ) {
    let size = [1, 2, 4, 8].randomElement(using: &random)!
    var offset = random.chance(70) ? place & ~(size - 1) : place
    // Headers, and the headers of pages.
    if random.chance(40) { offset &= ~4095 | 0x7F }
    guard offset + size <= bytes.count else { return }
    var value = numbers.randomElement(using: &random)!
    if random.chance(20) { value = UInt64(bytes.count) }
    let isBig = random.chance(25)
    for index in 0..<size {
      let shift = UInt64(8 * (isBig ? size - 1 - index : index))
      bytes[offset + index] = UInt8(truncatingIfNeeded: value >> shift)
    }
  }
}
#endif
