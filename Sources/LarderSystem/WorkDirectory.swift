// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// Directories for work that a kill leaves unfinished. Each is locked by its process while that works in it, so the next
/// process that makes one finds, and removes, those of processes that were killed.
package enum WorkDirectory {
  /// Creates and locks a directory whose path begins with a prefix, and removes those of processes that were killed.
  ///
  /// Other threads, and processes of other PID namespaces, may work at the same place.
  ///
  /// - Returns: The directory; its lock ends with the object, or with `unlock()`.
  package static func make(_ prefix: String) throws(SystemError) -> OwnedFile {
    removeAbandoned(prefix)
    while true {
      let path = prefix + String(UInt64.random(in: 0 ... .max), radix: 16)
      try FileSystem.makeDirectories(path)
      do {
        let lock = try OwnedFile(path: path, writable: false)
        if try lock.tryExclusiveLock(),
          try FileSystem.status(of: path)?.identity == lock.status.identity
        {
          return lock
        }
      } catch {
        // Before it is locked, another process may remove it.
        if error.errno == ENOENT { continue }
        FileSystem.removeTree(path)
        throw error
      }
    }
  }

  private static func removeAbandoned(_ prefix: String) {
    let parent = prefix.lastIndex(of: "/").map { String(prefix[...$0]) } ?? ""
    for name in (try? FileSystem.names(in: parent.isEmpty ? "." : parent)) ?? []
    where (parent + name).hasPrefix(prefix) {
      // In a directory for all users, others have their own.
      guard let lock = try? OwnedFile(path: parent + name, writable: false),
        let status = try? lock.status, status.isDirectory, status.owner == FileSystem.userID,
        (try? lock.tryExclusiveLock()) == true
      else { continue }
      FileSystem.removeTree(parent + name)
    }
  }
}
