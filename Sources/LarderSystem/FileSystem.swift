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

/// The directory operations of a store, each with the path in its error.
package enum FileSystem {
  /// The status of `path`, or `nil` when there is nothing.
  package static func status(
    of path: String, followingLinks: Bool = true
  ) throws(SystemError) -> FileStatus? {
    var info = stat()
    let result = followingLinks ? unsafe stat(path, &info) : unsafe lstat(path, &info)
    if result == 0 { return FileStatus(info) }
    if currentErrno() == ENOENT { return nil }
    throw .last("stat", path)
  }

  /// The same for a path that need not be UTF-8.
  package static func status(of path: [UInt8]) throws(SystemError) -> FileStatus? {
    var info = stat()
    if unsafe stat(cString(path), &info) == 0 { return FileStatus(info) }
    if currentErrno() == ENOENT { return nil }
    throw .last("stat", String(decoding: path, as: UTF8.self))
  }

  /// Whether this process may run a file.
  static func isExecutable(_ path: [UInt8]) -> Bool { unsafe access(cString(path), X_OK) == 0 }

  /// A path as C has it.
  static func cString(_ path: [UInt8]) -> [CChar] { path.map { CChar(bitPattern: $0) } + [0] }

  /// The status of an open file.
  package static func status(ofDescriptor descriptor: CInt) -> FileStatus? {
    var info = stat()
    return unsafe fstat(descriptor, &info) == 0 ? FileStatus(info) : nil
  }

  /// The size of an open file in bytes, and the number of its names.
  ///
  /// A file whose times were read gets a new time with its next write (Linux 6.13). That changes its inode, and
  /// on ext4 without a journal a sync of any file whose inode is in the same block writes the block. So this
  /// call does not read times.
  package static func extent(ofDescriptor descriptor: CInt) -> (size: Int, links: UInt64)? {
    var (size, links) = (Int64(0), UInt64(0))
    if unsafe larder_extent(descriptor, &size, &links) == 1 { return (Int(size), links) }
    return status(ofDescriptor: descriptor).map { ($0.size, $0.links) }
  }

  package static func makeDirectory(_ path: String, mode: UInt32 = 0o700) throws(SystemError) {
    if unsafe mkdir(path, mode_t(mode)) == 0 || currentErrno() == EEXIST { return }
    throw .last("mkdir", path)
  }

  /// Creates the parents of `path` that are missing, then `path` itself with mode 0700.
  package static func makeDirectories(_ path: String) throws(SystemError) {
    if let existing = try? status(of: path), existing.isDirectory { return }
    var position = path.startIndex
    while let slash = path[position...].firstIndex(of: "/") {
      position = path.index(after: slash)
      let parent = String(path[..<slash])
      if parent.isEmpty { continue }
      if let existing = try status(of: parent) {
        if existing.isDirectory { continue }
        throw SystemError(errno: ENOTDIR, operation: "mkdir", path: parent)
      }
      try makeDirectory(parent, mode: 0o755)
    }
    try makeDirectory(path)
  }

  package static func rename(_ old: String, to new: String) throws(SystemError) {
    guard rename(old, new) == 0 else { throw .last("rename", new) }
  }

  private static func rename(_ old: String, _ new: String) -> CInt {
    #if canImport(Glibc)
    unsafe Glibc.rename(old, new)
    #elseif canImport(Musl)
    unsafe Musl.rename(old, new)
    #else
    unsafe Darwin.rename(old, new)
    #endif
  }

  /// Syncs `directory`, so that a rename in it survives a loss of power.
  package static func synchronizeDirectory(_ directory: String) throws(SystemError) {
    let descriptor = unsafe larder_open(directory, O_RDONLY, 0)
    guard descriptor >= 0 else { throw .last("open", directory) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw .last("fsync", directory) }
  }

  /// Makes the name of `path` survive a loss of power, and the names of the directories above it,
  /// which may be new as well, up to the root of the file system.
  ///
  /// - Throws: As ``synchronizeName(of:)``.
  package static func synchronizeParents(of path: String) throws(SystemError) {
    var name = path[...]
    let device = try status(of: path)?.device
    while let slash = name.lastIndex(of: "/") {
      let parent = slash == name.startIndex ? "/" : String(name[..<slash])
      // The name of a mounted directory is that of its mount.
      if let device, let other = try status(of: parent)?.device, other != device { return }
      try synchronizeName(of: String(name))
      name = name[..<slash]
    }
  }

  /// Makes the name of `path` survive a loss of power.
  ///
  /// - Throws: The error of a sync that the disk refused. A directory that this user may not open, or whose file
  ///   system has no syncs, is left as it is.
  package static func synchronizeName(of path: String) throws(SystemError) {
    let parent = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
    do throws(SystemError) {
      try synchronizeDirectory(parent.isEmpty ? "/" : parent)
    } catch {
      let hasNoSyncs = [EINVAL, EROFS, EOPNOTSUPP, ENOSYS].contains(error.errno)
      if error.isRefusedSync, !hasNoSyncs { throw error }
    }
  }

  /// The names in a directory, without `.` and `..`; empty when it does not exist.
  package static func names(in directory: String) throws(SystemError) -> [String] {
    guard let stream = unsafe opendir(directory) else {
      if currentErrno() == ENOENT { return [] }
      throw .last("opendir", directory)
    }
    defer { unsafe closedir(stream) }
    return unsafe names(of: stream)
  }

  #if canImport(Darwin)
  private typealias DirectoryStream = UnsafeMutablePointer<DIR>
  #else
  private typealias DirectoryStream = OpaquePointer
  #endif

  private static func names(of stream: DirectoryStream) -> [String] {
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }

  /// Removes a directory and the plain files and directories below it. Links are removed, not
  /// followed, even if one replaces a directory during the removal: each directory is opened
  /// itself, and its entries are removed relative to the open directory.
  package static func removeTree(_ path: String) { removeTree(path, in: AT_FDCWD) }

  private static func removeTree(_ name: String, in parent: CInt) {
    let descriptor = unsafe larder_open_at(
      parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK)
    guard descriptor >= 0 else {
      // No directory: a file or a link.
      unsafe unlinkat(parent, name, 0)
      return
    }
    guard let stream = unsafe fdopendir(descriptor) else {
      close(descriptor)
      return
    }
    for name in unsafe names(of: stream) { removeTree(name, in: descriptor) }
    unsafe closedir(stream)
    unsafe unlinkat(parent, name, CInt(AT_REMOVEDIR))
  }

  /// The path with links resolved, or `nil` when it cannot be.
  package static func resolved(_ path: String) -> String? {
    guard let text = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(text) }
    return unsafe String(cString: text)
  }

  /// The working directory's path, which need not be UTF-8, or `nil` if it has none: it was
  /// removed, or is outside of the paths that this process can reach.
  package static var currentDirectory: [UInt8]? {
    guard let text = unsafe getcwd(nil, 0) else { return nil }
    defer { unsafe free(text) }
    let path = unsafe Array(UnsafeBufferPointer(start: text, count: strlen(text))).map {
      UInt8(bitPattern: $0)
    }
    // Linux prefixes "(unreachable)" to a path that is not below the process's root.
    return path.first == UInt8(ascii: "/") ? path : nil
  }

  /// A path made absolute; `nil` when it is relative and the working directory has no path, or none
  /// that is UTF-8.
  package static func absolute(_ path: String) -> String? {
    if path.hasPrefix("/") { return path }
    // As a shell does: a program that receives "~/…" from a file or an option never saw one. `./~`
    // is the directory of that name.
    if path == "~" || path.hasPrefix("~/"), let home = environment("HOME"), home.hasPrefix("/") {
      return home + path.dropFirst()
    }
    guard let directory = currentDirectory, let text = String(validating: directory, as: UTF8.self)
    else { return nil }
    return text + "/" + path
  }

  package static func environment(_ name: String) -> String? {
    guard let text = unsafe getenv(name) else { return nil }
    return unsafe String(cString: text)
  }

  /// Sets a variable for the processes that this one starts. No other thread may use the environment.
  package static func setEnvironment(_ name: String, to value: String) {
    _ = unsafe setenv(name, value, 1)
  }

  /// The directory for caches of this user: `$XDG_CACHE_HOME`, else `~/.cache`; `Library/Caches` on
  /// Apple systems.
  package static var cacheDirectory: String {
    #if canImport(Darwin)
    userDirectory("XDG_CACHE_HOME", orInHome: "Library/Caches")
    #else
    userDirectory("XDG_CACHE_HOME", orInHome: ".cache")
    #endif
  }

  /// The directory for data of this user: `$XDG_DATA_HOME`, else `~/.local/share`;
  /// `Library/Application Support` on Apple systems.
  package static var dataDirectory: String {
    #if canImport(Darwin)
    userDirectory("XDG_DATA_HOME", orInHome: "Library/Application Support")
    #else
    userDirectory("XDG_DATA_HOME", orInHome: ".local/share")
    #endif
  }

  private static func userDirectory(_ variable: String, orInHome name: String) -> String {
    if let path = environment(variable), path.hasPrefix("/") { return path }
    return home + "/" + name
  }

  /// The home directory: HOME if it is an absolute path, else that of the user database, else `/root`.
  private static var home: String {
    if let home = environment("HOME"), home.hasPrefix("/") { return home }
    var entry = unsafe passwd()
    var buffer = [CChar](repeating: 0, count: 16_384)
    return unsafe buffer.withUnsafeMutableBufferPointer { buffer in
      var found: UnsafeMutablePointer<passwd>?
      let error = unsafe getpwuid_r(
        geteuid(), &entry, buffer.baseAddress!, buffer.count, &found)
      guard error == 0, unsafe found != nil, let home = unsafe entry.pw_dir else { return "/root" }
      return unsafe String(cString: home)
    }
  }

  /// The bytes of a variable of the environment: they need not be UTF-8.
  package static func environmentBytes(_ name: String) -> [UInt8]? {
    guard let text = unsafe getenv(name) else { return nil }
    return unsafe Array(UnsafeBufferPointer(start: text, count: strlen(text))).map {
      UInt8(bitPattern: $0)
    }
  }

  package static var userID: UInt32 { UInt32(geteuid()) }

  /// Whether the file system below `path` never moves an allocated block of a file: then a store to
  /// a mapping of it never fails because of a full disk.
  package static func neverRelocatesBlocks(below path: String) -> Bool {
    #if os(Linux)
    // ext4 (ext2 and ext3 have the same number, and cannot allocate), tmpfs.
    return [0xEF53, 0x0102_1994].contains(unsafe larder_file_system_type(path))
    #else
    return false
    #endif
  }

  /// The name of the file system below `path` if Larder must reject it: network and FUSE file
  /// systems keep neither locks nor mappings coherent.
  package static func refusedFileSystem(below path: String) -> String? {
    #if canImport(Darwin)
    var info = statfs()
    guard unsafe statfs(path, &info) == 0 else { return nil }
    let name = unsafe withUnsafeBytes(of: &info.f_fstypename) { bytes in
      unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    let refused = ["nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse", "fusefs", "ftp"]
    return refused.contains(name) ? name : nil
    #else
    let refused: [Int64: String] = [
      0x6969: "nfs", 0x517B: "smb", 0xFE53_4D42: "smb2", 0xFF53_4D42: "cifs",
      0x6573_5546: "fuse", 0x0102_1997: "9p", 0x5346_414F: "afs", 0x7375_7245: "coda",
      0x00C3_6400: "ceph", 0x0BD0_0BD0: "lustre", 0x4750_4653: "gpfs", 0x564C: "ncp",
      0x0116_1970: "gfs2", 0x7461_636F: "ocfs2", 0x7666_6262: "vboxsf", 0x2FC1_2FC1: "zfs",
    ]
    return refused[unsafe larder_file_system_type(path)]
    #endif
  }
}

/// Limits of this process that change the results of file system calls.
package enum ResourceLimits {
  /// The largest file this process may write, in bytes, or `nil` without a limit.
  package static var fileSize: Int? {
    var limit = rlimit()
    #if canImport(Glibc)
    let result = unsafe getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
    #else
    let result = unsafe getrlimit(RLIMIT_FSIZE, &limit)
    #endif
    guard result == 0, limit.rlim_cur < rlim_t(Int64.max) else { return nil }
    return Int(limit.rlim_cur)
  }

  /// The address space this process may use, in bytes (`ulimit -v`), or `nil` without a limit.
  package static var addressSpace: Int? {
    var limit = rlimit()
    #if canImport(Glibc)
    let result = unsafe getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit)
    #else
    let result = unsafe getrlimit(RLIMIT_AS, &limit)
    #endif
    guard result == 0, limit.rlim_cur < rlim_t(Int64.max) else { return nil }
    return Int(limit.rlim_cur)
  }
}
