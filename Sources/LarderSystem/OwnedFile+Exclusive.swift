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

extension OwnedFile {
  /// Waits for `flock(LOCK_EX)`. Closing the file, or the end of the process, releases it.
  package func lockExclusively() throws(SystemError) {
    while flock(descriptor, LOCK_EX) != 0 {
      if currentErrno() != EINTR { throw .last("flock", path) }
    }
  }
}

extension OwnedFile {
  /// Tries `flock(LOCK_SH)` without waiting. A descriptor that can only read is enough.
  ///
  /// - Returns: `false` if another open file has the lock alone.
  package func tryToShareLock() throws(SystemError) -> Bool {
    // As `tryExclusiveLock`.
    for _ in 0..<100 {
      if flock(descriptor, LOCK_SH | LOCK_NB) == 0 { return true }
      let code = currentErrno()
      if code == EWOULDBLOCK { return false }
      guard code == EINTR else { throw .last("flock", path) }
    }
    throw .last("flock", path)
  }

  /// The process that holds `flock` on the file, as far as this process can see it: one of its PID
  /// namespace. For errors, after a wait: the whole list of the system's locks is read.
  package var lockHolder: Int32? {
    guard
      let identity = try? status.identity,
      let locks = try? OwnedFile(path: "/proc/locks", writable: false),
      let bytes = try? locks.read(count: 1 << 20, at: 0)
    else { return nil }
    // "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF". The device is that of the file system,
    // which on btrfs differs from the device of `stat`: then the inode alone decides.
    let device = identity.device
    let (major, minor) = (
      device >> 8 & 0xFFF | device >> 32 & ~0xFFF, device & 0xFF | device >> 12 & ~0xFF
    )
    func hex(_ number: UInt64) -> String {
      number < 16 ? "0" + String(number, radix: 16) : String(number, radix: 16)
    }
    let place = "\(hex(major)):\(hex(minor)):\(identity.inode)"
    var other: Int32?
    for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count == 8, words[1] == "FLOCK", words[5].hasSuffix(":\(identity.inode)"),
        let pid = Int32(words[4]), pid > 0
      else { continue }
      if words[5] == place { return pid }
      other = other ?? pid
    }
    return other
  }
}

extension FileSystem {
  /// Reads up to `count` bytes of an open file; fewer at its end.
  package static func read(
    _ descriptor: CInt, count: Int, at offset: Int, path: String? = nil
  ) throws(SystemError) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var done = 0
    while done < count {
      let result = unsafe bytes.withUnsafeMutableBytes { buffer in
        unsafe pread(descriptor, buffer.baseAddress! + done, count - done, off_t(offset + done))
      }
      if result == 0 { break }
      guard result > 0 else {
        if currentErrno() == EINTR { continue }
        throw .last("pread", path)
      }
      done += result
    }
    bytes.removeLast(count - done)
    return bytes
  }

  /// Removes a file.
  ///
  /// - Returns: Whether the file existed.
  @discardableResult
  package static func removeFile(_ path: String) throws(SystemError) -> Bool {
    if unsafe unlink(path) == 0 { return true }
    if currentErrno() == ENOENT || currentErrno() == ENOTDIR { return false }
    throw .last("unlink", path)
  }

  /// Removes an empty directory; no effect if it is not empty or not a directory.
  package static func removeDirectoryIfEmpty(_ path: String) throws(SystemError) {
    if unsafe rmdir(path) == 0 { return }
    let code = currentErrno()
    if [ENOENT, ENOTDIR, ENOTEMPTY, EEXIST].contains(code) { return }
    throw SystemError(errno: code, operation: "rmdir", path: path)
  }
}
