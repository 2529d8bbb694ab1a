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

/// An open file, closed when the last reference is released.
///
/// Every descriptor is close-on-exec. A descriptor that carries locks another process waits for is
/// registered with ``ForkGuard`` so that a forked child drops it at once.
package final class OwnedFile: Sendable {
  package let descriptor: CInt
  package let path: String
  private let closesInForkedChild: Bool

  package enum Creation: Sendable { case mustExist, createIfMissing, createNew }

  package init(
    path: String, writable: Bool = true, creation: Creation = .mustExist,
    closesInForkedChild: Bool = false
  ) throws(SystemError) {
    // O_NONBLOCK: if a named pipe has replaced the file, opening it must not wait for another
    // process.
    var flags = (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK
    switch creation {
    case .mustExist: break
    case .createIfMissing: flags |= O_CREAT
    case .createNew: flags |= O_CREAT | O_EXCL
    }
    var result = unsafe larder_open(path, flags, 0o600)
    while result < 0, currentErrno() == EINTR { result = unsafe larder_open(path, flags, 0o600) }
    guard result >= 0 else { throw .last("open", path) }
    // Descriptors with locks get high numbers. The kernel closes a killed process's files in
    // ascending order: LMDB's own locks must be released before the open lock and the presence bytes,
    // or the next opener gets a partly locked lock file.
    if closesInForkedChild { result = larder_move_high(result) }
    self.descriptor = result
    self.path = path
    self.closesInForkedChild = closesInForkedChild
    if closesInForkedChild { ForkGuard.register(result) }
  }

  deinit {
    if closesInForkedChild {
      // A forked child has closed it already; the number may belong to another file by now.
      guard ForkGuard.unregister(descriptor) else { return }
      // A process that this one is about to start holds copies of all descriptors until it executes
      // its program: without this the locks would live on in it for some milliseconds.
      _ = larder_lock_range(descriptor, CShort(F_UNLCK), 0, 0)
    }
    close(descriptor)
  }

  // MARK: Contents

  package var status: FileStatus {
    get throws(SystemError) {
      var info = stat()
      guard unsafe fstat(descriptor, &info) == 0 else { throw .last("fstat", path) }
      return FileStatus(info)
    }
  }

  /// Reads up to `count` bytes; fewer at the end of the file.
  package func read(count: Int, at offset: Int) throws(SystemError) -> [UInt8] {
    try FileSystem.read(descriptor, count: count, at: offset, path: path)
  }

  package func write(_ bytes: [UInt8], at offset: Int) throws(SystemError) {
    var done = 0
    while done < bytes.count {
      let result = unsafe bytes.withUnsafeBytes { buffer in
        unsafe pwrite(
          descriptor, buffer.baseAddress! + done, bytes.count - done, off_t(offset + done))
      }
      guard result > 0 else {
        if result < 0, currentErrno() == EINTR { continue }
        throw .last("pwrite", path)
      }
      done += result
    }
  }

  package func truncate(to length: Int) throws(SystemError) {
    guard ftruncate(descriptor, off_t(length)) == 0 else { throw .last("ftruncate", path) }
  }

  /// Allocates `length` bytes of disk space for the file, so that no later store to a mapping of it
  /// can fail because of a full disk (which would be a SIGBUS, not an error).
  package func preallocate(_ length: Int) throws(SystemError) {
    if let limit = ResourceLimits.fileSize, length > limit {
      throw SystemError(errno: EFBIG, operation: "fallocate", path: path)
    }
    let code = FileSystem.allocate(descriptor, at: 0, count: Int64(length))
    if code == 0 { return }
    guard code == EOPNOTSUPP || code == ENOTSUP || code == ENOSYS else {
      throw SystemError(errno: code, operation: "fallocate", path: path)
    }
    // Where the file system cannot allocate, each block is written to.
    #if canImport(Darwin)
    let zeros = [UInt8](repeating: 0, count: 1 << 16)
    var offset = try status.size
    while offset < length {
      try write(Array(zeros.prefix(length - offset)), at: offset)
      offset += zeros.count
    }
    #else
    let written = posix_fallocate(descriptor, 0, off_t(length))
    guard written == 0 else {
      throw SystemError(errno: written, operation: "posix_fallocate", path: path)
    }
    #endif
  }

  /// Syncs the written data, so that it survives a loss of power.
  package func synchronize() throws(SystemError) {
    #if canImport(Darwin)
    guard fcntl(descriptor, F_FULLFSYNC) == 0 else { throw .last("fcntl(F_FULLFSYNC)", path) }
    #else
    guard fsync(descriptor) == 0 else { throw .last("fsync", path) }
    #endif
  }

  /// Syncs the content only, without the modification time.
  package func synchronizeContent() throws(SystemError) {
    #if canImport(Darwin)
    try synchronize()
    #else
    guard fdatasync(descriptor) == 0 else { throw .last("fdatasync", path) }
    #endif
  }

  /// Has the system begin to write a range to the disk. This is not a sync, but shortens the next one.
  package func startWriting(at offset: Int, count: Int) {
    larder_start_writing(descriptor, Int64(offset), Int64(count))
  }

  // MARK: Locks

  /// Tries `flock(LOCK_EX)` without waiting.
  ///
  /// - Returns: `false` if another open file has the lock.
  package func tryExclusiveLock() throws(SystemError) -> Bool {
    // EINTR does not mean that another file has the lock. The loop is bounded, because a wait must
    // end.
    for _ in 0..<100 {
      if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return true }
      let code = currentErrno()
      if code == EWOULDBLOCK { return false }
      guard code == EINTR else { throw .last("flock", path) }
    }
    throw .last("flock", path)
  }

  package func unlock() { flock(descriptor, LOCK_UN) }

  package enum RangeLock: Sendable { case shared, exclusive, none }

  /// Tries to change this description's lock on a byte range, without waiting.
  ///
  /// The lock belongs to the open file description: it ends with the process, and with the last
  /// copy of the descriptor.
  package func tryLock(
    _ kind: RangeLock, at offset: Int64, count: Int64 = 1
  ) throws(SystemError) -> Bool {
    let type: CInt =
      switch kind {
      case .shared: CInt(F_RDLCK)
      case .exclusive: CInt(F_WRLCK)
      case .none: CInt(F_UNLCK)
      }
    while true {
      if larder_lock_range(descriptor, CShort(type), offset, count) == 0 { return true }
      let code = currentErrno()
      if code == EINTR { continue }
      if code == EAGAIN || code == EACCES { return false }
      throw .last("fcntl(F_OFD_SETLK)", path)
    }
  }

  /// Whether another open file description holds a lock on the byte.
  package func isLockedElsewhere(at offset: Int64, count: Int64 = 1) throws(SystemError) -> Bool {
    let result = larder_range_is_locked(descriptor, CShort(F_WRLCK), offset, count)
    guard result >= 0 else { throw .last("fcntl(F_OFD_GETLK)", path) }
    return result == 1
  }
}

