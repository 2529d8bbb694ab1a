// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

/// A transaction that reads and writes values of a suite in one commit.
///
/// Reads return the transaction's earlier writes. Other transactions and processes see all of them
/// after the commit, and none before.
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

  /// Returns the value of a key, or its default.
  ///
  /// - Throws: The errors of ``Defaults/value(_:forKey:)``.
  public func value<Value: Codable & Sendable>(of key: DefaultsKey<Value>) throws -> Value {
    guard let stored = try entry(key.name) else { return key.defaultValue }
    return try key.decode(DefaultsEntry(key: key.name, stored: stored))
  }

  /// Stores the value of a key.
  ///
  /// - Throws: The errors of `setValue(_:forKey:)`.
  public mutating func set<Value: Codable & Sendable>(
    _ value: Value, for key: DefaultsKey<Value>
  ) throws {
    if let content = try key.encode(value, key.name) {
      try put(content, key.name)
    } else {
      try removeValue(forKey: key.name)
    }
  }

  /// Removes the value of a key, so that the key has its default.
  ///
  /// - Returns: Whether the key had a value.
  @discardableResult
  public mutating func reset<Value>(_ key: DefaultsKey<Value>) throws -> Bool {
    try removeValue(forKey: key.name)
  }

  /// Changes the value of a key. The closure gets the default if the key has no value.
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

  /// Returns the value of a key, or `nil` if the key has none.
  ///
  /// - Throws: The errors of ``Defaults/value(_:forKey:)``.
  public func value<Value: Decodable>(
    _ type: Value.Type = Value.self, forKey key: String
  ) throws -> Value? {
    try entry(key).map { try Defaults.decode(type, $0, key) }
  }

  /// Stores a value. A `nil` value removes the key.
  ///
  /// - Throws: The errors of `setValue(_:forKey:)`.
  public mutating func setValue<Value: Encodable>(_ value: Value, forKey key: String) throws {
    if let content = try Defaults.content(of: value, key) {
      try put(content, key)
    } else {
      try removeValue(forKey: key)
    }
  }

  /// Removes a key.
  ///
  /// - Returns: Whether the key had a value.
  @discardableResult
  public mutating func removeValue(forKey key: String) throws -> Bool {
    let key = suite.noted(key, nil, try suite.store.openCore("write"))
    return try entries.unset(key, in: suite.space)
  }

  /// Changes a value. In the closure, `nil` is the value of a key without one, and setting `nil`
  /// removes the key.
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

  /// Marks a suite of `UserDefaults` as imported.
  ///
  /// - Returns: `false` if it was marked before.
  mutating func markImport(of name: String) throws -> Bool {
    let imports = DefaultsSuite.importsNamespace
    guard try entries.bytes(forKey: name, in: imports) == nil else { return false }
    try entries.setBytes([1], forKey: name, in: imports)
    return true
  }
}
