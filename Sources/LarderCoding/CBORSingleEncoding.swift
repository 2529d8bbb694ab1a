// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A single value in the making.
struct CBORSingleEncoding: SingleValueEncodingContainer {
  let state: CBOREncodingState
  let depth: Int

  var codingPath: [any CodingKey] { state.codingPath(at: depth) }

  func encodeNil() throws {
    try state.single(depth) { $0.writeNull() }
  }

  func encode<Value: CBORScalar>(_ value: Value) throws {
    try state.single(depth) { value.write(to: &$0) }
  }

  func encode(_ value: Int128) throws {
    try state.single(depth) { value.write(to: &$0) }
  }

  func encode(_ value: UInt128) throws {
    try state.single(depth) { value.write(to: &$0) }
  }

  func encode<Value: Encodable>(_ value: Value) throws {
    let mark = state.mark
    try state.single(depth)
    do {
      try state.encode(value)
    } catch {
      state.rewind(to: mark)
      throw error
    }
  }
}
