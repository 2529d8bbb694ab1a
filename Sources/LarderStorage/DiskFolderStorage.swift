// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A storage of values in files of one folder, which any number of processes may use concurrently.
///
/// ```swift
/// let images = DiskStorage.main.folder("images", in: .cachesDirectory)
/// try await images.set(png, forKey: "https://example.com/a.png?size=../2")
/// ```
///
/// Any string is a key: its file has a readable, unique name and contains the key. A read returns a
/// complete value, the old or the new one; a killed process leaves no partial value. An update is atomic
/// among all processes. Values may expire.
///
/// The next write creates a folder that was deleted, without its former values. A concurrent write is
/// lost with the old folder or is the first one in the new folder.
///
/// Updates of two folders, or of a folder and a store, whose closures write each other wait for each
/// other. Within a process, that is detected at once and one update throws
/// ``StorageError/Code/deadlock``. Between processes, one update throws
/// ``StorageError/Code/lockTimeout`` with the other process's pid after the timeout. Write several
/// storages in the same order everywhere.
///
/// - Throws: The operations throw ``StorageError``: ``StorageError/Code/undecodable`` if a file is
///   damaged or not of this storage, ``StorageError/Code/inaccessible`` if a system call fails,
///   ``StorageError/Code/lockTimeout`` if another process holds a lock for longer than the timeout,
///   ``StorageError/Code/unsupported`` if the folder's URL is not a file URL.
public final class DiskFolderStorage: SynchronousStorage {
  private let folder: FolderFiles
  private let now: @Sendable () -> Date

  /// Opens a folder, which the first write creates.
  ///
  /// - Parameters:
  ///   - url: The URL of the folder, which should contain no other files.
  ///   - creatingDirectories: Whether a write creates a missing folder; otherwise it throws.
  ///   - synchronization: Whether each write waits for the disk.
  ///   - lockTimeout: The time for which a write waits for another process, or thread of this one, that
  ///     writes the same keys, before it throws ``StorageError/Code/lockTimeout``.
  ///   - now: The clock of expiration times.
  public init(
    folderURL url: URL, creatingDirectories: Bool = true,
    synchronization: DiskSyncPolicy = .whenIdle, lockTimeout: Duration = .seconds(30),
    now: @escaping @Sendable () -> Date = { Date() }
  ) {
    folder = FolderFiles(
      url: url, createsDirectories: creatingDirectories, synchronization: synchronization,
      lockTimeout: lockTimeout)
    self.now = now
    folder.removeLeftoverFiles()
  }

  /// The folder.
  public var folderURL: URL { URL(fileURLWithPath: folder.path, isDirectory: true) }

  public var storageName: String { folderURL.lastPathComponent }

  /// The file of a key.
  public func fileURL(forFilename key: Filename) -> URL {
    folderURL.appendingPathComponent(key.fileName)
  }

  // MARK: Reading

  /// The value of a key, or `nil`.
  public func value(forKey key: Filename) throws -> Data? { try entry(key)?.value }

  private func entry(_ key: Filename) throws -> StorageEntry<Data>? {
    let name = key.fileName
    guard let file = try decoded(name) else { return nil }
    guard file.key.elementsEqual(key.rawValue.utf8) else {
      throw undecodable(name, "is of another key than its name says")
    }
    if file.deadline == .infinity { return StorageEntry(Data(file.value)) }
    let expires = Date(timeIntervalSinceReferenceDate: file.deadline)
    return now() < expires ? StorageEntry(Data(file.value), expires: expires) : nil
  }

  private func decoded(_ name: String) throws -> DiskFile? {
    guard let bytes = try folder.read(name) else { return nil }
    guard let file = DiskFile(decoding: bytes) else {
      throw undecodable(name, "is damaged, or was not written by this storage")
    }
    return file
  }

  private func undecodable(_ name: String, _ what: String) -> StorageError {
    StorageError(
      .undecodable, during: "value",
      "The file \(folder.place(name)) \(what). Set its key again, or remove it; "
        + "recovering(.readErrorsAsMisses) treats it as not there.")
  }

