// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjects

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

// VELLUM SPELLINGS
//
// Vellum is NamadaNativefier's successor: the same managers under other names. Each member forwards to the
// one of NamadaNativefier in one line. The article "From NamadaNativefier" lists what has no counterpart.

/// Vellum's name of ``CacheManager``.
public typealias ArchiveManager = CacheManager
/// Vellum's name of ``NativefierFactory``.
public typealias ArchivesFactory = NativefierFactory
/// Vellum's name of ``CodableArchivable``.
public typealias ArchiveCodable = Archivable & Codable

extension NativefierFactory {
  /// Returns the manager of a type, in the spelling of Vellum; see
  /// ``cache(for:initialMaxMemorySize:initialMaxDiskSize:)``.
  ///
  /// - Parameters:
  ///   - type: The type of the values.
  ///   - memorySize: The most this process keeps decoded in memory, in bytes.
  ///   - diskSize: The most that is kept, for all processes, in bytes.
  /// - Returns: The manager, the same for each call.
  /// - Throws: `StoreError` if the store cannot be opened.
  public func archives<Archive: Archivable>(
    for type: Archive.Type = Archive.self, trySetMaxMemorySize memorySize: Int = 1.megabytes,
    trySetMaxDiskSize diskSize: Int = 2.megabytes
  ) throws -> CacheManager<Archive> {
    try cache(for: type, initialMaxMemorySize: memorySize, initialMaxDiskSize: diskSize)
  }
}

extension CacheManager {
  /// Stores a value; see ``insert(_:)``.
  ///
  /// - Parameter archive: The value.
  public func record(_ archive: Archive) { insert(archive) }

  /// Stores several values in one transaction; see ``insert(all:)``.
  public func insert(_ first: Archive, _ second: Archive, _ others: Archive...) {
    insert(all: [first, second] + others)
  }

  /// Returns the value of a key; see ``get(objectWithKey:)``.
  ///
  /// - Parameter key: The key.
  /// - Returns: The value, or `nil` if it does not exist or after an error.
  public func access(archiveWithKey key: String) -> Archive? { get(objectWithKey: key) }

  /// Returns all values; see ``getAll()``.
  ///
  /// - Returns: The values; empty after an error.
  public func accessAll() -> [Archive] { getAll() }

  /// Returns the first values; see ``getAll(limitedBy:)``.
  ///
  /// - Parameter limit: The maximum number of values.
  /// - Returns: The values; empty after an error.
  public func accessAll(limitedBy limit: Int) -> [Archive] { getAll(limitedBy: limit) }

  /// Deletes the value of a key; see ``delete(objectWithKey:)``.
  ///
  /// - Parameter key: The key.
  public func delete(archiveWithKey key: String) { delete(objectWithKey: key) }

  /// Deletes several values in one transaction; see ``delete(allKeys:)``.
  public func delete(_ first: Archive, _ second: Archive, _ others: Archive...) {
    delete(all: [first, second] + others)
  }

  /// Deletes several values in one transaction. After an error none is deleted.
  ///
  /// - Parameter archives: The values; only their keys are used.
  public func delete(all archives: [Archive]) { delete(allKeys: archives.map(\.primaryKey)) }

  /// Deletes the values of several keys in one transaction; see ``delete(allKeys:)``.
  ///
  /// - Parameter keys: The keys.
  public func delete(keys: String...) { delete(allKeys: keys) }

  /// Deletes all values; see ``clear()``.
  public func deleteAll() { clear() }

  /// Deletes the values that no process has used for an interval; see
  /// ``removeAllInvalidateObject(invalidateTimeInterval:)``.
  ///
  /// - Parameter interval: The interval in seconds.
  public func deleteAllInvalidateArchives(invalidateTimeInterval interval: TimeInterval) {
    removeAllInvalidateObject(invalidateTimeInterval: interval)
  }

  /// Returns a sorted query: `sorted { $0.age(.ascending).name(.descending) }`; see ``allSortedBy``.
  ///
  /// - Parameter build: A closure that adds sort keys to the query.
  /// - Returns: The query.
  /// - Throws: The errors of `build`.
  public func sorted(
    _ build: (QuerySorter<Archive>) throws -> QuerySorter<Archive>
  ) rethrows -> QuerySorter<Archive> { try build(allSortedBy) }
}

extension ManagedQuery {
  /// Returns the same values in another order: `findWhere { … }.sorted { $0.age(.ascending) }`.
  ///
  /// - Parameter build: A closure that adds sort keys to the query.
  /// - Returns: The query.
  /// - Throws: The errors of `build`.
  public func sorted(
    _ build: (QuerySorter<Archive>) throws -> QuerySorter<Archive>
  ) rethrows -> QuerySorter<Archive> { try build(sortedBy) }
}

extension PropertyValidator where Value: Equatable {
  /// Returns a validator that accepts values equal to `value`, in the spelling of Vellum's README.
  public static func isEqual(_ value: Value) -> Self { equal(with: value) }
  /// Returns a validator that accepts values different from `value`, in the spelling of Vellum's README.
  public static func isNotEqual(_ value: Value) -> Self { notEqual(with: value) }
}

extension PropertyValidator where Value == String? {
  /// Returns a validator that accepts `nil` and the empty string.
  public static func isNilOrEmpty() -> Self { Self { $0.isNil() || $0 == "" } }
}

extension PropertyValidator where Value: Collection & Sendable {
  /// Returns a validator that accepts collections of at least `count` elements.
  public static func countGreaterOrEqual(with count: Int) -> Self {
    countGreaterThanOrEqual(with: count)
  }
  /// Returns a validator that accepts collections of at most `count` elements.
  public static func countLessOrEqual(with count: Int) -> Self {
    countLessThanOrEqual(with: count)
  }
}

extension PropertyValidator where Value: Collection, Value.Element: Equatable & Sendable {
  /// Returns a validator that accepts collections that contain `element`.
  public static func contains(with element: Value.Element) -> Self { contains(element) }
  /// Returns a validator that accepts collections that contain all of some elements.
  public static func contains(
    _ first: Value.Element, _ second: Value.Element, _ others: Value.Element...
  ) -> Self { contains(all: [first, second] + others) }
}
