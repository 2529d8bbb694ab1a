// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A storage of plain files: the keys are their URLs, the values their contents.
///
/// A write replaces a file atomically: a reader gets the complete old or the complete new contents. An
/// update is atomic among all processes that write through a `DiskStorage`. For other keys, use a
/// ``DiskFolderStorage``.
///
/// ```swift
/// let file = DiskStorage.main.singleKey(URL(fileURLWithPath: "/var/tmp/settings.json"))
///   .mapJSONObject([String: Int].self)
/// ```
public final class DiskStorage: SynchronousStorage {
  private let creatingDirectories: Bool
  private let synchronization: DiskSyncPolicy
  private let lockTimeout: Duration

  /// The storage of all files.
  public static let main = DiskStorage()

  /// Creates a storage.
  ///
  /// - Parameters:
  ///   - creatingDirectories: Whether writing creates missing folders; otherwise it is an error.
  ///   - synchronization: Whether each write waits for the disk.
  ///   - lockTimeout: How long a write waits for another process, before it fails with
  ///     ``StorageError/Code/lockTimeout``.
  public init(
    creatingDirectories: Bool = true, synchronization: DiskSyncPolicy = .whenIdle,
    lockTimeout: Duration = .seconds(30)
  ) {
    self.creatingDirectories = creatingDirectories
    self.lockTimeout = lockTimeout
    self.synchronization = synchronization
  }

  /// A folder below one of the user's directories, for values under keys of any kind.
  ///
  /// - Parameters:
  ///   - name: The folder's name in the directory.
  ///   - directory: On Linux `.cachesDirectory` is `$XDG_CACHE_HOME` or `~/.cache`, and so on.
  ///   - domainMask: The domains to search, on Apple systems.
  public func folder(
    _ name: String, in directory: FileManager.SearchPathDirectory,
    domainMask: FileManager.SearchPathDomainMask = .userDomainMask
  ) -> DiskFolderStorage {
    folder(at: Self.url(forFolder: name, in: directory, domainMask: domainMask))
  }

  /// A folder, for values under keys of any kind.
  public func folder(at url: URL) -> DiskFolderStorage {
    DiskFolderStorage(
      folderURL: url, creatingDirectories: creatingDirectories, synchronization: synchronization,
      lockTimeout: lockTimeout)
  }

  /// Returns the URL of a folder. Names with slashes or dots stay below the directory.
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

  /// Returns the contents of a file, or `nil` if it does not exist.
  public func value(forKey url: URL) throws -> Data? {
    try FolderFiles.check(url)
    return try FolderFiles.read(url.path).map { Data($0) }
  }

  /// Replaces a file, or creates it.
  public func set(_ value: Data, forKey url: URL) throws {
    try operations.write.wait(StorageWrite(key: url, value: value))
  }

  /// Removes a file. It has no effect if the file does not exist.
  public func remove(forKey url: URL) throws { try operations.remove!.wait(url) }

  // MARK: Parts

  /// One for all handles: files have no other order in a process.
  private static let turns = StripedLock()

  private func folder(of url: URL, creating: Bool) -> FolderFiles {
    FolderFiles(
      url: url.deletingLastPathComponent(), createsDirectories: creating,
      synchronization: synchronization, lockTimeout: lockTimeout)
  }

  private func put(_ value: Data, _ url: URL) throws {
    try folder(of: url, creating: creatingDirectories).write(Array(value), toPath: url.path)
  }

  private func take(_ url: URL) throws {
    try folder(of: url, creating: false).remove(url.lastPathComponent)
  }

  private func update(_ update: StorageUpdate<URL, Data>) throws -> StorageEntry<Data>? {
    try writing(update.key, "update", creating: creatingDirectories) {
      let known = try update.known { try value(forKey: update.key).map { StorageEntry($0) } }
      var entry = known
      try update.change(&entry)
      if entry?.expires != nil {
        throw StorageError.unsupported("update of a value that expires", by: storageName)
      }
      if let entry { try put(entry.value, update.key) } else { try take(update.key) }
      return entry
    }
  }

  /// Runs `body` while no other process writes to the file's folder through a `DiskStorage`: under a lock
  /// on the folder itself, which needs no lock file.
  private func writing<Result>(
    _ url: URL, _ operation: String, creating: Bool, _ body: () throws -> Result
  ) throws -> Result {
    try FolderFiles.check(url)
    let path = url.deletingLastPathComponent().path
    let lock: OwnedFile
    do throws(SystemError) {
      if creating { try FileSystem.makeDirectories(path) }
      lock = try OwnedFile(path: FileSystem.resolved(path) ?? path, writable: false)
    } catch {
      // Without a folder there is no concurrent write; the body throws if the folder is required.
      if error.isNoSuchFile { return try body() }
      throw FolderFiles.inaccessible(operation, error)
    }
    try FolderFiles.lock(lock, operation, lockTimeout: lockTimeout) { nil }
    defer { lock.unlock() }
    return try body()
  }

  public var operations: StorageOperations<URL, Data> {
    var result = StorageOperations<URL, Data>(
      read: .blocking { try self.value(forKey: $0) },
      write: .blocking { item in
        try self.writing(item.key, "set", creating: self.creatingDirectories) {
          try self.put(item.value, item.key)
        }
      })
    result.remove = .blocking { url in
      try self.writing(url, "remove", creating: false) { try self.take(url) }
    }
    result.update = .blocking { try self.update($0) }
    return result.guarded(by: Self.turns, timeout: lockTimeout)
  }
}
