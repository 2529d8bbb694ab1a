// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// An array in the making as an unkeyed container.
struct CBORUnkeyedEncoding: UnkeyedEncodingContainer {
  let state: CBOREncodingState
  let depth: Int

  var codingPath: [any CodingKey] { state.codingPath(at: depth) }
  var count: Int { state.count(at: depth) }

  func encodeNil() throws {
    try state.element(depth) { $0.writeNull() }
  }

  func encode<Value: CBORScalar>(_ value: Value) throws {
    try state.element(depth) { value.write(to: &$0) }
  }

  func encode(_ value: Int128) throws {
    try state.element(depth) { value.write(to: &$0) }
  }

  func encode(_ value: UInt128) throws {
    try state.element(depth) { value.write(to: &$0) }
  }

  func encode<Value: Encodable>(_ value: Value) throws {
    let mark = state.mark
    try state.element(depth)
    do {
      try state.encode(value)
    } catch {
      state.rewind(to: mark)
      throw error
    }
  }

  func nestedContainer<NestedKey: CodingKey>(
    keyedBy keyType: NestedKey.Type
  ) -> KeyedEncodingContainer<NestedKey> {
    let child = state.detachElement(depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth).container(keyedBy: keyType)
  }

  func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
    let child = state.detachElement(depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth).unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    let child = state.detachElement(depth)
    return CBORItemEncoder(state: child, depth: child.rootDepth)
  }
}
