// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// Whether the files that a process has open are still those under the path of the store.

extension Generation {
  /// Whether the files of this generation were removed or replaced.
  package var isOrphaned: Bool {
    // No other process has the files open, or could replace them.
    if QuietView.of(self) != nil { return false }
    guard let mapped = table.fileStatus, mapped.links > 0,
      (try? presence.status)?.links ?? 0 > 0
    else { return true }
    do throws(SystemError) {
      // Uses the path that the next process opens, not the held directory.
      let onDisk = try FileSystem.status(of: realPath + "/shared.table")
      if onDisk?.identity != mapped.identity { return true }
    } catch {
      // A path that cannot be searched, for example for lack of permission, proves nothing.
      return error.isNoSuchFile
    }
    // Neither does a `CURRENT` that cannot be read, for example for lack of descriptors.
    guard let named = (try? CurrentPointer.read(in: directory)) ?? nil else { return false }
    return named != number
  }

  /// Whether the files were deleted or replaced, other than by compactions: the first one marks them before the
  /// second begins.
  var hasForeignFiles: Bool { isOrphaned && !hasSuccessorInForce && !table.isFenced }

  /// Checks for files that were deleted or replaced, and remembers it: every later write fails.
  @discardableResult
  func searchForLostFiles() -> Bool {
    if hasForeignFiles { hasLostFiles.store(true, ordering: .releasing) }
    return hasLostFiles.load(ordering: .acquiring)
  }
}

extension StoreCore {
  /// Reports once that the files of a store that survives system crashes were deleted or replaced.
  func reportLoss(of generation: Generation) {
    generation.hasLostFiles.store(true, ordering: .releasing)
    if generation.hasReportedLoss.exchange(true, ordering: .acquiringAndReleasing) { return }
    report(StoreError.filesRemoved(during: "use", path: directory.path))
  }
}
