// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// A CACHE AND SEVERAL PID NAMESPACES
//
// LMDB identifies processes by pid, so the processes of one generation are of one PID namespace:
// that of the opener that was alone. While they have the store open, those of another namespace use
// a separate store, `ns-<number>` in the same directory; a kept store is refused. It is opened, and
// removed, under the gate of the main store. A process joins the store that others of its namespace
// use, also when the main one is free again.

extension StoreOpener {
  /// Opens the store of this PID namespace, which another namespace keeps out of the main one.
  /// Under the gate of the main store.
  func openBeside(_ fallback: StoreDirectory) throws(StoreError) -> Generation {
    if !directory.isBeside { options.onEvent?(.pidNamespaceConflict(fallback.realRoot)) }
    do throws(SystemError) {
      try FileSystem.makeDirectory(fallback.root)
    } catch {
      throw StoreError(error, during: "open", path: fallback.root)
    }
    let gate = try OpenLock.enter(fallback, timeout: options.openTimeout)
    defer { gate.leave() }
    var opener = self
    opener.directory = fallback
    if let generation = try opener.openLocked() { return generation }
    throw StoreError(
      .otherNamespace, during: "open", path: fallback.root,
      "\(fallback.realRoot) is this PID namespace's fallback, and it is also open in another PID "
        + "namespace. Use another directory.")
  }

  /// Whether a process has the store of a directory open. Under the open lock of the main store,
  /// without which no process opens a per-namespace store.
  ///
  /// The kernel frees the locks in `presence` when their process ends: no process number and no
  /// number of a namespace, which are used again, is compared.
  func isInUse(_ fallback: StoreDirectory) throws(StoreError) -> Bool {
    do throws(SystemError) {
      guard try FileSystem.status(of: fallback.root, followingLinks: false)?.isDirectory ?? false
      else { return false }
      for number in try CurrentPointer.generations(in: fallback) {
        let path = fallback.generation(number) + "/presence"
        guard try FileSystem.status(of: path, followingLinks: false)?.isRegularFile ?? false else {
          continue
        }
        let presence = try OwnedFile(path: path, writable: false)
        if try presence.isLockedElsewhere(at: PresenceLocks.openOffset) { return true }
      }
      return false
    } catch {
      throw StoreError(error, during: "open", path: fallback.root)
    }
  }

  /// Removes the per-namespace stores that no process has open. The caller holds the open lock of
  /// the main store.
  func removeDeadNamespaces() {
    guard !directory.isBeside, let names = try? FileSystem.names(in: directory.root) else { return }
    for name in names where name.hasPrefix(StoreDirectory.besidePrefix) {
      let fallback = directory.inner(name)
      // If the check fails, for example for lack of descriptors, the store stays.
      if (try? isInUse(fallback)) == false { FileSystem.removeTree(fallback.root) }
    }
  }
}
