// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import Testing

@Suite("Plain values and codecs")
struct StandardCodingTests {
  struct Point: Codable, Equatable {
    var x: Int
    var y: Double
  }

  private func stored<Value: Encodable>(_ value: Value) throws -> String {
    let (identifier, bytes) = try StandardCoding.encode(value, codec: .json)
    return "\(identifier.rawValue) \(hexadecimal(bytes))"
  }

  private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
    let (identifier, bytes) = try StandardCoding.encode(value, codec: .cbor)
    return try StandardCoding.decode(
      Value.self, identifier: identifier, bytes: bytes, codec: .cbor)
  }

  @Test func `Plain values are stored as documented`() throws {
    #expect(try stored(Data([1, 255])) == "16 01ff")
    #expect(try stored([1, 255] as [UInt8]) == "16 01ff")
    #expect(try stored("é") == "17 c3a9")
    #expect(try stored(-2) == "18 feffffffffffffff")
    #expect(try stored(UInt64.max) == "18 ffffffffffffffff000000000000000000")
    #expect(try stored(1.5) == "19 000000000000f83f")
    #expect(try stored(Float(1.5)) == "20 0000c03f")
    #expect(try stored(true) == "21 01")
    let uuid = try #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF"))
    #expect(try stored(uuid) == "22 00112233445566778899aabbccddeeff")
    #expect(try stored(Date(timeIntervalSinceReferenceDate: 1.5)) == "23 000000000000f83f")
  }

  @Test func `Plain values survive a round trip`() throws {
    #expect(try roundTrip(Data([0, 9])) == Data([0, 9]))
    #expect(try roundTrip([] as [UInt8]) == [])
    #expect(try roundTrip("👩‍👩‍👧‍👦 text") == "👩‍👩‍👧‍👦 text")
    #expect(try roundTrip(Int.min) == .min)
    #expect(try roundTrip(UInt.max) == .max)
    #expect(try roundTrip(Int8(-7)) == -7)
    #expect(try roundTrip(Int128.min) == .min)
    #expect(try roundTrip(UInt128.max) == .max)
    #expect(try roundTrip(-Double.infinity) == -.infinity)
    #expect(try roundTrip(Float.leastNonzeroMagnitude) == .leastNonzeroMagnitude)
    #expect(try roundTrip(false) == false)
    let uuid = UUID()
    #expect(try roundTrip(uuid) == uuid)
    let now = Date()
    #expect(try roundTrip(now) == now)
  }

  @Test func `An integer may be read as any integer type it fits`() throws {
    let (identifier, bytes) = try StandardCoding.encode(200, codec: .cbor)
    func read<Value: Decodable>(_ type: Value.Type) throws -> Value {
      try StandardCoding.decode(type, identifier: identifier, bytes: bytes, codec: .cbor)
    }
    #expect(try read(UInt8.self) == 200)
    #expect(try read(UInt64.self) == 200)
    #expect(try read(Int128.self) == 200)
    #expect(failureCode { _ = try read(Int8.self) } == .outOfRange)
  }

  @Test func `Another type than the stored one is a mismatch`() throws {
    let (identifier, bytes) = try StandardCoding.encode("text", codec: .cbor)
    #expect(
      failureCode {
        _ = try StandardCoding.decode(
          Int.self, identifier: identifier, bytes: bytes, codec: .cbor)
      } == .typeMismatch)
    #expect(
      failureCode {
        _ = try StandardCoding.decode(
          Point.self, identifier: identifier, bytes: bytes, codec: .cbor)
      } == .typeMismatch)
    let point = try StandardCoding.encode(Point(x: 1, y: 2), codec: .cbor)
    #expect(
      failureCode {
        _ = try StandardCoding.decode(
          String.self, identifier: point.identifier, bytes: point.bytes, codec: .cbor)
      } == .typeMismatch)
  }

  @Test(
    arguments: [
      (CodecIdentifier.plainInteger, [1, 2]), (.plainDouble, [1]), (.plainFloat, [1]),
      (.plainBoolean, [2]), (.plainBoolean, []), (.plainUUID, [1]), (.plainDate, []),
      (.plainText, [0xff]), (.plainInteger, [UInt8](repeating: 7, count: 17)),
      (.plainInteger, [UInt8](repeating: 0, count: 17)), (.cbor, []), (.json, [1]),
      (.propertyList, [1, 2, 3]),
    ] as [(CodecIdentifier, [UInt8])])
  func `Damaged bytes are malformed`(identifier: CodecIdentifier, bytes: [UInt8]) {
    func attempt<Value: Decodable>(_ type: Value.Type) -> CodecError.Code? {
      failureCode {
        _ = try StandardCoding.decode(type, identifier: identifier, bytes: bytes, codec: .cbor)
      }
    }
    let codes = [
      attempt(Int.self), attempt(Double.self), attempt(Float.self), attempt(Bool.self),
      attempt(UUID.self), attempt(Date.self), attempt(String.self),
    ]
    #expect(codes.contains(.malformed))
    #expect(!codes.contains(nil))
  }

  @Test func `An entry of an unknown codec is unsupported`() {
    #expect(
      failureCode {
        _ = try StandardCoding.decode(
          Point.self, identifier: CodecIdentifier(rawValue: 300), bytes: [], codec: .cbor)
      } == .unsupported)
  }

  @Test func `A cache may change its codec and still read its entries`() throws {
    let point = Point(x: 3, y: 0.1)
    let all: [any ValueCodec] = [CBORCodec(), JSONCodec(), PropertyListCodec()]
    for writer in all {
      let (identifier, bytes) = try StandardCoding.encode(point, codec: writer)
      #expect(identifier == writer.identifier)
      for reader in all {
        let back = try StandardCoding.decode(
          Point.self, identifier: identifier, bytes: bytes, codec: reader)
        #expect(back == point)
      }
    }
  }

  @Test func `Every codec stores a lone value`() throws {
    enum Size: String, Codable { case small, large }
    let all: [any ValueCodec] = [CBORCodec(), JSONCodec(), PropertyListCodec()]
    for codec in all {
      #expect(try codec.decode(Size.self, from: codec.encode(Size.large)) == .large)
      #expect(try codec.decode([Int?].self, from: codec.encode([1, 2])) == [1, 2])
    }
  }

  @Test func `Every codec keeps the text that property lists read as nil`() throws {
    struct Person: Codable, Equatable {
      var name: String
      var nick: String?
      var list: [String?]
      var map: [String: String?]
      var born = Date(timeIntervalSinceReferenceDate: 1)
      var data = Data([1, 2])
    }
    let xml = PropertyListEncoder()
    xml.outputFormat = .xml
    let all: [any ValueCodec] = [
      CBORCodec(), JSONCodec(), PropertyListCodec(),
      PropertyListCodec(encoder: xml, decoder: PropertyListDecoder()),
    ]
    for text in ["$null", "$", "$$null", "CBOR", "x $null CBOR", "null"] {
      let person = Person(
        name: text, nick: text, list: [text, nil, "b"], map: [text: text, "b": nil])
      var plain = person
      plain.nick = nil
      for codec in all {
        func trip<Value: Codable & Equatable>(_ value: Value) throws {
          #expect(try codec.decode(Value.self, from: codec.encode(value)) == value)
        }
        try trip(text)
        try trip([text, "CBOR"])
        try trip([text: text])
        try trip([Optional(text), nil])
        try trip(person)
        try trip(plain.list)
        try trip(Data(text.utf8))
      }
    }
  }

  @Test func `A property list that nests too deep is a typed error of the codec`() {
    let levels = 100_000
    let list =
      "<plist version=\"1.0\">" + String(repeating: "<array>", count: levels)
      + String(repeating: "</array>", count: levels) + "</plist>"
    #expect(
      failureCode { _ = try PropertyListCodec().decode([[Int]].self, from: Array(list.utf8)) }
        == .tooDeep)
  }

  @Test func `What a codec encodes it decodes, however deep, however many equal parts`() throws {
    indirect enum Deep: Codable, Equatable { case leaf, node(Deep) }
    var deep = Deep.leaf
    let xml = PropertyListEncoder()
    xml.outputFormat = .xml
    let all: [any ValueCodec] = [
      CBORCodec(), JSONCodec(), PropertyListCodec(),
      PropertyListCodec(encoder: xml, decoder: PropertyListDecoder()),
    ]
    var most = [Int](repeating: 0, count: all.count)
    for level in 1...256 {
      deep = .node(deep)
      guard level < 3 || (60...66).contains(level) || level > 250 else { continue }
      for (number, codec) in all.enumerated() {
        do {
          let bytes = try codec.encode(deep)
          #expect(try codec.decode(Deep.self, from: bytes) == deep, "\(codec.identifier) \(level)")
          most[number] = level
        } catch let error as CodecError {
          #expect(error.operation == .encode, "\(codec.identifier) \(level)")
          #expect([.tooDeep, .encodingFailed].contains(error.code))
        }
      }
    }
    // As documented; the elements of XML are some levels more.
    #expect(most[...2] == [61, 254, 63])
    #expect(most[3] > 60)
    // Equal numbers are one object of the list, however many there are.
    let flat = try PropertyListSerialization.data(
      fromPropertyList: [Int](repeating: 7, count: 1_100_000), format: .binary, options: 0)
    #expect(flat.count < 3_500_000)
    #expect(PropertyListDepthLimit.rejectionReason(to: Array(flat)) == nil)
  }

  @Test func `A Decimal that is not a number is stored, or refused before it is stored`() throws {
    struct Bill: Codable, Equatable {
      var note: String
      var price: Decimal
    }
    for codec in [CBORCodec(), PropertyListCodec()] as [any ValueCodec] {
      let back = try codec.decode(
        Bill.self, from: codec.encode(Bill(note: "NaN", price: .nan)))
      #expect(back.price.isNaN && back.note == "NaN")
    }
    let json = JSONCodec()
    #expect(
      failureCode { _ = try json.encode(Bill(note: "", price: .nan)) } == .encodingFailed)
    #expect(failureCode { _ = try json.encode(["NaN": [Decimal.nan]]) } == .encodingFailed)
    for bill in [Bill(note: "NaN", price: 1), Bill(note: "\"NaN\", NaN", price: -1)] {
      #expect(try json.decode(Bill.self, from: json.encode(bill)) == bill)
    }
    let encoder = JSONEncoder()
    encoder.nonConformingFloatEncodingStrategy = .convertToString(
      positiveInfinity: "inf", negativeInfinity: "-inf", nan: "NaN")
    let decoder = JSONDecoder()
    decoder.nonConformingFloatDecodingStrategy = .convertFromString(
      positiveInfinity: "inf", negativeInfinity: "-inf", nan: "NaN")
    let lenient = JSONCodec(encoder: encoder, decoder: decoder)
    #expect(try lenient.decode([Double].self, from: lenient.encode([Double.nan]))[0].isNaN)
  }

  @Test func `A failure names the type, the position and the remedy`() throws {
    struct Wrong: Codable { var x: String }
    let bytes = try CBORCodec().encode([Point(x: 1, y: 2)])
    do {
      _ = try CBORCodec().decode([Wrong].self, from: bytes)
      Issue.record("decoded an integer as a text")
    } catch let failure as CodecError {
      #expect(failure.code == .typeMismatch)
      #expect(failure.codingPath == "[0].x")
      #expect(failure.typeName.contains("Wrong"))
      #expect(failure.description.contains("An integer is stored here."))
    }
  }

  @Test func `The failure of a codec outside the package is kept`() {
    struct Refusal: Error {}
    struct Refusing: ValueCodec {
      var identifier: CodecIdentifier { CodecIdentifier(rawValue: 400) }
      func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { throw Refusal() }
      func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        throw Refusal()
      }
    }
    do {
      _ = try StandardCoding.encode(Point(x: 1, y: 2), codec: Refusing())
      Issue.record("encoded")
    } catch {
      #expect(error.code == .encodingFailed)
      #expect(error.underlyingError is Refusal)
    }
  }
}
