// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

extension Defaults {
  /// Reads and writes several values in one commit: every process sees all of it, or nothing.
  ///
  /// ```swift
  /// try Defaults.shared.write { values in
  ///   let count: Int = try values.value(forKey: "count") ?? 0
  ///   try values.setValue(count + 1, forKey: "count")
  ///   try values.removeValue(forKey: "old")
  /// }
  /// ```
  ///
  /// The closure runs under the store's writer lock, for which writers of all processes wait: keep
  /// it short. If it throws, nothing changes. Inside the closure, reads of the suite other than
  /// through its argument return the values from before the transaction, and other writes of the
  /// suite throw ``DefaultsError/Code/nestedWrite``. It may write to another suite. If the closure of that
  /// one writes to this one at the same time, one of the two writes throws a `StoreError` with the code
  /// `crossingWrites` at once; between processes, the writes wait for each other until a time limit.
  ///
  /// If the process is killed, either all changes are kept or none was ever visible.
  ///
  /// - Parameter body: A closure that reads and changes values through its argument.
  /// - Returns: The result of `body`.
  /// - Throws: The error of `body`; `StoreError`.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout DefaultsTransaction) throws -> R
  ) throws -> R {
    try state.get().write(body)
  }

  /// Changes the value of a key in one transaction: no other write occurs between the read and the
  /// write.
  ///
  /// ```swift
  /// extension DefaultsKeys {
  ///   static let starts = DefaultsKey<Int>("starts", default: 0)
  /// }
  /// let starts = try Defaults.shared.update(.starts) { $0 += 1 }
  /// ```
  ///
  /// Concurrent updates of several processes all take effect, unlike `defaults[.starts] += 1`. The
  /// rules for the closure of `write(_:)` apply.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - change: A closure that changes the value.
  /// - Returns: The new value.
  /// - Throws: The errors of ``value(_:forKey:)`` and `setValue(_:forKey:)`, and of the closure;
  ///   nothing changes in that case.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ key: DefaultsKey<Value>, _ change: @escaping @Sendable (inout Value) throws -> Void
  ) throws -> Value {
    try write { try $0.update(key, change) }
  }

  /// Changes a value in one transaction: no other write occurs between the read and the write.
  ///
  /// ```swift
  /// let starts = try Defaults.shared.update(Int.self, forKey: "starts") { $0 = ($0 ?? 0) + 1 }
  /// ```
  ///
  /// In the closure, `nil` is the value of a key without one, and setting `nil` removes the key. The
  /// rules for the closure of `write(_:)` apply.
  ///
  /// - Parameters:
  ///   - type: The type of the value.
  ///   - key: The key.
  ///   - change: A closure that changes the value.
  /// - Returns: The new value.
  /// - Throws: The errors of ``value(_:forKey:)`` and `setValue(_:forKey:)`, and of the closure;
  ///   nothing changes in that case.
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

// MARK: Asynchronous writes

// A durable commit waits for the disk. The store's thread waits, so that no thread of Swift's
// cooperative pool is blocked. Reads have no asynchronous form: they never wait for writers.
extension Defaults {
  /// Stores a value without blocking the calling thread. When the call returns, the value is on
  /// disk and visible to every process.
  ///
  /// - Throws: ``DefaultsError/Code/notEncodable``; `StoreError`.
  public func setValue<Value: Codable & Sendable>(
    _ value: Value, forKey key: String
  ) async throws {
    try await state.get().set(key) { try Self.content(of: value, key) }
  }

  /// Removes a key, for every process, without blocking the calling thread.
  ///
  /// - Returns: Whether the key had a value.
  @discardableResult
  public func removeValue(forKey key: String) async throws -> Bool {
    try await state.get().remove(key)
  }

  /// Stores the value of a key without blocking the calling thread.
  ///
  /// - Throws: The errors of `setValue(_:forKey:)`.
  public func set<Value: Codable & Sendable>(
    _ value: Value, for key: DefaultsKey<Value>
  ) async throws {
    try await state.get().set(key.name) { try key.encode(value, key.name) }
  }

  /// Removes the value of a key, so that the key has its default, without blocking the calling
  /// thread.
  ///
  /// - Returns: Whether the key had a value.
  @discardableResult
  public func reset<Value>(_ key: DefaultsKey<Value>) async throws -> Bool {
    try await removeValue(forKey: key.name)
  }

  /// Reads and writes several values in one commit, on the store's thread.
  ///
  /// - Throws: The error of the closure; `StoreError`.
  public func write<R: Sendable>(
    _ body: @escaping @Sendable (inout DefaultsTransaction) throws -> R
  ) async throws -> R {
    try await state.get().write(body)
  }

  /// Changes the value of a key in one transaction, on the store's thread.
  ///
  /// - Returns: The new value.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ key: DefaultsKey<Value>, _ change: @escaping @Sendable (inout Value) throws -> Void
  ) async throws -> Value {
    try await write { try $0.update(key, change) }
  }

  /// Changes a value in one transaction, on the store's thread.
  ///
  /// - Returns: The new value, or `nil` if the key has none.
  @discardableResult
  public func update<Value: Codable & Sendable>(
    _ type: Value.Type = Value.self, forKey key: String,
    _ change: @escaping @Sendable (inout Value?) throws -> Void
  ) async throws -> Value? {
    try await write { try $0.update(type, forKey: key, change) }
  }
}
