// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

extension SharedStore {
  /// Opens a store, and creates it if it does not exist.
  ///
  /// - Parameters:
  ///   - url: The file URL of the store's directory. `init(at:_:)` opens a path.
  ///   - options: The options. A new store gets their durability and budget; a budget that differs from
  ///     an existing store's changes it for all processes.
  /// - Throws: ``/LarderEngine/StoreError``, with the path and a remedy;
  ///   ``/LarderEngine/StoreError/Code/directory`` if the URL is not a file URL.
  public convenience init(at url: URL, _ options: StoreOptions = StoreOptions()) throws {
    guard url.isFileURL else {
      throw StoreError(
        .directory, during: "open", path: url.absoluteString,
        "A store is a directory, but this URL is not a file URL. Pass URL(fileURLWithPath:).")
    }
    try self.init(at: url.path, options)
  }
}

extension SharedStore {
  /// Removes the entries that no process has read or written since a date, in all namespaces and for all
  /// processes. Pinned entries stay.
  ///
  /// Uses are recorded in shared memory, in steps of about 16 seconds. An entry that was used after the
  /// date is never removed.
  ///
  /// - Returns: The number of removed entries.
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: O(*n*) in the entries of the store, in bounded transactions.
  @discardableResult
  public func removeUnused(since date: Date) throws -> Int {
    try openCore("removeUnused").removeUnused(
      in: nil, since: Int64(date.timeIntervalSince1970 * 1000))
  }
}
