// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

extension Processes {
  /// Makes the leaf pages in the middle of an open store's largest table no leaf pages.
  private func damageLeaves(of path: String) throws -> Int {
    let (directory, _) = try #require(StoreDirectory.find(path))
    let number = try #require(try CurrentPointer.read(in: directory))
    let file = directory.generation(number) + "/data.mdb"
    let bytes = try TestFiles.contents(of: file)
    let pageSize = 4096
    // Flags at 10, the end of the node pointers at 12; a leaf of entries has many.
    let leaves = (2..<bytes.count / pageSize).filter { page in
      let start = page * pageSize
      let lower = Int(bytes[start + 12]) | Int(bytes[start + 13]) << 8
      return bytes[start + 10] == 2 && bytes[start + 11] == 0 && lower >= 16 + 2 * 15
    }
    let middle = leaves[(leaves.count / 4)..<(leaves.count / 4 * 3)]
    for page in middle { try TestFiles.overwrite([1], at: page * pageSize + 10, in: file) }
    return middle.count
  }

  @Test(.timeLimit(.minutes(60)), arguments: [Durability.cache, .durable])
  func `Damage that ends two processes in a scan ends no third, though another has the store open`(
    durability: Durability
  ) throws {
    let ground = try StoreFixture(StoreOptions(durability: durability))
    let text = String(repeating: "x", count: 60)
    try ground.numbers.setValues((0..<3000).map { (key: $0, value: text) })
    #expect(try damageLeaves(of: ground.path) > 10)
    let word = durability == .cache ? "" : "durable"
    var ended = 0
    var last: [String] = []
    for _ in 0..<5 where last.isEmpty {
      let peer = try TestExecutable.peer.start(
        environment: ["SWIFT_BACKTRACE": "enable=no"], standardError: .captured)
      for line in ["open \(ground.path) \(word)", "keys"] { try? peer.send(line) }
      peer.closeInput()
      let answers = try peer.remainingLines()
      let status = try peer.wait()
      if status == .signalled(SIGABRT) {
        ended += 1
      } else {
        #expect(status == .exited(0))
        last = answers
      }
    }
    #expect(ended <= 2, "\(ended) processes ended.")
    if durability == .cache {
      #expect(last == ["opened 2", "keys 0"])
      #expect(ground.numbers[1] == nil)
      #expect(try ground.store.verify() == [])
    } else {
      #expect(last.first?.hasPrefix("error damaged ") == true, "\(last)")
      // Nothing was removed: a value is read, or its damage is an error, but it is never a miss.
      do {
        #expect(try ground.numbers.value(forKey: 1) == text)
      } catch let error as StoreError {
        #expect(error.code == .damaged)
      }
    }
  }
}
