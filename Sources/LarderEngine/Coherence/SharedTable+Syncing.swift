// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The words of the table that a relaxed store's processes share: what is on the disk, and since when.
extension SharedTable {
  /// The label of the newest snapshot that is recorded as synced.
  package var checkpointVersion: UInt64 {
    unsafe word(SharedTableLayout.recorded).pointee.load(ordering: .acquiring)
  }

  /// When the last sync that was recorded began; milliseconds of the monotonic clock.
  package var syncedAt: UInt64 {
    unsafe word(SharedTableLayout.syncedAt).pointee.load(ordering: .acquiring)
  }

  func raiseRecorded(to label: UInt64, at milliseconds: UInt64) {
    unsafe word(SharedTableLayout.syncedAt).pointee.max(milliseconds, ordering: .releasing)
    unsafe word(SharedTableLayout.recorded).pointee.max(label, ordering: .releasing)
  }

  /// By an opener that is alone: what the file says.
  func resetRecorded(to label: UInt64) {
    unsafe word(SharedTableLayout.recorded).pointee.store(label, ordering: .releasing)
    unsafe word(SharedTableLayout.syncedAt).pointee.store(
      Clocks.monotonicNanoseconds() / 1_000_000, ordering: .releasing)
  }

  /// Milliseconds between syncs.
  package var syncInterval: UInt64 {
    get {
      let found = unsafe word(SharedTableLayout.syncInterval).pointee.load(ordering: .acquiring)
      return StoreMeta.syncIntervals.contains(found) ? found : StoreMeta.usualSyncInterval
    }
    set {
      unsafe word(SharedTableLayout.syncInterval).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Whether a sync of this generation failed, so that no later one can be believed.
  package var hasFailedSync: Bool {
    unsafe half(SharedTableLayout.syncFailed).pointee.load(ordering: .acquiring) != 0
  }

  package func noteFailedSync() {
    unsafe half(SharedTableLayout.syncFailed).pointee.store(1, ordering: .releasing)
  }
}
