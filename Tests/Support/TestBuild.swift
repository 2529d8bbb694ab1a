// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderTesting
package import Testing

/// Whether the fault points are compiled in.
package let hasFaults = FaultPlan.isCompiledIn

/// The reason for skipping a test in builds without fault points.
package let needsFaults: Comment =
  "fault points exist only with the trait FaultInjection, as in scripts/test"

#if Tools
/// Whether the tool `larder` is built.
package let hasTools = true
#else
/// Whether the tool `larder` is built.
package let hasTools = false
#endif

/// The reason for skipping a test that starts the tool.
package let needsTools: Comment = "the tool exists only with the trait Tools, as in scripts/test"

/// A small file system in memory, for tests that fill one.
package enum SmallFileSystem {
  /// Whether this process may mount one.
  package static let isAvailable: Bool = {
    guard let directory = try? TemporaryDirectory() else { return false }
    return (try? with(kilobytes: 64, at: directory.path) {}) != nil
  }()

  /// The reason for a skipped test.
  package static let reason: Comment = "a small tmpfs cannot be mounted here (root on Linux can)"

  /// Whether this process may mount an overlay on one.
  package static let hasOverlays: Bool = {
    guard let directory = try? TemporaryDirectory() else { return false }
    let mounted: Void? = try? with(kilobytes: 64, at: directory.path) {
      try withOverlay(on: directory.path) { _ in }
    }
    return mounted != nil
  }()

  /// The reason for a skipped test.
  package static let overlayReason: Comment =
    "an overlay on a small tmpfs cannot be mounted here (root on Linux can)"

  private struct NotMounted: Error, CustomStringConvertible { let description: String }

  /// Runs `body` while a file system is mounted at a directory.
  package static func with(kilobytes: Int, at path: String, _ body: () throws -> Void) throws {
    let mount = try ChildProcess.run(
      "/bin/mount", ["-t", "tmpfs", "-o", "size=\(kilobytes)k,mode=700", "tmpfs", path])
    guard mount.status.isSuccess else { throw NotMounted(description: mount.standardError) }
    defer { _ = try? ChildProcess.run("/bin/umount", ["-l", path]) }
    try body()
  }

  /// Runs `body` with the path of an overlay whose files are on a mounted file system.
  package static func withOverlay(
    on disk: String, _ body: (_ path: String) throws -> Void
  ) throws {
    for name in ["lower", "upper", "work", "merged"] {
      try TestFiles.makeDirectory("\(disk)/\(name)")
    }
    let options = "lowerdir=\(disk)/lower,upperdir=\(disk)/upper,workdir=\(disk)/work"
    let merged = disk + "/merged"
    let mount = try ChildProcess.run(
      "/bin/mount", ["-t", "overlay", "-o", options, "overlay", merged])
    guard mount.status.isSuccess else { throw NotMounted(description: mount.standardError) }
    defer { _ = try? ChildProcess.run("/bin/umount", ["-l", merged]) }
    try body(merged)
  }
}

extension TestExecutable {
  /// The child process of the tests.
  package static var peer: TestExecutable {
    get throws(NotFound) { try TestExecutable("LarderPeer") }
  }

  /// The command-line tool.
  package static var tool: TestExecutable {
    get throws(NotFound) { try TestExecutable("larder") }
  }
}
