// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
public import LarderObjects

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// The values of one type, within a size limit, shared by all processes.
///
/// The methods do not throw, as in NamadaNativefier: they report errors to the store's `onError`
/// and return an empty result. ``throwing`` has the same methods and throws. All methods are
/// thread-safe.
public final class CacheManager<Archive: Archivable>: Sendable {
  /// The same methods with errors.
  public let throwing: ThrowingCacheManager<Archive>

  /// Creates a manager and stores its size limit.
  ///
  /// - Parameters:
  ///   - store: The store of the values. Any number of managers in any number of processes can
  ///     share it.
  ///   - maxSize: The maximum size of all values in bytes, at least 1, or `nil` to keep the stored
  ///     limit, which is unlimited by default.
  /// - Throws: `StoreError` if the limit cannot be stored.
  public init(_ store: ObjectStore, maxSize: Int? = nil) throws {
    throwing = ThrowingCacheManager(store: store)
    if let maxSize { try throwing.setMaxSize(maxSize) }
  }

  private func attempt<R>(_ instead: R, _ body: () throws -> R) -> R {
    do {
      return try body()
    } catch {
      throwing.store.storage.core.report(error)
      return instead
    }
  }

  /// The maximum size of all values in bytes; `Int.max` if unlimited, 0 after an error.
  public var maxSize: Int { attempt(0) { try throwing.maxSize } }

  /// The current size of all values in bytes; 0 after an error.
  public var currentSize: Int { attempt(0) { try throwing.currentSize } }

  /// Returns the time of the last use of a value by any process, or `nil` if it is unknown; see
  /// ``/LarderObjects/ObjectStore/lastUse(of:id:)``.
  public func latestAccessedTime(for key: String) -> Date? {
    attempt(nil) { try throwing.latestAccessedTime(for: key) }
  }

  /// Returns the time when any process last used a value.
  ///
  /// - Parameter archive: The value; only its key is used.
  /// - Returns: The time, or `nil` if the value does not exist or after an error.
  public func latestAccessedTime(for archive: Archive) -> Date? {
    latestAccessedTime(for: archive.primaryKey)
  }

  /// Deletes the values that no process has used for an interval.
  ///
  /// - Parameter interval: The interval in seconds.
  public func removeAllInvalidateObject(invalidateTimeInterval interval: TimeInterval) {
    attempt(()) { _ = try throwing.removeAll(unusedFor: interval) }
  }

  /// Stores a value, replacing the stored value with the same key. Other processes read it when the
  /// call returns.
  ///
  /// - Parameter archive: The value.
  public func insert(_ archive: Archive) { attempt(()) { try throwing.insert(archive) } }

  /// Stores several values in one transaction. After an error none is stored.
  ///
  /// - Parameter archives: The values.
  public func insert(all archives: [Archive]) {
    attempt(()) { try throwing.insert(all: archives) }
  }

  /// Stores a value, replacing the stored value with the same key.
  ///
  /// - Parameter archive: The value.
  public func update(_ archive: Archive) { insert(archive) }

  /// Returns the value of a key.
  ///
  /// - Parameter key: The key.
  /// - Returns: The value, or `nil` if it does not exist or after an error.
  public func get(objectWithKey key: String) -> Archive? {
    attempt(nil) { try throwing.get(objectWithKey: key) }
  }

  /// Returns all values in the order of their first insertion.
  ///
  /// - Returns: The values; empty after an error.
  /// - Complexity: O(*n*).
  public func getAll() -> [Archive] { attempt([]) { try throwing.getAll() } }

  /// Returns the first values in the order of their first insertion.
  ///
  /// - Parameter limit: The maximum number of values.
  /// - Returns: The values; empty after an error.
  public func getAll(limitedBy limit: Int) -> [Archive] {
    attempt([]) { try throwing.getAll(limitedBy: limit) }
  }

  /// Deletes the value of a key.
  ///
  /// - Parameter key: The key.
  public func delete(objectWithKey key: String) {
    attempt(()) { _ = try throwing.delete(objectWithKey: key) }
  }

  /// Deletes a value.
  ///
  /// - Parameter archive: The value; only its key is used.
  public func delete(_ archive: Archive) { delete(objectWithKey: archive.primaryKey) }

  /// Deletes the values of several keys in one transaction. After an error none is deleted.
  ///
  /// - Parameter keys: The keys.
  public func delete(allKeys keys: [String]) {
    attempt(()) { _ = try throwing.delete(allKeys: keys) }
  }

  /// Deletes all values.
  public func clear() { attempt(()) { try throwing.clear() } }

  /// Returns the result of several queries that are applied in order.
  ///
  /// - Parameter queries: The queries.
  /// - Returns: The values; empty after an error.
  public func process(queries: [any QueryCompatible<Archive>]) -> [Archive] {
    attempt([]) { try throwing.process(queries: queries) }
  }

  /// The start of a filter: `findWhere.age(greater(than: 3)).getResults()`, or `findWhere {
  /// $0.age(.greater(than: 3)) }.getResults()`.
  public var findWhere: QueryFinder<Archive> { QueryFinder(self) }

  /// The start of a sort: `allSortedBy.age(.ascending).getResults()`.
  public var allSortedBy: QuerySorter<Archive> { QuerySorter(self) }
}

/// A ``CacheManager`` whose methods throw.
public struct ThrowingCacheManager<Archive: Archivable>: Sendable {
  /// The underlying store, for transactions, observation, and queries by key paths.
  public let store: ObjectStore

