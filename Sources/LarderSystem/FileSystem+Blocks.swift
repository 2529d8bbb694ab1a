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

// BLOCKS OF MAPPED FILES
//
// A store to a mapped page raises SIGBUS if the file system has to allocate a block for it and has
// none. Preallocated blocks prevent that only where the file system overwrites in place:
//
//   ext2, ext3, ext4, tmpfs   always.
//   xfs                       unless another file shares the block (`cp --reflink`, a snapshot of
//                             the volume): then the next store needs a new block.
//   f2fs                      writes to new blocks, but reserves space for that ahead.
//   btrfs                     only files with FS_NOCOW_FL, which a file gets from its directory
//                             when it is created; snapshots share blocks as on xfs.
//   bcachefs                  never, and it does not have the flag.
//   others                    the flag is set where the file system has it (an overlay of btrfs).

extension FileSystem {
  /// The most attempts of one allocation: old kernels abort it on tmpfs with each signal.
  private static let allocationAttempts = 64

  /// Allocates blocks for a range of an open file, extending it if need be. The one path for it.
  ///
  /// - Parameters:
  ///   - start: The offset of the first byte.
  ///   - count: The number of bytes.
  /// - Returns: Zero, or the error number; `EINTR` if signals ended each of 64 attempts.
  package static func allocate(_ descriptor: CInt, at start: Int64, count: Int64) -> CInt {
    for _ in 0..<allocationAttempts {
      let code = larder_allocate(descriptor, start, count)
      if code != EINTR { return code }
    }
    return EINTR
  }

  /// Returns the bytes that this process may still allocate on the file system of an open file; the
  /// largest number if that is unknown.
  package static func availableBytes(ofDescriptor descriptor: CInt) -> Int {
    var info = statvfs()
    guard unsafe fstatvfs(descriptor, &info) == 0 else { return .max }
    let (bytes, overflows) = UInt64(info.f_bavail).multipliedReportingOverflow(
      by: UInt64(info.f_frsize))
    return overflows ? .max : Int(clamping: bytes)
  }

  /// Returns the bytes of the blocks that a file or directory has on the disk, without the contents of
  /// a directory; zero if it does not exist.
  package static func allocatedBytes(of path: String) throws(SystemError) -> Int {
    var info = stat()
    guard unsafe lstat(path, &info) == 0 else {
      let error = SystemError(errno: currentErrno(), operation: "stat", path: path)
      if error.isNoSuchFile { return 0 }
      throw error
    }
    return Int(info.st_blocks) * 512
  }

  /// Returns the bytes of the blocks of a directory and all its contents. Links are not followed.
  package static func allocatedBytes(below path: String) throws(SystemError) -> Int {
    var bytes = try allocatedBytes(of: path)
    guard try status(of: path, followingLinks: false)?.isDirectory == true else { return bytes }
    do throws(SystemError) {
      for name in try names(in: path) { bytes += try allocatedBytes(below: path + "/" + name) }
    } catch {
      // Another process has removed the directory in the meantime.
      if !error.isNoSuchFile { throw error }
    }
    return bytes
  }

  /// Returns the magic number of the file system of a path.
  fileprivate static func type(of path: String) -> Int64 { unsafe larder_file_system_type(path) }
}

/// Whether preallocated blocks stay a file's.
package enum BlockOwnership: Sendable, Hashable {
  case owned
  /// The file system of this name allocates a new block for each write.
  case copiesOnWrite(String)
}

extension OwnedFile {
  /// Disables copy-on-write: for a directory, whose new files inherit that, or for an empty
  /// file.
  ///
  /// - Returns: Whether blocks that are preallocated in it stay its own. For a file that is not
  ///   empty, whether that was so when it was created.
  package func ownBlocks() -> BlockOwnership {
    #if os(Linux)
    let kind = FileSystem.type(of: path)
    // ext4, tmpfs, xfs; and f2fs, where the flag means that a file cannot be moved.
    if [0xEF53, 0x0102_1994, 0x5846_5342, 0xF2F5_2010].contains(kind) { return .owned }
    if larder_disable_cow(descriptor) == 1 { return .owned }
    let copying: [Int64: String] = [0x9123_683E: "btrfs", 0xCA45_1A4E: "bcachefs"]
    return copying[kind].map { .copiesOnWrite($0) } ?? .owned
    #else
    return .owned
    #endif
  }
}
