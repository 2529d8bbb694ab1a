// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

#if canImport(FoundationEssentials)
internal import FoundationEssentials
#else
internal import Foundation
#endif

// Files of one folder, used by any number of processes.
//
// * A file is written under a unique name that begins with `.new-`, and then renamed. The writer holds a
//   lock on it until then. A file of such a name without a lock is from a killed process; the next
//   process that opens or clears the folder removes it.
// * Writers of one stripe of keys exclude each other: in this process by the striped lock of the
//   folder's device and inode, for every path to it; among processes by `flock` on one of 16 files
//   `.lock-…`, which each write opens: the kernel releases the lock of a killed process. Removing all
//   values holds all 16, acquired in order. Readers need no lock.
// * The wait for a lock is bounded: after the timeout the writer throws an error with the pid of the
//   process that holds it.
// * A lock file contains, in little-endian, a stamp (0..<8), which every write of its stripe advances
//   and a conditional pull-up compares, and the pid of the process that holds the lock or held it last
//   (8..<16). The stamp of a new lock file begins at a random value, so that the stamps of a deleted and
//   recreated folder do not repeat.
// * The next write creates a folder that was deleted while in use; its former values are lost, for
//   readers too. A concurrent write is lost with the old folder or is the first one in the new folder.
// * No operation follows a link except in the path of the folder, and only files with names of this
//   format are removed, one at a time.

/// The time at which files are synced to disk.
public enum DiskSyncPolicy: Sendable {
  /// At a time that the system chooses. A killed process loses and damages no value, but after a loss of
  /// power the newest values may be missing or ``StorageError/Code/undecodable``.
  case whenIdle
  /// Before a write or removal returns. A loss of power loses no value. About a hundred times slower.
  case everyWrite
}

final class FolderFiles: Sendable {
  static let stripes = 16

  private let url: URL
  let path: String
  let createsDirectories: Bool
  let synchronization: DiskSyncPolicy
  private let lockTimeout: Duration
  private let counter = Atomic<UInt64>(0)
  /// The striped locks used last, retained so that they stay the same.
  private let turns = Mutex<(identity: FileIdentity, turns: StripedLock)?>(nil)

  /// The folder whose own name this process knows to be on the disk. It is held open: while it is, no other folder
  /// gets its inode number, even if it is deleted.
  private let confirmed = Mutex<OwnedFile?>(nil)

  init(
    url: URL, createsDirectories: Bool, synchronization: DiskSyncPolicy, lockTimeout: Duration
  ) {
    self.url = url
    path = url.path
    self.createsDirectories = createsDirectories
    self.synchronization = synchronization
    self.lockTimeout = lockTimeout
  }

  func place(_ name: String) -> String { path + "/" + name }

  private func check() throws { try Self.check(url) }

  /// Throws for a URL that is not a file URL, whose path would be a path of this machine.
  static func check(_ url: URL) throws {
    guard !url.isFileURL else { return }
    throw StorageError(
      .unsupported, during: "open",
      "\(url.absoluteString.prefix(200)) is no file. Make its URL with URL(fileURLWithPath:).")
  }

  // MARK: Reading

  /// Returns the bytes of a file, or `nil` if it does not exist.
  func read(_ name: String) throws -> [UInt8]? {
    try check()
    return try Self.read(place(name))
  }

  static func read(_ path: String) throws -> [UInt8]? {
    var tries = 0
    while true {
      do throws(SystemError) {
        let file = try OwnedFile(path: path, writable: false)
        let status = try file.status
        if status.isRegularFile || status.isDirectory {
          return try file.read(count: status.size, at: 0)
        }
      } catch {
        if isMissing(path) { return nil }
        // Created between the two checks: retry.
        tries += 1
        if !error.isNoSuchFile || tries == 100 { throw inaccessible("value", error) }
        continue
      }
      throw StorageError(
        .undecodable, during: "value",
        "\(path) is a pipe or a device, which has no value. Set its key again, or remove it.")
    }
  }

  private static func isMissing(_ path: String) -> Bool {
    do { return try FileSystem.status(of: path, followingLinks: false) == nil } catch {
      // A component of the path is a file, for example: it contains no file.
      return error.isNoSuchFile
    }
  }

  /// Returns the names of the values' files.
  func names() throws -> [String] {
    try check()
    do throws(SystemError) {
      return try FileSystem.names(in: path).filter { $0.hasSuffix(".value") && !$0.hasPrefix(".") }
    } catch {
      throw Self.inaccessible("keys", error)
    }
  }

  // MARK: Writing

  /// Runs `body` while no other process or thread writes keys of the stripe, if the stripe has not
  /// changed since the stamp.
  ///
  /// - Returns: The result, or `nil` if the stripe has changed.
  func writing<Result>(
    _ stripe: Int, _ operation: String, ifStill stamp: UInt64? = nil, _ body: () throws -> Result
  ) throws -> Result? {
    try sharedTurns(operation).take(stripe, timeout: lockTimeout) {
      let lock = try locked(stripe, operation)
      defer { lock.unlock() }
      let known = try Self.stamp(in: lock, operation)
      if let stamp, known != stamp { return nil }
      try advance(lock, known ?? UInt64.random(in: 0 ... .max), operation)
      return try body()
    }
  }