  /// The maximum size of all values in bytes; `Int.max` if unlimited.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public var maxSize: Int {
    get throws { try store.usage(of: Archived<Archive>.self).budget.bytes?.bytes ?? .max }
  }

  /// The current size of all values in bytes.
  ///
  /// - Throws: `StoreError` if the store cannot be read.
  public var currentSize: Int {
    get throws { try store.usage(of: Archived<Archive>.self).bytes.bytes }
  }

  /// Changes the maximum size for all processes and evicts values until the rest fits.
  ///
  /// - Parameter bytes: The maximum size in bytes; a number below 1 counts as 1.
  /// - Throws: `StoreError` if the write fails.
  public func setMaxSize(_ bytes: Int) throws {
    try store.setBudget(ObjectBudget(bytes: .bytes(max(bytes, 1))), for: Archived<Archive>.self)
  }

  /// Returns the time when any process last used a value.
  ///
  /// - Parameter key: The key of the value.
  /// - Returns: The time, or `nil` if the value does not exist.
  /// - Throws: `ObjectError` with the code `unreadable` if the value is damaged; `StoreError` if
  ///   the store cannot be read.
  public func latestAccessedTime(for key: String) throws -> Date? {
    try store.lastUse(of: Archived<Archive>.self, id: key).map {
      Date(timeIntervalSince1970: Double($0) / 1000)
    }
  }

  /// Deletes the values that no process has used for an interval, in several transactions.
  ///
  /// - Parameter interval: The interval in seconds; zero or less means all values that no process uses
  ///   at this moment.
  /// - Returns: The number of deleted values.
  /// - Throws: `StoreError` if a write fails; with the code `invalidOption` if the interval is not a number.
  /// - Complexity: O(*n*).
  @discardableResult
  public func removeAll(unusedFor interval: TimeInterval) throws -> Int {
    if interval.isNaN {
      throw StoreError(
        .invalidOption, during: "removeAll",
        "The interval is not a number (NaN). Nothing was removed. Pass seconds.")
    }
    let now = store.storage.core.now
    let milliseconds = Int64(min(max(interval, 0) * 1000, 1e15))
    return try store.deleteUnused(Archived<Archive>.self, since: now - milliseconds)
  }

  /// Stores a value, replacing the stored value with the same key. Other processes read it when the
  /// call returns.
  ///
  /// - Parameter archive: The value.
  /// - Throws: `ObjectError` with the code `tooLarge` if the value exceeds the maximum size, or
  ///   `unencodable` if it cannot be archived; `StoreError` if the commit fails.
  public func insert(_ archive: Archive) throws {
    try store.save(Archived(archive.detached()))
  }

  /// Stores several values in one transaction.
  ///
  /// - Parameter archives: The values.
  /// - Throws: The errors of ``insert(_:)``. After an error none is stored.
  public func insert(all archives: [Archive]) throws {
    try store.save(archives.map { Archived(try $0.detached()) })
  }

  /// Returns the value of a key.
  ///
  /// - Parameter key: The key.
  /// - Returns: The value, or `nil` if it does not exist.
  /// - Throws: `ObjectError` with the code `unreadable` if the value cannot be decoded;
  ///   `StoreError` if the store cannot be read.
  /// - Complexity: O(log *n*).
  public func get(objectWithKey key: String) throws -> Archive? {
    try store.object(Archived<Archive>.self, id: key)?.archive.detached()
  }

  /// Returns all values in the order of their first insertion.
  ///
  /// - Returns: The values. Omits values that cannot be decoded and reports them to the store's
  ///   `onError`.
  /// - Throws: `StoreError` if the store cannot be read.
  /// - Complexity: O(*n*).
  public func getAll() throws -> [Archive] {
    try objects.fetch().map { try $0.archive.detached() }
  }

  /// Returns the first values in the order of their first insertion.
  ///
  /// - Parameter limit: The maximum number of values.
  /// - Returns: The values.
  /// - Throws: `StoreError` if the store cannot be read.
  public func getAll(limitedBy limit: Int) throws -> [Archive] {
    try objects.limit(limit).fetch().map { try $0.archive.detached() }
  }

  /// Deletes the value of a key.
  ///
  /// - Parameter key: The key.
  /// - Returns: Whether the value existed.
  /// - Throws: `StoreError` if the commit fails.
  @discardableResult
  public func delete(objectWithKey key: String) throws -> Bool {
    try store.delete(Archived<Archive>.self, id: key)
  }

  /// Deletes the values of several keys in one transaction.
  ///
  /// - Parameter keys: The keys.
  /// - Returns: The number of values that existed.
  /// - Throws: `StoreError` if the commit fails. After an error none is deleted.
  @discardableResult
  public func delete(allKeys keys: [String]) throws -> Int {
    try store.delete(Archived<Archive>.self, ids: keys)
  }

  /// Deletes all values.
  ///
  /// - Throws: `StoreError` if the commit fails.
  public func clear() throws { try store.deleteAll(Archived<Archive>.self) }

  /// Returns the result of several queries that are applied in order.
  ///
  /// - Parameter queries: The queries.
  /// - Returns: The values.
  /// - Throws: `ObjectError` with the code `invalidPattern` if a regular expression is invalid;
  ///   `StoreError` if the store cannot be read.
  public func process(queries: [any QueryCompatible<Archive>]) throws -> [Archive] {
    // A loop instead of a key path, because the compiler does not support key paths through `any`.
    var steps: [QueryStep<Archive>] = []
    for query in queries { steps += query.steps.list }
    return try QuerySteps(steps).results(in: store)
  }

  /// A query for all values, with the full interface of `Query`.
  public var objects: Query<Archived<Archive>> { store.objects() }
}
