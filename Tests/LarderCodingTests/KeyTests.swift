// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import Testing

@Suite("Keys")
struct KeyTests {
  enum Screen: String, CacheKey { case home, profile }

  enum Level: Int, CacheKey, CustomStringConvertible {
    case low = 1
    var description: String { "low level" }
  }

  struct Route: Hashable, CustomStringConvertible, CacheKey {
    var description: String
  }

  struct Page: CacheKey {
    var book: String
    var number: Int
    static var keyTag: KeyTag { .composite }
    func encodeKey(into encoder: inout KeyEncoder) {
      encoder.appendComponent(book)
      encoder.appendComponent(number)
    }
  }

  private func key<Key: CacheKey>(_ key: Key) -> String {
    "\(Key.keyTag.rawValue) \(hexadecimal(key.keyBytes))"
  }

  @Test func `A text key is its UTF-8 and nothing else`() {
    #expect(key("a\u{0}é") == "1 6100c3a9")
    #expect(key("") == "1 ")
    #expect(key("xyz".dropFirst()) == key("yz"))
  }

  @Test func `Equal integers of different types are one key`() {
    #expect(key(5) == "2 0500000000000000")
    #expect(key(UInt8(5)) == key(5))
    #expect(key(UInt64(5)) == key(5))
    #expect(key(Int128(5)) == key(5))
    #expect(key(-1) == "2 ffffffffffffffff")
    #expect(key(Int8(-1)) == key(-1))
  }

  @Test func `Integers beyond 64 bits signed differ from all others`() {
    #expect(key(UInt64.max) == "2 ffffffffffffffff000000000000000000")
    #expect(key(UInt64.max) == key(UInt128(UInt64.max)))
    #expect(key(UInt64.max) != key(-1))
    #expect(key(UInt128.max) != key(Int128(-1)))
    #expect(key(Int128.min) == "2 00000000000000000000000000000080ff")
  }

  @Test func `A UUID key is its sixteen bytes`() throws {
    let uuid = try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF"))
    #expect(key(uuid) == "3 00112233445566778899aabbccddeeff")
  }

  @Test func `Data and a byte array are one key`() {
    #expect(key([1, 2, 255] as [UInt8]) == "4 0102ff")
    #expect(key(Data([1, 2, 255])) == key([1, 2, 255] as [UInt8]))
  }

  @Test func `A type with a raw value has the key of the raw value`() {
    #expect(key(Screen.home) == key("home"))
    #expect(key(Level.low) == key(1))
  }

  @Test func `A type with a description has a separate kind of key`() {
    #expect(key(Route(description: "a/b")) == "6 612f62")
  }

  @Test func `Equal numbers, dates, truth values and URLs are one key and unequal ones are two`()
    throws
  {
    #expect(key(0.0) == "7 0000000000000000")
    #expect(key(-0.0) == key(0.0))
    #expect(key(1.5) == "7 000000000000f83f")
    #expect(key(-Double.nan) == key(Double(nan: 7, signaling: false)))
    let date = Date(timeIntervalSinceReferenceDate: 0.1)
    #expect(key(date) != key(Date(timeIntervalSinceReferenceDate: (0.1).nextUp)))
    #expect(key(Date(timeIntervalSinceReferenceDate: -0.0)) == "8 0000000000000000")
    #expect(key(true) == "9 01" && key(false) == "9 00")
    let base = try #require(URL(string: "https://example.com/a/"))
    let relative = try #require(URL(string: "b", relativeTo: base))
    #expect(key(relative) == key("https://example.com/a/b"))
  }

  @Test func `Numbers, dates, truth values and URLs are read back from their key bytes`() throws {
    for number in [0, -1.5, 1e300, .infinity, .leastNonzeroMagnitude] {
      #expect(Double(keyBytes: number.keyBytes) == number)
      let date = Date(timeIntervalSinceReferenceDate: number)
      #expect(Date(keyBytes: date.keyBytes) == date)
    }
    #expect(Double(keyBytes: [1, 2]) == nil)
    #expect(Bool(keyBytes: true.keyBytes) == true && Bool(keyBytes: [2]) == nil)
    let url = try #require(URL(string: "https://example.com/a?b=c#d"))
    #expect(URL(keyBytes: url.keyBytes) == url)
  }

  @Test func `Composites with the same bytes in a row are different keys`() {
    #expect(key(KeyPair("ab", "c")) != key(KeyPair("a", "bc")))
    #expect(key(KeyPair("", "ab")) != key(KeyPair("ab", "")))
    #expect(key(KeyPair("5", "")) != key(KeyPair(5, "")))
    #expect(key(KeyPair("a", KeyPair("b", "c"))) != key(KeyPair(KeyPair("a", "b"), "c")))
    #expect(key(Page(book: "a", number: 2)) == key(KeyPair("a", 2)))
    let first = "01" + "01000000" + "61"
    let second = "02" + "08000000" + "0200000000000000"
    #expect(key(KeyPair("a", 2)) == "5 " + first + second)
  }

  @Test func `Random composites never share bytes`() {
    var generator = SeededGenerator(seed: printedSeed())
    var seen: [[UInt8]: [String]] = [:]
    for _ in 0..<5_000 {
      let parts = (0..<2).map { _ in
        String(
          (0..<Int.random(in: 0...3, using: &generator)).map { _ in
            "ab\u{0}\u{1}".randomElement(using: &generator) ?? "a"
          })
      }
      let bytes = KeyPair(parts[0], parts[1]).keyBytes
      #expect(seen.updateValue(parts, forKey: bytes).map { $0 == parts } ?? true)
    }
  }

