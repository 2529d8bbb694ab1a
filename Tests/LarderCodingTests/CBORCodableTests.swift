// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import Testing

/// Encodes, decodes, and compares; returns the bytes for further checks.
@discardableResult
func expectRoundTrip<Value: Codable & Equatable>(
  _ value: Value, sourceLocation: SourceLocation = #_sourceLocation
) throws -> String {
  let bytes = try CBOREncoder().encode(value)
  let back = try CBORDecoder().decode(Value.self, from: bytes)
  #expect(back == value, sourceLocation: sourceLocation)
  let canonical = try CBORValue(parsing: bytes).encoded
  #expect(canonical == bytes, "not deterministic", sourceLocation: sourceLocation)
  return hexadecimal(bytes)
}

@Suite("CBOR of Codable values")
struct CBORCodableTests {
  struct Everything: Codable, Equatable {
    var text = "é"
    var int = Int.min
    var int8 = Int8.min
    var int16 = Int16.max
    var int32 = Int32.min
    var int64 = Int64.max
    var int128 = Int128.min
    var uint = UInt.max
    var uint8 = UInt8.max
    var uint16 = UInt16.max
    var uint32 = UInt32.max
    var uint64 = UInt64.max
    var uint128 = UInt128.max
    var double = Double.pi
    var float = Float.pi
    var flag = true
    var none: Int?
    var some: Int? = 5
    var noneText: String?
    var someText: String? = ""
    var noneDouble: Double?
    var someFloat: Float? = 2
    var someFlag: Bool? = false
    var someData: Data? = Data([1])
    var someInt8: Int8? = -8
    var someUInt64: UInt64? = .max
    var someInt128: Int128? = 9
    var data = Data([0, 255])
    var bytes: [UInt8] = [1, 2]
    var date = Date(timeIntervalSinceReferenceDate: 700_000_000.123456)
    var uuid = UUID()
    var url = URL(string: "https://example.org/a?b=c#d")
    var decimal = Decimal(string: "-123456789.000000001")
    var ints = [1, -2, 3]
    var smalls: [Int8] = [1, -1]
    var nested = [[1.5], []]
    var texts = ["a", ""]
    var optionals: [Int?] = [1, nil, 3]
    var optionalTexts: [String?] = ["a", nil]
    var byText = ["k": 1, "7": 2, "007": 3]
    var byInt = [7: "a", -7: "b"]
    var byUUID = [UUID(): 1]
    var set: Set<String> = ["x"]
  }

  @Test func `A type with a field of every kind survives a round trip`() throws {
    try expectRoundTrip(Everything())
  }

  @Test func `Lone values survive a round trip`() throws {
    #expect(try expectRoundTrip("a") == "6161")
    #expect(try expectRoundTrip(-1) == "20")
    #expect(try expectRoundTrip(1.0) == "f93c00")
    #expect(try expectRoundTrip(Float(0.1)) == "fa3dcccccd")
    #expect(try expectRoundTrip(Data([1, 2])) == "420102")
    #expect(try expectRoundTrip([1, 2] as [UInt8]) == "420102")
    #expect(try expectRoundTrip(nil as Int?) == "f6")
    #expect(try expectRoundTrip([nil, true]) == "82f6f5")
    #expect(try expectRoundTrip(["b": 1, "a": 2]) == "a2616102616201")
    #expect(try expectRoundTrip([10: "x"]) == "a16231306178")
    #expect(try expectRoundTrip(Int128.max) == "c2507fffffffffffffffffffffffffffffff")
    let uuid = try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF"))
    #expect(try expectRoundTrip(uuid) == "d8255000112233445566778899aabbccddeeff")
  }

  struct Empty: Codable, Equatable {}

  @Test func `Values without fields survive a round trip`() throws {
    #expect(try expectRoundTrip(Empty()) == "a0")
    #expect(try expectRoundTrip([Empty(), Empty()]) == "82a0a0")
    #expect(try expectRoundTrip([] as [Empty]) == "80")
  }

  indirect enum Shape: Codable, Equatable {
    case none
    case circle(radius: Double)
    case rectangle(Double, Double)
    case group([Shape], name: String?)
  }

