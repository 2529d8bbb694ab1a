// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Where SwiftPM puts an executable depends on the configuration and on `--scratch-path`, but test
// bundles and executables of one build always lie in one directory. On Linux a bundle is an
// executable of its own; on macOS it is `x.xctest/Contents/MacOS/x`, loaded by a helper that lives
// in the toolchain. So: ask for the file that contains this very code, and look beside it and beside
// its enclosing directories.

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// An executable of one's own package, built together with the test that asks for it.
///
/// ```swift
/// let worker = try TestExecutable("worker").start(environment: plan.environment)
/// ```
///
/// Let the test target depend on the executable target, so that `swift test` builds both. It is
/// found in every configuration and scratch path, and in an Xcode build.
public struct TestExecutable: Sendable {
  /// A product that is not where it should be, and what to build.
  public struct NotFound: Error, CustomStringConvertible {
    /// What to build, and where it was looked for.
    public let description: String
  }

  /// The environment variable naming a directory to look in instead.
  public static let overrideVariable = "LARDER_PRODUCTS"

  /// The product's name.
  public let name: String
  /// Its absolute path.
  public let path: String

  /// The other process of the tests.
  package static var peer: TestExecutable {
    get throws(NotFound) { try TestExecutable("LarderTestWorker") }
  }
  /// The command line tool.
  package static var tool: TestExecutable {
    get throws(NotFound) { try TestExecutable("larder") }
  }

  /// The path of the executable that is running: to start more of the same.
  package static var own: String {
    #if canImport(Darwin)
      CommandLine.arguments[0]
    #else
      image()
    #endif
  }

  /// Finds the product `name` beside the running test bundle or executable.
  ///
  /// - Throws: ``NotFound``, with the command that builds it.
  public init(_ name: String) throws(NotFound) {
    let override = POSIX.environmentValue(Self.overrideVariable)
    let directories = override.map { [$0] } ?? Self.enclosingDirectories(of: Self.image())
    try self.init(name, directories: directories)
  }

  /// Finds it in the first of `directories` that has it.
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

  /// Starts it; see ``ChildProcess/init(_:_:environment:workingDirectory:standardError:)``.
  public func start(
    _ arguments: [String] = [], environment: [String: String] = [:],
    workingDirectory: String? = nil, standardError: ChildProcess.StandardError = .inherited
  ) throws(ChildProcessError) -> ChildProcess {
    try ChildProcess(
      path, arguments, environment: environment, workingDirectory: workingDirectory,
      standardError: standardError)
  }

  /// The directory of `path` and the four around it: one for Linux, four for a bundle's depth.
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

  /// The file this code was loaded from.
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
