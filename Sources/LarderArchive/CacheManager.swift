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

/// The values of one type, within a bound, for all processes together.
///
/// Nothing here throws, as it was in NamadaNativefier: what goes wrong is told to the store's
/// `onError`, and the call answers as if nothing were there. ``throwing`` has the same methods, and
/// they say what went wrong.
public final class CacheManager<Archive: Archivable>: Sendable {
  /// The same methods, with errors.
  public let throwing: ThrowingCacheManager<Archive>

  /// - Parameters:
  ///   - store: Where the values are; any number of managers may share it, in any number of processes.
  ///   - maxSize: The most that is kept, in bytes; `nil`: what is in force, or no limit.
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

  /// The most that is kept, in bytes; `Int.max`: no limit.
  public var maxSize: Int { attempt(0) { try throwing.maxSize } }

  /// What is kept, in bytes.
  public var currentSize: Int { attempt(0) { try throwing.currentSize } }

  /// When a value was last used, by any process; see ``/LarderObjects/ObjectStore/lastUse(of:id:)``.
  public func latestAccessedTime(for key: String) -> Date? {
    attempt(nil) { try throwing.latestAccessedTime(for: key) }
  }

  /// When a value was last used, by any process.
  public func latestAccessedTime(for archive: Archive) -> Date? {
    latestAccessedTime(for: archive.primaryKey)
  }

  /// Deletes what nobody has used for so many seconds.
  public func removeAllInvalidateObject(invalidateTimeInterval interval: TimeInterval) {
    attempt(()) { _ = try throwing.removeAll(unusedFor: interval) }
  }

  /// Stores a value, replacing the one of its key.
  public func insert(_ archive: Archive) { attempt(()) { try throwing.insert(archive) } }

  /// Stores values, all or none.
  public func insert(all archives: [Archive]) {
    attempt(()) { try throwing.insert(all: archives) }
  }

  /// Stores a value, replacing the one of its key.
  public func update(_ archive: Archive) { insert(archive) }

  /// The value of a key.
  public func get(objectWithKey key: String) -> Archive? {
    attempt(nil) { try throwing.get(objectWithKey: key) }
  }

  /// All values, in the order they were first stored in.
  public func getAll() -> [Archive] { attempt([]) { try throwing.getAll() } }

  /// The first values, at most so many.
  public func getAll(limitedBy limit: Int) -> [Archive] {
    attempt([]) { try throwing.getAll(limitedBy: limit) }
  }

  /// Deletes the value of a key.
  public func delete(objectWithKey key: String) {
    attempt(()) { _ = try throwing.delete(objectWithKey: key) }
  }

  /// Deletes a value.
  public func delete(_ archive: Archive) { delete(objectWithKey: archive.primaryKey) }

  /// Deletes everything.
  public func clear() { attempt(()) { try throwing.clear() } }

  /// What queries give, one after the other.
  public func process(queries: [any QueryCompatible<Archive>]) -> [Archive] {
    attempt([]) { try throwing.process(queries: queries) }
  }

  /// The beginning of a query: `findWhere.age(greater(than: 3)).getResults()`, or
  /// `findWhere { $0.age(.greater(than: 3)) }.getResults()`.
  public var findWhere: QueryFinder<Archive> { QueryFinder(self) }

  /// The beginning of a query: `allSortedBy.age(.ascending).getResults()`.
  public var allSortedBy: QuerySorter<Archive> { QuerySorter(self) }
}

/// A ``CacheManager`` that says what goes wrong.
public struct ThrowingCacheManager<Archive: Archivable>: Sendable {
  /// The store below: for transactions, observation, and queries by key paths.
  public let store: ObjectStore

  /// The most that is kept, in bytes; `Int.max`: no limit.
  public var maxSize: Int {
    get throws { try store.usage(of: Archived<Archive>.self).budget.bytes?.bytes ?? .max }
  }

  /// What is kept, in bytes.
  public var currentSize: Int {
    get throws { try store.usage(of: Archived<Archive>.self).bytes.bytes }
  }

  /// Changes the most that is kept, for all processes.
  public func setMaxSize(_ bytes: Int) throws {
    try store.setBudget(ObjectBudget(bytes: .bytes(max(bytes, 1))), for: Archived<Archive>.self)
  }

  /// When a value was last used, by any process.
  public func latestAccessedTime(for key: String) throws -> Date? {
    try store.lastUse(of: Archived<Archive>.self, id: key).map {
      Date(timeIntervalSince1970: Double($0) / 1000)
    }
  }

  /// Deletes what nobody has used for so many seconds.
  ///
  /// - Returns: How many there were.
  @discardableResult
  public func removeAll(unusedFor interval: TimeInterval) throws -> Int {
    let now = store.storage.core.now
    let milliseconds = Int64(min(max(interval, 0) * 1000, 1e15))
    return try store.deleteUnused(Archived<Archive>.self, since: now - milliseconds)
  }

  /// - Throws: `ObjectError` with the code `tooLarge` when it is larger than all may be.
  public func insert(_ archive: Archive) throws {
    try store.save(Archived(archive.detached()))
  }

  /// Stores values, all or none.
  public func insert(all archives: [Archive]) throws {
    try store.save(archives.map { Archived(try $0.detached()) })
  }

  /// The value of a key.
  public func get(objectWithKey key: String) throws -> Archive? {
    try store.object(Archived<Archive>.self, id: key)?.archive.detached()
  }

  /// All values, in the order they were first stored in.
  public func getAll() throws -> [Archive] {
    try objects.fetch().map { try $0.archive.detached() }
  }

  /// The first values, at most so many.
  public func getAll(limitedBy limit: Int) throws -> [Archive] {
    try objects.limit(limit).fetch().map { try $0.archive.detached() }
  }

  /// Deletes the value of a key.
  ///
  /// - Returns: Whether there was one.
  @discardableResult
  public func delete(objectWithKey key: String) throws -> Bool {
    try store.delete(Archived<Archive>.self, id: key)
  }

  /// Deletes everything.
  public func clear() throws { try store.deleteAll(Archived<Archive>.self) }

  /// What queries give, one after the other.
  public func process(queries: [any QueryCompatible<Archive>]) throws -> [Archive] {
    // No key path: the compiler cannot make one through `any`.
    var steps: [QueryStep<Archive>] = []
    for query in queries { steps += query.steps.list }
    return try QuerySteps(steps).results(in: store)
  }

  /// All values, to ask with everything a `Query` can do.
  public var objects: Query<Archived<Archive>> { store.objects() }
}
