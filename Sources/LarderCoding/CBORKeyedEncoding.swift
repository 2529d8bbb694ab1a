// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A map in the making as a keyed container.
struct CBORKeyedEncoding<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let state: CBOREncoding
  let depth: Int

  var codingPath: [any CodingKey] { state.codingPath(at: depth) }

  func encodeNil(forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.writeNull() }
  }

  func encode(_ value: Bool, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(value) }
  }

  func encode(_ value: String, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(text: value) }
  }

  func encode(_ value: Double, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(value) }
  }

  func encode(_ value: Float, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(value) }
  }

  func encode(_ value: Int, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int8, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int16, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int32, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int64, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(value) }
  }

  func encode(_ value: Int128, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(big: value) }
  }

  func encode(_ value: UInt, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(UInt64(value)) }
  }

  func encode(_ value: UInt8, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: UInt16, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: UInt32, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(Int64(value)) }
  }

  func encode(_ value: UInt64, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(value) }
  }

  func encode(_ value: UInt128, forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.write(big: value) }
  }

  func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
    let mark = state.mark
    try state.field(key.stringValue, depth)
    do {
      try state.encode(value)
    } catch {
      state.rewind(to: mark)
      throw error
    }
  }

  func nestedContainer<NestedKey: CodingKey>(
    keyedBy keyType: NestedKey.Type, forKey key: Key
  ) -> KeyedEncodingContainer<NestedKey> {
    let child = state.detachField(key.stringValue, depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth).container(keyedBy: keyType)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    let child = state.detachField(key.stringValue, depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth).unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    let child = state.detachField(CBORKey.superKey.stringValue, depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth)
  }

  func superEncoder(forKey key: Key) -> any Encoder {
    let child = state.detachField(key.stringValue, depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth)
  }
}
