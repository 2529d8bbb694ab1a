// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
internal import LarderCoding
internal import LarderEngine
public import Synchronization

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

extension Defaults {
  /// Returns the value of a key.
  ///
  /// The value is the newest that any process has committed. A `Float` is read from a stored
  /// `Double`, and a `Double` from any number, if the conversion is exact. Integer types are
  /// interchangeable. A `UUID`, a `URL` or an enumeration is read from the string or number that
  /// encodes it.
  ///
  /// - Parameters:
  ///   - type: The type of the value.
  ///   - key: The key.
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``DefaultsError/Code/typeMismatch`` if the stored value has another type; the value
  ///   is unchanged. ``DefaultsError/Code/unreadable`` if the stored value is damaged; `StoreError`.
  @inlinable
  public func value<Value: Codable & Sendable>(
    _ type: Value.Type = Value.self, forKey key: String
  ) throws -> Value? {
    if accessTrackers.load(ordering: .relaxed) != 0 { noteRead(of: key) }
    let tier = tiers.tier(of: Value.self)
    if let value = tier.validValue(DefaultsTierKey(key)) { return value }
    return try load(key, tier)
  }

  /// Stores a value. When the call returns, the value is on disk and visible to the next read in
  /// every process.
  ///
  /// The call replaces a stored value of any type. A `nil` value removes the key.
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - key: The key.
  /// - Throws: ``DefaultsError/Code/notEncodable``; `StoreError`.
  public func setValue<Value: Codable & Sendable>(_ value: Value, forKey key: String) throws {
    try encode(value, forKey: key)
  }

  /// Removes a key, for every process.
  ///
  /// - Parameter key: The key.
  /// - Returns: Whether the key had a value.
  /// - Throws: `StoreError`.
  @discardableResult
  public func removeValue(forKey key: String) throws -> Bool { try state.get().remove(key) }

  /// Returns the value of a key. If the key has none, stores and returns `initial`.
  ///
  /// Processes that call this concurrently all get the one value that was stored.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - initial: The value to store if the key has none.
  /// - Returns: The stored value.
  /// - Throws: The errors of ``value(_:forKey:)`` and `setValue(_:forKey:)`.
  public func value<Value: Codable & Sendable>(
    forKey key: String, storing initial: Value
  ) throws -> Value {
    if let value = try value(Value.self, forKey: key) { return value }
    return try update(Value.self, forKey: key) { if $0 == nil { $0 = initial } } ?? initial
  }

  // MARK: Non-Sendable types

  /// Decodes the value of a key on every call, for types that threads must not share.
  ///
  /// - Parameters:
  ///   - type: The type of the value.
  ///   - key: The key.
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: The errors of ``value(_:forKey:)``.
  public func decode<Value: Decodable>(_ type: Value.Type, forKey key: String) throws -> Value? {
    if accessTrackers.load(ordering: .relaxed) != 0 { noteRead(of: key) }
    return try state.get().entry(key).map { try Self.decode(type, $0, key) }
  }

  /// Stores a value of any encodable type.
  ///
  /// - Parameters:
  ///   - value: The value.
  ///   - key: The key.
  /// - Throws: The errors of `setValue(_:forKey:)`.
  public func encode<Value: Encodable>(_ value: Value, forKey key: String) throws {
    try state.get().set(key) { try Self.content(of: value, key) }
  }

  // MARK: Parts

  @usableFromInline
  func load<Value: Codable & Sendable>(
    _ key: String, _ tier: DefaultsTier<Value>
  ) throws -> Value? {
    let lookup = try state.get().lookup(key)
    switch lookup.outcome {
    case .found(let stored):
      let value = try Self.decode(Value.self, stored, key)
      tier.insert(
        value, forKey: DefaultsTierKey(filed: key),
        from: TierOrigin(lookup, commitVersion: stored.commitVersion), expires: stored.expires,
        cost: stored.payload.count + EntryHeader.size)
      return value
    case .absent, .knownAbsent, .unchanged:
      tier.insert(
        nil, forKey: DefaultsTierKey(filed: key), from: TierOrigin(lookup, commitVersion: 0),
        expires: .max, cost: EntryHeader.size)
      return nil
    case .unreadable(let text): throw DefaultsStore.unreadable(text, key)
    }
  }

