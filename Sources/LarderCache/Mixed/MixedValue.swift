// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

/// An encoded value of any type with the name of its type, as a ``MixedPersistentCache`` stores it.
///
/// The stored form is an array of the type's name, the codec's identifier and the encoded value. The
/// name is empty in an import (`scripts/import-persistentcachekit`), which does not contain the type:
/// any type that decodes the value reads it.
package final class MixedValue: Codable, Equatable, Sendable {
  let typeName: String
  let codec: UInt16
  let bytes: [UInt8]
  /// The value, if it was set or decoded in this process.
  private let live: Mutex<(any Sendable)?>

  init<Value: Codable & Sendable>(_ value: Value, codec: any ValueCodec) throws {
    let (identifier, bytes) = try StandardCoding.encode(value, codec: codec)
    typeName = stableTypeName(Value.self)
    self.codec = identifier.rawValue
    self.bytes = bytes
    live = Mutex(value)
  }

  package init(from decoder: any Decoder) throws {
    var container = try decoder.unkeyedContainer()
    typeName = try container.decode(String.self)
    codec = try container.decode(UInt16.self)
    bytes = Array(try container.decode(Data.self))
    live = Mutex(nil)
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.unkeyedContainer()
    try container.encode(typeName)
    try container.encode(codec)
    try container.encode(Data(bytes))
  }

  package static func == (left: MixedValue, right: MixedValue) -> Bool {
    left.typeName == right.typeName && left.codec == right.codec && left.bytes == right.bytes
  }

  /// Returns the value.
  ///
  /// - Throws: ``StoreError`` with the code `unreadableEntry` if the value is of another type.
  func value<Value: Codable & Sendable>(
    as type: Value.Type, forKey key: Key<Value>, codec: any ValueCodec, in namespace: String
  ) throws -> Value {
    let name = stableTypeName(type)
    guard typeName.isEmpty || typeName == name else {
      throw StoreError.unreadable(
        "\"\(key.rawValue)\" has type \(typeName), not the requested \(name)", in: namespace)
    }
    if let live = live.withLock({ $0 }) as? Value { return live }
    do {
      let value = try StandardCoding.decode(
        type, identifier: CodecIdentifier(rawValue: self.codec), bytes: bytes, codec: codec)
      live.withLock { $0 = value }
      return value
    } catch {
      throw StoreError.unreadable(
        "the key \"\(key.rawValue)\" as \(name): \(error)", in: namespace)
    }
  }
}
