// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import LarderObjectEngine
import LarderObjects
import LarderTesting
import Testing

/// The decoder's result for a map.
private struct Record: Decodable {
  var a: Int?
  var bb: String?
  /// As long as a key with a short head may be, and longer.
  var long: Double?

  enum CodingKeys: String, CodingKey {
    case a, bb
    case long = "a key of twenty-five bytes"
  }
}

@Suite(.timeLimit(.minutes(60)))
struct StoredFieldFormTests {
  /// A text with a head that may be longer than it has to be, or in chunks.
  private func text(_ text: String, _ random: inout SeededRandom) -> [UInt8] {
    let bytes = Array(text.utf8)
    switch Int.random(in: 0..<20, using: &random) {
    case 0: return [0x78, UInt8(bytes.count)] + bytes
    case 1: return [0x79, 0, UInt8(bytes.count)] + bytes
    case 2: return [0x7A, 0, 0, 0, UInt8(bytes.count)] + bytes
    case 3:
      let part = [0x60 | UInt8(min(bytes.count, 1))] + bytes.prefix(1)
      return [0x7F] + part + [0x78, UInt8(max(bytes.count - 1, 0))] + bytes.dropFirst(1) + [0xFF]
    default: return CBORValue.text(text).encoded
    }
  }

  private func value(_ random: inout SeededRandom, depth: Int = 0) -> [UInt8] {
    let number = Int.random(in: -300...300, using: &random)
    switch Int.random(in: 0..<(depth < 3 ? 14 : 10), using: &random) {
    case 0...2:
      return number < 0
        ? CBORValue.negative(UInt64(-1 - number)).encoded
        : CBORValue.unsigned(UInt64(number)).encoded
    case 3: return [0x1B, 0, 0, 0, 0, 0, 0, 0, 7]
    case 4...5: return text(["", "x", "é", "hello"].randomElement(using: &random)!, &random)
    case 6: return CBORValue.float(Double(number) / 4).encoded
    case 7:
      return [[0xF6], [0xF7], [0xF5], [0xF8, 0x20], [0xF8, 0x1F]].randomElement(using: &random)!
    case 8: return [0xC1] + value(&random, depth: 4)
    case 9: return [0x42, 1, 2]
    case 10: return [0x82] + value(&random, depth: depth + 1) + value(&random, depth: depth + 1)
    case 11: return [0x9F] + value(&random, depth: depth + 1) + [0xFF]
    case 12: return [0xA1, 0x61, 0x61] + value(&random, depth: depth + 1)
    default: return [0xA0]
    }
  }

  private func map(_ random: inout SeededRandom) -> [UInt8] {
    let names = ["a", "b", "aa", "bb", "c", "", Record.CodingKeys.long.rawValue]
    var keys = (0..<Int.random(in: 0...5, using: &random)).map { _ in
      random.chance(4) ? value(&random) : text(names.randomElement(using: &random)!, &random)
    }
    if random.chance(70) { keys.sort { $0.lexicographicallyPrecedes($1) } }
    if random.chance(60) { keys = keys.reduce(into: []) { if $0.last != $1 { $0.append($1) } } }
    let count = UInt8(keys.count)
    var bytes: [UInt8]
    switch Int.random(in: 0..<12, using: &random) {
    case 0: bytes = [0xB8, count]
    case 1: bytes = [0xBF]
    case 2: bytes = [0xA0 | (count &+ 1)]
    default: bytes = [0xA0 | count]
    }
    let isEndless = bytes[0] == 0xBF
    for key in keys { bytes += key + value(&random) }
    if isEndless { bytes.append(0xFF) }
    if random.chance(3) { bytes.append(0) }
    if random.chance(3) { bytes.removeLast() }
    return bytes
  }

  @Test func `What is read from a field is what the decoder reads, of any bytes`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    var (agreed, unclear) = (0, 0)
    for round in 0..<60_000 {
      let bytes = map(&random)
      let context: Comment = "\(seed) round \(round): \(bytes)"
      let fields = (
        StoredField.read(Int.self, "a", in: bytes), StoredField.read(String.self, "bb", in: bytes),
        StoredField.read(Double.self, Record.CodingKeys.long.rawValue, in: bytes)
      )
      guard fields.0 != nil || fields.1 != nil || fields.2 != nil else {
        unclear += 1
        continue
      }
      // Keys that are there twice, and bytes that are missing or too many, are refused by both.
      let keys = Keys.of(bytes)
      #expect(Set(keys).count == keys.count, context)
      guard let record = try? CBORDecoder().decode(Record.self, from: bytes) else { continue }
      agreed += 1
      if let a = fields.0 { #expect(a == record.a, context) }
      if let bb = fields.1 { #expect(bb == record.bb, context) }
      if let long = fields.2 { #expect(long == record.long, context) }
    }
    #expect(agreed > 5000 && unclear > 5000, "\(agreed) agreed, \(unclear) unclear")
  }

  /// The keys of a map as the value parser has them, which refuses what is there twice.
  private enum Keys {
    static func of(_ bytes: [UInt8]) -> [CBORValue] {
      guard case .map(let pairs)? = try? CBORValue(parsing: bytes) else { return [] }
      return pairs.map(\.key)
    }
  }

  @Test(
    arguments: [
      // The field twice, in any order of the others; a long head; an indefinite text; a number;
      // trailing bytes.
      [0xA2, 0x61, 0x61, 1, 0x61, 0x61, 2], [0xA3, 0x61, 0x61, 1, 0x61, 0x62, 2, 0x61, 0x61, 3],
      [0xA1, 0x78, 1, 0x61, 1], [0xA1, 0x7F, 0x61, 0x61, 0xFF, 1], [0xA2, 1, 1, 0x61, 0x61, 1],
      [0xA1, 0x61, 0x61, 1, 0], [0xA1, 0x61, 0x61], [0xBF, 0x61, 0x61, 1, 0xFF],
      [0xA2, 0x61, 0x62, 1, 0x61, 0x61, 1], [0xA1, 0x61, 0x62, 0xF8, 0x1F],
    ] as [[UInt8]])
  func `Other forms of a map than Larder's own are left to the decoder`(bytes: [UInt8]) {
    #expect(StoredField.read(Int.self, "a", in: bytes) == nil)
  }
}
