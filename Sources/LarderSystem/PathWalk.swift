// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// The reason why a path does not lead to a directory that only this user and root can replace.
package enum PathWalkError: Error, Sendable {
  /// A directory on the path cannot be opened.
  case system(SystemError)
  /// A missing directory cannot be created.
  case notCreated(SystemError)
  /// A symbolic link leads to nothing.
  case danglingLink(String)
  /// A symbolic link belongs to another user.
  case foreignLink(String, owner: UInt32)
  /// A directory on the path belongs to another user, so that its owner can replace its entries.
  case foreignParent(String, owner: UInt32)
  /// Other users can write to a directory on the path, and so replace what is in it.
  case writableParent(String)
}

// EACH STEP OF A PATH
//
// A directory that another user can replace makes every later check useless: between the check and
// the use, that user can replace it. So the path is walked from the root, each entry opened
// relative to the descriptor of the directory before it, and each directory that contains an entry
// of the path has to be safe:
//
//   - its owner is this user or root;
//   - no other user can write to it; or it is sticky (as /tmp is) and the entry's owner is this
//     user or root. A group with the number of the owner is treated as the owner's private group.
//
// Links are read, not followed, and belong to this user or root; their targets are walked likewise.
// Inside a user namespace, owners that are not mapped appear as 65534: those are treated as root.

/// One walk along a path.
struct PathWalk {
  private let path: String
  private let isCreating: Bool

  init(_ path: String, creating: Bool) {
    self.path = path
    isCreating = creating
  }

  #if os(Linux)
  private struct Step {
    let name: String
    let isOfLink: Bool
  }

  /// A directory or link that the walk has reached: its descriptor, closed with the last
  /// reference.
  private final class Place {
    private(set) var descriptor: CInt
    let path: String
    let status: FileStatus

    init(_ name: String, in parent: CInt, path: String) throws(SystemError) {
      let flags = larder_path_only() | O_NOFOLLOW
      var result = unsafe larder_open_at(parent, name, flags)
      while result < 0, currentErrno() == EINTR {
        result = unsafe larder_open_at(parent, name, flags)
      }
      guard result >= 0 else { throw .last("openat", path) }
      guard let status = FileSystem.status(ofDescriptor: result) else {
        let error = SystemError.last("fstat", path)
        close(result)
        throw error
      }
      descriptor = result
      self.path = path
      self.status = status
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// The descriptor, which the caller closes.
    func release() -> CInt {
      defer { descriptor = -1 }
      return descriptor
    }
  }

  private static func root() throws(PathWalkError) -> Place {
    do throws(SystemError) { return try Place("/", in: AT_FDCWD, path: "/") } catch {
      throw .system(error)
    }
  }

  /// Walks the path.
  ///
  /// - Returns: A descriptor of what the path leads to, for `fstat` and as the beginning of
  ///   paths.
  func open() throws(PathWalkError) -> CInt {
    var rest = steps(of: path, isOfLink: false)
    var links = 0
    var place = try PathWalk.root()
    while let step = rest.popLast() {
      let next = try enter(step, from: place, isLast: rest.isEmpty)
      if step.name != ".." { try judge(place, containing: next) }
      guard next.status.isSymbolicLink else {
        place = next
        continue
      }
      links += 1
      guard links <= 40 else {
        throw .system(SystemError(errno: ELOOP, operation: "openat", path: next.path))
      }
      let target = try target(of: next)
      rest += steps(of: target, isOfLink: true)
      if target.hasPrefix("/") { place = try PathWalk.root() }
    }
    return place.release()
  }

  /// The names of a path, the first one last.
  private func steps(of path: String, isOfLink: Bool) -> [Step] {
    path.split(separator: "/").filter { $0 != "." }.reversed().map {
      Step(name: String($0), isOfLink: isOfLink)
    }
  }