/// The fields of `stat` that Larder uses.
package struct FileStatus: Sendable, Hashable {
  package let device: UInt64
  package let inode: UInt64
  package let size: Int
  package let owner: UInt32
  package let group: UInt32
  package let mode: UInt32
  package let links: UInt64
  /// The time of the last change of content or attributes, in nanoseconds since 1970. No call sets
  /// it.
  package let changed: UInt64

  init(_ info: stat) {
    device = UInt64(truncatingIfNeeded: info.st_dev)
    inode = UInt64(truncatingIfNeeded: info.st_ino)
    size = Int(info.st_size)
    owner = UInt32(info.st_uid)
    group = UInt32(info.st_gid)
    mode = UInt32(info.st_mode)
    links = UInt64(info.st_nlink)
    #if canImport(Darwin)
    let time = info.st_ctimespec
    #else
    let time = info.st_ctim
    #endif
    changed = UInt64(clamping: time.tv_sec) &* 1_000_000_000 &+ UInt64(clamping: time.tv_nsec)
  }

  package var isDirectory: Bool { mode & 0o170000 == 0o040000 }
  package var isRegularFile: Bool { mode & 0o170000 == 0o100000 }
  package var isSymbolicLink: Bool { mode & 0o170000 == 0o120000 }
  package var identity: FileIdentity { FileIdentity(device: device, inode: inode) }
}

/// A file's identity on this machine: paths, links and mounts lead to the same pair.
package struct FileIdentity: Hashable, Sendable {
  package let device: UInt64
  package let inode: UInt64
}
