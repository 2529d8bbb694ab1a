// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// Removal by tag and by age, and keys that are known to have no value.
extension PersistentCache {
  /// Removes every value of the cache's namespace that was stored with a tag, for all processes.
  ///
  /// ```swift
  /// try pages.setValue(html, forKey: "/user/7", tags: ["user:7", "team:3"])
  /// try pages.removeAll(tagged: "team:3")
  /// ```
  ///
  /// No process reads such a value after the call, from memory neither. A value that was being computed
  /// with the tag in the meantime is returned to its callers, but not stored. A value that is stored with
  /// the tag afterwards is not affected. The thread of a process that has written to the store deletes
  /// the data later; until then it counts against the budget.
  ///
  /// - Parameter tag: The tag, 1 to 250 bytes of UTF-8.
  /// - Throws: ``/LarderEngine/StoreError``, with ``/LarderEngine/StoreError/Code/invalidOption`` for a
  ///   tag of another length; with the code `unsupportedByStorage` over a ``CacheStorage``.
  /// - Complexity: One small write, whatever the number of values; O(*n*) in a cache in memory only.
  public func removeAll(tagged tag: String) throws { try backend.removeAll(tagged: tag) }

  /// Removes every value of the cache's namespace that was stored with a tag, without blocking a thread
  /// of Swift's pool; see the synchronous form.
  public func removeAll(tagged tag: String) async throws {
    try await backend.removeAllAsync(tagged: tag)
  }

  /// Records that a key is known to have no value, for all processes. The record is committed when the
  /// call returns.
  ///
  /// ```swift
  /// try users.setAbsent(forKey: 7, expires: .after(.seconds(30)))
  /// ```
  ///
  /// Reads of the key return `nil`; ``state(forKey:)`` tells it from a key of which nothing is known.
  /// Negative entries have at most an eighth of each budget: if others must make room and none is found
  /// in a sample, the key's value is removed and nothing is recorded.
  ///
  /// - Parameters:
  ///   - key: The key, whose value is removed.
  ///   - expires: The time from which nothing is known of the key.
  ///   - tags: The tags by which ``removeAll(tagged:)`` removes the record.
  /// - Throws: ``/LarderEngine/StoreError``; with the code `unsupportedByStorage` without a store.
  public func setAbsent(forKey key: Key, expires: Expiration, tags: [String] = []) throws {
    _ = try backend.write(
      nil, for: key, EntryAttributes(expires, tags: tags, isAbsent: true))
  }

  /// Records that a key is known to have no value, without blocking a thread of Swift's pool; see the
  /// synchronous form.
  public func setAbsent(
    forKey key: Key, expires: Expiration, tags: [String] = []
  ) async throws {
    _ = try await backend.writeAsync(
      nil, for: key, EntryAttributes(expires, tags: tags, isAbsent: true))
  }

  /// Returns what is known of a key: its value, that it has none, or nothing.
  ///
  /// It is at least as new as the last commit that any process acknowledged before the call. That a key
  /// has no value is not kept in memory: each such call reads the store.
  ///
  /// - Throws: ``/LarderEngine/StoreError``, as `value(forKey:)`.
  public func state(forKey key: Key) throws -> KeyState<Value> {
    if let value = tier.validValue(key) { return .value(value) }
    return try backend.state(key).map(\.value)
  }

  /// Returns what is known of a key, in an asynchronous context; see the synchronous form. It suspends only
  /// for the answer of a remote server.
  public func state(forKey key: Key) async throws -> KeyState<Value> {
    if let value = tier.validValue(key) { return .value(value) }
    return try await backend.stateAsync(key).map(\.value)
  }

  // MARK: Uses

  /// Returns the time at which any process last read or wrote the value of a key.
  ///
  /// Reads record their time in shared memory, in steps of about 16 seconds, and not in the database:
  /// after a crash of the system, or if the shared memory has no room for the key, the time is that of
  /// the write.
  ///
  /// - Returns: The time, or `nil` if the key has no value.
  /// - Throws: ``/LarderEngine/StoreError``; with the code `unsupportedByStorage` without a store.
  public func lastUse(forKey key: Key) throws -> Date? {
    let (core, space) = try store("lastUse")
    return try core.lastUse(of: EncodedKey(key), in: space).map {
      Date(timeIntervalSince1970: Double($0) / 1000)
    }
  }

  /// Removes the values of the cache's namespace that no process has read or written since a date, for
  /// all processes. Pinned values stay.
  ///
  /// The times are those of ``lastUse(forKey:)``. A value that was used after the date is never removed.
  ///
  /// - Parameter date: The date. The distant past removes nothing, and the distant future all that is not
  ///   pinned.
  /// - Returns: The number of removed values, negative entries included.
  /// - Throws: ``/LarderEngine/StoreError``; with the code `unsupportedByStorage` without a store, and
  ///   `invalidOption` for a date that is not a number.
  /// - Complexity: O(*n*) in the entries of the store, in bounded transactions.
  @discardableResult
  public func removeUnused(since date: Date) throws -> Int {
    let (core, space) = try store("removeUnused")
    return try core.removeUnused(
      in: space, since: SharedStore.milliseconds(of: date, "removeUnused"))
  }

  /// Removes the values that no process has read or written since a date, without blocking a thread of
  /// Swift's pool; see the synchronous form.
  @discardableResult
  public func removeUnused(since date: Date) async throws -> Int {
    try await BlockingWork.run { try self.removeUnused(since: date) }
  }

  private func store(
    _ operation: String
  ) throws -> (core: StoreCore, space: NamespaceHandle) {
    guard let backend = backend.transactional else {
      throw StoreError.unsupported(operation, "Uses are recorded by stores only.")
    }
    return try backend.open(operation)
  }
}
