// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A map as a keyed container.
struct CBORKeyedDecoding<Key: CodingKey>: KeyedDecodingContainerProtocol {
  let document: CBORDocument
  let map: Int

  var codingPath: [any CodingKey] { document.codingPath(to: map) }

  var allKeys: [Key] {
    if document.log != nil { document.noteAllKeys(of: map) }
    var keys: [Key] = []
    let end = document.end(of: map)
    var key = document.inside(map)
    while key < end {
      if let found: Key = document.codingKey(at: key) { keys.append(found) }
      key = document.next(after: document.next(after: key))
    }
    return keys
  }

  /// The value of a key, or -1. Integer keys are tried after texts: Larder writes none.
  @inline(__always)
  private func find(_ key: Key) -> Int {
    let found = document.find(key.stringValue, in: map)
    return found >= 0 ? found : findNumber(key)
  }

  private func findNumber(_ key: Key) -> Int {
    guard let number = key.intValue else { return -1 }
    return document.find(number, in: map)
  }

  @inline(__always)
  private func item<Value>(_ key: Key, _ type: Value.Type) throws -> Int {
    if document.log != nil { document.note(key, in: map, .of(type)) }
    let found = find(key)
    guard found >= 0 else { throw document.missing(key, in: map) }
    return found
  }

  /// The value of a key unless it is missing or null.
  @inline(__always)
  private func presentItem<Value>(_ key: Key, _ type: Value.Type) -> Int? {
    if document.log != nil { document.note(key, in: map, .of(type, isOptional: true)) }
    let found = find(key)
    return found < 0 || document.isNull(at: found) ? nil : found
  }

  /// Reads a value of a standard type unless it is missing or null.
  @inline(__always)
  private func present<Value: CBORScalar>(_ key: Key, _ type: Value.Type) throws -> Value? {
    try presentItem(key, type).map { try .read(from: document, at: $0) }
  }

  /// The value of a key whose type is not known.
  private func anyItem(_ key: Key) throws -> Int {
    if document.log != nil { document.note(key, in: map, CBORFieldLog.Field()) }
    let found = find(key)
    guard found >= 0 else { throw document.missing(key, in: map) }
    return found
  }

  func contains(_ key: Key) -> Bool {
    if document.log != nil { document.note(key, in: map, CBORFieldLog.Field(isNull: true)) }
    return find(key) >= 0
  }

  func decodeNil(forKey key: Key) throws -> Bool {
    document.isNull(at: try anyItem(key))
  }

  @inline(__always)
  func decode<Value: CBORScalar>(_ type: Value.Type, forKey key: Key) throws -> Value {
    try .read(from: document, at: item(key, type))
  }

  func decode(_ type: Int128.Type, forKey key: Key) throws -> Int128 {
    try .read(from: document, at: item(key, type))
  }

  func decode(_ type: UInt128.Type, forKey key: Key) throws -> UInt128 {
    try .read(from: document, at: item(key, type))
  }

  func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
    try document.decode(type, at: item(key, type))
  }

  // The library's own `decodeIfPresent` would search each field three times.

  func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: Int128.Type, forKey key: Key) throws -> Int128? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
    try present(key, type)
  }

  func decodeIfPresent(_ type: UInt128.Type, forKey key: Key) throws -> UInt128? {
    try present(key, type)
  }

  func decodeIfPresent<Value: Decodable>(
    _ type: Value.Type, forKey key: Key
  ) throws -> Value? {
    try presentItem(key, type).map { try document.decode(type, at: $0) }
  }

  func nestedContainer<NestedKey: CodingKey>(
    keyedBy type: NestedKey.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<NestedKey> {
    KeyedDecodingContainer(try document.keyedContainer(type, at: anyItem(key)))
  }

  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try document.unkeyedContainer(at: anyItem(key))
  }

  func superDecoder() throws -> any Decoder {
    if document.log != nil {
      document.note(CBORKey.superKey, in: map, CBORFieldLog.Field())
    }
    let found = document.find(CBORKey.superKey.stringValue, in: map)
    guard found >= 0 else { throw document.missing(CBORKey.superKey, in: map) }
    return CBORItemDecoder(document: document, offset: found)
  }

  func superDecoder(forKey key: Key) throws -> any Decoder {
    CBORItemDecoder(document: document, offset: try anyItem(key))
  }
}
