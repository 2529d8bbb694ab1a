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
// * A file is written under a name of its own, beginning `.new-`, and renamed into its place. The writer
//   holds a lock on it until then; a file of that name without a lock was left behind by a process that
//   was killed, and the next to open the folder or clear it removes it.
// * Writers of one stripe of keys take turns: in this process by the turns of the folder's device and
//   inode, whatever path leads there; among processes by `flock` on one of 16 files `.lock-…`, which are
//   opened for each write: the kernel gives the lock of a killed process back. What removes everything
//   holds all 16, taken in their order. Readers need none.
// * A lock is not waited for without end: after some seconds the writer fails, naming the process that
//   has it.
// * A lock file holds, in little-endian, a stamp (0..<8), advanced by every write of its stripe and
//   compared by a conditional pull-up, and the number of the process that holds the lock or held it last
//   (8..<16). The stamps of a new lock file begin anywhere: those of a folder that vanished and was made
//   again are not met a second time.
// * A folder that vanishes while it is in use is made again by the next write; what was in it is gone,
//   for readers too. A write that meets the moment goes with the old folder or is the first of the new.
// * Nothing follows a link but the path to the folder itself, and nothing is removed by it but the names
//   that are ours, each by itself.

/// When files reach the disk itself.
public enum DiskSyncPolicy: Sendable {
  /// When the system likes: a process may be killed at any instruction without loss or damage, but
  /// after a loss of power the newest values may be missing or
  /// ``StorageError/Code/undecodable``.
  case whenIdle
  /// Before setting or removing returns: a loss of power harms nothing. A hundred times slower.
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
  /// The turns last used, kept so that they stay the same.
  private let turns = Mutex<(identity: FileIdentity, turns: StripedLock)?>(nil)

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

  /// Refuses the URL of something that is no file: its path would be one of this machine.
  static func check(_ url: URL) throws {
    guard !url.isFileURL else { return }
    throw StorageError(
      .unsupported, during: "open",
      "\(url.absoluteString.prefix(200)) is no file. Make its URL with URL(fileURLWithPath:).")
  }

  // MARK: Reading

  /// A file's bytes, or `nil` when there is none.
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
        // It came between the two looks: look again.
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
      // A part of the way there is a file, say: nothing is below it.
      return error.isNoSuchFile
    }
  }

  /// The names of values.
  func names() throws -> [String] {
    try check()
    do throws(SystemError) {
      return try FileSystem.names(in: path).filter { $0.hasSuffix(".value") && !$0.hasPrefix(".") }
    } catch {
      throw Self.inaccessible("keys", error)
    }
  }

  // MARK: Writing

  /// Runs `body` while no other process and no other thread writes keys of the stripe, if
  /// nothing was written there since the stamp.
  ///
  /// - Returns: `nil` when something was.
  func writing<Result>(
    _ stripe: Int, _ operation: String, ifStill stamp: UInt64? = nil, _ body: () throws -> Result
  ) throws -> Result? {
    try sharedTurns(operation).take(stripe) {
      let lock = try locked(stripe, operation)
      defer { lock.unlock() }
      let known = try Self.stamp(in: lock, operation)
      if let stamp, known != stamp { return nil }
      try advance(lock, known ?? UInt64.random(in: 0 ... .max), operation)
      return try body()
    }
  }

  /// Runs `body` while nobody else writes anything, all stamps being advanced.
  func writingAll(
    _ operation: String, _ body: (_ locks: [OwnedFile]) throws -> Void
  ) throws {
    try sharedTurns(operation).withAllLocks {
      var locks: [OwnedFile] = []
      defer { for lock in locks { lock.unlock() } }
      for stripe in 0..<Self.stripes {
        let lock = try locked(stripe, operation)
        locks.append(lock)
        // One without a stamp has nothing under it, and a full disk has no room for one.
        if let known = try Self.stamp(in: lock, operation) { try advance(lock, known, operation) }
      }
      try body(locks)
    }
  }

  /// The turns of all handles of this folder in this process.
  private func sharedTurns(_ operation: String) throws -> StripedLock {
    try check()
    let identity: FileIdentity
    do throws(SystemError) {
      var found: FileIdentity?
      repeat {
        if createsDirectories { try FileSystem.makeDirectories(path) }
        found = try FileSystem.status(of: path)?.identity
        // Somebody may have cleared the folder in between: it is made again.
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

  /// A lock file with its lock, which is in its place.
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
        // A folder that was removed meanwhile has another lock file now, or none.
        let status = try FileSystem.status(of: lock.path, followingLinks: false)
        if status?.identity == (try lock.status).identity { return lock }
      } catch {
        guard error.isNoSuchFile else { throw Self.inaccessible(operation, error) }
      }
    }
  }

  /// Waits for the lock of a file, but not for ever, and not at all while a pull-up is stored.
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
        let process = holder().map { "The process \($0)" } ?? "Another process"
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
        // Somebody who clears the folder again and again may come in between each time.
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

  /// The stamp of a stripe's last write; one is made where there is none yet.
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

  /// Puts a file in its place, all at once.
  func write(_ bytes: [UInt8], toPath destination: String) throws {
    var tries = 0
    while true {
      do throws(SystemError) {
        return try writeOnce(bytes, destination)
      } catch {
        tries += 1
        // The folder has vanished, or somebody who tidied up was faster than our lock.
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
      if synchronization == .everyWrite { try FileSystem.synchronizeDirectory(path) }
    } catch {
      _ = try? FileSystem.removeFile(new)
      throw error
    }
  }

  func remove(_ name: String) throws {
    do throws(SystemError) {
      let existed = try FileSystem.removeFile(place(name))
      if existed, synchronization == .everyWrite { try FileSystem.synchronizeDirectory(path) }
    } catch {
      throw Self.inaccessible("remove", error)
    }
  }

  /// Removes what killed processes left behind.
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

  /// Removes all values, and the folder if nothing else is in it.
  func removeAll(_ operation: String, withFolder: Bool) throws {
    try writingAll(operation) { locks in
      for name in try names() { try remove(name) }
      removeLeftoverFiles()
      guard withFolder else { return }
      // Whoever waits for one of the locks sees that it is gone, and begins anew.
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
