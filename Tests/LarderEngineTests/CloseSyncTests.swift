// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTesting
import Testing

/// The order of writes and syncs in which a store is closed, as strace records it. A sync that is missing shows in no
/// file: until the system goes down, a read finds what was written.
@Suite(.timeLimit(.minutes(15))) struct CloseSyncTests {
  private static let strace = ["/usr/bin/strace", "/usr/local/bin/strace", "/bin/strace"].first {
    TestFiles.exists($0)
  }

  /// Whether a process may be traced here.
  private static let canTrace: Bool = {
    guard let strace else { return false }
    let outcome = try? ChildProcess.run(strace, ["-f", "-o", "/dev/null", "/bin/true"])
    return outcome?.status.isSuccess ?? false
  }()

  /// Returns the calls of a process that stores a value and closes the store.
  private func calls(_ durability: Durability, _ directory: TemporaryDirectory) throws -> [String] {
    let log = directory.appending("log-\(durability)")
    let outcome = try ChildProcess.run(
      #require(Self.strace),
      [
        "-f", "-qq", "-y", "-o", log, "-s", "0", "-e", "trace=fsync,fdatasync,msync,pwrite64",
        TestExecutable.tool.path, "set", "k", "value", "--durability", "\(durability)",
        "--store", directory.appending("store-\(durability)"),
      ])
    try #require(outcome.status.isSuccess, "\(outcome.standardError)")
    let text = String(decoding: try TestFiles.contents(of: log), as: UTF8.self)
    return text.split(separator: "\n").map(String.init)
  }

  private func isWrite(_ call: String, of file: String) -> Bool {
    call.contains("pwrite64(") && call.contains("/\(file)>")
  }

  private func isSync(_ call: String, of file: String) -> Bool {
    (call.contains("fsync(") || call.contains("fdatasync(")) && call.contains("/\(file)>")
  }

  @Test(
    .enabled(if: canTrace, "strace is not installed, or may not trace here"),
    arguments: Durability.allCases)
  func `The data of a store is synced before the mark of an orderly close, and then the mark`(
    durability: Durability
  ) throws {
    let calls = try calls(durability, TemporaryDirectory())
    let mark = try #require(calls.lastIndex { isWrite($0, of: "state") }, "\(calls)")
    let sync = try #require(
      calls[..<mark].lastIndex {
        isSync($0, of: "data.mdb") || $0.contains("msync(") && $0.contains("MS_SYNC")
      }, "\(calls)")
    // The pages of a cache are written in memory, with no call.
    let write = calls.lastIndex { isWrite($0, of: "data.mdb") }
    #expect(write ?? 0 < sync, "\(calls)")
    #expect(calls[mark...].contains { isSync($0, of: "state") }, "\(calls)")
  }
}
