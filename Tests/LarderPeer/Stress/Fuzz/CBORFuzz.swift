// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderCoding
import LarderTesting

/// The CBOR decoder, for untyped values and for typed ones.
struct CBORFuzz: FuzzTarget {
  let name = "cbor"

  struct Leaf: Codable, Equatable, Sendable {
    var next: [Leaf]
  }

  enum Shape: Codable, Equatable, Sendable {
    case none
    case rectangle(Double, Int)
  }

  struct Sample: Codable, Sendable {
    var id: Int
    var name: String
    var tags: [String]
    var when: Date?
    var parts: [String: [Double]]
    var numbered: [Int: UInt8]
    var blob: Data
    var uuid: UUID
    var price: Decimal
    var link: URL?
    var big: UInt128
    var small: Float
    var leaf: Leaf
    var shape: Shape
  }

  func seeds(_ random: inout SeededRandom) throws -> [[UInt8]] {
    var inputs: [[UInt8]] = []
    for number in 0..<12 {
      var leaf = Leaf(next: [])
      for _ in 0..<number { leaf = Leaf(next: [leaf]) }
      let sample = Sample(
        id: Int(truncatingIfNeeded: random.next() >> UInt64(number * 5)),
        name: String(repeating: "aβ水😀", count: number), tags: ["", "tag \(number)"],
        when: number % 2 == 0 ? nil : Date(timeIntervalSince1970: 1.7e9 + Double(number) / 3),
        parts: ["x": [0, .infinity, -1.5], "y": []], numbered: [1: 2, -3: 4],
        blob: Data(random.bytes(number * 20)), uuid: UUID(), price: Decimal(number) / 7,
        link: URL(string: "http://example.org/\(number)"), big: UInt128(random.next()) << 60,
        small: 1.5, leaf: leaf, shape: number % 3 == 0 ? .none : .rectangle(0.1, number))
      inputs.append(try CBOREncoder().encode(sample))
    }
    inputs += [
      [0x9f, 0x01, 0x02, 0xff], [0xbf, 0x61, 0x61, 0x01, 0xff], [0x7f, 0x61, 0x61, 0x60, 0xff],
      [0x5f, 0x41, 0x01, 0xff], [0xc1, 0xfb, 0x41, 0xd9, 0x55, 0xa0, 0x40, 0, 0, 0],
      [0xc2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0], [0xa2, 0xf9, 0x3c, 0, 1, 0xf6, 2],
      [0xd8, 0x25, 0x50] + random.bytes(16), [0xc4, 0x82, 0x21, 0x19, 0x6a, 0xb3],
    ]
    return inputs
  }

  func run(_ bytes: [UInt8]) -> UInt64 {
    var outcome = DecodingFacts()
    do {
      let value = try CBORValue(parsing: bytes)
      outcome.add(1)
      shape(value, &outcome, depth: 0)
      _ = value.jsonText(pretty: bytes.count % 2 == 0)
      let again = value.encoded
      guard let back = try? CBORValue(parsing: again) else {
        fatalError("a law is broken: what was parsed and encoded is not parsed")
      }
      law(back.encoded == again, "encoding twice gives two encodings")
    } catch {
      outcome.add("\(error.code)")
    }
    decode(Sample.self, bytes, &outcome)
    decode([String: Int].self, bytes, &outcome)
    decode([Int].self, bytes, &outcome)
    decode(Leaf.self, bytes, &outcome)
    decode(Double.self, bytes, &outcome)
    decode(String.self, bytes, &outcome)
    decode(Date.self, bytes, &outcome)
    decode(Data.self, bytes, &outcome)
    decode(Decimal.self, bytes, &outcome)
    decode(UInt128.self, bytes, &outcome)
    return outcome.value
  }

  private func shape(_ value: CBORValue, _ outcome: inout DecodingFacts, depth: Int) {
    guard depth < 4 else { return }
    switch value {
    case .unsigned, .negative: outcome.add(2)
    case .bytes, .text: outcome.add(3)
    case .array(let values):
      outcome.add(count: values.count)
      for value in values.prefix(4) { shape(value, &outcome, depth: depth + 1) }
    case .map(let pairs):
      outcome.add(count: pairs.count)
      for pair in pairs.prefix(4) { shape(pair.value, &outcome, depth: depth + 1) }
    case .tagged(let tag, let value):
      outcome.add(Int(tag % 64) + 10)
      shape(value, &outcome, depth: depth + 1)
    default: outcome.add(4)
    }
  }

  private func decode<Value: Codable>(
    _ type: Value.Type, _ bytes: [UInt8], _ outcome: inout DecodingFacts
  ) {
    do throws(CodecError) {
      let value = try CBORDecoder().decode(type, from: bytes)
      outcome.add(1)
      // A decoded value can be encoded.
      do throws(CodecError) {
        _ = try CBORDecoder().decode(type, from: CBOREncoder().encode(value))
      } catch {
        law(error.code == .tooDeep, "\(type) was read, and cannot be written and read: \(error)")
      }
    } catch {
      outcome.add("\(error.code)")
    }
  }
}
#endif
