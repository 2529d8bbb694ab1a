// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

extension Processes {
  /// Stores on a small btrfs in a file of the test's directory.
  @Suite(.serialized, .timeLimit(.minutes(60)), .enabled(if: Btrfs.isAvailable, "\(Btrfs.reason)"))
  struct CopyOnWriteTests {
    let disk: Btrfs
    init() throws { disk = try Btrfs(megabytes: 114) }

    @Test func `Files of a store on btrfs keep their blocks`() throws {
      let store = try SharedStore(at: disk.path + "/store")
      try store.setBytes([1], forKey: 1)
      let directory = store.core.directory.generation(1)
      for name in ["shared.table", "lock.mdb", "data.mdb"] {
        #expect(try OwnedFile(path: "\(directory)/\(name)").ownBlocks() == .owned, "\(name)")
      }
      let environment = try Environment(at: disk.path + "/environment")
      #expect(try OwnedFile(path: environment.path + "/lock.mdb").ownBlocks() == .owned)
    }

    @Test func `Files that were copied to btrfs are created again when the store is opened`()
      throws
    {
      // Room for both, whatever part of a small disk is reserved for metadata.
      let disk = try Btrfs(megabytes: 512)
      let path = disk.path + "/store"
      let store = try SharedStore(at: path)
      try store.setBytes([1], forKey: 1)
      store.close()
      let plain = disk.path + "/plain"
      // Without attributes, as most copies.
      let copied = try ChildProcess.run("/bin/cp", ["-r", "--reflink=never", path, plain])
      #expect(copied.status.isSuccess)
      let again = try SharedStore(at: plain)
      #expect(try again.bytes(forKey: 1) == [1])
      let root = again.core.directory.generation(1)
      for name in ["shared.table", "lock.mdb"] {
        #expect(try OwnedFile(path: "\(root)/\(name)").ownBlocks() == .owned, "\(name)")
      }
    }

    @Test(arguments: Durability.allCases)
    func `A full btrfs costs errors and evictions, never a process`(durability: Durability) throws {
      let seed = Seed.announce()
      var random = seed.generator()
      let path = disk.path + "/store"
      let kind = durability == .cache ? "budget=\(32 << 20)" : "\(durability)"
      let peers = try (0..<3).map { _ in try TestExecutable.peer.start() }
      for peer in peers { #expect(try peer.ask("open \(path) \(kind)") == "opened 1") }
      let ballast = try TestExecutable.peer.start()
      try ballast.send("ballast \(disk.path)/ballast \(seed.value & 0xFFFF)")
      var (writes, full) = (0, 0)
      for _ in 0..<3 {
        for peer in peers {
          try peer.send("squeeze \(UInt32.random(in: 0...UInt32.max, using: &random)) 40")
        }
        for peer in peers {
          let answer = try peer.nextLine()
          let words = answer.split(separator: " ")
          try #require(words[0] == "squeezed", "\(answer), \(peer), \(seed)")
          writes += try #require(Int(words[1]))
          full += try #require(Int(words[2]))
          #expect(words[3] == "0", "\(answer), \(seed)")
        }
      }
      try ballast.order("stop")
      for peer in peers { #expect(try peer.ask("verify") == "sound") }
      for peer in peers { try peer.dismiss() }
      try ballast.dismiss()
      print("btrfs, \(durability): \(writes) writes, \(full) refused")
      #expect(writes > 0)
    }
  }
}

/// A small file system that copies on write, in a file, for as long as it is referenced.
final class Btrfs: Sendable {
  private let directory: TemporaryDirectory
  let path: String

  static let reason = "a loop-mounted btrfs needs root, mkfs.btrfs and loop devices"
  static let isAvailable: Bool = (try? Btrfs(megabytes: 114)) != nil

  struct NotMounted: Error {}

  init(megabytes: Int) throws {
    directory = try TemporaryDirectory()
    path = directory.appending("disk")
    let image = directory.appending("image")
    try TestFiles.makeDirectory(path)
    try TestFiles.write([], to: image)
    try TestFiles.truncate(image, to: megabytes << 20)
    let made = try ChildProcess.run("/sbin/mkfs.btrfs", ["-q", "-f", image])
    guard made.status.isSuccess,
      try ChildProcess.run("/bin/mount", ["-t", "btrfs", "-o", "loop", image, path]).status
        .isSuccess
    else { throw NotMounted() }
  }

  deinit { _ = try? ChildProcess.run("/bin/umount", ["-l", path]) }
}
