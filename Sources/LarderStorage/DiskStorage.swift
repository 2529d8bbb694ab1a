// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import Foundation
internal import LarderSystem

/// Plain files: the keys are their URLs, the values what is in them.
///
/// A file is replaced at once: readers have all of the old or all of the new. For values under keys of
/// any kind use a ``DiskFolderStorage``.
///
/// ```swift
/// let file = DiskStorage.main.singleKey(URL(fileURLWithPath: "/var/tmp/settings.json"))
///   .mapJSONObject([String: Int].self)
/// ```
public final class DiskStorage: SynchronousStorage {
  private let creatingDirectories: Bool
  private let synchronization: DiskSynchronization

  /// The storage of all files.
  public static let main = DiskStorage()

  /// Creates a storage.
  ///
  /// - Parameters:
  ///   - creatingDirectories: Whether writing creates missing folders; otherwise it is an error.
  ///   - synchronization: Whether each write waits for the disk.
  public init(
    creatingDirectories: Bool = true, synchronization: DiskSynchronization = .whenIdle
  ) {
    self.creatingDirectories = creatingDirectories
    self.synchronization = synchronization
  }

  /// A folder below one of the user's directories, for values under keys of any kind.
  ///
  /// - Parameter directory: On Linux `.cachesDirectory` is `$XDG_CACHE_HOME` or `~/.cache`, and so
  ///   on.
  public func folder(
    _ name: String, in directory: FileManager.SearchPathDirectory,
    domainMask: FileManager.SearchPathDomainMask = .userDomainMask
  ) -> DiskFolderStorage {
    folder(at: Self.url(forFolder: name, in: directory, domainMask: domainMask))
  }

  /// A folder, for values under keys of any kind.
  public func folder(at url: URL) -> DiskFolderStorage {
    DiskFolderStorage(
      folderURL: url, creatingDirectories: creatingDirectories, synchronization: synchronization)
  }

  /// Where a folder of a name is. Names with slashes or dots stay below the directory.
  public static func url(
    forFolder name: String, in directory: FileManager.SearchPathDirectory,
    domainMask: FileManager.SearchPathDomainMask = .userDomainMask
  ) -> URL {
    let base =
      FileManager.default.urls(for: directory, in: domainMask).first
      ?? FileManager.default.temporaryDirectory
    // A folder may be named by several parts, none of which leads upwards.
    return name.split(separator: "/").filter { $0 != ".." && $0 != "." }
      .reduce(base) { $0.appendingPathComponent(String($1), isDirectory: true) }
  }

  /// What is in a file; `nil` when there is none.
  public func value(forKey url: URL) throws -> Data? { try Folder.read(url.path).map { Data($0) } }

  /// Replaces a file, or creates it.
  public func set(_ value: Data, forKey url: URL) throws {
    let folder = Folder(
      path: url.deletingLastPathComponent().path, createsDirectories: creatingDirectories,
      synchronization: synchronization)
    try folder.write(Array(value), toPath: url.path)
  }

  /// Removes a file; without effect when there is none.
  public func remove(forKey url: URL) throws {
    let folder = Folder(
      path: url.deletingLastPathComponent().path, createsDirectories: false,
      synchronization: synchronization)
    try folder.remove(url.lastPathComponent)
  }

  public var operations: StorageOperations<URL, Data> {
    var result = StorageOperations<URL, Data>(
      read: .blocking { try self.value(forKey: $0) },
      write: .blocking { try self.set($0.value, forKey: $0.key) })
    result.remove = .blocking { try self.remove(forKey: $0) }
    return result
  }
}
