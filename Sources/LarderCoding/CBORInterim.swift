// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

struct CBOREncoder {
  func encode<Value: Encodable>(_ value: Value) throws -> [UInt8] { try JSONCodec().encode(value) }
}
struct CBORDecoder {
  func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
    try JSONCodec().decode(type, from: bytes)
  }
}