  /// Encodes a value.
  ///
  /// - Returns: The content, or `nil` if the value is an optional that is `nil`.
  @usableFromInline
  static func content<Value: Encodable>(
    of value: Value, _ key: String
  ) throws -> DefaultsContent? {
    do {
      let (codec, payload) = try StandardCoding.encode(value, codec: CBORCodec())
      // The null of CBOR.
      if codec == .cbor, payload == [0xF6] { return nil }
      return DefaultsContent(codec: codec.rawValue, payload: payload)
    } catch {
      throw DefaultsError(
        .notEncodable, key: key,
        "The value cannot be encoded (\(error.message)). The stored value is unchanged.",
        underlyingError: error)
    }
  }

  static func decode<Value: Decodable>(
    _ type: Value.Type, _ stored: StoredValue, _ key: String
  ) throws -> Value {
    let codec = CodecIdentifier(rawValue: stored.codec)
    do {
      return try StandardCoding.decode(
        type, identifier: codec, bytes: stored.payload, codec: CBORCodec())
    } catch {
      if let number = number(type, codec, stored.payload) { return number }
      if let value = composed(type, codec, stored.payload) { return value }
      let isDamage = error.code == .malformed || error.code == .tooDeep
      throw DefaultsError(
        isDamage ? .unreadable : .typeMismatch, key: key,
        "The stored value cannot be read as \(type): \(error.message) It is unchanged.",
        underlyingError: error)
    }
  }

  /// Returns a stored number as another number type, or `nil` if the conversion is not exact.
  /// Property lists have one floating-point type, and write integral values as integers.
  private static func number<Value>(
    _ type: Value.Type, _ codec: CodecIdentifier, _ payload: [UInt8]
  ) -> Value? {
    guard type == Float.self || type == Double.self else { return nil }
    func read<Number: Decodable>(_ number: Number.Type) -> Number? {
      try? StandardCoding.decode(number, identifier: codec, bytes: payload, codec: CBORCodec())
    }
    let wide: Double? =
      switch codec {
      case .plainDouble: read(Double.self)
      case .plainFloat: read(Float.self).map(Double.init)
      case .plainInteger: read(Int.self).flatMap { Double(exactly: $0) }
      default: nil
      }
    guard let wide else { return nil }
    if type == Double.self { return wide as? Value }
    return (wide.isNaN ? Float.nan : Float(exactly: wide)) as? Value
  }

  /// Returns a value of a type that encodes itself as one string, number or Boolean, from a plain
  /// value: a `URL`, a `UUID`, an enumeration with raw values. Property lists and command lines have
  /// no other form of these.
  private static func composed<Value: Decodable>(
    _ type: Value.Type, _ codec: CodecIdentifier, _ payload: [UInt8]
  ) -> Value? {
    // A plain value is never converted to another plain type.
    guard !plainTypes.contains(ObjectIdentifier(type)) else { return nil }
    func read<Plain: Decodable>(_ type: Plain.Type) -> Plain? {
      try? StandardCoding.decode(type, identifier: codec, bytes: payload, codec: CBORCodec())
    }
    let item: CBORValue? =
      switch codec {
      case .plainText: read(String.self).map(CBORValue.text)
      case .plainDouble: read(Double.self).map(CBORValue.float)
      case .plainBoolean: read(Bool.self).map(CBORValue.boolean)
      case .plainInteger:
        read(UInt64.self).map(CBORValue.unsigned)
          ?? read(Int64.self).map { CBORValue.negative(UInt64(bitPattern: ~$0)) }
      default: nil
      }
    return item.flatMap { try? CBORDecoder().decode(type, from: $0.encoded) }
  }

  private static let plainTypes: Set<ObjectIdentifier> = [
    ObjectIdentifier(String.self), ObjectIdentifier(Bool.self), ObjectIdentifier(Double.self),
    ObjectIdentifier(Float.self), ObjectIdentifier(Int.self), ObjectIdentifier(Int8.self),
    ObjectIdentifier(Int16.self), ObjectIdentifier(Int32.self), ObjectIdentifier(Int64.self),
    ObjectIdentifier(Int128.self), ObjectIdentifier(UInt.self), ObjectIdentifier(UInt8.self),
    ObjectIdentifier(UInt16.self), ObjectIdentifier(UInt32.self), ObjectIdentifier(UInt64.self),
    ObjectIdentifier(UInt128.self), ObjectIdentifier(Date.self), ObjectIdentifier(Data.self),
    ObjectIdentifier([UInt8].self),
  ]
}

/// The stored content of a key.
@usableFromInline
struct DefaultsContent: Sendable, Hashable {
  let codec: UInt16
  let payload: [UInt8]
}
