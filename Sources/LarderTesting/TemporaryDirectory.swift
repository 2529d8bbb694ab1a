// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A directory that is fresh, private, and gone with everything in it when this value goes.
///
/// It stands in `$TMPDIR`, or in `/tmp`. Children that still use it see their files vanish, so end
/// them first. Keep the value, not only its ``path``: the path alone keeps nothing alive. Where
/// that is easily forgotten, use `withTemporaryDirectory(_:)`.
public final class TemporaryDirectory: Sendable {
  /// Its absolute path.
  public let path: String

  /// Makes the directory, mode 0700.
  public init() throws(SystemCallError) {
    var template = Array("\(POSIX.temporaryRoot())/larder-XXXXXX".utf8CString)
    let made = unsafe template.withUnsafeMutableBufferPointer { buffer in
      unsafe mkdtemp(buffer.baseAddress!).map { unsafe String(cString: $0) }
    }
    guard let made else { throw POSIX.failure("mkdtemp") }
    path = made
  }

  /// The path of something in it. Nothing is created.
  public func appending(_ name: String) -> String { "\(path)/\(name)" }

  deinit { TestFiles.removeAll(path) }
}

/// Runs `body` with the path of a fresh directory, which is removed afterwards.
public func withTemporaryDirectory<Result: ~Copyable>(
  _ body: (_ path: String) throws -> Result
) throws -> Result {
  let directory = try TemporaryDirectory()
  return try withExtendedLifetime(directory) { try body(directory.path) }
}

/// Runs `body` with the path of a fresh directory, which is removed afterwards.
public func withTemporaryDirectory<Result>(
  _ body: (_ path: String) async throws -> Result
) async throws -> Result {
  let directory = try TemporaryDirectory()
  defer { withExtendedLifetime(directory) {} }
  return try await body(directory.path)
}
