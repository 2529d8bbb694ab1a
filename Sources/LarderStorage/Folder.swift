// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// Files of one folder, used by any number of processes.
//
// * A file is written under a name of its own, beginning `.new-`, and renamed into its place. The writer
//   holds a lock on it until then; a file of that name without a lock was left behind by a process that
//   was killed, and the next to open the folder or clear it removes it.
// * Writers of one stripe of keys take turns across processes, by `flock` on one of 16 files `.lock-…`,
//   which are opened for each write: the kernel gives the lock of a killed process back. Readers need
//   none.
// * A lock file holds a number, advanced by every write of its stripe: a conditional pull-up compares it.
// * A folder that vanishes while it is in use is made again by the next write; what was in it is gone,
//   for readers too.

/// When files reach the disk itself.
public enum DiskSynchronization: Sendable {
  /// When the system likes: a process may be killed at any instruction without loss or damage, but
  /// after a loss of power the newest values may be missing or
  /// ``StorageError/Code/undecodable``.
  case whenIdle
  /// Before setting or removing returns: a loss of power harms nothing. A hundred times slower.
  case everyWrite
}

final class Folder: Sendable {
  static let stripes = 16

  let path: String
  let createsDirectories: Bool
  let synchronization: DiskSynchronization
  private let counter = Atomic<UInt64>(0)

  init(path: String, createsDirectories: Bool, synchronization: DiskSynchronization) {
    self.path = path
    self.createsDirectories = createsDirectories
    self.synchronization = synchronization
  }

  func place(_ name: String) -> String { path + "/" + name }

  // MARK: Reading

  /// A file's bytes, or `nil` when there is none.
  func read(_ name: String) throws -> [UInt8]? { try Self.read(place(name)) }

  static func read(_ path: String) throws -> [UInt8]? {
    var tries = 0
    while true {
      do throws(SystemError) {
        let file = try OwnedFile(path: path, writable: false)
        return try file.read(count: file.status.size, at: 0)
      } catch {
        if isMissing(path) { return nil }
        // It came between the two looks: look again.
        tries += 1
        if !error.saysNoSuchFile || tries == 100 { throw inaccessible("value", error) }
      }
    }
  }

  private static func isMissing(_ path: String) -> Bool {
    do { return try FileSystem.status(of: path, followingLinks: false) == nil } catch {
      // A part of the way there is a file, say: nothing is below it.
      return error.saysNoSuchFile
    }
  }

  /// The names of values.
  func names() throws -> [String] {
    do throws(SystemError) {
      return try FileSystem.names(in: path).filter { $0.hasSuffix(".value") && !$0.hasPrefix(".") }
    } catch {
      throw Self.inaccessible("keys", error)
    }
  }

  // MARK: Writing

  /// Runs `body` while no other process and no other thread writes keys of the stripe.
  func locked<Result>(
    _ stripe: Int, _ operation: String, _ body: (_ lock: OwnedFile) throws -> Result
  ) throws -> Result {
    while true {
      let lock = try openLock(stripe, operation)
      do throws(SystemError) {
        if !Mutant.folderUnlocked.isActive { try lock.lockExclusively() }
        // A folder that was removed meanwhile has another lock file now.
        guard
          try FileSystem.status(of: lock.path, followingLinks: false)?.identity
            == lock.status.identity
        else { continue }
      } catch {
        throw Self.inaccessible(operation, error)
      }
      defer { lock.unlock() }
      return try body(lock)
    }
  }

  private func openLock(_ stripe: Int, _ operation: String) throws -> OwnedFile {
    let name = place(".lock-" + String(stripe, radix: 16))
    do throws(SystemError) {
      return try OwnedFile(path: name, creation: .createIfMissing)
    } catch {
      guard createsDirectories, error.saysNoSuchFile else {
        throw Self.inaccessible(operation, error)
      }
      do throws(SystemError) {
        try FileSystem.makeDirectories(path)
        return try OwnedFile(path: name, creation: .createIfMissing)
      } catch {
        throw Self.inaccessible(operation, error)
      }
    }
  }

  /// The number of writes of a stripe so far.
  func stamp(_ stripe: Int) throws -> UInt64 {
    let bytes = try Self.read(place(".lock-" + String(stripe, radix: 16))) ?? []
    return bytes.count == 8 ? DiskFile.word(bytes, 0) : 0
  }

  func advance(_ lock: OwnedFile, _ operation: String) throws {
    do throws(SystemError) {
      let bytes = try lock.read(count: 8, at: 0)
      let stamp = bytes.count == 8 ? DiskFile.word(bytes, 0) : 0
      try lock.write(DiskFile.bytes(stamp &+ 1), at: 0)
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
        guard error.saysNoSuchFile, createsDirectories, tries < 5 else {
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
      try file.write(bytes, at: 0)
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
  func tidy() {
    guard let names = try? FileSystem.names(in: path) else { return }
    for name in names where name.hasPrefix(".new-") {
      guard let file = try? OwnedFile(path: place(name)),
        (try? file.tryExclusiveLock()) == true
      else { continue }
      _ = try? FileSystem.removeFile(place(name))
    }
  }

  func exists() throws -> Bool {
    do throws(SystemError) { return try FileSystem.status(of: path) != nil } catch {
      if error.saysNoSuchFile { return false }
      throw Self.inaccessible("remove", error)
    }
  }

  /// Removes the folder unless there is something in it that is not ours.
  func removeIfEmpty() {
    guard let names = try? FileSystem.names(in: path),
      names.allSatisfy({ $0.hasPrefix(".lock-") })
    else { return }
    FileSystem.removeTree(path)
  }

  static func inaccessible(_ operation: String, _ error: SystemError) -> StorageError {
    StorageError(
      .inaccessible, during: operation,
      "\(error). See to the folder's existence, its permissions and the disk's room, and try again.",
      underlying: error)
  }
}
