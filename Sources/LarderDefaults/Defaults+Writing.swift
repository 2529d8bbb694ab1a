// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Defaults {
  /// Reads and writes several values in one commit: all of it is seen by everybody, or nothing.
  ///
  /// ```swift
  /// try Defaults.shared.write { values in
  ///   let count: Int = try values.value(forKey: "count") ?? 0
  ///   try values.setValue(count + 1, forKey: "count")
  ///   try values.removeValue(forKey: "old")
  /// }
  /// ```
  ///
  /// The closure runs under the store's writer lock, which all processes wait for: keep it short. An
  /// error thrown in it undoes everything. Reading the suite by other ways inside it gives what was
  /// before; writing it by other ways is ``DefaultsError/Code/nestedWrite``.
  ///
  /// After a `kill -9` all of it is kept, or none of it was ever visible.
  ///
  /// - Throws: What the closure throws; `StoreError`.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout DefaultsTransaction) throws -> R
  ) throws -> R {
    try state.get().write(body)
  }

  /// Changes the value of a key with nobody in between: read, change and write are one transaction.
  ///
  /// ```swift
  /// extension DefaultsKeys {
  ///   static let starts = DefaultsKey<Int>("starts", default: 0)
  /// }
  /// let starts = try Defaults.shared.update(.starts) { $0 += 1 }
  /// ```
  ///
  /// No process loses a step to another, as it may with `defaults[.starts] += 1`. What holds for
  /// the closure of `write(_:)` holds for this one.
  ///
  /// - Returns: The new value.
  /// - Throws: As ``value(_:forKey:)`` and `setValue(_:forKey:)`; what the closure throws. Then
  ///   nothing has changed.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ key: DefaultsKey<Value>, _ change: @escaping @Sendable (inout Value) throws -> Void
  ) throws -> Value {
    try write { try $0.update(key, change) }
  }

  /// Changes a value with nobody in between: read, change and write are one transaction.
  ///
  /// ```swift
  /// let starts = try Defaults.shared.update(Int.self, forKey: "starts") { $0 = ($0 ?? 0) + 1 }
  /// ```
  ///
  /// `nil` is "none", before and after. What holds for the closure of `write(_:)` holds for this
  /// one.
  ///
  /// - Returns: The new value.
  /// - Throws: As ``value(_:forKey:)`` and `setValue(_:forKey:)`; what the closure throws. Then
  ///   nothing has changed.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ type: Value.Type = Value.self, forKey key: String,
    _ change: @escaping @Sendable (inout Value?) throws -> Void
  ) throws -> Value? {
    if Mutant.defaultsUpdateUnlocked.isActive {
      let early = try value(type, forKey: key)
      return try write { values in
        var value = early
        try change(&value)
        try values.setValue(value, forKey: key)
        return value
      }
    }
    return try write { try $0.update(type, forKey: key, change) }
  }
}

// MARK: For asynchronous callers

// A durable commit takes as long as the disk. The store's own thread waits for it, so that no thread
// of Swift's pool is blocked. Reading needs no such form: it never waits for writers.
extension Defaults {
  /// Stores a value without blocking the calling thread; it is on the disk when the call returns.
  ///
  /// - Throws: ``DefaultsError/Code/notEncodable``; `StoreError`.
  public func setValue<Value: Codable & Sendable>(
    _ value: Value, forKey key: String
  ) async throws {
    if let content = try Self.content(of: value, key) {
      try await state.get().put(content, key)
    } else {
      try await removeValue(forKey: key)
    }
  }

  /// Removes a key for everybody, without blocking the calling thread.
  ///
  /// - Returns: Whether there was a value.
  @discardableResult
  public func removeValue(forKey key: String) async throws -> Bool {
    try await state.get().remove(key)
  }

  /// Stores the value of a key without blocking the calling thread.
  ///
  /// - Throws: As `setValue(_:forKey:)`.
  public func set<Value: Codable & Sendable>(
    _ value: Value, for key: DefaultsKey<Value>
  ) async throws {
    if let content = try key.encode(value, key.name) {
      try await state.get().put(content, key.name)
    } else {
      try await removeValue(forKey: key.name)
    }
  }

  /// Removes the value of a key, so that it has its default again, without blocking the calling
  /// thread.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func reset<Value>(_ key: DefaultsKey<Value>) async throws -> Bool {
    try await removeValue(forKey: key.name)
  }

  /// Reads and writes several values in one commit, on the store's own thread.
  ///
  /// - Throws: What the closure throws; `StoreError`.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout DefaultsTransaction) throws -> R
  ) async throws -> R {
    try await state.get().write(body)
  }

  /// Changes the value of a key with nobody in between, on the store's own thread.
  ///
  /// - Returns: The new value.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ key: DefaultsKey<Value>, _ change: @escaping @Sendable (inout Value) throws -> Void
  ) async throws -> Value {
    try await write { try $0.update(key, change) }
  }

  /// Changes a value with nobody in between, on the store's own thread.
  ///
  /// - Returns: The new value; `nil`: there is none.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ type: Value.Type = Value.self, forKey key: String,
    _ change: @escaping @Sendable (inout Value?) throws -> Void
  ) async throws -> Value? {
    try await write { try $0.update(type, forKey: key, change) }
  }
}
