// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// An array as an unkeyed container.
struct CBORUnkeyedDecoding: UnkeyedDecodingContainer {
  private let document: CBORDocument
  private let array: Int
  private let end: Int
  private var next: Int
  private(set) var currentIndex = 0

  init(document: CBORDocument, array: Int) {
    self.document = document
    self.array = array
    self.end = document.end(of: array)
    self.next = document.inside(array)
  }

  var codingPath: [any CodingKey] { document.codingPath(to: array) }
  var count: Int? { document.count(of: array) }
  var isAtEnd: Bool { next >= end }

  /// Reads the next element; advances only after a successful read.
  @inline(__always)
  private mutating func step<Value>(_ read: (CBORDocument, Int) throws -> Value) throws -> Value {
    guard next < end else {
      throw DecodingError.valueNotFound(
        Value.self,
        DecodingError.Context(
          codingPath: document.errorPath(to: array) + [CBORKey(intValue: currentIndex)],
          debugDescription: "The array ends here."))
    }
    let value = try read(document, next)
    next = document.next(after: next)
    currentIndex += 1
    return value
  }

  mutating func decodeNil() throws -> Bool {
    if next < end, !document.isNull(at: next) { return false }
    return try step { _, _ in true }
  }

  mutating func decode<Value: CBORScalar>(_ type: Value.Type) throws -> Value {
    try step { try .read(from: $0, at: $1) }
  }

  mutating func decode(_ type: Int128.Type) throws -> Int128 {
    try step { try .read(from: $0, at: $1) }
  }

  mutating func decode(_ type: UInt128.Type) throws -> UInt128 {
    try step { try .read(from: $0, at: $1) }
  }

  mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    try step { try $0.decode(type, at: $1) }
  }

  mutating func nestedContainer<NestedKey: CodingKey>(
    keyedBy type: NestedKey.Type
  ) throws -> KeyedDecodingContainer<NestedKey> {
    try step { KeyedDecodingContainer(try $0.keyedContainer(type, at: $1)) }
  }

  mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
    try step { try $0.unkeyedContainer(at: $1) }
  }

  mutating func superDecoder() throws -> any Decoder {
    try step { CBORItemDecoder(document: $0, offset: $1) }
  }
}