  /// Runs `body` while no other process or thread writes, and advances all stamps.
  func writingAll(
    _ operation: String, _ body: (_ locks: [OwnedFile]) throws -> Void
  ) throws {
    try sharedTurns(operation).withAllLocks(timeout: lockTimeout) {
      var locks: [OwnedFile] = []
      defer { for lock in locks { lock.unlock() } }
      for stripe in 0..<Self.stripes {
        let lock = try locked(stripe, operation)
        locks.append(lock)
        // A stripe without a stamp has no values, and a full disk has no room for a stamp.
        if let known = try Self.stamp(in: lock, operation) { try advance(lock, known, operation) }
      }
      try body(locks)
    }
  }

  /// The striped lock of all handles of this folder in this process.
  private func sharedTurns(_ operation: String) throws -> StripedLock {
    try check()
    let identity: FileIdentity
    do throws(SystemError) {
      var found: FileIdentity?
      repeat {
        if createsDirectories { try FileSystem.makeDirectories(path) }
        found = try FileSystem.status(of: path)?.identity
        // Another process may have removed the folder in the meantime: create it again.
      } while found == nil && createsDirectories
      guard let found else { throw SystemError(errno: 2, operation: "stat", path: path) }
      identity = found
    } catch {
      throw Self.inaccessible(operation, error)
    }
    return turns.withLock { known in
      if let known, known.identity == identity { return known.turns }
      let turns = SharedStripedLocks.of(identity)
      known = (identity, turns)
      return turns
    }
  }

  /// Opens and locks a lock file that is still at its path.
  private func locked(_ stripe: Int, _ operation: String) throws -> OwnedFile {
    while true {
      let lock = try openLock(stripe, operation)
      if !Mutant.folderUnlocked.isActive {
        try Self.lock(lock, operation, lockTimeout: lockTimeout) {
          let bytes = (try? lock.read(count: 16, at: 0)) ?? []
          return bytes.count == 16 ? DiskFile.word(bytes, 8) : nil
        }
      }
      do throws(SystemError) {
        // A folder that was removed in the meantime has another lock file now, or none.
        let status = try FileSystem.status(of: lock.path, followingLinks: false)
        if status?.identity == (try lock.status).identity { return lock }
      } catch {
        guard error.isNoSuchFile else { throw Self.inaccessible(operation, error) }
      }
    }
  }

  /// Waits for the lock of a file until the timeout; a pull-up does not wait.
  static func lock(
    _ file: OwnedFile, _ operation: String, lockTimeout: Duration, holder: () -> UInt64?
  ) throws {
    let begin = ContinuousClock.now
    var pause: UInt64 = 20_000
    while true {
      do throws(SystemError) { if try file.tryExclusiveLock() { return } } catch {
        throw inaccessible(operation, error)
      }
      if StripedLock.isFilling { throw StorageError.fillingWaits }
      if ContinuousClock.now - begin > lockTimeout {
        // The recorded one may be the former: the lock is acquired before that is written.
        let pid = file.lockHolder.map { UInt64($0) } ?? holder()
        let process = pid.map { "The process \($0)" } ?? "Another process"
        throw StorageError(
          .lockTimeout, during: operation,
          "\(process) has held the lock \(file.path) for \(lockTimeout) and does not go on. If it is "
            + "stopped, continue it or end it; if it waits for what this one holds, write both in "
            + "one order.")
      }
      Event().wait(nanoseconds: pause)
      pause = min(pause * 2, 4_000_000)
    }
  }

  private func openLock(_ stripe: Int, _ operation: String) throws -> OwnedFile {
    let name = place(Self.lockName(stripe))
    var tries = 0
    while true {
      do throws(SystemError) {
        return try OwnedFile(path: name, creation: .createIfMissing)
      } catch {
        // Another process that removes the folder repeatedly may interrupt each attempt.
        tries += 1
        guard createsDirectories, error.isNoSuchFile, tries < 100 else {
          throw Self.inaccessible(operation, error)
        }
      }
      do throws(SystemError) { try FileSystem.makeDirectories(path) } catch {
        throw Self.inaccessible(operation, error)
      }
    }
  }

  private static func lockName(_ stripe: Int) -> String { ".lock-" + String(stripe, radix: 16) }

  /// Returns the stamp of a stripe's last write, and creates one if there is none.
  func stamp(_ stripe: Int) throws -> UInt64 {
    while true {
      let bytes = try Self.read(place(Self.lockName(stripe))) ?? []
      if bytes.count >= 16 { return DiskFile.word(bytes, 0) }
      _ = try writing(stripe, "set") {}
    }
  }

