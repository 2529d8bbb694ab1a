// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

extension Processes {
  @Test(
    .enabled(if: PreloadShim.isAvailable, "needs preload shims"), .timeLimit(.minutes(60)))
  func `With a clock before 1970 locks and writes work`() throws {
    let directory = try TemporaryDirectory()
    let shim = try PreloadShim("wall_clock", in: directory.path)
    let offset = directory.appending("offset")
    var bytes = [UInt8](repeating: 0, count: 8)
    bytes.store(Int64(-80 * 365 * 86_400) * 1_000_000_000, at: 0)
    try TestFiles.write(bytes, to: offset)
    let environment = shim.environment.merging(["WALL_CLOCK": offset]) { $1 }
    let path = directory.appending("store")
    let peers = try (0..<2).map { _ in try TestExecutable.peer.start(environment: environment) }
    for peer in peers {
      #expect(try peer.ask("open \(path) durable").hasPrefix("opened "))
      #expect(try #require(Int64(try peer.ask("wall"))) < 0)
      try peer.order("set 1 a")
    }
    #expect(try peers[0].ask("lock early").hasPrefix("holding "))
    try peers[1].send("lock early")
    try peers[0].order("go")
    #expect(try peers[1].nextLine().hasPrefix("holding "))
    try peers[1].order("go")
    #expect(try peers[0].ask("get 1") == "value a")
    #expect(try peers[1].ask("verify") == "sound")
    for peer in peers { try peer.dismiss() }
  }
}
