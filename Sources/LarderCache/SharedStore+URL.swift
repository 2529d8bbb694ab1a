// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
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
  /// - Parameter date: The date. The distant past removes nothing, and the distant future all that is not
  ///   pinned.
  /// - Returns: The number of removed entries.
  /// - Throws: ``/LarderEngine/StoreError``; ``/LarderEngine/StoreError/Code/invalidOption`` for a date that
  ///   is not a number.
  /// - Complexity: O(*n*) in the entries of the store, in bounded transactions.
  @discardableResult
  public func removeUnused(since date: Date) throws -> Int {
    try openCore("removeUnused").removeUnused(
      in: nil, since: try Self.milliseconds(of: date, "removeUnused"))
  }

  /// Returns a date in milliseconds since 1970.
  static func milliseconds(of date: Date, _ operation: String) throws(StoreError) -> Int64 {
    if let milliseconds = date.millisecondsSince1970 { return milliseconds }
    throw StoreError(
      .invalidOption, during: operation,
      "The date is not a number (NaN). Nothing was removed. Pass a date that is one.")
  }
}
