// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

extension Processes {
  /// Makes the leaf pages in the middle of a closed store's largest table no leaf pages.
  private func damageLeaves(of path: String) throws -> Int {
    let (directory, _) = try #require(StoreDirectory.find(path))
    let number = try #require(try CurrentFile.read(in: directory))
    let file = directory.generation(number) + "/data.mdb"
    let bytes = try Files.contents(of: file)
    let pageSize = 4096
    // Flags at 10, the end of the node pointers at 12; a leaf of entries has many.
    let leaves = (2..<bytes.count / pageSize).filter { page in
      let start = page * pageSize
      let lower = Int(bytes[start + 12]) | Int(bytes[start + 13]) << 8
      return bytes[start + 10] == 2 && bytes[start + 11] == 0 && lower >= 16 + 2 * 15
    }
    let middle = leaves[(leaves.count / 4)..<(leaves.count / 4 * 3)]
    for page in middle { try Files.overwrite([1], at: page * pageSize + 10, in: file) }
    return middle.count
  }

  @Test(.timeLimit(.minutes(5)), arguments: [Durability.cache, .durable])
  func `Damage that ends the process that scans it ends no second process`(
    durability: Durability
  ) throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("store")
    let word = durability == .cache ? "" : "durable"
    let text = String(repeating: "x", count: 60)
    let commands = ["open \(path) \(word)"] + (0..<3000).map { "set \($0) \(text)" }
    let made = try ChildProcess.run(PeerExecutable.peer.path, input: commands + ["close"])
    #expect(made.status.isSuccess)
    #expect(try damageLeaves(of: path) > 10)
    var ended = 0
    var isHealed = false
    for _ in 0..<4 where !isHealed {
      let peer = try PeerExecutable.peer.start(
        environment: ["SWIFT_BACKTRACE": "enable=no"], standardError: .captured)
      try peer.send("open \(path) \(word)")
      try? peer.send("keys")
      let answers = try? [peer.nextLine(), peer.nextLine()]
      peer.closeInput()
      let status = try peer.wait()
      if status == .signalled(SIGABRT) {
        ended += 1
        continue
      }
      #expect(status == .exited(0))
      let last = try #require(answers?.last)
      if durability == .cache {
        #expect(last == "keys 0")
      } else {
        // It was refused when it was opened, or by the scan.
        #expect(answers!.contains { $0.hasPrefix("error damaged ") }, "\(answers!)")
      }
      isHealed = true
    }
    #expect(isHealed && ended <= 1, "\(ended) processes ended.")
  }
}
