// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Where SwiftPM puts an executable depends on the configuration and on `--scratch-path`, but test
// bundles and executables of one build are in one directory. On Linux a bundle is an executable; on
// macOS it is `x.xctest/Contents/MacOS/x`, loaded by a program of the toolchain. So the search starts
// at the file that contains this code, in its directory and the enclosing ones.

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// An executable of the test's package, built together with the test.
///
/// ```swift
/// let worker = try TestExecutable("worker").start(environment: plan.environment)
/// ```
///
/// The test target must depend on the executable target, so that `swift test` builds both. The
/// executable is found in every configuration and scratch path, and in an Xcode build.
public struct TestExecutable: Sendable {
  /// The error of a product that was not found.
  public struct NotFound: Error, CustomStringConvertible {
    /// The command that builds the product, and the searched directories.
    public let description: String
  }

  /// The environment variable with a directory to search instead.
  public static let overrideVariable = "LARDER_PRODUCTS"

  /// The name of the product.
  public let name: String
  /// The absolute path.
  public let path: String

  /// Finds a product in the directories around the running test bundle or executable.
  ///
  /// - Throws: ``NotFound``, with the command that builds it.
  public init(_ name: String) throws(NotFound) {
    let override = POSIX.environmentValue(Self.overrideVariable)
    let directories = override.map { [$0] } ?? Self.enclosingDirectories(of: Self.image())
    try self.init(name, directories: directories)
  }

  /// Finds a product in the first of `directories` that contains it.
  public init(_ name: String, directories: [String]) throws(NotFound) {
    let candidates = directories.map { $0 == "/" ? "/\(name)" : "\($0)/\(name)" }
    guard let path = candidates.first(where: Self.isExecutableFile) else {
      throw NotFound(
        description: """
          There is no executable "\(name)" in \(directories.first ?? "any directory"). Build it \
          with `swift build --product \(name)` (same configuration and scratch path), or name \
          its directory in \(Self.overrideVariable).
          """)
    }
    self.name = name
    self.path = path
  }

  /// Starts the executable; see ``ChildProcess/init(_:_:environment:workingDirectory:standardError:)``.
  public func start(
    _ arguments: [String] = [], environment: [String: String] = [:],
    workingDirectory: String? = nil, standardError: ChildProcess.StandardError = .inherited
  ) throws(ChildProcessError) -> ChildProcess {
    try ChildProcess(
      path, arguments, environment: environment, workingDirectory: workingDirectory,
      standardError: standardError)
  }

  /// Returns the directory of `path` and four enclosing ones: one suffices on Linux, a bundle needs
  /// four.
  package static func enclosingDirectories(of path: String) -> [String] {
    var components = path.split(separator: "/")
    var directories: [String] = []
    while !components.isEmpty && directories.count < 5 {
      components.removeLast()
      directories.append("/" + components.joined(separator: "/"))
    }
    return directories
  }

  private static func isExecutableFile(_ path: String) -> Bool {
    var information = stat()
    guard unsafe stat(path, &information) == 0 else { return false }
    return unsafe access(path, X_OK) == 0 && information.st_mode & S_IFMT == S_IFREG
  }

  /// The file from which this code was loaded.
  private static func image() -> String {
    #if canImport(Darwin)
    var information = Dl_info()
    if unsafe dladdr(#dsohandle, &information) != 0, let name = unsafe information.dli_fname {
      return unsafe String(cString: name)
    }
    return CommandLine.arguments[0]
    #else
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = unsafe buffer.withUnsafeMutableBytes { bytes in
      unsafe readlink("/proc/self/exe", bytes.baseAddress!, bytes.count)
    }
    return String(decoding: buffer.prefix(max(count, 0)), as: UTF8.self)
    #endif
  }
}
