// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The open lock: the lock around every opening and closing of a store on this machine.
///
/// If a process is killed inside `mdb_env_open` while another process opens the environment, LMDB
/// 0.9 can return to an older transaction, and closing races with opening. So at most one process
/// opens or closes at a time. The kernel releases the lock when its holder exits.
///
/// Views that do not write share the lock (`QuietView.swift`). An opener that finds it taken locks byte 0 of the file
/// shared, so that they release it.
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
          _ = try file.tryLock(.none, at: waitingByte)
          // The store may have been removed between our open and our lock.
          if try FileSystem.status(of: directory.gate)?.identity == file.status.identity {
            return OpenLock(file: file)
          }
          continue
        }
        _ = try file.tryLock(.shared, at: waitingByte)
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

  /// The byte that an opener locks while it waits.
  private static let waitingByte: Int64 = 0

  /// Shares the open lock, with a descriptor that can only read; waits at most `timeout` for an opener.
  ///
  /// - Returns: `nil` if there is no lock file, or an opener waits for it.
  static func share(
    _ directory: StoreDirectory, timeout: Duration
  ) throws(StoreError) -> OpenLock? {
    ForkGuard.activate()
    let deadline = Clocks.deadline(after: timeout)
    let pause = Event()
    while true {
      do throws(SystemError) {
        let file = try OwnedFile(
          path: directory.gate, writable: false, closesInForkedChild: true)
        let lock = OpenLock(file: file)
        if lock.isAwaited { return nil }
        if try file.tryToShareLock() {
          if try FileSystem.status(of: directory.gate)?.identity == file.status.identity {
            return lock
          }
          continue
        }
      } catch {
        if error.isNoSuchFile { return nil }
        throw StoreError(error, during: "open", path: directory.gate)
      }
      guard Clocks.monotonicNanoseconds() < deadline else {
        throw timedOut(directory, after: timeout)
      }
      pause.wait(nanoseconds: 2_000_000)
    }
  }

  /// The byte that a view locks while it begins to take part.
  private static let joiningByte: Int64 = 1

  /// Waits until no other view that shares this lock begins to take part.
  ///
  /// - Returns: A lock whose end lets the next one begin; `nil` if this process may not write to the file, or after
  ///   `timeout`.
  func joiningTurn(_ directory: StoreDirectory, timeout: Duration) -> RangeTurn? {
    let deadline = Clocks.deadline(after: timeout)
    let pause = Event()
    guard let turn = try? OwnedFile(path: directory.gate, closesInForkedChild: true),
      (try? turn.status.identity) == (try? file.status.identity)
    else { return nil }
    while true {
      do throws(SystemError) {
        if try turn.tryLock(.exclusive, at: Self.joiningByte) {
          return RangeTurn(file: turn, byte: Self.joiningByte)
        }
      } catch { return nil }
      guard Clocks.monotonicNanoseconds() < deadline else { return nil }
      pause.wait(nanoseconds: 1_000_000)
    }
  }

  /// A locked byte of the file.
  struct RangeTurn {
    fileprivate let file: OwnedFile
    fileprivate let byte: Int64

    func unlock() { _ = try? file.tryLock(.none, at: byte) }
  }

  /// Whether an opener waits for the lock.
  var isAwaited: Bool { (try? file.isLockedElsewhere(at: Self.waitingByte)) ?? false }

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
