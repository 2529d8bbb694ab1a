// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import Testing

/// A field of each type that a number is decoded as.
private struct Numbers: Codable {
  var decimal: Decimal?
  var date: Date?
  var int: Int?
  var int8: Int8?
  var uint: UInt?
  var wide: Int128?
  var list: [Decimal]?
}

@Suite("CBOR of doubtful origin", .timeLimit(.minutes(60)))
struct CBORHostileTests {
  @Test(
    arguments: [
      // Infinity and negative infinity in every width, and numbers that no Decimal can have.
      "f97c00", "f9fc00", "fa7f800000", "faff800000", "fb7ff0000000000000", "fbfff0000000000000",
      "fb7fe0000000000000", "fbffe0000000000000",
    ])
  func `A number that does not fit its type is a typed error with its path`(hex: String) throws {
    let number = try LarderCodingTests.bytes(hex)
    for (field, code) in [
      ("decimal", CodecError.Code.malformed), ("int", .typeMismatch), ("int8", .typeMismatch),
      ("uint", .typeMismatch), ("wide", .typeMismatch), ("list", .malformed),
    ] {
      let value = field == "list" ? [0x81] + number : number
      let map = [0xA1] + CBORValue.text(field).encoded + value
      let failure = #expect(throws: CodecError.self) {
        try CBORDecoder().decode(Numbers.self, from: map)
      }
      #expect(failure?.code == code, "\(field): \(failure!)")
      #expect(failure?.codingPath == (field == "list" ? "list[0]" : field))
    }
    #expect(throws: CodecError.self) { try CBORDecoder().decode(Decimal.self, from: number) }
    let map = [0xA1] + CBORValue.text("date").encoded + number
    let value = try CBORValue(parsing: number)
    guard case .float(let float) = value, !float.isFinite else { return }
    let failure = #expect(throws: CodecError.self) {
      try CBORDecoder().decode(Numbers.self, from: map)
    }
    #expect(failure?.code == .malformed && failure?.codingPath == "date", "\(failure!)")
    // An extended time of parts that are not finite: the base time, or the residual.
    let residual = CBORValue.text("residual").encoded
    for parts in [[0x01] + number + residual + [0x00], [0x01, 0x00] + residual + number] {
      #expect(throws: CodecError.self) {
        try CBORDecoder().decode(Date.self, from: [0xD9, 0x03, 0xE9, 0xA2] + parts)
      }
    }
  }

  @Test(
    arguments: [
      "c482190080f5", "c4823a7fffffff01", "c4821b7fffffffffffffff01", "c4823b7fffffffffffffff01",
      "c482187fc250ffffffffffffffffffffffffffffffff", "c25820" + String(repeating: "ff", count: 32),
      "c482387fc350ffffffffffffffffffffffffffffffff", "c48201f97c00", "c482f97c0001", "c401",
    ])
  func `A decimal fraction of any parts is a Decimal or a typed error`(hex: String) throws {
    let bytes = try LarderCodingTests.bytes(hex)
    do {
      let value = try CBORDecoder().decode(Decimal.self, from: bytes)
      #expect(!value.isNaN)
    } catch {
      #expect([.malformed, .typeMismatch].contains(error.code))
    }
  }

  struct Node: Codable, Equatable {
    var next: [Node]
  }

  struct Sample: Codable, Equatable {
    var id: Int
    var name: String
    var tags: [String]
    var when: Date?
    var parts: [String: [Double]]
    var blob: Data
    var uuid: UUID
    var price: Decimal
    var link: URL?
    var big: UInt128
    var inner: [Node]
    var shape: CBORCodableTests.Shape

    static func random(_ generator: inout SeededGenerator) -> Sample {
      func word() -> String {
        String(
          (0..<Int.random(in: 0...30, using: &generator)).map { _ in
            "aβ水😀e\u{301}\u{0} z".randomElement(using: &generator) ?? "a"
          })
      }
      func node(_ depth: Int) -> Node {
        guard depth > 0 else { return Node(next: []) }
        return Node(
          next: (0..<Int.random(in: 0...2, using: &generator)).map { _ in node(depth - 1) })
      }
      func number() -> Double {
        let number = Double(bitPattern: generator.next())
        return number.isNaN ? 0.5 : number
      }
      return Sample(
        id: Int(
          truncatingIfNeeded: generator.next() >> UInt64.random(in: 0...63, using: &generator)),
        name: word(), tags: (0..<Int.random(in: 0...30, using: &generator)).map { _ in word() },
        when: Bool.random(using: &generator) ? nil : Date(timeIntervalSinceReferenceDate: number()),
        parts: Dictionary(
          (0..<Int.random(in: 0...40, using: &generator)).map { _ in (word(), [number(), 1]) },
          uniquingKeysWith: { first, _ in first }),
        blob: Data(generator.bytes(Int.random(in: 0...300, using: &generator))), uuid: UUID(),
        price: Decimal(Int.random(in: -100_000...100_000, using: &generator)) / 100,
        link: URL(string: "http://example.org/\(generator.next())"),
        big: UInt128(generator.next()) << UInt128.random(in: 0...64, using: &generator),
        inner: [node(5)], shape: Bool.random(using: &generator) ? .none : .rectangle(number(), 2))
    }
  }

  private func code(decoding hex: String) throws -> CodecError.Code? {
    let bytes = try LarderCodingTests.bytes(hex)
    return failureCode { _ = try CBORValue(parsing: bytes) }
  }

  @Test func `Random values survive a round trip`() throws {
    var generator = SeededGenerator(seed: printedSeed())
    for _ in 0..<500 {
      try expectRoundTrip(Sample.random(&generator))
    }
  }

  @Test func `Random bytes never crash a decoder`() {
    var generator = SeededGenerator(seed: printedSeed())
    var parsed = 0
    for _ in 0..<100_000 {
      let bytes = generator.bytes(Int.random(in: 0...60, using: &generator))
      if let value = try? CBORValue(parsing: bytes) {
        parsed += 1
        _ = value.jsonText(pretty: true)
        #expect((try? CBORValue(parsing: value.encoded)) != nil)
      }
      _ = try? CBORDecoder().decode([String: Int].self, from: bytes)
      _ = try? CBORDecoder().decode(Sample.self, from: bytes)
    }
    #expect(parsed > 100)
  }

  @Test func `Valid bytes with damage never crash a decoder`() throws {
    var generator = SeededGenerator(seed: printedSeed())
    var decoded = 0
    for _ in 0..<60 {
      let valid = try CBOREncoder().encode(Sample.random(&generator))
      for _ in 0..<300 {
        var damaged = valid
        for _ in 0..<Int.random(in: 1...3, using: &generator) {
          let index = Int.random(in: 0..<damaged.count, using: &generator)
          switch Int.random(in: 0...3, using: &generator) {
          case 0: damaged[index] = UInt8(truncatingIfNeeded: generator.next())
          case 1: damaged[index] ^= 1 << UInt8.random(in: 0...7, using: &generator)
          case 2: damaged.remove(at: index)
          default: damaged.insert(UInt8(truncatingIfNeeded: generator.next()), at: index)
          }
          if damaged.isEmpty { damaged = [0] }
        }
        if (try? CBORDecoder().decode(Sample.self, from: damaged)) != nil { decoded += 1 }
        _ = (try? CBORValue(parsing: damaged))?.jsonText()
      }
    }
    print("decoded in spite of damage: \(decoded)")
  }

  @Test func `Every truncation is malformed`() throws {
    var generator = SeededGenerator(seed: printedSeed())
    let valid = try CBOREncoder().encode(Sample.random(&generator))
    for count in 0..<valid.count {
      do {
        _ = try CBORDecoder().decode(Sample.self, from: Array(valid[..<count]))
        Issue.record("decoded \(count) of \(valid.count) bytes")
      } catch {
        #expect(error.code == .malformed)
      }
    }
  }

  @Test(arguments: [
    ("0000", "trailing byte"), ("", "nothing"), ("ff", "lone break"), ("1c", "reserved head"),
    ("5c", "reserved head"), ("f800", "reserved simple"), ("f81f", "reserved simple"),
    ("fc", "reserved simple"), ("df00", "indefinite tag"), ("1f", "indefinite integer"),
    ("c0", "tag of nothing"), ("bf01ff", "map with an odd item"), ("a101", "truncated map"),
    ("5f01ff", "chunk of another type"), ("5f6161ff", "text chunk in bytes"),
    ("5f5f4101ffff", "chunk in chunk"), ("7f4101ff", "byte chunk in text"), ("9f", "no break"),
    ("81ff", "break in definite array"), ("61ff", "not UTF-8"), ("62c080", "overlong"),
    ("63eda080", "surrogate"), ("64f4908080", "beyond Unicode"), ("61c3", "cut character"),
    ("7f61c361a9ff", "character across chunks"), ("a2616101616102", "equal texts"),
    ("a20102180102", "equal integers of two encodings"), ("a2f93c0001fa3f80000002", "equal floats"),
    ("a26161017f6161ff02", "equal texts, one in a chunk"), ("bf616101616101ff", "equal texts"),
    ("a3616201616102616203", "equal texts not side by side"), ("a28101019f01ff02", "equal arrays"),
  ])
  func `Bytes that are not well-formed or not valid are refused`(hex: String, why: String) throws {
    #expect(try code(decoding: hex) == .malformed, "\(why)")
  }

  @Test(arguments: ["a2810101810202", "a201016101f6", "a2f901000118ff02", "a3f4000300f600"])
  func `Keys of any kind are fine if no two are equal`(hex: String) throws {
    #expect(try code(decoding: hex) == nil)
  }

  @Test(arguments: [
    "9b0000010000000000", "bb0000010000000000", "5b0000010000000000", "7b0000010000000000",
    "9bffffffffffffffff", "bbffffffffffffffff", "5bffffffffffffffff", "7bffffffffffffffff",
    "9b7fffffffffffffff01", "ba7fffffff0101", "9a000fffff01", "dbffffffffffffffff",
  ])
  func `A claimed length that cannot be is refused before anything is allocated`(hex: String) throws
  {
    #expect(try code(decoding: hex) == .malformed)
    let hostile = try bytes(hex)
    #expect(throws: CodecError.self) { try CBORDecoder().decode([Int].self, from: hostile) }
    #expect(throws: CodecError.self) { try CBORDecoder().decode(Sample.self, from: hostile) }
  }

  @Test(arguments: ["81", "a100", "c6", "9f", "bf00", "a1"])
  func `Nesting beyond the limit is refused`(opening: String) throws {
    let deep = String(repeating: opening, count: 200_000)
    let code = try code(decoding: deep)
    #expect(code == .tooDeep)
  }

  @Test func `Keys nested in keys are checked in reasonable time`() throws {
    // Each level holds two keys that are maps themselves; checking must not double at each.
    var hex = "00"
    for _ in 0..<100 { hex = "a2" + hex + "00" + "8100" + "00" }
    #expect(try code(decoding: hex) == nil)
  }

  private func chain(_ depth: Int) -> Node {
    (0..<depth).reduce(Node(next: [])) { node, _ in Node(next: [node]) }
  }

  @Test func `The deepest value that can be stored fits a small stack in both directions`()
    async throws
  {
    // A node is a map and an array.
    let depth = (CBOREncodingState.maximumDepth - 2) / 2
    let isEqual = try await onSmallStack {
      let node = chain(depth)
      return try CBORDecoder().decode(Node.self, from: CBOREncoder().encode(node)) == node
    }
    #expect(isEqual)
  }

  @Test func `A deeper value is refused when it is stored`() async throws {
    let code = await #expect(throws: CodecError.self) {
      try await onSmallStack { _ = try CBOREncoder().encode(chain(2_000)) }
    }
    #expect(code?.code == .tooDeep)
  }

  @Test func `Nested containers count as depth too`() {
    struct Tower: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.unkeyedContainer()
        for _ in 0..<500 { container = container.nestedUnkeyedContainer() }
      }
    }
    #expect(throws: CodecError.self) { try CBOREncoder().encode(Tower()) }
  }

  @Test func `The deepest bytes that are read fit a small stack`() async throws {
    for opening in ["81", "a100", "c6"] {
      let hex = String(repeating: opening, count: 128) + "00"
      let text = try await onSmallStack {
        try CBORValue(parsing: bytes(hex)).jsonText(pretty: true)
      }
      #expect(text.contains("0"))
    }
  }
}
