// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The words that the processes of a relaxed or durable store share: the newest checkpoint and its time.
extension SharedTable {
  /// The commit version of the newest snapshot that is recorded as synced.
  package var checkpointVersion: UInt64 {
    unsafe word(SharedTableLayout.recorded).pointee.load(ordering: .acquiring)
  }

  /// The time at which the last recorded sync began, in milliseconds of the monotonic clock.
  package var syncedAt: UInt64 {
    unsafe word(SharedTableLayout.syncedAt).pointee.load(ordering: .acquiring)
  }

  func raiseRecorded(to commitVersion: UInt64, at milliseconds: UInt64) {
    unsafe word(SharedTableLayout.syncedAt).pointee.max(milliseconds, ordering: .releasing)
    raiseLogSynced(at: milliseconds)
    unsafe word(SharedTableLayout.recorded).pointee.max(commitVersion, ordering: .releasing)
  }

  /// Sets the recorded commit version to that of the checkpoint file. The caller is an opener
  /// without other processes.
  func resetRecorded(to commitVersion: UInt64) {
    unsafe word(SharedTableLayout.recorded).pointee.store(commitVersion, ordering: .releasing)
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    unsafe word(SharedTableLayout.syncedAt).pointee.store(now, ordering: .releasing)
    unsafe word(SharedTableLayout.logSyncedAt).pointee.store(now, ordering: .releasing)
  }

  /// Milliseconds between syncs of a relaxed store.
  package var syncInterval: UInt64 {
    get {
      let found = unsafe word(SharedTableLayout.syncInterval).pointee.load(ordering: .acquiring)
      return StoreMeta.syncIntervals.contains(found) ? found : StoreMeta.usualSyncInterval
    }
    set {
      unsafe word(SharedTableLayout.syncInterval).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Whether a sync of this generation failed. If so, a later successful sync proves nothing.
  package var hasFailedSync: Bool {
    unsafe half(SharedTableLayout.syncFailed).pointee.load(ordering: .acquiring) != 0
  }

  /// Whether the names that lead to the files of the generation are on the disk (`SyncedNames.swift`).
  ///
  /// - Parameter root: The path of the store: one that was moved has other names.
  func hasSyncedNames(below root: String) -> Bool {
    unsafe half(SharedTableLayout.names).pointee.load(ordering: .acquiring)
      == Self.mark(ofNamesBelow: root)
  }

  func noteSyncedNames(below root: String) {
    unsafe half(SharedTableLayout.names).pointee.store(
      Self.mark(ofNamesBelow: root), ordering: .releasing)
  }

  private static func mark(ofNamesBelow root: String) -> UInt32 {
    UInt32(truncatingIfNeeded: XXH64.hash(Array(root.utf8))) | 1
  }

  /// Records that a sync of this generation failed. The mark is permanent.
  package func noteFailedSync() {
    unsafe half(SharedTableLayout.syncFailed).pointee.store(1, ordering: .releasing)
  }
}
