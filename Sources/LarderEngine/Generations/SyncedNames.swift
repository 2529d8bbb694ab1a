// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// NAMES ON THE DISK
//
// Every process finds a file that was created or renamed at once. After a loss of power it is there only if its
// directory was synced since. The process that has made the name may be killed before that sync, or the disk may
// refuse it; what others store in the file would be lost with the name. So in a store that survives system crashes
// a process that finds a name has a proof that it is on the disk, or syncs the directory first:
//
//   generation   It is complete, and its files have their names on the disk, before it is renamed to g-<n>.
//   g-<n>, CURRENT, and the directories above
//                The word `names` in the table of the generation is set to a hash of the store's path after their
//                sync, by the process that has renamed them or by the first opener that does not find it there. That
//                opener syncs them before any process uses the generation, and before it removes an older one. A
//                store that was moved has other names, and a new boot makes a new table: the first opener syncs the
//                names once more.
//   log-<n>      It has bytes only after its name is on the disk (`LogSegments.swift`). A relaxed store syncs the
//                directory with the log (`RedoLog+Syncing.swift`).
//   synced       Likewise (`CheckpointRecord.swift`).
//   others       `shared.table`, `presence`, `lock.mdb`, `gate`, `locks`, `leases` and `copying` are made again
//                where they are missing; without `state` an opener recovers.
//
// A sync of a directory that the disk has refused is a refused sync like any other: the next write copies the store
// to a new generation, and until then no older one is removed.

extension GenerationBuilder {
  /// Names a complete generation in `CURRENT`. The caller holds the open lock.
  package func put(_ temporary: String, inForceAs number: UInt64) throws {
    let survivesSystemCrash = options.durability.survivesSystemCrash
    if survivesSystemCrash {
      try FileSystem.synchronizeDirectory(temporary)
      try FileSystem.synchronizeDirectory(directory.root)
      try FileSystem.synchronizeParents(of: directory.realRoot)
    }
    try fault(throwing: .openGenerationBuilt)
    try FileSystem.rename(temporary, to: directory.generation(number))
    do {
      if survivesSystemCrash { try FileSystem.synchronizeDirectory(directory.root) }
      try fault(throwing: .openGenerationRenamed)
      try CurrentPointer.write(number, in: directory, synchronous: survivesSystemCrash)
    } catch {
      // Another process finds the generation: by its directory, or in CURRENT.
      if error.isRefusedSync { table(of: number)?.noteFailedSync() }
      throw error
    }
    if survivesSystemCrash { table(of: number)?.noteSyncedNames(below: directory.realRoot) }
    try fault(throwing: .openCurrentWritten)
  }

  private func table(of number: UInt64) -> SharedTable? {
    let path = directory.generation(number) + "/shared.table"
    return try? SharedTable(mapping: OwnedFile(path: path))
  }
}

extension StoreOpener {
  /// Syncs the names that lead to a generation, unless they are on the disk. The caller holds the open lock.
  ///
  /// - Returns: `false` if the disk refuses a sync, or has refused one before: older generations stay.
  func confirmNames(of generation: Generation) throws(SystemError) -> Bool {
    let table = generation.table
    if !options.durability.survivesSystemCrash
      || table.hasSyncedNames(below: directory.realRoot) || Mutant.namesUnconfirmed.isActive
    {
      return true
    }
    if table.hasFailedSync { return false }
    do throws(SystemError) {
      try FileSystem.synchronizeDirectory(generation.path)
      try FileSystem.synchronizeDirectory(directory.root)
      try FileSystem.synchronizeParents(of: directory.realRoot)
    } catch {
      guard error.isRefusedSync else { throw error }
      table.noteFailedSync()
      return false
    }
    table.noteSyncedNames(below: directory.realRoot)
    return true
  }
}
