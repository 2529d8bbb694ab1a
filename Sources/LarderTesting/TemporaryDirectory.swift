// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Synchronization

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A new private directory, which is removed with its contents at the end of this value's lifetime.
///
/// It is created in `$TMPDIR`, or in `/tmp`. End children that use it first. Keep the value, not only
/// its ``path``, which does not extend the lifetime, or use `withTemporaryDirectory(_:)`. What a child
/// makes in its place later is removed at the end of this process.
public final class TemporaryDirectory: Sendable {
  /// The absolute path.
  public let path: String

  /// Creates the directory with mode 0700.
  public init() throws(SystemCallError) {
    var template = Array("\(POSIX.temporaryRoot())/larder-XXXXXX".utf8CString)
    let made = unsafe template.withUnsafeMutableBufferPointer { buffer in
      unsafe mkdtemp(buffer.baseAddress!).map { unsafe String(cString: $0) }
    }
    guard let made else { throw POSIX.failure("mkdtemp") }
    path = made
  }

  /// Returns the path of a name in the directory. The call creates no file.
  public func appending(_ name: String) -> String { "\(path)/\(name)" }

  deinit {
    TestFiles.removeAll(path)
    RemovedDirectories.note(path)
  }
}

/// The directories that were removed. A child that has not ended by then may make one again, as a cache does whose
/// directory is gone: those are removed once more at the end of the process.
private enum RemovedDirectories {
  private static let paths = Mutex<[String]>([])
  private static let removesAtExit: Void = {
    _ = atexit { RemovedDirectories.removeAll() }
  }()

  static func note(_ path: String) {
    removesAtExit
    paths.withLock { $0.append(path) }
  }

  private static func removeAll() {
    for path in paths.withLock({ $0 }) { TestFiles.removeAll(path) }
  }
}

/// Runs `body` with the path of a new directory, which is removed afterwards.
public func withTemporaryDirectory<Result: ~Copyable>(
  _ body: (_ path: String) throws -> Result
) throws -> Result {
  let directory = try TemporaryDirectory()
  return try withExtendedLifetime(directory) { try body(directory.path) }
}

/// Runs `body` with the path of a new directory, which is removed afterwards.
public func withTemporaryDirectory<Result>(
  _ body: (_ path: String) async throws -> Result
) async throws -> Result {
  let directory = try TemporaryDirectory()
  defer { withExtendedLifetime(directory) {} }
  return try await body(directory.path)
}
