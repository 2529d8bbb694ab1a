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

  @Test func `A type that describes itself has a key of its own kind`() {
    #expect(key(Route(description: "a/b")) == "6 612f62")
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
    (KeyType.text, "héllo"), (.integer, "-42"), (.integer, "18446744073709551615"),
    (.integer, "340282366920938463463374607431768211455"), (.bytes, "00ff7a"),
    (.uuid, "00112233-4455-6677-8899-AABBCCDDEEFF"), (.described, "a/b"), (.text, ""),
  ])
  func `A key formed of text is displayed as that text`(type: KeyType, text: String) throws {
    let key = try type.encode(text)
    #expect(KeyType.display(tag: key.tag, bytes: key.bytes) == text)
  }

  @Test func `A text forms the key of the Swift value`() throws {
    #expect(try KeyType.integer.encode("7").bytes == 7.keyBytes)
    #expect(try KeyType.bytes.encode("0aFF").bytes == [10, 255])
    #expect(try KeyType.described.encode("x").tag == .described)
  }

  @Test(arguments: [
    (KeyType.integer, "4.5"), (.integer, ""), (.uuid, "0011"), (.bytes, "abc"), (.bytes, "zz"),
  ])
  func `A text of the wrong form is refused`(type: KeyType, text: String) {
    #expect {
      try type.encode(text)
    } throws: { error in
      (error as? CodingFailure)?.code == .invalidKey
    }
  }

  @Test func `A composite is displayed with its parts`() {
    let key = KeyPair("home", KeyPair(3, [255] as [UInt8]))
    #expect(
      KeyType.display(tag: .composite, bytes: key.keyBytes)
        == "(text:home, composite:(integer:3, bytes:ff))")
  }

  @Test func `Damaged keys are displayed in hexadecimal`() {
    #expect(KeyType.display(tag: .uuid, bytes: [1, 2]) == "3:0102")
    #expect(KeyType.display(tag: .text, bytes: [0xff]) == "1:ff")
    #expect(KeyType.display(tag: .integer, bytes: [1]) == "2:01")
    #expect(KeyType.display(tag: .composite, bytes: [1, 9, 0, 0, 0]) == "5:0109000000")
    #expect(KeyType.display(tag: KeyTag(rawValue: 77), bytes: [1]) == "77:01")
  }

  @Test func `Random bytes can be displayed under every tag`() {
    var generator = SeededGenerator(seed: printedSeed())
    for _ in 0..<5_000 {
      let bytes = generator.bytes(Int.random(in: 0...40, using: &generator))
      let tag = KeyTag(rawValue: UInt8.random(in: 0...8, using: &generator))
      #expect(bytes.isEmpty || !KeyType.display(tag: tag, bytes: bytes).isEmpty)
    }
  }
}
