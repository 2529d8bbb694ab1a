// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import Testing

// The examples of RFC 8949, Appendix A ("Examples of Encoded CBOR Data Items").

/// An example: the bytes, the item, and whether the bytes are its deterministic encoding.
struct Example: Sendable, CustomTestStringConvertible {
  let hex: String
  let value: CBORValue
  let isDeterministic: Bool

  var testDescription: String { hex }

  init(_ hex: String, _ value: CBORValue, deterministic: Bool = true) {
    self.hex = hex
    self.value = value
    isDeterministic = deterministic
  }
}

private func ints(_ range: ClosedRange<UInt64>) -> [CBORValue] {
  range.map { .unsigned($0) }
}

private let numbers: [Example] = [
  Example("00", .unsigned(0)),
  Example("01", .unsigned(1)),
  Example("0a", .unsigned(10)),
  Example("17", .unsigned(23)),
  Example("1818", .unsigned(24)),
  Example("1819", .unsigned(25)),
  Example("1864", .unsigned(100)),
  Example("1903e8", .unsigned(1000)),
  Example("1a000f4240", .unsigned(1_000_000)),
  Example("1b000000e8d4a51000", .unsigned(1_000_000_000_000)),
  Example("1bffffffffffffffff", .unsigned(18_446_744_073_709_551_615)),
  Example("c249010000000000000000", .tagged(2, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]))),
  Example("3bffffffffffffffff", .negative(18_446_744_073_709_551_615)),
  Example("c349010000000000000000", .tagged(3, .bytes([1, 0, 0, 0, 0, 0, 0, 0, 0]))),
  Example("20", .negative(0)),
  Example("29", .negative(9)),
  Example("3863", .negative(99)),
  Example("3903e7", .negative(999)),
  Example("f90000", .float(0.0)),
  Example("f93c00", .float(1.0)),
  Example("fb3ff199999999999a", .float(1.1)),
  Example("f93e00", .float(1.5)),
  Example("f97bff", .float(65504.0)),
  Example("fa47c35000", .float(100000.0)),
  Example("fa7f7fffff", .float(3.4028234663852886e+38)),
  Example("fb7e37e43c8800759c", .float(1.0e+300)),
  Example("f90001", .float(5.960464477539063e-8)),
  Example("f90400", .float(0.00006103515625)),
  Example("f9c400", .float(-4.0)),
  Example("fbc010666666666666", .float(-4.1)),
  Example("f97c00", .float(.infinity)),
  Example("f9fc00", .float(-.infinity)),
  Example("fa7f800000", .float(.infinity), deterministic: false),
  Example("faff800000", .float(-.infinity), deterministic: false),
  Example("fb7ff0000000000000", .float(.infinity), deterministic: false),
  Example("fbfff0000000000000", .float(-.infinity), deterministic: false),
]

private let simples: [Example] = [
  Example("f4", .boolean(false)),
  Example("f5", .boolean(true)),
  Example("f6", .null),
  Example("f7", .undefined),
  Example("f0", .simple(16)),
  Example("f8ff", .simple(255)),
]

private let strings: [Example] = [
  Example(
    "c074323031332d30332d32315432303a30343a30305a", .tagged(0, .text("2013-03-21T20:04:00Z"))),
  Example("c11a514b67b0", .tagged(1, .unsigned(1_363_896_240))),
  Example("c1fb41d452d9ec200000", .tagged(1, .float(1363896240.5))),
  Example("d74401020304", .tagged(23, .bytes([1, 2, 3, 4]))),
  Example("d818456449455446", .tagged(24, .bytes([0x64, 0x49, 0x45, 0x54, 0x46]))),
  Example(
    "d82076687474703a2f2f7777772e6578616d706c652e636f6d",
    .tagged(32, .text("http://www.example.com"))),
  Example("40", .bytes([])),
  Example("4401020304", .bytes([1, 2, 3, 4])),
  Example("60", .text("")),
  Example("6161", .text("a")),
  Example("6449455446", .text("IETF")),
  Example("62225c", .text("\"\\")),
  Example("62c3bc", .text("\u{fc}")),
  Example("63e6b0b4", .text("\u{6c34}")),
  Example("64f0908591", .text("\u{10151}")),
  Example("5f42010243030405ff", .bytes([1, 2, 3, 4, 5]), deterministic: false),
  Example("7f657374726561646d696e67ff", .text("streaming"), deterministic: false),
]

private let nested: CBORValue = .array([
  .unsigned(1), .array([.unsigned(2), .unsigned(3)]), .array([.unsigned(4), .unsigned(5)]),
])

private let mapOfArray: CBORValue = .map([
  .init(.text("a"), .unsigned(1)), .init(.text("b"), .array([.unsigned(2), .unsigned(3)])),
])

private let arrayOfMap: CBORValue = .array([.text("a"), .map([.init(.text("b"), .text("c"))])])

