// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A library of `Tests/Shims` that a child process loads before the C library, to change the result or
/// the timing of system calls.
///
/// The C compiler of the system builds it into a directory of the caller. Without a compiler, tests
/// with a shim are skipped: `.enabled(if: PreloadShim.isAvailable, PreloadShim.reason)`.
package struct PreloadShim: Sendable {
  /// The path of the built library.
  package let path: String

  #if os(Linux)
  /// Whether shims can be built and loaded here.
  package static let isAvailable =
    (try? ChildProcess.run("cc", ["--version"]).status.isSuccess) ?? false
  #else
  package static let isAvailable = false
  #endif

  /// The reason for a skipped test.
  package static let reason = "preload shims need Linux and a C compiler named cc"

  /// A shim that the compiler rejects.
  package struct NotBuilt: Error, CustomStringConvertible {
    package let description: String
  }

  /// Builds a shim.
  ///
  /// - Parameters:
  ///   - name: The name of a file in `Tests/Shims`, without `.c`.
  ///   - directory: Where the library is stored.
  /// - Throws: ``NotBuilt`` with the compiler's messages.
  package init(_ name: String, in directory: String, source: String = #filePath) throws {
    let root = source.split(separator: "/").dropLast(3).joined(separator: "/")
    path = "\(directory)/\(name).so"
    let outcome = try ChildProcess.run(
      "cc",
      [
        "-shared", "-fPIC", "-O1", "-Wall", "-o", path, "/\(root)/Tests/Shims/\(name).c", "-ldl",
      ])
    guard outcome.status.isSuccess else { throw NotBuilt(description: outcome.standardError) }
  }

  /// The environment that makes a child process load the shim.
  package var environment: [String: String] { ["LD_PRELOAD": path] }
}
