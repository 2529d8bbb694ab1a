// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A map in the making as a keyed container.
struct CBORKeyedEncoding<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let state: CBOREncodingState
  let depth: Int

  var codingPath: [any CodingKey] { state.codingPath(at: depth) }

  /// Writes a field of a standard type.
  @inline(__always)
  private func field<Value: CBORScalar>(_ value: Value, _ key: Key) throws {
    try state.field(key.stringValue, depth) { value.write(to: &$0) }
    if state.log != nil { note(key, .of(Value.self)) }
  }

  /// Writes an optional field, and records it also if it is `nil`.
  @inline(__always)
  private func optionalField<Value: CBORScalar>(_ value: Value?, _ key: Key) throws {
    if let value { try field(value, key) }
    if state.log != nil { note(key, .of(Value.self, isOptional: true)) }
  }

  private func note(_ key: Key, _ field: CBORFieldLog.Field) {
    state.note(key.stringValue, depth, field, ofKeys: Key.self)
  }

  func encodeNil(forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.writeNull() }
    if state.log != nil { note(key, CBORFieldLog.Field(isNull: true)) }
  }

  @inline(__always)
  func encode<Value: CBORScalar>(_ value: Value, forKey key: Key) throws {
    try field(value, key)
  }

  func encode(_ value: Int128, forKey key: Key) throws {
    try field(value, key)
  }

  func encode(_ value: UInt128, forKey key: Key) throws {
    try field(value, key)
  }

  func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
    let mark = state.mark
    try state.field(key.stringValue, depth)
    let start = state.log == nil ? 0 : state.bytes.count
    do {
      try state.encode(value)
    } catch {
      state.rewind(to: mark)
      throw error
    }
    guard state.log != nil else { return }
    let field = CBORFieldLog.Field.of(Value.self)
    note(key, field)
    if field.kind == nil { note(key, .encoded(state.bytes, at: start, of: value)) }
    state.noteElements(of: Value.self, value, at: key.stringValue, depth)
  }

  // As the library's own, which do not show the fields that are missing.

  func encodeIfPresent(_ value: Bool?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: String?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Double?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Float?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Int?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Int8?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Int16?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Int32?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Int64?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: Int128?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: UInt?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws {
    try optionalField(value, key)
  }

  func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil {
      note(key, .of(Value.self, isOptional: true))
      state.noteElements(of: Value.self, value as Any, at: key.stringValue, depth)
    }
  }

  func nestedContainer<NestedKey: CodingKey>(
    keyedBy keyType: NestedKey.Type, forKey key: Key
  ) -> KeyedEncodingContainer<NestedKey> {
    let child = state.nestedField(key.stringValue, .map, depth)
    if state.log != nil { note(key, CBORFieldLog.Field(kind: "map")) }
    return CBORItemEncoder(state: child, depth: child.rootDepth).container(keyedBy: keyType)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    let child = state.nestedField(key.stringValue, .array, depth)
    if state.log != nil { note(key, CBORFieldLog.Field(kind: "array")) }
    return CBORItemEncoder(state: child, depth: child.rootDepth).unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    let key = CBORKey.superKey.stringValue
    let child = state.detachField(key, depth)
    if state.log != nil { state.note(key, depth, CBORFieldLog.Field(), ofKeys: Key.self) }
    return CBORItemEncoder(state: child, depth: child.rootDepth)
  }

  func superEncoder(forKey key: Key) -> any Encoder {
    let child = state.detachField(key.stringValue, depth)
    if state.log != nil { note(key, CBORFieldLog.Field()) }
    return CBORItemEncoder(state: child, depth: child.rootDepth)
  }
}
