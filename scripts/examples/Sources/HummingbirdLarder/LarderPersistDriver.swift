// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Hummingbird
import Larder

/// Hummingbird's storage of values across requests, shared by all processes of the machine.
///
/// A value is committed when a method returns, and every process reads it then. Of all callers in all
/// processes that `create` a key, one succeeds. Values are read as any type that decodes them; for other
/// types `get` throws `PersistError.invalidConversion`. A key whose value has expired has none: `create`
/// succeeds, and `set` without an expiration stores a value that never expires.
public struct LarderPersistDriver: PersistDriver {
  /// The namespace of the values.
  public static let namespace = "persist"

  /// Encoded values, because the values of a driver have different types.
  private let values: PersistentCache<String, Data>
  private let codec = CBORCodec()

  /// Creates a driver. The caller closes the store, after the services that use the driver have ended.
  public init(_ store: SharedStore) {
    values = PersistentCache(storage: store, namespace: Self.namespace)
  }

  public func create<Object: Codable & Sendable>(
    key: String, value: Object, expires: Duration?
  ) async throws {
    let data = try encode(value)
    guard try await values.setIfAbsent(data, forKey: key, expires: expiration(expires)) else {
      throw PersistError.duplicate
    }
  }

  public func set<Object: Codable & Sendable>(
    key: String, value: Object, expires: Duration?
  ) async throws {
    let data = try encode(value)
    if let expires {
      try await values.setValue(data, forKey: key, expires: expiration(expires))
    } else {
      // Keeps the expiration of the old value, in one step: no other write comes between.
      try await values.update(forKey: key) { _ in data }
    }
  }

  public func get<Object: Codable & Sendable>(
    key: String, as type: Object.Type
  ) async throws -> Object? {
    try await values.value(forKey: key).map { try decode(type, from: $0) }
  }

  public func getWithTTL<Object: Codable & Sendable>(
    key: String, as type: Object.Type
  ) async throws -> (object: Object, ttl: Duration?)? {
    guard let item = try await values.item(forKey: key) else { return nil }
    let ttl = item.expiration.map { Duration.seconds($0.timeIntervalSinceNow) }
    return (try decode(type, from: item.value), ttl)
  }

  public func remove(key: String) async throws {
    try await values.removeValue(forKey: key)
  }

  /// A value whose lifetime is zero or less has expired from the beginning. For Larder such a lifetime is
  /// an error, and a time in the past is not.
  private func expiration(_ lifetime: Duration?) -> Expiration {
    guard let lifetime else { return .never }
    return lifetime > .zero ? .after(lifetime) : .at(millisecondsSince1970: 0)
  }

  private func encode(_ value: some Encodable) throws -> Data { Data(try codec.encode(value)) }

  private func decode<Object: Decodable>(_ type: Object.Type, from data: Data) throws -> Object {
    do {
      return try codec.decode(type, from: Array(data))
    } catch {
      throw PersistError.invalidConversion
    }
  }
}