private let containers: [Example] = [
  Example("80", .array([])),
  Example("83010203", .array(ints(1...3))),
  Example("8301820203820405", nested),
  Example(
    "98190102030405060708090a0b0c0d0e0f101112131415161718181819", .array(ints(1...25))),
  Example("a0", .map([])),
  Example(
    "a201020304",
    .map([.init(.unsigned(1), .unsigned(2)), .init(.unsigned(3), .unsigned(4))])),
  Example("a26161016162820203", mapOfArray),
  Example("826161a161626163", arrayOfMap),
  Example(
    "a56161614161626142616361436164614461656145",
    .map(zip("abcde", "ABCDE").map { .init(.text(String($0)), .text(String($1))) })),
  Example("9fff", .array([]), deterministic: false),
  Example("9f018202039f0405ffff", nested, deterministic: false),
  Example("9f01820203820405ff", nested, deterministic: false),
  Example("83018202039f0405ff", nested, deterministic: false),
  Example("83019f0203ff820405", nested, deterministic: false),
  Example(
    "9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", .array(ints(1...25)),
    deterministic: false),
  Example("bf61610161629f0203ffff", mapOfArray, deterministic: false),
  Example("826161bf61626163ff", arrayOfMap, deterministic: false),
  Example(
    "bf6346756ef563416d7421ff",
    .map([.init(.text("Fun"), .boolean(true)), .init(.text("Amt"), .negative(1))]),
    deterministic: false),
]

@Suite("RFC 8949, Appendix A")
struct CBORVectorTests {
  @Test(arguments: numbers + simples + strings + containers)
  func `The example is parsed`(example: Example) throws {
    #expect(try CBORValue(parsing: bytes(example.hex)) == example.value)
  }

  @Test(arguments: (numbers + simples + strings + containers).filter(\.isDeterministic))
  func `The deterministic example is written`(example: Example) {
    #expect(hexadecimal(example.value.encoded) == example.hex)
  }

  @Test(arguments: (numbers + simples + strings + containers).filter { !$0.isDeterministic })
  func `The other examples are written shorter or definite`(example: Example) throws {
    let written = example.value.encoded
    #expect(hexadecimal(written) != example.hex)
    let back = try CBORValue(parsing: written)
    #expect(back.encoded == written)
  }

  @Test(arguments: ["f97e00", "fa7fc00000", "fb7ff8000000000000"])
  func `The NaN examples are one NaN`(hex: String) throws {
    guard case .float(let number) = try CBORValue(parsing: bytes(hex)) else {
      Issue.record("not a float")
      return
    }
    #expect(number.isNaN)
    #expect(hexadecimal(CBORValue.float(number).encoded) == "f97e00")
  }

  @Test func `Examples are read as Swift values`() throws {
    func read<Value: Decodable>(_ hex: String, _ type: Value.Type) throws -> Value {
      try CBORDecoder().decode(type, from: bytes(hex))
    }
    #expect(try read("c249010000000000000000", UInt128.self) == 18_446_744_073_709_551_616)
    #expect(try read("c349010000000000000000", Int128.self) == -18_446_744_073_709_551_617)
    #expect(try read("3bffffffffffffffff", Int128.self) == -18_446_744_073_709_551_616)
    #expect(try read("1bffffffffffffffff", UInt64.self) == .max)
    #expect(try read("fb3ff199999999999a", Double.self) == 1.1)
    #expect(try read("7f657374726561646d696e67ff", String.self) == "streaming")
    #expect(
      try read("9f0102030405060708090a0b0c0d0e0f101112131415161718181819ff", [Int].self)
        == Array(1...25))
    #expect(
      try read("a56161614161626142616361436164614461656145", [String: String].self)
        == ["a": "A", "b": "B", "c": "C", "d": "D", "e": "E"])
    #expect(try read("a201020304", [Int: Int].self) == [1: 2, 3: 4])
  }

  @Test func `Every half survives a round trip`() throws {
    for bits in UInt16.min ... .max {
      let value = HalfFloat.value(bits: bits)
      if value.isNaN { continue }
      let single = Float(value)
      #expect(Double(single) == value)
      #expect(HalfFloat.bits(exactly: single) == bits)
    }
  }

  @Test func `Floats that do not fit a half are written as single or double`() {
    func written(_ value: Double) -> String { hexadecimal(CBORValue.float(value).encoded) }
    #expect(written(65505) == "fa477fe100")
    #expect(written(0x1p-25) == "fa33000000")
    #expect(written(0x1.8p-24) == "fa33c00000")
    #expect(written(Double(Float.leastNonzeroMagnitude)) == "fa00000001")
    #expect(written(-0.0) == "f98000")
    #expect(written(.leastNonzeroMagnitude) == "fb0000000000000001")
  }
}
