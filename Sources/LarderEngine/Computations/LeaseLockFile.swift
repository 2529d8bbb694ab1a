// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The kernel's half of single flight: one byte-range lock a key's hash, in the file `leases`.
///
/// The lock belongs to the open file, so it dies with its holder: no time-out decides, and nobody
/// waits longer for a killed process than it takes to notice. A forked child drops it at once.
///
/// The file is the one the path names now. If it was deleted and created again, with the store or
/// alone, locks on the old one exclude nobody: later locks are on the new one. While the directory is
/// missing, until the store restores it, no other process can hold a lock, and none is needed.
package final class LeaseLockFile: Sendable {
  private struct Held {
    /// Locks of computations that began before the file was replaced are on the old one; `nil`: there
    /// was no directory for a file.
    let file: OwnedFile?
    /// How often this process holds the byte: two keys may share one.
    var count: Int
  }

  private struct State {
    var file: (open: OwnedFile, identity: FileIdentity)?
    var held: [Int64: Held] = [:]
  }

  private let path: String
  private let state = Mutex(State())

  init(directory: StoreDirectory) { path = directory.leases }

  private static func offset(_ hash: UInt64) -> Int64 { Int64(hash >> 2) }

  /// Takes the lock without waiting; `false`: another process computes.
  package func tryLock(hash: UInt64) throws -> Bool {
    try state.withLock { state in
      let offset = LeaseLockFile.offset(hash)
      let file = try currentFile(&state)
      let count = state.held[offset]?.count ?? 0
      if count > 0, state.held[offset]!.file === file {
        state.held[offset]!.count += 1
        return true
      }
      if let file { guard try file.tryLock(.exclusive, at: offset) else { return false } }
      state.held[offset] = Held(file: file, count: count + 1)
      return true
    }
  }

  /// The file at the path, opened, and created if it is missing; `nil`: its directory is missing.
  private func currentFile(_ state: inout State) throws(SystemError) -> OwnedFile? {
    let named = try FileSystem.status(of: path)
    if let file = state.file, named?.identity == file.identity { return file.open }
    do throws(SystemError) {
      let file = try OwnedFile(
        path: path, creation: .createIfMissing,
        closesInForkedChild: !Mutant.leaseOutlivesHolder.isActive)
      state.file = (file, try file.status.identity)
      return file
    } catch {
      // The whole directory was deleted; the store is about to restore it.
      guard named == nil, state.file != nil || error.isNoSuchFile else { throw error }
      return state.file?.open
    }
  }

  package func unlock(hash: UInt64) {
    if ForkGuard.isForkedChild { return }
    state.withLock { state in
      let offset = LeaseLockFile.offset(hash)
      guard let held = state.held[offset] else { return }
      if held.count > 1 {
        state.held[offset]!.count -= 1
        return
      }
      state.held[offset] = nil
      _ = try? held.file?.tryLock(.none, at: offset)
    }
  }
}

/// What lets a computed value into the store: nobody wrote or removed its key since the computation
/// began, neither before this transaction nor in it.
package struct FillToken: Sendable {
  /// The incarnation of the generation the computation began in.
  let generation: UInt64
  /// The slot in the table that writers of the key cancel; `nil` when there was none left.
  let lease: Lease?
  /// Without a lease, or when a writer was at work as it was taken: the slot's stamp must not be
  /// newer than this label. May refuse for the sake of a key that shares the slot.
  let newestAllowed: UInt64?

  func allowsFill(hash: UInt64, in transaction: borrowing StoreTransaction) -> Bool {
    if Mutant.fillIgnoresCancel.isActive { return true }
    guard generation == transaction.generation.incarnation else { return false }
    let table = transaction.generation.table
    if let lease, !table.isValid(lease) { return false }
    guard let newestAllowed else { return true }
    let slot = Int(hash & UInt64(SharedTableLayout.stampCount - 1))
    return table.minimumValidReadVersion(slot: slot) <= newestAllowed
      && !transaction.touchedSlots.contains(slot)
  }
}
