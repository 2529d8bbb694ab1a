// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTestSupport
import LarderTesting
import Testing

/// The order of writes and syncs in which a store is closed, as strace records it. A sync that is missing shows in no
/// file: until the system goes down, a read finds what was written.
@Suite(.timeLimit(.minutes(60))) struct CloseSyncTests {
  /// Returns the calls of a process that opens a store, stores a value and closes the store.
  ///
  /// Another process has created the store: its first syncs are not among the calls.
  private func calls(_ durability: Durability, _ directory: TemporaryDirectory) throws -> [String] {
    let log = directory.appending("log-\(durability)")
    let command = [
      "set", "k", "value", "--durability", "\(durability)",
      "--store", directory.appending("store-\(durability)"),
    ]
    let tool = try TestExecutable.tool.path
    try #require(ChildProcess.run(tool, command).status.isSuccess)
    let traced = try Strace.shared.start(
      [tool] + command, recording: ["fsync", "fdatasync", "msync", "pwrite64"], to: log,
      withData: false, environment: [:])
    let status = try traced.wait()
    try #require(status.isSuccess, "\(traced.standardErrorText)")
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
    .enabled(if: hasTools, needsTools), .enabled(if: Strace.isAvailable, needsStrace),
    arguments: Durability.allCases)
  func `The data of a store is synced before the mark of an orderly close, and then the mark`(
    durability: Durability
  ) throws {
    let calls = try calls(durability, TemporaryDirectory())
    let mark = try #require(calls.lastIndex { isWrite($0, of: "state") }, "\(calls)")
    let opening = try #require(calls.firstIndex { isWrite($0, of: "state") }, "\(calls)")
    try #require(opening < mark, "\(calls)")
    let sync = try #require(
      calls[opening..<mark].lastIndex {
        isSync($0, of: "data.mdb") || $0.contains("msync(") && $0.contains("MS_SYNC")
      }, "\(calls)")
    // The pages of a cache are written in memory, with no call.
    if let write = calls.lastIndex(where: { isWrite($0, of: "data.mdb") }) {
      #expect(write < sync, "\(calls)")
    }
    #expect(calls[mark...].contains { isSync($0, of: "state") }, "\(calls)")
  }
}
