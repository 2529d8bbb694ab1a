// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The kernel's half of single flight: one byte-range lock a key's hash, in the file `leases`.
///
/// The lock belongs to the open file, so it dies with its holder: no time-out decides, and nobody
/// waits longer for a killed process than it takes to notice. A forked child drops it at once.
package final class LeaseFile: Sendable {
  private struct State {
    var file: OwnedFile?
    /// How often this process holds each byte: two keys may share one.
    var held: [Int64: Int] = [:]
  }

  private let path: String
  private let state = Mutex(State())

  init(directory: StoreDirectory) { path = directory.leases }

  private static func offset(_ hash: UInt64) -> Int64 { Int64(hash >> 2) }

  /// Takes the lock without waiting; `false`: another process computes.
  package func tryLock(hash: UInt64) throws -> Bool {
    try state.withLock { state in
      let offset = LeaseFile.offset(hash)
      if let count = state.held[offset] {
        state.held[offset] = count + 1
        return true
      }
      if state.file == nil {
        state.file = try OwnedFile(
          path: path, creation: .createIfMissing,
          closesInForkedChild: !Mutant.leaseOutlivesHolder.isActive)
      }
      guard try state.file!.tryLock(.exclusive, at: offset) else { return false }
      state.held[offset] = 1
      return true
    }
  }

  package func unlock(hash: UInt64) {
    state.withLock { state in
      let offset = LeaseFile.offset(hash)
      guard let count = state.held[offset] else { return }
      if count > 1 {
        state.held[offset] = count - 1
        return
      }
      state.held[offset] = nil
      _ = try? state.file?.tryLock(.none, at: offset)
    }
  }
}

/// What lets a computed value into the store: nobody wrote or removed its key since the computation
/// began, neither before this transaction nor in it.
package struct FillPermit: Sendable {
  let generation: UInt64
  /// The slot in the table that writers of the key cancel; `nil` when there was none left.
  let lease: Lease?
  /// Without a lease, or when a writer was at work as it was taken: the slot's stamp must not be
  /// newer than this label. May refuse for the sake of a key that shares the slot.
  let newestAllowed: UInt64?

  func allowsFill(hash: UInt64, in transaction: borrowing StoreTransaction) -> Bool {
    if Mutant.fillIgnoresCancel.isActive { return true }
    guard generation == transaction.generation.number else { return false }
    let table = transaction.generation.table
    if let lease, !table.isValid(lease) { return false }
    guard let newestAllowed else { return true }
    let slot = Int(hash & UInt64(SharedTableLayout.stampCount - 1))
    return table.newestLabel(slot: slot) <= newestAllowed
      && !transaction.touchedSlots.contains(slot)
  }
}