  enum Suit: String, Codable { case hearts, spades }

  @Test func `Enums with and without payloads survive a round trip`() throws {
    #expect(try expectRoundTrip(Suit.spades) == "66737061646573")
    #expect(try expectRoundTrip(Shape.none) == "a1646e6f6e65a0")
    try expectRoundTrip(Shape.circle(radius: 0.1))
    try expectRoundTrip(
      Shape.group([.rectangle(1, 2), .group([.none], name: nil), .circle(radius: 3)], name: "g"))
    try expectRoundTrip([Suit.hearts: Shape.none])
    try expectRoundTrip(Result3.b(["x": [.none]]))
  }

  enum Result3: Codable, Equatable {
    case a(Int)
    case b([String: [Shape]])
  }

  @Test func `Fields are stored in bytewise order whatever order they are declared in`() throws {
    struct Unordered: Codable, Equatable {
      var zebra = 1
      var b = 2
      var apple = Inner()
      var a = 3
      struct Inner: Codable, Equatable {
        var y = 1
        var x = [1, 2]
      }
    }
    #expect(
      try expectRoundTrip(Unordered())
        == "a4616103616202656170706c65a26178820102617901657a6562726101")
  }

  @Test(arguments: [0, 1, 22, 23, 24, 25, 255, 256, 257, 70_000])
  func `Containers of any size survive a round trip`(count: Int) throws {
    try expectRoundTrip((0..<count).map { Int16(truncatingIfNeeded: $0) })
    let pairs = (0..<min(count, 2_000)).map { (String($0), [$0, count]) }
    try expectRoundTrip(Dictionary(uniqueKeysWithValues: pairs))
    try expectRoundTrip(String(repeating: "é", count: count))
  }

  @Test func `URLs with a base and relative ones survive a round trip`() throws {
    let base = try #require(URL(string: "http://example.org/dir/"))
    try expectRoundTrip(#require(URL(string: "file", relativeTo: base)))
    try expectRoundTrip(#require(URL(string: "a/b")))
  }

  @Test(arguments: [
    "0", "1", "-1", "0.5", "-0.001", "12345678901234567890123456789012345678",
    "340282366920938463463374607431768211455", "-340282366920938463463374607431768211455",
    "1e127", "-1e-127", "18446744073709551616", "-18446744073709551616", "-18446744073709551617",
  ])
  func `Decimals survive a round trip`(text: String) throws {
    try expectRoundTrip(#require(Decimal(string: text)))
  }

  @Test func `An error about a missing field names the remedy`() throws {
    struct Two: Codable {
      var a: Int
      var b: Int = 7
    }
    struct One: Codable { var a: Int }
    let bytes = try CBOREncoder().encode(One(a: 1))
    let failure = #expect(throws: CodecError.self) {
      try CBORDecoder().decode(Two.self, from: bytes)
    }
    #expect(failure?.code == .missingValue && failure?.typeName == "Two")
    #expect(failure?.message.contains("\"b\" is missing. Declare the property optional") == true)
    #expect(failure?.message.contains("decodeIfPresent") == true)
  }

  @Test func `A Decimal that is not a number is stored as that`() throws {
    struct Price: Codable { var amounts: [Decimal] }
    let bytes = try CBOREncoder().encode(Price(amounts: [1, .nan, -0.5]))
    let amounts = try CBORDecoder().decode(Price.self, from: bytes).amounts
    #expect(amounts[0] == 1 && amounts[1].isNaN && amounts[2] == -0.5)
    #expect(hexadecimal(try CBOREncoder().encode(Decimal.nan)) == "f97e00")
  }

  @Test func `A recursive enum has as many levels as the documentation says`() throws {
    indirect enum List: Codable, Equatable {
      case end
      case node(Int, List)
      static func of(_ levels: Int) -> List { (0..<levels).reduce(.end) { .node($1, $0) } }
    }
    let deepest = List.of(61)
    #expect(try CBORDecoder().decode(List.self, from: CBOREncoder().encode(deepest)) == deepest)
    for levels in [62, 70, 5_000] {
      let failure = #expect(throws: CodecError.self) { try CBOREncoder().encode(List.of(levels)) }
      #expect(failure?.message.contains("case of an enum") == true)
    }
  }

  @Test func `Numbers of other writers are read as Double and Decimal`() throws {
    #expect(try CBORDecoder().decode(Double.self, from: bytes("1903e8")) == 1000)
    #expect(try CBORDecoder().decode(Double.self, from: bytes("3903e7")) == -1000)
    #expect(try CBORDecoder().decode(Decimal.self, from: bytes("c48221196ab3")) == 273.15)
    #expect(try CBORDecoder().decode(Decimal.self, from: bytes("f93e00")) == 1.5)
  }

  @Test func `A number that does not fit is corrupt, not cut`() throws {
    for (hex, type) in [("190100", 8), ("20", 0), ("1bffffffffffffffff", 64)] {
      #expect(throws: CodecError.self) {
        switch type {
        case 8: _ = try CBORDecoder().decode(UInt8.self, from: bytes(hex))
        case 0: _ = try CBORDecoder().decode(UInt.self, from: bytes(hex))
        default: _ = try CBORDecoder().decode(Int.self, from: bytes(hex))
        }
      }
    }
    #expect(throws: CodecError.self) {
      try CBORDecoder().decode(Float.self, from: bytes("fb7e37e43c8800759c"))
    }
  }

  @Test func `Missing or null fields are distinguished from wrong ones`() throws {
    struct Fields: Codable { var a: Int? }
    struct Needed: Codable { var a: Int }
    func read<Value: Decodable>(_ hex: String, _ type: Value.Type) throws -> Value {
      try CBORDecoder().decode(type, from: bytes(hex))
    }
    func code(_ hex: String) -> CodecError.Code? {
      failureCode { _ = try read(hex, Needed.self) }
    }
    #expect(try read("a0", Fields.self).a == nil)
    #expect(try read("a16161f6", Fields.self).a == nil)
    #expect(try read("a16161f7", Fields.self).a == nil)
    #expect(throws: CodecError.self) { try read("a161616161", Fields.self) }
    #expect(code("a0") == .missingValue)
    #expect(code("a16161f6") == .missingValue)
    #expect(code("a161616161") == .typeMismatch)
    #expect(code("8101") == .typeMismatch)
    #expect(code("a1616101") == nil)
  }

  @Test func `Fields are found in any order, under long heads and in chunks`() throws {
    struct Fields: Codable, Equatable { var first: Int, second: Int, third: [Int] }
    let wanted = Fields(first: 1, second: 2, third: [3])
    let value: CBORValue = .map([
      .init(.text("third"), .array([.unsigned(3)])), .init(.unsigned(9), .null),
      .init(.text("second"), .unsigned(2)), .init(.text("first"), .unsigned(1)),
    ])
    #expect(try CBORDecoder().decode(Fields.self, from: value.encoded) == wanted)
    let chunked = "bf 7805 6669727374 01 7f 63736563 636f6e64 ff 02 657468697264 9f03ff ff"
    #expect(try CBORDecoder().decode(Fields.self, from: bytes(chunked)) == wanted)
  }

  @Test func `User info reaches the types`() throws {
    let key = try #require(CodingUserInfoKey(rawValue: "factor"))
    struct Scaled: Codable {
      var value: Int
      init(value: Int) { self.value = value }
      init(from decoder: any Decoder) throws {
        let factor = CodingUserInfoKey(rawValue: "factor").flatMap { decoder.userInfo[$0] as? Int }
        value = try decoder.singleValueContainer().decode(Int.self) * (factor ?? 1)
      }
      func encode(to encoder: any Encoder) throws {
        let factor = CodingUserInfoKey(rawValue: "factor").flatMap { encoder.userInfo[$0] as? Int }
        var container = encoder.singleValueContainer()
        try container.encode(value * (factor ?? 1))
      }
    }
    var encoder = CBOREncoder()
    encoder.userInfo[key] = 10
    var decoder = CBORDecoder()
    decoder.userInfo[key] = 3
    let bytes = try encoder.encode([Scaled(value: 2)])
    #expect(try decoder.decode([Scaled].self, from: bytes).first?.value == 60)
  }
}
