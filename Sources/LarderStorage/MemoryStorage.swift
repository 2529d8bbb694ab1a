// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Synchronization

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A thread-safe dictionary with optional bounds.
///
/// ```swift
/// let memory = MemoryStorage<String, Data>(countLimit: 500)
/// try await memory.set(data, forKey: "a")
/// ```
///
/// If the values exceed a bound, values that were not read recently are evicted (the clock algorithm:
/// one bit per value, and no list). Values may expire.
///
/// - Complexity: O(1) for each operation on a key.
public final class MemoryStorage<Key: Hashable & Sendable, Value: Sendable>: SynchronousStorage {
  @usableFromInline let state: MemoryState<Key, Value>
  private let turns = StripedLock()
  private let now: @Sendable () -> Date
  private let cost: (@Sendable (Value) -> Int)?

  /// Creates a storage.
  ///
  /// - Parameters:
  ///   - storage: The initial values.
  ///   - countLimit: The maximum number of values.
  ///   - costLimit: The maximum sum of the costs of all values.
  ///   - cost: A closure that returns the cost of a value, for example its bytes.
  ///   - now: The clock of expiration times.
  public init(
    storage: [Key: Value] = [:], countLimit: Int = .max, costLimit: Int = .max,
    cost: (@Sendable (Value) -> Int)? = nil, now: @escaping @Sendable () -> Date = { Date() }
  ) {
    state = MemoryState(countLimit: max(countLimit, 0), costLimit: max(costLimit, 0))
    self.cost = cost
    self.now = now
    for (key, value) in storage { put(key, value, expires: nil) }
  }

  /// The value of a key, or `nil`.
  @inlinable
  public func value(forKey key: Key) throws -> Value? { read(key) }

  /// The value of a key, or `nil`.
  @inlinable
  public func value(forKey key: Key) async throws -> Value? { read(key) }

  /// Stores a value.
  public func set(_ value: Value, forKey key: Key) async throws {
    try write(StorageWrite(key: key, value: value))
  }

  @inlinable
  func read(_ key: Key) -> Value? {
    state.read(key) { [self] deadline in isExpired(deadline) }
  }

  @usableFromInline
  func isExpired(_ deadline: Double) -> Bool {
    // A deadline that is not a number has passed.
    !(now().timeIntervalSinceReferenceDate < deadline)
  }

  /// Stores a value.
  ///
  /// - Throws: ``StorageError/Code/recursiveUpdate`` inside an update of the storage.
  public func set(_ value: Value, forKey key: Key) throws {
    try write(StorageWrite(key: key, value: value))
  }

  /// Removes a key. It has no effect if the key has no value.
  public func remove(forKey key: Key) throws {
    if state.removeUnlessUpdating(key) { return }
    try turns.take(StripedLock.hash(key)) { state.remove(key) }
  }

  /// Removes every key.
  public func removeAll() throws {
    if state.removeAllUnlessUpdating() { return }
    try turns.withAllLocks { state.removeAll() }
  }

  /// The keys there are.
  public func keys() throws -> [Key] {
    let time = now().timeIntervalSinceReferenceDate
    return state.all.filter { time < $0.deadline }.map(\.key)
  }

  /// Whether there is a value for a key.
  public func contains(_ key: Key) throws -> Bool { read(key) != nil }

  /// The current contents.
  public var storage: [Key: Value] {
    let time = now().timeIntervalSinceReferenceDate
    return Dictionary(
      state.all.filter { time < $0.deadline }.map { ($0.key, $0.value) }
    ) { $1 }
  }

  // MARK: Parts

  private func put(_ key: Key, _ value: Value, expires: Date?) {
    state.put(
      MemoryEntry(
        key: key, value: value, deadline: expires?.timeIntervalSinceReferenceDate ?? .infinity,
        cost: cost?(value) ?? 0))
  }

  @usableFromInline
  func write(_ item: StorageWrite<Key, Value>) throws {
    let entry = MemoryEntry(
      key: item.key, value: item.value,
      deadline: item.expires?.timeIntervalSinceReferenceDate ?? .infinity,
      cost: cost?(item.value) ?? 0)
    if state.putUnlessUpdating(entry) { return }
    try turns.take(StripedLock.hash(item.key)) { state.put(entry) }
  }

  @usableFromInline
  func update(_ update: StorageUpdate<Key, Value>) throws -> StorageEntry<Value>? {
    try turns.take(StripedLock.hash(update.key)) {
      // From here on, writers of this key wait for the lock.
      state.beginUpdate()
      defer { state.endUpdate() }
      let entry = try update.applied { self.entry(update.key) }
      if let entry {
        put(update.key, entry.value, expires: entry.expires)
      } else {
        state.remove(update.key)
      }
      return entry
    }
  }

  @usableFromInline
  func entry(_ key: Key) -> StorageEntry<Value>? {
    guard let found = state.entry(key), !isExpired(found.deadline) else { return nil }
    return StorageEntry(
      found.value,
      expires: found.deadline == .infinity
        ? nil : Date(timeIntervalSinceReferenceDate: found.deadline))
  }

  @usableFromInline
  func beginConditionalFill(_ key: Key) -> ConditionalFill<Value> {
    let stamp = state.stamp(key)
    return ConditionalFill(
      commit: StorageOperation { [self] entry in
        state.fill(
          MemoryEntry(
            key: key, value: entry.value,
            deadline: entry.expires?.timeIntervalSinceReferenceDate ?? .infinity,
            cost: cost?(entry.value) ?? 0), ifStill: stamp)
      })
  }

  @inlinable
  public var operations: StorageOperations<Key, Value> {
    var result = StorageOperations<Key, Value>(
      read: StorageOperation { [self] in read($0) },
      write: StorageOperation { [self] in try write($0) })
    result.remove = StorageOperation { [self] in try remove(forKey: $0) }
    result.removeAll = StorageOperation { [self] _ in try removeAll() }
    result.keys = StorageOperation { [self] _ in try keys() }
    result.contains = StorageOperation { [self] in read($0) != nil }
    result.entry = StorageOperation { [self] in entry($0) }
    // It may wait for another's update.
    result.update = .blocking { [self] in try update($0) }
    result.fill = StorageOperation { [self] in beginConditionalFill($0) }
    result.supportsExpiration = true
    return result
  }
}
