// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

extension PersistentCache {
  /// Returns the value of a key, from a read that contains a commit.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - token: A token of the cache's store; a cache without a store ignores it.
  ///   - timeout: The longest wait for the commit.
  /// - Returns: The value, or `nil` if the key has none.
  /// - Throws: ``/LarderEngine/StoreError``, as `wait(for:timeout:)` of the store and `value(forKey:)`.
  public func value(
    forKey key: Key, atLeast token: CommitToken, timeout: Duration = .seconds(30)
  ) throws -> Value? {
    try storage?.wait(for: token, timeout: timeout)
    return try value(forKey: key)
  }

  /// Returns the value of a key, from a read that contains a commit, and suspends the task until then;
  /// see the synchronous form.
  public func value(
    forKey key: Key, atLeast token: CommitToken, timeout: Duration = .seconds(30)
  ) async throws -> Value? {
    try await storage?.wait(for: token, timeout: timeout)
    return try await value(forKey: key)
  }
}
