// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
internal import LarderCoding
internal import LarderEngine
internal import LarderSystem
public import Synchronization

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

extension Defaults {
  /// The value of a key, or `nil` when there is none.
  ///
  /// It is the newest any process has committed. A `Float` is read from a stored `Double` and a
  /// `Double` from a number of any kind, when nothing of it is lost; integers are read as each
  /// other.
  ///
  /// - Throws: ``DefaultsError/Code/typeMismatch`` when what is there is of another type: it stays
  ///   there. ``DefaultsError/Code/unreadable`` when it is damaged; `StoreError`.
  @inlinable
  public func value<Value: Codable & Sendable>(
    _ type: Value.Type = Value.self, forKey key: String
  ) throws -> Value? {
    if accessTrackers.load(ordering: .relaxed) != 0 { noteRead(of: key) }
    let tier = tiers.tier(of: Value.self)
    if let value = tier.hit(DefaultsName(key)) { return value }
    return try load(key, tier)
  }

  /// Stores a value. When the call returns it is on the disk and the next read in any process sees
  /// it.
  ///
  /// A value that is `nil` removes the key. What was there before is replaced, of whatever type it
  /// was.
  ///
  /// - Throws: ``DefaultsError/Code/notEncodable``; `StoreError`.
  public func setValue<Value: Codable & Sendable>(_ value: Value, forKey key: String) throws {
    try encode(value, forKey: key)
  }

  /// Removes a key for everybody.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue(forKey key: String) throws -> Bool { try state.get().remove(key) }

  /// Changes a value with nobody in between: read, change and write are one transaction.
  ///
  /// ```swift
  /// let starts = try Defaults.shared.update(Int.self, forKey: "starts") { $0 = ($0 ?? 0) + 1 }
  /// ```
  ///
  /// The closure runs under the store's writer lock: keep it short, and write nothing to the same
  /// suite in it (that is a trap). `nil` is "none", before and after.
  ///
  /// - Returns: The new value.
  /// - Throws: As ``value(_:forKey:)`` and ``setValue(_:forKey:)``; what the closure throws. Then
  ///   nothing has changed.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ type: Value.Type = Value.self, forKey key: String,
    _ change: @escaping @Sendable (inout Value?) throws -> Void
  ) throws -> Value? {
    let suite = try state.get()
    let encoded = EncodedKey(key)
    let early = Mutant.defaultsUpdateUnlocked.isActive ? try suite.entry(key) : nil
    return try suite.store.write { transaction in
      let stored = try early ?? transaction.value(forKey: encoded, in: suite.space)
      var value = try stored.map { try Self.decode(Value.self, $0, key) }
      try change(&value)
      if let value, case let (codec, payload) = try Self.encoded(value, key),
        !Self.isNull(codec, payload)
      {
        let content = DefaultsStore.content(codec, payload, encoded, transaction.now)
        try transaction.set(content, forKey: encoded, in: suite.space)
      } else if stored != nil {
        _ = try transaction.unset(encoded, in: suite.space)
      }
      return value
    }
  }

  /// The value of a key; where there is none, `initial` is stored and returned.
  ///
  /// Processes that do this at the same time all get the one value that was stored.
  ///
  /// - Throws: As ``value(_:forKey:)`` and ``setValue(_:forKey:)``.
  public func value<Value: Codable & Sendable>(
    forKey key: String, storing initial: Value
  ) throws -> Value {
    if let value = try value(Value.self, forKey: key) { return value }
    return try update(Value.self, forKey: key) { if $0 == nil { $0 = initial } } ?? initial
  }

  // MARK: Types that are not Sendable

  /// The value of a key decoded anew, for types that must not be shared among threads.
  ///
  /// - Throws: As ``value(_:forKey:)``.
  public func decode<Value: Decodable>(_ type: Value.Type, forKey key: String) throws -> Value? {
    if accessTrackers.load(ordering: .relaxed) != 0 { noteRead(of: key) }
    return try state.get().entry(key).map { try Self.decode(type, $0, key) }
  }

  /// Stores a value of any type that can be encoded.
  ///
  /// - Throws: As ``setValue(_:forKey:)``.
  public func encode<Value: Encodable>(_ value: Value, forKey key: String) throws {
    let (codec, payload) = try Self.encoded(value, key)
    if Self.isNull(codec, payload) {
      try removeValue(forKey: key)
    } else {
      try state.get().put(codec: codec, payload: payload, key)
    }
  }

  // MARK: Parts

  /// Whether it is the null of CBOR: an Optional that is nil.
  private static func isNull(_ codec: UInt16, _ payload: [UInt8]) -> Bool {
    codec == CodecIdentifier.cbor.rawValue && payload == [0xF6]
  }

  @usableFromInline
  func load<Value: Codable & Sendable>(
    _ key: String, _ tier: DefaultsTier<Value>
  ) throws -> Value? {
    let lookup = try state.get().lookup(key)
    switch lookup.outcome {
    case .found(let stored):
      let value = try Self.decode(Value.self, stored, key)
      tier.file(
        value, forKey: DefaultsName(filed: key), seal: lookup.seal, label: stored.label,
        expires: stored.expires,
        cost: stored.payload.count + EntryHeader.size, storeHash: lookup.hash,
        table: lookup.generation.table)
      return value
    case .absent, .unchanged:
      tier.file(
        nil, forKey: DefaultsName(filed: key), seal: lookup.seal, label: 0, expires: .max,
        cost: EntryHeader.size, storeHash: lookup.hash, table: lookup.generation.table)
      return nil
    case .unreadable(let text): throw DefaultsStore.unreadable(text, key)
    }
  }

  static func encoded<Value: Encodable>(
    _ value: Value, _ key: String
  ) throws -> (codec: UInt16, payload: [UInt8]) {
    do {
      let (codec, payload) = try StandardCoding.encode(value, codec: CBORCodec())
      return (codec.rawValue, payload)
    } catch {
      throw DefaultsError(
        .notEncodable, key: key,
        "The value refused to be encoded (\(error.message)). The old value is still there.",
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
      let isDamage = error.code == .malformed || error.code == .tooDeep
      throw DefaultsError(
        isDamage ? .unreadable : .typeMismatch, key: key,
        "What is stored cannot be read as \(type): \(error.message) Nothing was changed.",
        underlyingError: error)
    }
  }

  /// A number stored as one of another kind, if nothing of it is lost. Property lists know one kind
  /// with a point, and write whole ones without.
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
}