  @Test func `An encoder reuses the room it is given`() {
    var encoder = KeyEncoder(reusing: [9, 9, 9])
    #expect(encoder.bytes.isEmpty)
    encoder.append(text: "k")
    encoder.append(bytes: [1])
    #expect(encoder.take() == [107, 1])
  }
}

@Suite("Keys as text")
struct KeyTypeTests {
  @Test(arguments: [
    (KeyTextFormat.text, "héllo"), (.integer, "-42"), (.integer, "18446744073709551615"),
    (.integer, "340282366920938463463374607431768211455"), (.bytes, "00ff7a"),
    (.uuid, "00112233-4455-6677-8899-AABBCCDDEEFF"), (.described, "a/b"), (.text, ""),
    (.real, "-1.5e-10"), (.real, "nan"), (.boolean, "true"), (.date, "2026-01-31T12:00:00Z"),
    (.date, "1969-12-31T23:59:59.25Z"), (.date, "2000-02-29T00:00:00.001Z"), (.date, "1e+300"),
  ])
  func `A key formed of text is displayed as that text`(type: KeyTextFormat, text: String) throws {
    let key = try type.encode(text)
    #expect(KeyTextFormat.display(tag: key.tag, bytes: key.bytes) == text)
  }

  @Test func `A text forms the key of the Swift value`() throws {
    #expect(try KeyTextFormat.integer.encode("7").bytes == 7.keyBytes)
    #expect(try KeyTextFormat.bytes.encode("0aFF").bytes == [10, 255])
    #expect(try KeyTextFormat.described.encode("x").tag == .described)
  }

  @Test(arguments: [
    (KeyTextFormat.integer, "4.5"), (.integer, ""), (.uuid, "0011"), (.bytes, "abc"),
    (.bytes, "zz"),
    (.real, "one"), (.boolean, "1"), (.date, "2026-02-29T00:00:00Z"), (.date, "2026-01-31"),
  ])
  func `A text of the wrong form is refused`(type: KeyTextFormat, text: String) {
    #expect {
      try type.encode(text)
    } throws: { error in
      (error as? CodecError)?.code == .invalidKey
    }
  }

  @Test func `A composite is displayed with its parts`() {
    let key = KeyPair("home", KeyPair(3, [255] as [UInt8]))
    #expect(
      KeyTextFormat.display(tag: .composite, bytes: key.keyBytes)
        == "(text:home, composite:(integer:3, bytes:ff))")
  }

  @Test func `Damaged keys are displayed in hexadecimal`() {
    #expect(KeyTextFormat.display(tag: .uuid, bytes: [1, 2]) == "3:0102")
    #expect(KeyTextFormat.display(tag: .text, bytes: [0xff]) == "1:ff")
    #expect(KeyTextFormat.display(tag: .integer, bytes: [1]) == "2:01")
    #expect(KeyTextFormat.display(tag: .composite, bytes: [1, 9, 0, 0, 0]) == "5:0109000000")
    #expect(KeyTextFormat.display(tag: KeyTag(rawValue: 77), bytes: [1]) == "77:01")
  }

  @Test func `Random bytes can be displayed under every tag`() {
    var generator = SeededGenerator(seed: printedSeed())
    for _ in 0..<5_000 {
      let bytes = generator.bytes(Int.random(in: 0...40, using: &generator))
      let tag = KeyTag(rawValue: UInt8.random(in: 0...10, using: &generator))
      #expect(bytes.isEmpty || !KeyTextFormat.display(tag: tag, bytes: bytes).isEmpty)
    }
  }

  @Test func `Every key is read back from the text it is displayed as`() throws {
    var generator = SeededGenerator(seed: printedSeed())
    func text() -> String {
      String(
        (0..<Int.random(in: 0...4, using: &generator)).map { _ in
          "a,() \\:é1".randomElement(using: &generator) ?? "a"
        })
    }
    func check<Key: CacheKey>(_ key: Key) throws {
      let shown = KeyTextFormat.display(tag: Key.keyTag, bytes: key.keyBytes)
      #expect(try KeyTextFormat.bytes(of: shown, tag: Key.keyTag) == key.keyBytes, "\(shown)")
    }
    for _ in 0..<2_000 {
      let bytes = generator.bytes(Int.random(in: 0...9, using: &generator))
      let date = Date(
        timeIntervalSinceReferenceDate: Double.random(in: -4e9...4e9, using: &generator))
      let number = Double(bitPattern: generator.next())
      try check(text())
      try check(date)
      try check(Date(timeIntervalSinceReferenceDate: number))
      try check(number)
      let flag = Bool.random(using: &generator)
      try check(KeyPair(text(), KeyPair(KeyPair(bytes, text()), KeyPair(date, flag))))
      for tag in [2, 3, 5, 7, 8, 9, 77].map({ KeyTag(rawValue: $0) }) {
        let shown = KeyTextFormat.display(tag: tag, bytes: bytes)
        #expect(try KeyTextFormat.bytes(of: shown, tag: tag) == bytes, "\(shown)")
      }
    }
  }
}
