// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import Testing

@Suite("CBOR as JSON text")
struct CBORValueTests {
  @Test(arguments: [
    ("00", "0"), ("3bffffffffffffffff", "-18446744073709551616"), ("f93e00", "1.5"),
    ("fb7e37e43c8800759c", "1e+300"), ("f97c00", "null"), ("f97e00", "null"), ("f7", "null"),
    ("f0", "null"), ("f6", "null"), ("f5", "true"), ("43fbff00", "\"-_8A\""), ("41ff", "\"_w\""),
    ("40", "\"\""), ("d641ff", "\"/w==\""), ("d742ff00", "\"ff00\""),
    ("d6824101d541ff", "[\"AQ==\",\"_w\"]"),
    ("c249010000000000000000", "\"AQAAAAAAAAAA\""), ("c349010000000000000000", "\"~AQAAAAAAAAAA\""),
    ("c48221196ab3", "27315e-2"), ("c11a514b67b0", "1363896240"), ("62225c", "\"\\\"\\\\\""),
    ("64010a0d09", "\"\\u0001\\n\\r\\t\""), ("80", "[]"), ("a0", "{}"),
    ("a201020304", "{\"1\":2,\"3\":4}"), ("a18101f4", "{\"[1]\":false}"),
    ("826161a161626163", "[\"a\",{\"b\":\"c\"}]"),
    ("d8255000112233445566778899aabbccddeeff", "\"00112233-4455-6677-8899-AABBCCDDEEFF\""),
  ])
  func `An item is printed as JSON`(hex: String, json: String) throws {
    #expect(try CBORValue(parsing: bytes(hex)).jsonText() == json)
  }

  @Test func `Pretty text is indented`() throws {
    let value = try CBORValue(parsing: bytes("a26161016162820203"))
    #expect(
      value.jsonText(pretty: true) == """
        {
          "a": 1,
          "b": [
            2,
            3
          ]
        }
        """)
  }

  @Test func `A written map is sorted bytewise by its encoded keys`() {
    // The order of RFC 8949, 4.2.1.
    let keys: [CBORValue] = [
      .boolean(false), .array([.negative(0)]), .array([.unsigned(100)]), .text("aa"), .text("z"),
      .negative(0), .unsigned(100), .unsigned(10),
    ]
    let map = CBORValue.map(keys.map { .init($0, .null) })
    #expect(
      hexadecimal(map.encoded)
        == "a80af61864f620f6617af6626161f6811864f68120f6f4f6")
  }

  @Test func `The writer puts items one after another`() {
    var writer = CBORWriter()
    writer.beginArray(count: 9)
    writer.write(text: "a")
    writer.write(bytes: [1])
    writer.write(-500)
    writer.write(true)
    writer.writeUndefined()
    writer.write(simple: 32)
    writer.write(tag: 1)
    writer.write(UInt64.max)
    writer.write(negative: 0)
    writer.write(Float(0.5))
    #expect(
      hexadecimal(writer.bytes) == "8961614101" + "3901f3f5f7f820c11bffffffffffffffff20f93800")
  }
}
