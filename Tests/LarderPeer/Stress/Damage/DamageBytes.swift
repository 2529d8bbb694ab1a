// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Damage that needs no knowledge of what the bytes mean.
enum DamageBytes {
  static let page = 4096

  /// Changes bytes in place, and returns a description of the change and its offset.
  static func damage(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    guard !bytes.isEmpty else {
      let count = [1, 64, 4096, 100_000].randomElement(using: &random)!
      bytes = random.bytes(count)
      return "was empty, now \(count) random bytes"
    }
    switch Int.random(in: 0..<100, using: &random) {
    case ..<22: return flip(&bytes, &random)
    case ..<38: return region(&bytes, &random)
    case ..<52: return pages(&bytes, &random)
    case ..<68: return swapPages(&bytes, &random)
    case ..<84: return cut(&bytes, &random)
    case ..<92: return extend(&bytes, &random)
    default: return scatter(&bytes, &random)
    }
  }

  private static func flip(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let count = [1, 1, 1, 2, 8].randomElement(using: &random)!
    var places: [Int] = []
    for _ in 0..<count {
      let place = somewhere(in: bytes.count, &random)
      bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      places.append(place)
    }
    return "\(count) bits flipped at \(places)"
  }

  /// Returns a random offset, in a quarter of the cases near the beginning, which contains headers.
  private static func somewhere(in count: Int, _ random: inout SeededRandom) -> Int {
    Int.random(in: 0..<(random.chance(25) ? min(count, 8192) : count), using: &random)
  }

  private static func region(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let start = somewhere(in: bytes.count, &random)
    let length = min([1, 8, 64, 512, 5000].randomElement(using: &random)!, bytes.count - start)
    let isZero = Bool.random(using: &random)
    for place in start..<(start + length) {
      bytes[place] = isZero ? 0 : UInt8(truncatingIfNeeded: random.next())
    }
    return "\(length) \(isZero ? "zeros" : "random bytes") at \(start)"
  }

  private static func pages(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let all = (bytes.count + page - 1) / page
    let count = min([1, 1, 2, 3, 10].randomElement(using: &random)!, all)
    let kind = Int.random(in: 0..<3, using: &random)
    var places: [Int] = []
    for _ in 0..<count {
      let number = Int.random(in: 0..<all, using: &random)
      places.append(number)
      for place in (number * page)..<min((number + 1) * page, bytes.count) {
        bytes[place] = kind == 0 ? 0 : kind == 1 ? 0xFF : UInt8(truncatingIfNeeded: random.next())
      }
    }
    return "pages \(places) \(["zeroed", "set to 0xFF", "made random"][kind])"
  }

  private static func swapPages(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let all = bytes.count / page
    guard all >= 2 else { return flip(&bytes, &random) }
    let one = Int.random(in: 0..<all, using: &random)
    let two = Int.random(in: 0..<all, using: &random)
    let isCopy = random.chance(40)
    exchange(&bytes, one, two, isCopy: isCopy)
    return isCopy ? "page \(one) copied over page \(two)" : "pages \(one) and \(two) swapped"
  }

  private static func exchange(_ bytes: inout [UInt8], _ one: Int, _ two: Int, isCopy: Bool) {
    let first = bytes[(one * page)..<((one + 1) * page)]
    let second = bytes[(two * page)..<((two + 1) * page)]
    bytes.replaceSubrange((two * page)..<((two + 1) * page), with: Array(first))
    if !isCopy { bytes.replaceSubrange((one * page)..<((one + 1) * page), with: Array(second)) }
  }

  /// Copies or swaps pages and rewrites their page numbers, so that they fit their new positions.
  static func relabel(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let all = bytes.count / page
    guard all >= 4 else { return damage(&bytes, &random) }
    let one = Int.random(in: 2..<all, using: &random)
    let two = Int.random(in: 2..<all, using: &random)
    let isCopy = random.chance(60)
    exchange(&bytes, one, two, isCopy: isCopy)
    bytes.store(UInt64(one), at: one * page)
    bytes.store(UInt64(two), at: two * page)
    return isCopy
      ? "page \(one) copied over page \(two) and renumbered"
      : "pages \(one) and \(two) swapped and renumbered"
  }

  private static func cut(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let size: Int =
      switch Int.random(in: 0..<6, using: &random) {
      case 0: 0
      case 1: 1
      case 2: bytes.count - 1
      case 3: Int.random(in: 0..<bytes.count, using: &random) & ~(page - 1)
      case 4: max(bytes.count - page * Int.random(in: 1...3, using: &random), 0)
      default: Int.random(in: 0..<bytes.count, using: &random)
      }
    bytes.removeLast(bytes.count - size)
    return "cut to \(size)"
  }

  private static func extend(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let count = [1, 16, page, 3 * page + 7, 1 << 17].randomElement(using: &random)!
    let isZero = Bool.random(using: &random)
    bytes += isZero ? [UInt8](repeating: 0, count: count) : random.bytes(count)
    return "lengthened by \(count) \(isZero ? "zeros" : "random bytes")"
  }

  private static func scatter(_ bytes: inout [UInt8], _ random: inout SeededRandom) -> String {
    let count = Int.random(in: 10...200, using: &random)
    for _ in 0..<count {
      bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8(
        truncatingIfNeeded: random.next())
    }
    return "\(count) bytes made random, all over it"
  }

  static func makePipe(_ path: String) throws {
    guard unsafe mkfifo(path, 0o600) == 0 else { throw DamageFailure("mkfifo failed") }
  }
}
#endif
