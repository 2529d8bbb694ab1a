// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTestSupport
import LarderTesting
import Testing

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `A defaults suite takes at most 256 kB on the disk`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("suite")
    let peer = try TestExecutable.peer.start()
    let opened = try peer.ask("defaults open \(path)")
    try #require(opened.hasPrefix("opened") || opened == "ok", "\(opened)")
    let outcome = try ChildProcess.run("du", ["-s", "--block-size=1", path])
    let bytes = try #require(
      outcome.output.split(separator: "\t").first.flatMap { Int($0) }, "\(outcome)")
    print("A defaults suite: \(bytes) bytes")
    #expect(bytes <= 256_000)
  }
}
