// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import LarderSystem

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

// WRITING THROUGH THE MAP (MDB_WRITEMAP)
//
// A commit without sync costs 5 us through the map and 33 us with `pwrite`. The risk in LMDB: the
// first store to a page that has no block on disk is a SIGBUS when the disk is full. This type
// prevents every such store.
//
// Reservation.  `pages`: this process has had the system allocate blocks for all pages below it
//   (fallocate, from page 0 on, so that no process leaves a hole). Before each change of a write
//   transaction, the page at which it would next extend the file, plus the most that this change
//   and the commit can need, must be below; else more is allocated first, ahead in steps, so that
//   a commit normally makes no such call. Nothing is shared, and nothing has to be repaired after a
//   kill: blocks that another process allocated are allocated again, which costs only a call.
// No room.  If the disk refuses, the transaction is aborted before any change, and restarted with
//   `pwrite`, where a full disk is an error. So the same code handles a full disk in both modes.
//   Each later transaction retries the reservation.
// Mixing.  Transactions through the map and with `pwrite` may follow each other in any order, in
//   one process and in several: only one writes at a time, both go to the one page cache of the
//   system (the file systems allowed here have one), the meta page comes last in both, and a sync
//   of either covers the writes of the other. A page that `pwrite` left as a hole, because it was
//   allocated and freed in one transaction, is covered: the reservation begins at page 0.
// File systems.  Only those that never move a block once it is allocated: ext4 and tmpfs. Not btrfs,
//   ZFS, or xfs, where a copied or snapshotted file shares its blocks and the next store needs a
//   new one; and no unknown one. A program that punches holes into a file in use breaks the
//   guarantee; the same program could also truncate it. Not for relaxed stores: in an experiment, a
//   commit took three quarters of the time with `pwrite` and gained nothing else, because after a
//   sync the first store to each page is a fault again. The gain does not justify exposing durable
//   data; and the power-cut tests, which derive from the calls what was written and when, would not
//   cover it.
// Activation.  With the first transaction of a process. LMDB opens the file as usual, with a
//   read-only map; a process that does not write has no other. MDB_WRITEMAP at opening would make
//   the file as long as the map, gigabytes, and change it although no process writes.
//
// LMDB has no call to switch, and none that returns how far a transaction has extended the file.
// Both are words of its structures: the flags, and `mt_next_pgno`. They have the same offsets in
// all releases 0.9; the code compares them with the results of LMDB's own functions, for each
// environment and each transaction. If they differ, writes use `pwrite`.
//
// Remaining risk: a disk that fails, or a file system that the kernel makes read-only because of
// it, may be a SIGBUS, as for every reader of a map.
//
// Cost: a store of the program through a wild pointer can reach the file, in processes that write.
// Checksums detect that in entries, and the verifier detects it in the trees.

/// The pages to which a process may write through the map of one environment.
///
/// Only the holder of the process writer lock uses it: one thread at a time.
@safe
package final class WriteMapReservation {
  private let environment: OpaquePointer
  private let descriptor: CInt
  private let pageSize: Int
  private let mapPages: Int
  /// The page number below which all pages have blocks on disk.
  private(set) var pages = 0
  var bytes: Int { pages * pageSize }
  /// Whether the next transaction writes through the map.
  private(set) var isOn = false
  /// Whether a reservation failed since the mode was chosen.
  private(set) var hasRefused = false
  private var isRuledOut = false

  /// Makes the map writable; returns `nil` if that is not possible here.
  init?(_ environment: borrowing EnvironmentHandle) {
    let handle = unsafe environment.pointer
    let information = environment.information
    guard LMDBFormat.isKnown, FileSystem.neverRelocatesBlocks(below: environment.path) else {
      return nil
    }
    unsafe self.environment = handle
    descriptor = environment.dataDescriptor
    pageSize = information.pageSize
    mapPages = information.mapSize / max(information.pageSize, 1)
    guard
      unsafe WriteMapReservation.knowsFlags(of: handle, descriptor),
      FileSystem.allocate(descriptor, at: 0, count: 2 * Int64(pageSize)) == 0,
      let base = unsafe EnvironmentContext.mapStart(of: environment, pageSize: pageSize),
      unsafe mprotect(base, information.mapSize, PROT_READ | PROT_WRITE) == 0
    else { return nil }
  }

  /// Chooses how the next transaction writes: through the map if there is room ahead.
  func choose(throughMap: Bool, after lastPage: Int) {
    let ahead = lastPage + 1 + WriteMapReservation.commitPages(next: lastPage + 1, freeTree: 0) + 32
    let isWanted = throughMap && !isRuledOut && (ahead <= pages || extend(to: ahead))
    hasRefused = false
    guard isWanted != isOn else { return }
    unsafe larder_env_set_flag(environment, UInt32(MDB_WRITEMAP), isWanted ? 1 : 0)
    isOn = isWanted
  }

  /// Allocates blocks on disk for all pages below `wanted`, and some more for later.
  ///
  /// - Returns: `false` if there is no space.
  func extend(to wanted: Int) -> Bool {
    let wanted = min(wanted, mapPages)
    if wanted <= pages { return true }
    let step = min(max(wanted / 8, 16), 4096)
    let limit = ResourceLimits.fileSize ?? .max
    for target in [min(wanted + step, mapPages), wanted] {
      let start = Int64(pages * pageSize)
      // Beyond a limit on file sizes the call would raise a signal.
      if target * pageSize > limit { continue }
      if FileSystem.allocate(descriptor, at: start, count: Int64(target * pageSize) - start) == 0 {
        pages = target
        return true
      }
    }
    hasRefused = true
    return false
  }

  /// Disables writing through the map permanently: this liblmdb has an unknown layout.
  func ruleOut() {
    isRuledOut = true
    hasRefused = true
  }

  // MARK: Bounds

  /// Returns the most pages by which one put or removal can extend the file, without overflow
  /// pages.
  ///
  /// A change copies each page of its path; a put may split each and the root; a removal copies a
  /// neighbour at each level, and where a longer key moves up may split all levels above.
  package static func operationPages(depth: Int) -> Int { (depth + 4) * (depth + 4) }

  /// The most pages that a change of the deepest tree of LMDB can need.
  static let anyOperationPages = operationPages(depth: LMDBFormat.maximumDepth)

  /// Returns the most pages by which a commit can extend the file: the records of the tables, and
  /// the free list, with eight bytes for each page number below `next`, written twice at most.
  static func commitPages(next: Int, freeTree: Int) -> Int { 96 + next / 256 + 2 * freeTree }

  // MARK: Words of LMDB's structures

  /// Returns whether the flags are at the expected offset.
  @unsafe private static func knowsFlags(of handle: OpaquePointer, _ descriptor: CInt) -> Bool {
    var before: UInt32 = 0
    var after: UInt32 = 0
    guard
      unsafe mdb_env_get_flags(handle, &before) == MDB_SUCCESS,
      unsafe larder_env_descriptor(handle) == descriptor,
      unsafe larder_env_flags(handle) & before == before, before & UInt32(MDB_WRITEMAP) == 0
    else { return false }
    unsafe larder_env_set_flag(handle, UInt32(MDB_WRITEMAP), 1)
    let status = unsafe mdb_env_get_flags(handle, &after)
    unsafe larder_env_set_flag(handle, UInt32(MDB_WRITEMAP), 0)
    return status == MDB_SUCCESS && after == before | UInt32(MDB_WRITEMAP)
  }
}
