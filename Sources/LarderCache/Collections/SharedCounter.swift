// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

/// A counter with a name, which all processes of the machine share and which is never evicted.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let visits = SharedCounter(storage: store, name: "visits")
/// print(try visits.increment())
/// ```
///
/// No change of any process is lost, and a value that a method returns is committed. The counter is a
/// pinned entry of the namespace `counter`, whose key is the name. For many counters, or some that
/// expire, use `increment(forKey:by:)` of a ``PersistentCache``.
public struct SharedCounter: Sendable {
  private let cache: PersistentCache<String, Int64>
  /// The name.
  public let name: String

  /// Creates a handle of the counter with a name. A new counter is zero.
  ///
  /// - Parameters:
  ///   - storage: The store.
  ///   - name: The name.
  public init(storage: SharedStore, name: String) {
    cache = PersistentCache(storage: storage, namespace: "counter")
    self.name = name
  }

  /// Returns the value: that of the newest commit of any process which was acknowledged before the call.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: O(1) if the process has read the value since its last change, otherwise O(log *n*).
  public func value() throws -> Int64 { try cache.value(forKey: name) ?? 0 }

  /// Adds a number.
  ///
  /// - Parameter amount: The number, which may be negative.
  /// - Returns: The new value.
  /// - Throws: ``/LarderEngine/StoreError``, with ``/LarderEngine/StoreError/Code/overflow`` if the sum
  ///   exceeds the range of `Int64`: the counter is unchanged then.
  /// - Complexity: O(log *n*). Calls of several threads and tasks are committed together.
  @discardableResult
  public func increment(by amount: Int64 = 1) throws -> Int64 {
    try cache.increment(forKey: name, by: amount, pinned: true)
  }

  /// Adds a number, without blocking a thread of Swift's pool; see the synchronous form.
  @discardableResult
  public func increment(by amount: Int64 = 1) async throws -> Int64 {
    try await cache.increment(forKey: name, by: amount, pinned: true)
  }

  /// Sets the value.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  public func set(_ value: Int64) throws { try cache.setValue(value, forKey: name, pinned: true) }

  /// Sets the value, without blocking a thread of Swift's pool; see the synchronous form.
  public func set(_ value: Int64) async throws {
    try await cache.setValue(value, forKey: name, pinned: true)
  }
}
