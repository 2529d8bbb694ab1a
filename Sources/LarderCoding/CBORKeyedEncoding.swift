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
  private func field<Value>(
    _ key: Key, _ type: Value.Type, _ body: (inout CBORWriter) -> Void
  ) throws {
    try state.field(key.stringValue, depth, body)
    if state.log != nil { note(key, .of(type)) }
  }

  private func note(_ key: Key, _ field: CBORFieldLog.Field) {
    state.note(key.stringValue, depth, field, ofKeys: Key.self)
  }

  func encodeNil(forKey key: Key) throws {
    try state.field(key.stringValue, depth) { $0.writeNull() }
    if state.log != nil { note(key, CBORFieldLog.Field(isNull: true)) }
  }

  func encode(_ value: Bool, forKey key: Key) throws {
    try field(key, Bool.self) { $0.write(value) }
  }

  func encode(_ value: String, forKey key: Key) throws {
    try field(key, String.self) { $0.write(text: value) }
  }

  func encode(_ value: Double, forKey key: Key) throws {
    try field(key, Double.self) { $0.write(value) }
  }

  func encode(_ value: Float, forKey key: Key) throws {
    try field(key, Float.self) { $0.write(value) }
  }

  func encode(_ value: Int, forKey key: Key) throws {
    try field(key, Int.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int8, forKey key: Key) throws {
    try field(key, Int8.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int16, forKey key: Key) throws {
    try field(key, Int16.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int32, forKey key: Key) throws {
    try field(key, Int32.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: Int64, forKey key: Key) throws {
    try field(key, Int64.self) { $0.write(value) }
  }

  func encode(_ value: Int128, forKey key: Key) throws {
    try field(key, Int128.self) { $0.write(big: value) }
  }

  func encode(_ value: UInt, forKey key: Key) throws {
    try field(key, UInt.self) { $0.write(UInt64(value)) }
  }

  func encode(_ value: UInt8, forKey key: Key) throws {
    try field(key, UInt8.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: UInt16, forKey key: Key) throws {
    try field(key, UInt16.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: UInt32, forKey key: Key) throws {
    try field(key, UInt32.self) { $0.write(Int64(value)) }
  }

  func encode(_ value: UInt64, forKey key: Key) throws {
    try field(key, UInt64.self) { $0.write(value) }
  }

  func encode(_ value: UInt128, forKey key: Key) throws {
    try field(key, UInt128.self) { $0.write(big: value) }
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
    if field.kind == nil { note(key, .encoded(state.bytes, at: start)) }
  }

  // As the library's own, which do not show the fields that are missing.

  func encodeIfPresent(_ value: Bool?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Bool.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: String?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(String.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Double?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Double.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Float?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Float.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Int?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Int.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Int8?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Int8.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Int16?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Int16.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Int32?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Int32.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Int64?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Int64.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: Int128?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Int128.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: UInt?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(UInt.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: UInt8?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(UInt8.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: UInt16?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(UInt16.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: UInt32?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(UInt32.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: UInt64?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(UInt64.self, isOptional: true)) }
  }

  func encodeIfPresent(_ value: UInt128?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(UInt128.self, isOptional: true)) }
  }

  func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
    if let value { try encode(value, forKey: key) }
    if state.log != nil { note(key, .of(Value.self, isOptional: true)) }
  }

  func nestedContainer<NestedKey: CodingKey>(
    keyedBy keyType: NestedKey.Type, forKey key: Key
  ) -> KeyedEncodingContainer<NestedKey> {
    let child = state.detachField(key.stringValue, depth)
    if state.log != nil { note(key, CBORFieldLog.Field(kind: "map")) }
    return CBORItemEncoder(state: child, depth: child.rootDepth).container(keyedBy: keyType)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    let child = state.detachField(key.stringValue, depth)
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
