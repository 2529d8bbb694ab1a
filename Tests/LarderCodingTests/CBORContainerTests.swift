// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderCoding
import Testing

/// Types that use the coding API in the ways that synthesised code does not.
@Suite("CBOR of hand-written Codable types")
struct CBORContainerTests {
  enum Key: String, CodingKey { case a, b, c, nested, list, other }

  class Animal: Codable {
    var name: String
    init(name: String) { self.name = name }
  }

  final class Dog: Animal {
    var tricks: [String] = []
    enum CodingKeys: CodingKey { case tricks }
    init(name: String, tricks: [String]) {
      self.tricks = tricks
      super.init(name: name)
    }
    required init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: CodingKeys.self)
      tricks = try container.decode([String].self, forKey: .tricks)
      try super.init(from: container.superDecoder())
    }
    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(tricks, forKey: .tricks)
      try super.encode(to: container.superEncoder())
    }
  }

  final class Cat: Animal {
    var lives = 9
    enum CodingKeys: CodingKey { case lives }
    override init(name: String) { super.init(name: name) }
    required init(from decoder: any Decoder) throws {
      lives = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .lives)
      try super.init(from: decoder)
    }
    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(lives, forKey: .lives)
      try super.encode(to: encoder)
    }
  }

  @Test func `A subclass survives a round trip with its superclass, in a field or the same map`()
    throws
  {
    let dog = Dog(name: "Rex", tricks: ["sit", "roll"])
    let bytes = try CBOREncoder().encode([dog])
    let back = try #require(try CBORDecoder().decode([Dog].self, from: bytes).first)
    #expect(back.name == "Rex")
    #expect(back.tricks == ["sit", "roll"])

    let cat = Cat(name: "Tom")
    cat.lives = 7
    let catBytes = try CBOREncoder().encode(cat)
    #expect(hexadecimal(catBytes) == "a2646e616d6563546f6d656c6976657307")
    let catBack = try CBORDecoder().decode(Cat.self, from: catBytes)
    #expect(catBack.name == "Tom")
    #expect(catBack.lives == 7)
  }

  struct Interleaved: Codable, Equatable {
    var values = [1, 2, 3, 4, 5, 6]
    init() {}
    init(from decoder: any Decoder) throws {
      let root = try decoder.container(keyedBy: Key.self)
      let nested = try root.nestedContainer(keyedBy: Key.self, forKey: .nested)
      var list = try root.nestedUnkeyedContainer(forKey: .list)
      let inner = try list.nestedContainer(keyedBy: Key.self)
      var deep = try list.nestedUnkeyedContainer()
      values = [
        try root.decode(Int.self, forKey: .a), try nested.decode(Int.self, forKey: .a),
        try inner.decode(Int.self, forKey: .b), try deep.decode(Int.self),
        try list.decode(Int.self), try nested.decode(Int.self, forKey: .b),
      ]
      #expect(list.isAtEnd && deep.isAtEnd)
      #expect(list.count == 3)
    }
    func encode(to encoder: any Encoder) throws {
      var root = encoder.container(keyedBy: Key.self)
      var nested = root.nestedContainer(keyedBy: Key.self, forKey: .nested)
      var list = root.nestedUnkeyedContainer(forKey: .list)
      try nested.encode(values[5], forKey: .b)
      var inner = list.nestedContainer(keyedBy: Key.self)
      var deep = list.nestedUnkeyedContainer()
      try root.encode(values[0], forKey: .a)
      try list.encode(values[4])
      try deep.encode(values[3])
      try nested.encode(values[1], forKey: .a)
      try inner.encode(values[2], forKey: .b)
      #expect(list.count == 3)
    }
  }

  @Test func `Nested containers may be written in any order`() throws {
    let bytes = try expectRoundTrip(Interleaved())
    #expect(
      bytes
        == "a3616101646c69737483a16162038104 05 666e6573746564a2616102616206".filter { $0 != " " })
    try expectRoundTrip([Interleaved(), Interleaved()])
  }

  @Test func `A container requested twice is the same container`() throws {
    struct Twice: Encodable {
      func encode(to encoder: any Encoder) throws {
        var first = encoder.container(keyedBy: Key.self)
        try first.encode(1, forKey: .b)
        var second = encoder.container(keyedBy: Key.self)
        try second.encode(2, forKey: .a)
        try first.encode(3, forKey: .c)
      }
    }
    #expect(hexadecimal(try CBOREncoder().encode(Twice())) == "a3616102616201616303")
  }

  @Test func `Of a field written twice the last value stays`() throws {
    struct Twice: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(1, forKey: .b)
        try container.encode("x", forKey: .a)
        try container.encode([2], forKey: .b)
      }
    }
    #expect(hexadecimal(try CBOREncoder().encode([Twice()])) == "81a26161617861628102")
  }

  @Test func `A field whose value fails leaves no trace if the failure is caught`() throws {
    struct Failing: Encodable {
      struct Refusal: Error {}
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(1, forKey: .a)
        var nested = container.nestedContainer(keyedBy: Key.self, forKey: .nested)
        try nested.encode(2, forKey: .a)
        throw Refusal()
      }
    }
    struct Tolerant: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(1, forKey: .a)
        try? container.encode(Failing(), forKey: .b)
        try container.encode(3, forKey: .c)
        var list = container.nestedUnkeyedContainer(forKey: .list)
        try? list.encode(Failing())
        try list.encode(4)
      }
    }
    #expect(hexadecimal(try CBOREncoder().encode(Tolerant())) == "a3616101616303646c6973748104")
    do {
      _ = try CBOREncoder().encode([Failing()])
      Issue.record("encoded")
    } catch {
      #expect(error.code == .encodingFailed)
      #expect(error.underlyingError is Failing.Refusal)
    }
  }

  @Test func `Misuse of an encoder is an error, not a wrong value`() {
    struct TwoKinds: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(1, forKey: .a)
        _ = encoder.unkeyedContainer()
      }
    }
    struct TwoValues: Encodable {
      func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(1)
        try container.encode(2)
      }
    }
    #expect(throws: CodecError.self) { try CBOREncoder().encode([TwoKinds()]) }
    #expect(throws: CodecError.self) { try CBOREncoder().encode([TwoValues()]) }
  }

  @Test func `Paths name the place, in encoders and in decoders`() throws {
    struct Leaf: Codable {
      init() {}
      init(from decoder: any Decoder) throws {
        paths(decoder.codingPath)
      }
      func encode(to encoder: any Encoder) throws {
        paths(encoder.codingPath)
        _ = encoder.container(keyedBy: Key.self)
      }
      private func paths(_ path: [any CodingKey]) {
        #expect(CodecError.pathText(path) == "list[1].nested.a")
      }
    }
    struct Root: Codable {
      init() {}
      init(from decoder: any Decoder) throws {
        let root = try decoder.container(keyedBy: Key.self)
        var list = try root.nestedUnkeyedContainer(forKey: .list)
        _ = try list.decode(Int.self)
        let inner = try list.nestedContainer(keyedBy: Key.self)
        let nested = try inner.nestedContainer(keyedBy: Key.self, forKey: .nested)
        _ = try nested.decode(Leaf.self, forKey: .a)
      }
      func encode(to encoder: any Encoder) throws {
        var root = encoder.container(keyedBy: Key.self)
        var list = root.nestedUnkeyedContainer(forKey: .list)
        try list.encode(0)
        var inner = list.nestedContainer(keyedBy: Key.self)
        var nested = inner.nestedContainer(keyedBy: Key.self, forKey: .nested)
        try nested.encode(Leaf(), forKey: .a)
      }
    }
    let bytes = try CBOREncoder().encode(Root())
    _ = try CBORDecoder().decode(Root.self, from: bytes)
  }

  @Test func `Reading past the end of an array is an error`() throws {
    struct Greedy: Decodable {
      init(from decoder: any Decoder) throws {
        var list = try decoder.unkeyedContainer()
        while true { _ = try list.decode(Int.self) }
      }
    }
    #expect(throws: CodecError.self) {
      try CBORDecoder().decode(Greedy.self, from: bytes("83010203"))
    }
  }

  @Test func `An element of the wrong type can be read again as another`() throws {
    struct Mixed: Decodable, Equatable {
      var texts: [String] = []
      init(from decoder: any Decoder) throws {
        var list = try decoder.unkeyedContainer()
        while !list.isAtEnd {
          if let text = try? list.decode(String.self) {
            texts.append(text)
          } else if try list.decodeNil() {
            texts.append("nil")
          } else {
            texts.append(String(try list.decode(Int.self)))
          }
        }
      }
    }
    let mixed = try CBORDecoder().decode(Mixed.self, from: bytes("83f6 6161 07"))
    #expect(mixed.texts == ["nil", "a", "7"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `Trying one type after the other stays fast in a long array`() throws {
    struct Either: Codable, Equatable {
      var value: String
      init(_ value: String) { self.value = value }
      init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let flag = try? container.decode(Bool.self)
        let text = try? container.decode(String.self)
        value = try text ?? flag.map { String($0) } ?? String(container.decode(Int.self))
      }
    }
    let numbers = Array(0..<60_000)
    let bytes = try CBOREncoder().encode(numbers)
    let values = try CBORDecoder().decode([Either].self, from: bytes)
    #expect(values.last == Either("59999"))
  }

  @Test func `The failure that ends decoding has its whole path, however far it is`() throws {
    struct Row: Codable { var value: Int? }
    struct Wrong: Codable { var value: String? }
    var rows = Array(repeating: Row(), count: 5_000)
    rows.append(Row(value: 1))
    let bytes = try CBOREncoder().encode(["rows": rows])
    do {
      _ = try CBORDecoder().decode([String: [Wrong]].self, from: bytes)
      Issue.record("decoded an integer as a text")
    } catch {
      #expect(error.codingPath == "rows[5000].value")
    }
  }
}
