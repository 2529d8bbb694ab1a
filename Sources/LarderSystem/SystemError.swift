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

/// A system call that failed: which one, on what, and the system's reason.
@usableFromInline
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The system's error number.
  package let errno: CInt
  /// The call that failed, by its C name.
  package let operation: String
  /// The file the call was about, if any.
  package let path: String?

  package init(errno: CInt, operation: String, path: String? = nil) {
    self.errno = errno
    self.operation = operation
    self.path = path.map(HeldDirectory.realPath)
  }

  /// Returns the error of the calling thread's last failed call.
  package static func last(_ operation: String, _ path: String? = nil) -> SystemError {
    SystemError(errno: currentErrno(), operation: operation, path: path)
  }

  @usableFromInline
  package var description: String {
    let subject = path.map { " \($0)" } ?? ""
    return "\(operation)\(subject): \(SystemError.message(for: errno))"
  }

  /// Whether the error means that the file system has no space.
  package var isStorageFull: Bool { SystemError.isStorageFull(errno) }

  package static func isStorageFull(_ code: CInt) -> Bool {
    code == ENOSPC || code == EFBIG || code == EDQUOT
  }

  /// Whether the disk refused a sync: a later one can succeed although what this one could not write is lost.
  package var isRefusedSync: Bool {
    ["fsync", "fdatasync", "fcntl(F_FULLFSYNC)"].contains(operation)
  }

  /// Whether this process, or the whole system, has no descriptor left.
  package var isOutOfFiles: Bool { SystemError.isOutOfFiles(errno) }

  package static func isOutOfFiles(_ code: CInt) -> Bool { code == EMFILE || code == ENFILE }

  package static func message(for code: CInt) -> String {
    guard let text = unsafe strerror(code) else { return "error \(code)" }
    return unsafe String(cString: text)
  }
}

/// The calling thread's error number.
package func currentErrno() -> CInt {
  #if canImport(Darwin)
  return Darwin.errno
  #elseif canImport(Musl)
  return Musl.errno
  #else
  return Glibc.errno
  #endif
}

extension SystemError {
  /// The error number of a file that is larger than the system or a limit allows.
  package static var fileTooLarge: CInt { EFBIG }
  /// The error number of a failed read or write of the device.
  package static var inputOutput: CInt { EIO }
  /// The error number of a path with a component that is not a directory.
  package static var notADirectory: CInt { ENOTDIR }

  /// Whether the file system permits no change.
  package var isReadOnly: Bool { SystemError.isReadOnly(errno) }

  package static func isReadOnly(_ code: CInt) -> Bool { code == EROFS }

  /// Whether this user lacks the permission to read the path.
  package var isPermissionDenied: Bool { errno == EACCES || errno == EPERM }

  /// Whether a path does not lead to a readable file: it does not exist, or is something else. Any
  /// other failure gives no information about the path.
  package var isNoSuchFile: Bool {
    [ENOENT, ENOTDIR, ELOOP, EISDIR, ENXIO, ENODEV, ESPIPE, EAGAIN].contains(errno)
  }
}
