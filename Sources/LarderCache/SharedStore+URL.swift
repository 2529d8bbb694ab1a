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
  /// Opens a store, creating it if there is none.
  ///
  /// - Parameters:
  ///   - url: The URL of a directory; see `init(at:_:)` for paths.
  ///   - options: Durability and budget count for a new store; a budget that differs from the
  ///     store's changes it for every process.
  /// - Throws: ``LarderEngine/StoreError``, naming the path and the remedy;
  ///   ``/LarderEngine/StoreError/Code/directory`` if the URL is not that of a file.
  public convenience init(at url: URL, _ options: StoreOptions = StoreOptions()) throws {
    guard url.isFileURL else {
      throw StoreError(
        .directory, during: "open", path: url.absoluteString,
        "A store is a directory, and this is not a file URL. Pass URL(fileURLWithPath:).")
    }
    try self.init(at: url.path, options)
  }
}
