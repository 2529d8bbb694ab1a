// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// KEY BYTES, version 1
//
//   text        the UTF-8 bytes, nothing else
//   described   the UTF-8 bytes, nothing else
//   bytes       the bytes, nothing else
//   uuid        16 bytes, in the order they are printed
//   integer     8 bytes, two's complement, little-endian, if the number fits Int64;
//               otherwise 17 bytes, two's complement, little-endian (all of Int128 and UInt128)
//   real        8 bytes, IEEE 754 binary64, little-endian; -0 is 0, and there is one NaN
//   date        the seconds since 2001, as a real
//   boolean     1 byte, 0 or 1
//   composite   for each component: tag (1 byte), length (4 bytes, little-endian), its bytes
//
// An integer's bytes depend on the number alone, never on its Swift type: Int 5 and UInt8 5 are one
// key. The length of a key is stored next to it, so no terminator is needed, and a component
// contains its length, so ("ab", "c") and ("a", "bc") are different bytes. These bytes are hashed
// and compared, never ordered.

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Collects the bytes of a key.
public struct KeyEncoder: Sendable {
  @usableFromInline var storage: [UInt8]

  /// The bytes appended so far.
  @inlinable public var bytes: [UInt8] { storage }

  /// An encoder without bytes; allocates nothing until something is appended.
  @inlinable
  public init() {
    storage = []
  }

  /// An encoder that writes into an array which already has its room; what it held is dropped.
  @inlinable
  public init(reusing array: consuming [UInt8]) {
    storage = array
    storage.removeAll(keepingCapacity: true)
  }

  /// Forgets the bytes and keeps their room.
  @inlinable
  public mutating func removeAll() {
    storage.removeAll(keepingCapacity: true)
  }

  /// Moves the bytes out without a copy.
  @inlinable
  public consuming func take() -> [UInt8] {
    storage
  }

  /// Appends the UTF-8 of a text.
  @inlinable
  public mutating func append(text: String) {
    // The usual key is one text: exactly its room, without growing to it.
    if storage.capacity == 0 {
      storage = Array(text.utf8)
    } else {
      storage.append(contentsOf: text.utf8)
    }
  }

  /// Appends the UTF-8 of a part of a text.
  @inlinable
  public mutating func append(text: Substring) {
    storage.append(contentsOf: text.utf8)
  }

  /// Appends an integer; equal numbers of different types append equal bytes.
  @inlinable
  public mutating func append<Integer: FixedWidthInteger>(integer: Integer) {
    ScalarCoding.append(integer: integer, to: &storage)
  }

  /// Appends a floating-point number; 0 and -0 append equal bytes, and so do all NaN.
  @inlinable
  public mutating func append(real: Double) {
    let canonical = real == 0 ? 0 : real.isNaN ? Double.nan : real
    ScalarCoding.append(word: canonical.bitPattern, to: &storage)
  }

  /// Appends bytes as they are.
  @inlinable
  public mutating func append(bytes: [UInt8]) {
    storage.append(contentsOf: bytes)
  }

  /// Appends bytes as they are.
  @inlinable
  public mutating func append(bytes: some Sequence<UInt8>) {
    storage.append(contentsOf: bytes)
  }

  /// Appends the 16 bytes of a UUID.
  @inlinable
  public mutating func append(uuid: UUID) {
    ScalarCoding.append(uuid: uuid, to: &storage)
  }

  /// Appends a whole key as one part of a composite: its tag, its length, its bytes.
  ///
  /// - Precondition: the component is shorter than 4 GiB.
  @inlinable
  public mutating func appendComponent<Key: CacheKey>(_ key: Key) {
    storage.append(Key.keyTag.rawValue)
    let lengthOffset = storage.count
    storage.append(contentsOf: [0, 0, 0, 0])
    key.encodeKey(into: &self)
    let length = storage.count - lengthOffset - 4
    precondition(length <= UInt32.max, "A component of a key must be shorter than 4 GiB.")
    for index in 0..<4 {
      storage[lengthOffset + index] = UInt8(truncatingIfNeeded: length >> (8 * index))
    }
  }
}

/// A key of two parts; nest it for more.
///
/// ```swift
/// let cache = PersistentCache<KeyPair<UUID, Int>, Page>(...)
/// cache[KeyPair(book, 12)] = page
/// ```
public struct KeyPair<First: CacheKey, Second: CacheKey>: CacheKey {
  /// The first part.
  public let first: First
  /// The second part.
  public let second: Second

  /// Creates a key of two parts.
  @inlinable
  public init(_ first: First, _ second: Second) {
    self.first = first
    self.second = second
  }

  /// `.composite`.
  @inlinable
  public static var keyTag: KeyTag { .composite }

  /// Appends both parts as components.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.appendComponent(first)
    encoder.appendComponent(second)
  }
}

extension KeyPair: Codable where First: Codable, Second: Codable {
  /// Decodes both parts from an array.
  public init(from decoder: any Decoder) throws {
    var container = try decoder.unkeyedContainer()
    self.init(try container.decode(First.self), try container.decode(Second.self))
  }

  /// Encodes both parts as an array.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.unkeyedContainer()
    try container.encode(first)
    try container.encode(second)
  }
}
