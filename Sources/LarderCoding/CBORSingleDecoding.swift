// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// One item as a single value.
struct CBORSingleDecoding: SingleValueDecodingContainer {
  let document: CBORDocument
  let offset: Int

  var codingPath: [any CodingKey] { document.codingPath(to: offset) }

  func decodeNil() -> Bool {
    document.isNull(at: offset)
  }

  func decode<Value: CBORScalar>(_ type: Value.Type) throws -> Value {
    try .read(from: document, at: offset)
  }

  func decode(_ type: Int128.Type) throws -> Int128 {
    try .read(from: document, at: offset)
  }

  func decode(_ type: UInt128.Type) throws -> UInt128 {
    try .read(from: document, at: offset)
  }

  func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    try document.decode(type, at: offset)
  }
}
