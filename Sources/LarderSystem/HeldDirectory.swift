// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB
internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// A directory that ``PathWalk`` accepted. It stays the same when an entry of its path is renamed.
///
/// On Linux all calls go through a descriptor: ``reference`` is `/proc/self/fd/<n>`, which the kernel
/// follows to the open directory. Where `/proc` is missing, and on Darwin, it is the path: other users
/// cannot rename an entry of a path that ``PathWalk`` accepted.
package final class HeldDirectory: Sendable {
  /// The absolute path that named the directory; errors show it.
  package let path: String
  /// The path that system calls use for the directory, valid for the lifetime of this object.
  package let reference: String
  private let descriptor: CInt

  private static let prefix = "/proc/self/fd/"
  private static let open = Mutex<[String: String]>([:])

  /// Opens a directory by walking its path and checking each directory on the way.
  ///
  /// - Parameters:
  ///   - path: An absolute path.
  ///   - creating: Whether missing directories are created.
  /// - Throws: ``PathWalkError``.
  package init(_ path: String, creating: Bool) throws(PathWalkError) {
    self.path = path
    let descriptor = try PathWalk(path, creating: creating).open()
    self.descriptor = descriptor
    let candidate = HeldDirectory.prefix + String(descriptor)
    let found = (try? FileSystem.status(of: candidate)) ?? nil
    if descriptor >= 0, let found,
      found.identity == FileSystem.status(ofDescriptor: descriptor)?.identity
    {
      reference = candidate
      HeldDirectory.open.withLock { $0[candidate] = path }
    } else {
      reference = path
    }
  }

  deinit {
    guard descriptor >= 0 else { return }
    HeldDirectory.open.withLock { _ = $0.removeValue(forKey: reference) }
    close(descriptor)
  }

  /// The status of the directory itself, whatever its present name.
  package var status: FileStatus? {
    descriptor < 0
      ? (try? FileSystem.status(of: path)) ?? nil : FileSystem.status(ofDescriptor: descriptor)
  }

  /// Makes ``reference`` lead to another directory, after the first one was deleted and recreated.
  package func follow(_ other: HeldDirectory) {
    guard descriptor >= 0, other.descriptor >= 0, status?.identity != other.status?.identity else {
      return
    }
    if dup2(other.descriptor, descriptor) >= 0 { larder_set_cloexec(descriptor) }
  }

  /// Returns the path to show for a path that begins with the ``reference`` of a held directory.
  package static func realPath(_ path: String) -> String {
    guard path.hasPrefix(prefix) else { return path }
    let end = path.dropFirst(prefix.count).firstIndex(of: "/") ?? path.endIndex
    return open.withLock { $0[String(path[..<end])] }.map { $0 + path[end...] } ?? path
  }
}
