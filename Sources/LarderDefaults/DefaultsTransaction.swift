// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

/// Values of a suite that are read and written in one commit.
///
/// It sees what it has written itself, and nobody else sees any of it before all of it.
public struct DefaultsTransaction: ~Copyable {
  private var entries: StoreTransaction
  private let suite: DefaultsStore

  private init(entries: consuming StoreTransaction, suite: DefaultsStore) {
    self.entries = entries
    self.suite = suite
  }

  static func run<R>(
    _ body: (inout DefaultsTransaction) throws -> R, in entries: inout StoreTransaction,
    of suite: DefaultsStore
  ) throws -> R {
    var transaction = DefaultsTransaction(entries: entries, suite: suite)
    let result = Result { try body(&transaction) }
    entries = transaction.entries
    return try result.get()
  }

  // MARK: Typed keys

  /// The value of a key, or its default.
  ///
  /// - Throws: As ``Defaults/value(_:forKey:)``.
  public func value<Value: Codable & Sendable>(of key: DefaultsKey<Value>) throws -> Value {
    guard let stored = try entry(key.name) else { return key.defaultValue }
    return try key.decode(DefaultsEntry(key: key.name, stored: stored))
  }

  /// Stores the value of a key.
  ///
  /// - Throws: As `setValue(_:forKey:)`.
  public mutating func set<Value: Codable & Sendable>(
    _ value: Value, for key: DefaultsKey<Value>
  ) throws {
    if let content = try key.encode(value, key.name) {
      try put(content, key.name)
    } else {
      try removeValue(forKey: key.name)
    }
  }

  /// Removes the value of a key, so that it has its default again.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public mutating func reset<Value>(_ key: DefaultsKey<Value>) throws -> Bool {
    try removeValue(forKey: key.name)
  }

  /// Changes the value of a key, beginning with its default where there is none.
  ///
  /// - Returns: The new value.
  @discardableResult
  public mutating func update<Value: Codable & Sendable>(
    _ key: DefaultsKey<Value>, _ change: (inout Value) throws -> Void
  ) throws -> Value {
    var value = try value(of: key)
    try change(&value)
    try set(value, for: key)
    return value
  }

  // MARK: Keys by their names

  /// The value of a key, or `nil` when there is none.
  ///
  /// - Throws: As ``Defaults/value(_:forKey:)``.
  public func value<Value: Decodable>(
    _ type: Value.Type = Value.self, forKey key: String
  ) throws -> Value? {
    try entry(key).map { try Defaults.decode(type, $0, key) }
  }

  /// Stores a value; one that is `nil` removes the key.
  ///
  /// - Throws: As `setValue(_:forKey:)`.
  public mutating func setValue<Value: Encodable>(_ value: Value, forKey key: String) throws {
    if let content = try Defaults.content(of: value, key) {
      try put(content, key)
    } else {
      try removeValue(forKey: key)
    }
  }

  /// Removes a key.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public mutating func removeValue(forKey key: String) throws -> Bool {
    let key = suite.noted(key, nil, try suite.store.openCore("write"))
    return try entries.unset(key, in: suite.space)
  }

  /// Changes a value; `nil` is "none", before and after.
  ///
  /// - Returns: The new value.
  @discardableResult
  public mutating func update<Value: Codable>(
    _ type: Value.Type = Value.self, forKey key: String,
    _ change: (inout Value?) throws -> Void
  ) throws -> Value? {
    var value = try value(type, forKey: key)
    try change(&value)
    if let value {
      try setValue(value, forKey: key)
    } else {
      try removeValue(forKey: key)
    }
    return value
  }

  // MARK: Parts

  func entry(_ key: String) throws -> StoredValue? {
    try entries.value(forKey: EncodedKey(key), in: suite.space)
  }

  mutating func put(_ content: DefaultsContent, _ key: String) throws {
    let key = suite.noted(key, content, try suite.store.openCore("write"))
    let entry = DefaultsStore.content(content, key, entries.now)
    try entries.set(entry, forKey: key, in: suite.space)
  }

  /// Marks a suite of `UserDefaults` as brought over.
  ///
  /// - Returns: Whether it was not.
  mutating func markImport(of name: String) throws -> Bool {
    let imports = DefaultsSuite.importsNamespace
    guard try entries.bytes(forKey: name, in: imports) == nil else { return false }
    try entries.setBytes([1], forKey: name, in: imports)
    return true
  }
}
