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
  /// Waits for `flock(LOCK_EX)`. It is given back when the file is closed, or its process ends.
  package func lockExclusively() throws(SystemError) {
    while flock(descriptor, LOCK_EX) != 0 {
      if currentErrno() != EINTR { throw .last("flock", path) }
    }
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
  /// - Returns: Whether there was one.
  @discardableResult
  package static func removeFile(_ path: String) throws(SystemError) -> Bool {
    if unsafe unlink(path) == 0 { return true }
    if currentErrno() == ENOENT || currentErrno() == ENOTDIR { return false }
    throw .last("unlink", path)
  }

  /// Removes a directory; without effect when something is in it, or when it is none.
  package static func removeDirectoryIfEmpty(_ path: String) throws(SystemError) {
    if unsafe rmdir(path) == 0 { return }
    let code = currentErrno()
    if [ENOENT, ENOTDIR, ENOTEMPTY, EEXIST].contains(code) { return }
    throw SystemError(errno: code, operation: "rmdir", path: path)
  }
}
