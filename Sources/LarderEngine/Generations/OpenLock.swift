// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The open lock: the lock around every opening and closing of a store on this machine.
///
/// If a process is killed inside `mdb_env_open` while another process opens the environment, LMDB
/// 0.9 can return to an older transaction, and closing races with opening. So at most one process
/// opens or closes at a time. The kernel releases the lock when its holder exits.
package final class OpenLock: Sendable {
  private let file: OwnedFile

  private init(file: OwnedFile) { self.file = file }

  /// Acquires the open lock, waiting at most `timeout`.
  package static func enter(
    _ directory: StoreDirectory, timeout: Duration
  ) throws(StoreError) -> OpenLock {
    ForkGuard.activate()
    let deadline = Clocks.monotonicNanoseconds() &+ timeout.nanoseconds
    let pause = Event()
    var waited: OwnedFile?
    while true {
      do throws(SystemError) {
        let file = try OwnedFile(
          path: directory.gate, creation: .createIfMissing, closesInForkedChild: true)
        if try file.tryExclusiveLock() {
          // The store may have been removed between our open and our lock.
          if try FileSystem.status(of: directory.gate)?.identity == file.status.identity {
            return OpenLock(file: file)
          }
          continue
        }
        waited = file
      } catch {
        if error.isOutOfFiles {
          throw StoreError(error, during: "open", path: directory.path)
        }
        throw StoreError(
          error.isStorageFull ? .storageFull : .directory, during: "open", path: directory.gate,
          "The store's gate cannot be opened (\(error)). "
            + (error.isReadOnly
              ? StoreError.readOnly : "Check the directory's owner and mode (0700)."),
          errorNumber: error.errno)
      }
      guard Clocks.monotonicNanoseconds() < deadline else {
        throw timedOut(directory, after: timeout, holder: waited?.lockHolder)
      }
      pause.wait(nanoseconds: 2_000_000)
    }
  }

  /// Returns the error of a wait for the process that holds the open lock.
  static func timedOut(_ directory: StoreDirectory, after timeout: Duration) -> StoreError {
    timedOut(directory, after: timeout, holder: holder(of: directory))
  }

  /// Returns the process that holds the open lock, as far as this process can see it.
  static func holder(of directory: StoreDirectory) -> Int32? {
    let main = directory.isBeside ? directory.outer : directory
    return (try? OwnedFile(path: main.gate, writable: false))?.lockHolder
  }

  private static func timedOut(
    _ directory: StoreDirectory, after timeout: Duration, holder: Int32?
  ) -> StoreError {
    StoreError(
      .openTimeout, during: "open", path: directory.path,
      "\(LockHolder.name(holder)) has been opening, closing or compacting this store for "
        + "longer than \(timeout). If it is stopped, continue it or end it.", pid: holder)
  }

  package func leave() { file.unlock() }

  deinit { file.unlock() }
}
