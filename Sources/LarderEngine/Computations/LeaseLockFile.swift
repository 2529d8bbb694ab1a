// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The kernel's half of single flight: a byte-range lock for each key hash, in the file `leases`.
///
/// The lock belongs to the open file, so the kernel releases it when its holder exits. No timeout
/// is needed, and a wait for a killed process ends as soon as the exit is detected. A forked child
/// closes the file at once.
///
/// The open file is always the one at the path. If it was deleted and created again, with the store
/// or separately, locks on the old file exclude no other process, so later locks are acquired on
/// the new file. While the directory is missing, until the store restores it, no other process can
/// hold a lock, and none is needed.
package final class LeaseLockFile: Sendable {
  private struct Held {
    /// The file of the lock: locks of computations that began before the file was replaced are on
    /// the old one. `nil` if there was no directory for a file.
    let file: OwnedFile?
    /// The number of times this process holds the byte: two keys may share it.
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

  /// Acquires the lock without waiting. Returns `false` if another process holds it.
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

  /// Returns the open file at the path. Creates it if it is missing.
  ///
  /// - Returns: The file, or `nil` if its directory is missing.
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

  /// Releases the lock. Has no effect in a forked child.
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

/// The proof that a computed value may be stored: no process wrote or removed its key since the
/// computation began, neither before this transaction nor in it.
package struct FillToken: Sendable {
  /// The incarnation of the generation in which the computation began.
  let generation: UInt64
  /// The lease slot in the shared-memory table, which writers of the key cancel, or `nil` if every
  /// slot was in use.
  let lease: Lease?
  /// The highest commit version that the key's stamp slot may contain. Set without a lease, or if a
  /// writer was active when the lease was acquired. A write to another key of the same slot may
  /// also reject the fill.
  package let newestAllowed: UInt64?
  /// The commit version of a snapshot from before the computation.
  let begun: UInt64

  func allowsFill(hash: UInt64, in transaction: borrowing StoreTransaction) -> Bool {
    if Mutant.fillIgnoresCancel.isActive { return true }
    guard generation == transaction.generation.incarnation else { return false }
    let table = transaction.generation.table
    if let lease, !table.isValid(lease) { return false }
    guard let newestAllowed else { return true }
    let slot = StampSlot(hash: hash)
    return table.minimumValidReadVersion(slot: slot) <= newestAllowed
      && !transaction.touchedSlots.contains(slot)
  }
}
