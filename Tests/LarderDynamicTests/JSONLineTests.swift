// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderDynamic
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct JSONLineTests {
  @Test(
    arguments: [
      .unsigned(.max), .negative(.max), .float(1), .float(-0.0), .float(1e300), .float(.infinity),
      .float(0.1), .text("é\n\"\\\u{0}😀"), .bytes([0, 255, 1]), .null, .undefined, .simple(99),
      .tagged(37, .bytes(Array(0..<16))), .tagged(1, .float(1.5)), .tagged(1, .unsigned(3)),
      .tagged(4, .array([.negative(1), .unsigned(273)])), .tagged(2, .bytes(Array(1...9))),
      .map([.init(.text("$date"), .unsigned(1))]), .map([.init(.unsigned(1), .text("a"))]),
      .map([.init(.text("$a"), .null), .init(.text("b"), .boolean(true))]),
      .array([.map([]), .array([]), .bytes([])]), .tagged(1, .float(.nan)),
    ] as [CBORValue])
  func `Every stored value is read back from its line`(value: CBORValue) throws {
    let text = LosslessJSONWriter.text(value)
    #expect(try JSONReader.value(Array(text.utf8)).encoded == value.encoded, "\(text)")
    #expect(!text.contains("\n"))
    // Any other reader takes it as well.
    _ = try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
  }

  @Test func `Every date survives a round trip exactly`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    for _ in 0..<5000 {
      let scale = [1e3, 1e9, 1e11].randomElement(using: &random)!
      let date = Date(
        timeIntervalSinceReferenceDate: Double.random(in: -scale...scale, using: &random))
      let stored = try CBOREncoder().encode(date)
      let text = LosslessJSONWriter.text(try CBORValue(parsing: stored))
      #expect(text.hasPrefix("{\"$date\":"), "\(seed): \(date) is \(text)")
      #expect(try JSONReader.value(Array(text.utf8)).encoded == stored, "\(seed): \(text)")
    }
  }

  @Test(
    arguments: [
      ("{\"a\": 1", 8), ("{\"a\" 1}", 6), ("[1, 2", 6), ("\"abc", 1), ("{\"a\":1,\"a\":2}", 11),
      ("nul", 1), ("01", 3), ("1.", 3), ("1e", 3), ("-", 2), ("1 2", 3), ("{a: 1}", 2), ("", 1),
      ("\"\\x\"", 4), ("\"\\ud800\"", 8), ("\"\t\"", 3), ("{\"$uuid\": \"x\"}", 1), ("1e999", 1),
      ("{\"$date\": 1, \"b\": 2}", 12),
    ])
  func `What is not JSON is named with its column`(text: String, column: Int) throws {
    let flaw = #expect(throws: JSONParseError.self) { _ = try JSONReader.value(Array(text.utf8)) }
    #expect(flaw?.column == column, "\(text): \(flaw!)")
  }

  @Test func `Deep JSON is an error, not a deep stack`() throws {
    for open in ["[", "{\"a\":"] {
      let text = Array(String(repeating: open, count: 200_000).utf8)
      #expect(throws: JSONParseError.self) { _ = try JSONReader.value(text) }
    }
  }

  @Test func `Lines are cut wherever the pieces end`() throws {
    let text = Array("one\n\ntwo\r\nthree".utf8)
    for size in 1...text.count {
      var rest = text[...]
      var lines = LineReader {
        let piece = Array(rest.prefix(size))
        rest = rest.dropFirst(size)
        return piece
      }
      var found: [String] = []
      while let line = try lines.next() { found.append(String(decoding: line, as: UTF8.self)) }
      #expect(found == ["one", "", "two\r", "three"])
      #expect(lines.number == 4 && lines.position == text.count)
    }
  }

  @Test func `Index keys are read back, and compare like their bytes`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    func element() -> IndexKeyElement {
      switch Int.random(in: 0..<9, using: &random) {
      case 0: .nothing
      case 1: .bytes(random.bytes(Int.random(in: 0...3, using: &random)).map { $0 & 1 })
      case 2:
        .text(["", "a", "a\0", "a\0b", "é", "z", "\u{10FFFF}"].randomElement(using: &random)!)
      case 3: .integer(Int128(Int64(bitPattern: random.next()) >> Int64(random.next() % 64)))
      case 4:
        .integer([Int128(UInt64.max), Int128(Int64.min), 0, -1].randomElement(using: &random)!)
      case 5: .real([0, -1, 0.5, .infinity, -.infinity, .nan].randomElement(using: &random)!)
      case 6: .boolean(random.chance(50))
      case 7: .uuid(random.bytes(16))
      default:
        .date(
          Date(
            timeIntervalSinceReferenceDate: [0, -1, 8e8, 8e8.nextUp, 8e8.nextDown, .infinity, .nan]
              .randomElement(using: &random)!))
      }
    }
    for _ in 0..<5000 {
      let pair = (0..<2).map { _ in
        (0..<Int.random(in: 0...3, using: &random)).map { _ in element() }
      }
      let keys = pair.map { elements in
        var encoder = IndexKeyEncoder()
        for element in elements { element.append(to: &encoder) }
        return encoder.bytes
      }
      for (elements, key) in zip(pair, keys) {
        let read = try #require(IndexKeyElement.elements(of: key), "\(seed): \(elements)")
        #expect("\(read)" == "\(elements)", "\(seed)")
      }
      #expect(
        pair[0].lexicographicallyPrecedes(pair[1]) == keys[0].lexicographicallyPrecedes(keys[1]),
        "\(seed): \(pair)")
    }
  }
}