  /// The keys there are.
  ///
  /// - Complexity: Reads every file.
  public func keys() throws -> [Filename] {
    var keys: [Filename] = []
    for name in try folder.names() {
      // The file may have been removed since the listing.
      guard let file = try decoded(name) else { continue }
      guard let text = String(validating: file.key, as: UTF8.self),
        Filename(rawValue: text).fileName == name
      else { throw undecodable(name, "is of another key than its name says") }
      if now().timeIntervalSinceReferenceDate < file.deadline {
        keys.append(Filename(rawValue: text))
      }
    }
    return keys
  }

  // MARK: Writing

  private static func stripe(_ key: Filename) -> Int {
    Int(XXH64.hash(Array(key.rawValue.utf8)) % UInt64(FolderFiles.stripes))
  }

  /// Runs `body` while no other thread or process writes the key.
  private func writing<Result>(
    _ key: Filename, _ operation: String, _ body: () throws -> Result
  ) throws -> Result {
    try folder.writing(Self.stripe(key), operation, body)!
  }

  private func put(_ entry: StorageEntry<Data>, _ key: Filename) throws {
    let file = DiskFile(
      key: Array(key.rawValue.utf8),
      deadline: entry.expires?.timeIntervalSinceReferenceDate ?? .infinity,
      value: Array(entry.value))
    try folder.write(file.encoded, to: key.fileName)
  }

  /// Stores a value.
  public func set(_ value: Data, forKey key: Filename) throws {
    try writing(key, "set") { try put(StorageEntry(value), key) }
  }

  /// Removes a key. It has no effect if the key has no value.
  public func remove(forKey key: Filename) throws {
    guard try folder.exists() else { return }
    try writing(key, "remove") { try folder.remove(key.fileName) }
  }

  /// Removes every key. Writers of all processes wait.
  public func removeAll() throws {
    guard try folder.exists() else { return }
    try folder.removeAll("removeAll", withFolder: false)
  }

  /// Removes every key, and the folder if it is empty then.
  public func clear() throws {
    guard try folder.exists() else { return }
    try folder.removeAll("clear", withFolder: true)
  }

  private func update(
    _ update: StorageUpdate<Filename, Data>
  ) throws -> StorageEntry<Data>? {
    try writing(update.key, "update") {
      let entry = try update.applied { try self.entry(update.key) }
      if let entry {
        try put(entry, update.key)
      } else {
        try folder.remove(update.key.fileName)
      }
      return entry
    }
  }

  private func beginConditionalFill(_ key: Filename) throws -> ConditionalFill<Data> {
    let stripe = Self.stripe(key)
    let stamp = try folder.stamp(stripe)
    return ConditionalFill(
      commit: .blocking { [self] entry in
        try folder.writing(stripe, "set", ifStill: stamp) { try put(entry, key) } != nil
      })
  }

  public var operations: StorageOperations<Filename, Data> {
    var result = StorageOperations<Filename, Data>(
      read: .blocking { try self.value(forKey: $0) },
      write: .blocking { item in
        try self.writing(item.key, "set") {
          try self.put(StorageEntry(item.value, expires: item.expires), item.key)
        }
      })
    result.remove = .blocking { try self.remove(forKey: $0) }
    result.removeAll = .blocking { _ in try self.removeAll() }
    result.keys = .blocking { _ in try self.keys() }
    result.entry = .blocking { try self.entry($0) }
    result.update = .blocking { try self.update($0) }
    result.fill = .blocking { try self.beginConditionalFill($0) }
    result.supportsExpiration = true
    // All objects of one folder are one storage.
    let path = folder.path
    result.lanes = { key in
      var hasher = Hasher()
      hasher.combine(path)
      hasher.combine(key)
      return [CallLane(ObjectIdentifier(FolderFiles.self), hasher.finalize())]
    }
    return result
  }
}
