// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem
internal import Synchronization

/// The words about the other files of the generation, by which the next opener finds out whether they are as
/// the last process left them.
extension SharedTable {
  /// The other files of a generation when its table is created.
  package struct FileMarks: Sendable {
    /// Whether `state` marks the store dirty already.
    let isDirty: Bool
    /// The time of the last change of `data.mdb`.
    let dataChanged: UInt64
    /// The time of the last change of `state`.
    let stateChanged: UInt64
    /// The page cache of `data.mdb`.
    let pageCache: PageCacheIdentity

    package init(
      isDirty: Bool, dataChanged: UInt64 = 0, stateChanged: UInt64 = 0,
      pageCache: PageCacheIdentity = .none
    ) {
      self.isDirty = isDirty
      self.dataChanged = dataChanged
      self.stateChanged = stateChanged
      self.pageCache = pageCache
    }

    func store(in header: inout [UInt8]) {
      header.store(pageCache.mount, at: SharedTableLayout.pageCacheOffset)
      header.store(pageCache.fileSystem, at: SharedTableLayout.pageCacheOffset + 8)
      header.store(stateChanged, at: SharedTableLayout.stateChanged)
      header.store(isDirty ? UInt32(1) : 0, at: SharedTableLayout.dirty)
      header.store(dataChanged, at: SharedTableLayout.dataChanged)
    }
  }

  /// The page cache of `data.mdb`. Only a process that is alone stores it.
  package var pageCache: PageCacheIdentity {
    get {
      let mount = unsafe word(SharedTableLayout.pageCacheOffset).pointee.load(ordering: .relaxed)
      let fileSystem = unsafe word(SharedTableLayout.pageCacheOffset + 8).pointee.load(
        ordering: .relaxed)
      return PageCacheIdentity(mount: mount, fileSystem: fileSystem)
    }
    set {
      unsafe word(SharedTableLayout.pageCacheOffset).pointee.store(
        newValue.mount, ordering: .relaxed)
      unsafe word(SharedTableLayout.pageCacheOffset + 8).pointee.store(
        newValue.fileSystem, ordering: .relaxed)
    }
  }

  /// The time of the last change of `state`, in nanoseconds. A copy over the files of a store has another time.
  package var stateChanged: UInt64 {
    get { unsafe word(SharedTableLayout.stateChanged).pointee.load(ordering: .acquiring) }
    set {
      unsafe word(SharedTableLayout.stateChanged).pointee.store(newValue, ordering: .releasing)
    }
  }

  /// Whether the table is of the page cache of an open `data.mdb`, and so as the last process left it.
  package func isCurrent(forDescriptor data: CInt) -> Bool {
    bootID == ProcessIdentity.bootID && pageCache.isProven(forDescriptor: data)
  }

  /// Whether commits after transaction `newest` were made, according to a table that is as the last process left it:
  /// then `data.mdb` is older. The words have no checksum, so several must agree.
  func hasCommits(after newest: UInt64) -> Bool {
    let (begun, stamped, logged) = (writerVersion, lastStamped, loggedVersion)
    guard stamped >> Generation.versionBits == generation, begun &- stamped <= 1 else {
      return false
    }
    // A writer that was killed before its commit has stored stamps, but no more.
    return stamped > newest &+ 1 || (logged > newest && logged <= stamped)
  }
}