  /// Opens an entry of a directory, and creates it if the caller requests that.
  private func enter(
    _ step: Step, from place: Place, isLast: Bool
  ) throws(PathWalkError) -> Place {
    let path = (place.path == "/" ? "" : place.path) + "/" + step.name
    do throws(SystemError) {
      return try Place(step.name, in: place.descriptor, path: path)
    } catch {
      if error.errno == ENOTDIR { throw .notCreated(error) }
      guard error.errno == ENOENT else { throw .system(error) }
      if step.isOfLink { throw .danglingLink(path) }
      guard isCreating else { throw .system(error) }
    }
    try judge(place, containing: nil)
    guard
      unsafe mkdirat(place.descriptor, step.name, isLast ? 0o700 : 0o755) == 0
        || currentErrno() == EEXIST
    else { throw .notCreated(.last("mkdir", path)) }
    do throws(SystemError) {
      return try Place(step.name, in: place.descriptor, path: path)
    } catch {
      throw .system(error)
    }
  }

  /// Refuses a directory in which other users can replace an entry.
  ///
  /// - Parameter entry: The entry, or `nil` if this user is about to create it.
  private func judge(_ place: Place, containing entry: Place?) throws(PathWalkError) {
    let status = place.status
    guard FileSystem.isTrusted(owner: status.owner) else {
      throw .foreignParent(place.path, owner: status.owner)
    }
    guard FileSystem.othersMayWrite(status) else { return }
    guard status.mode & 0o1000 != 0 else { throw .writableParent(place.path) }
    // The directory is safe; another user can replace the entry.
    guard let entry, !FileSystem.isTrusted(owner: entry.status.owner) else { return }
    throw entry.status.isSymbolicLink
      ? .foreignLink(entry.path, owner: entry.status.owner)
      : .foreignParent(entry.path, owner: entry.status.owner)
  }

  private func target(of link: Place) throws(PathWalkError) -> String {
    guard FileSystem.isTrusted(owner: link.status.owner) else {
      throw .foreignLink(link.path, owner: link.status.owner)
    }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let length = unsafe bytes.withUnsafeMutableBytes { buffer in
      unsafe readlinkat(
        link.descriptor, "", buffer.baseAddress!.assumingMemoryBound(to: CChar.self),
        buffer.count)
    }
    guard length >= 0 else { throw .system(.last("readlinkat", link.path)) }
    return String(decoding: bytes.prefix(length), as: UTF8.self)
  }
  #else
  /// Checks each directory by its path. Darwin has neither `O_PATH` nor `/proc/self/fd`.
  ///
  /// - Returns: -1, because calls use the path.
  func open() throws(PathWalkError) -> CInt {
    do throws(SystemError) {
      if isCreating, try FileSystem.status(of: path, followingLinks: false) == nil {
        try FileSystem.makeDirectories(path)
      }
    } catch {
      throw .notCreated(error)
    }
    guard let whole = FileSystem.resolved(path) else { throw .danglingLink(path) }
    var place = ""
    for name in whole.split(separator: "/") {
      let (parent, entry) = (place.isEmpty ? "/" : place, place + "/" + name)
      place = entry
      guard let above = (try? FileSystem.status(of: parent)) ?? nil,
        let status = (try? FileSystem.status(of: entry)) ?? nil
      else { throw .system(SystemError(errno: ENOENT, operation: "stat", path: entry)) }
      guard FileSystem.isTrusted(owner: above.owner) else {
        throw .foreignParent(parent, owner: above.owner)
      }
      let isSticky = above.mode & 0o1000 != 0
      if FileSystem.othersMayWrite(above), !isSticky || !FileSystem.isTrusted(owner: status.owner) {
        throw .writableParent(parent)
      }
    }
    return -1
  }
  #endif
}

extension FileSystem {
  /// Whether files of a user are as safe as this user's own: they are, or root's.
  fileprivate static func isTrusted(owner: UInt32) -> Bool {
    owner == userID || owner == 0 || (owner == 65_534 && hasUnmappedUsers)
  }

  /// Whether users that are neither the owner nor root may change what is in a directory.
  fileprivate static func othersMayWrite(_ status: FileStatus) -> Bool {
    if status.mode & 0o002 != 0 { return true }
    return status.mode & 0o020 != 0 && status.group != status.owner
  }

  /// Whether this process is in a user namespace, where the owners it does not map appear as 65534.
  private static let hasUnmappedUsers: Bool = {
    #if os(Linux)
    guard
      let file = try? OwnedFile(path: "/proc/self/uid_map", writable: false),
      let bytes = try? file.read(count: 256, at: 0)
    else { return false }
    let words = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace)
    return words != ["0", "0", "4294967295"]
    #else
    return false
    #endif
  }()
}