  private static func stamp(in lock: OwnedFile, _ operation: String) throws -> UInt64? {
    do throws(SystemError) {
      let bytes = try lock.read(count: 16, at: 0)
      return bytes.count == 16 ? DiskFile.word(bytes, 0) : nil
    } catch {
      throw inaccessible(operation, error)
    }
  }

  private func advance(_ lock: OwnedFile, _ stamp: UInt64, _ operation: String) throws {
    do throws(SystemError) {
      try lock.write(
        DiskFile.bytes(stamp &+ 1) + DiskFile.bytes(UInt64(ProcessIdentity.pid)), at: 0)
    } catch {
      throw Self.inaccessible(operation, error)
    }
  }

  func write(_ bytes: [UInt8], to name: String) throws { try write(bytes, toPath: place(name)) }

  /// Writes a file atomically.
  func write(_ bytes: [UInt8], toPath destination: String) throws {
    var tries = 0
    while true {
      do throws(SystemError) {
        return try writeOnce(bytes, destination)
      } catch {
        tries += 1
        // The folder was removed, or a cleanup removed the file before it was locked.
        guard error.isNoSuchFile, createsDirectories, tries < 5 else {
          throw Self.inaccessible("set", error)
        }
        do throws(SystemError) { try FileSystem.makeDirectories(path) } catch {
          throw Self.inaccessible("set", error)
        }
      }
    }
  }

  private func writeOnce(_ bytes: [UInt8], _ destination: String) throws(SystemError) {
    if Mutant.folderWritesInPlace.isActive {
      return try OwnedFile(path: destination, creation: .createIfMissing).write(bytes, at: 0)
    }
    let number = counter.wrappingAdd(1, ordering: .relaxed).newValue
    let new = place(
      ".new-\(ProcessIdentity.pid)-\(String(UInt64.random(in: 0 ... .max), radix: 36))-\(number)")
    let file = try OwnedFile(path: new, creation: .createNew)
    do throws(SystemError) {
      try file.lockExclusively()
      if ResourceLimits.fileSize == nil {
        try file.write(bytes, at: 0)
      } else {
        try OSThread.blockingSIGXFSZ { () throws(SystemError) in
          try file.write(bytes, at: 0)
        }
      }
      if synchronization == .everyWrite { try file.synchronize() }
      try FileSystem.rename(new, to: destination)
    } catch {
      _ = try? FileSystem.removeFile(new)
      throw error
    }
    try synchronizeNames()
  }

  /// Makes the names in the folder survive a loss of power, if writes wait for that; and once for each folder its own
  /// name and those of the directories above it, which this process or a killed one may have created.
  private func synchronizeNames() throws(SystemError) {
    guard synchronization == .everyWrite else { return }
    try FileSystem.synchronizeDirectory(path)
    let known = try confirmed.withLock { folder throws(SystemError) in try folder?.status.identity }
    guard let identity = try FileSystem.status(of: path)?.identity, identity != known else {
      return
    }
    let folder = try OwnedFile(path: path + "/.", writable: false)
    try FileSystem.synchronizeParents(of: path)
    // Another one that has come there meanwhile is confirmed by the next write.
    confirmed.withLock { $0 = folder }
  }

  func remove(_ name: String) throws {
    do throws(SystemError) {
      try FileSystem.removeFile(place(name))
      // Also of a file that is missing: its removal may be that of a process that was killed before its sync.
      try synchronizeNames()
    } catch {
      // Without its folder.
      if error.isNoSuchFile { return }
      throw Self.inaccessible("remove", error)
    }
  }

  /// Removes the files of killed processes.
  func removeLeftoverFiles() {
    guard let names = try? FileSystem.names(in: path) else { return }
    for name in names where name.hasPrefix(".new-") {
      guard let file = try? OwnedFile(path: place(name)),
        (try? file.tryExclusiveLock()) == true
      else { continue }
      _ = try? FileSystem.removeFile(place(name))
    }
  }

  func exists() throws -> Bool {
    try check()
    do throws(SystemError) { return try FileSystem.status(of: path) != nil } catch {
      if error.isNoSuchFile { return false }
      throw Self.inaccessible("remove", error)
    }
  }

  /// Removes all values, and the folder if it is empty then.
  func removeAll(_ operation: String, withFolder: Bool) throws {
    try writingAll(operation) { locks in
      for name in try names() { try remove(name) }
      removeLeftoverFiles()
      guard withFolder else { return }
      // A process that waits for one of the locks finds the file removed, and retries.
      do throws(SystemError) {
        for lock in locks { try FileSystem.removeFile(lock.path) }
        try FileSystem.removeDirectoryIfEmpty(path)
      } catch {
        throw Self.inaccessible(operation, error)
      }
    }
  }

  static func inaccessible(_ operation: String, _ error: SystemError) -> StorageError {
    StorageError(
      .inaccessible, during: operation,
      "\(error). See to the folder's existence, its permissions and the disk's room, and try again.",
      underlying: error)
  }
}
