// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Separate file systems for tests that fill them.
enum SmallDisk: String, CaseIterable {
  case tmpfs, ext4, ext4WithoutDelayedAllocation

  private struct NotMounted: Error, CustomStringConvertible { let description: String }

  /// Those that this process may mount.
  static let available = allCases.filter { disk in
    (try? disk.with(in: TemporaryDirectory()) { _ in }) != nil
  }
  static let missing = allCases.filter { !available.contains($0) }.map(\.rawValue)
  /// The file systems that cannot be mounted, as the reason for a skipped test.
  static let reason = Comment(
    rawValue: "cannot be mounted here (root on Linux can): \(missing.joined(separator: ", "))")

  /// Runs `body` with the path of one of 24 MiB.
  func with(in directory: TemporaryDirectory, _ body: (_ path: String) throws -> Void) throws {
    let disk = directory.path + "/disk"
    let image = directory.path + "/image"
    try TestFiles.makeDirectory(disk)
    var options = ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", disk]
    if self != .tmpfs {
      // The journal takes some.
      try TestFiles.write([], to: image)
      try TestFiles.truncate(image, to: 32 << 20)
      _ = try? ChildProcess.run("/sbin/mkfs.ext4", ["-q", "-F", image])
      let mode = self == .ext4 ? "loop" : "loop,nodelalloc"
      options = ["-t", "ext4", "-o", mode, image, disk]
    }
    let mount = try ChildProcess.run("/bin/mount", options)
    guard mount.status.isSuccess else { throw NotMounted(description: mount.standardError) }
    defer { _ = try? ChildProcess.run("/bin/umount", ["-l", disk]) }
    try body(disk)
  }
}

extension ProcessStorms {
  @Test(.enabled(if: SmallDisk.missing.isEmpty, SmallDisk.reason))
  func `Each small file system of these tests can be mounted`() {
    #expect(SmallDisk.available == SmallDisk.allCases)
  }

  @Test(
    .enabled(if: !SmallDisk.available.isEmpty, SmallDisk.reason), .timeLimit(.minutes(60)),
    arguments: SmallDisk.available, [6, 64])
  func `A disk that fills and empties costs errors and evictions, never a process`(
    disk: SmallDisk, megabytes: Int
  ) throws {
    // With the small budget the disk is filled by others, with the large one by the store.
    let seconds = Int(FileSystem.environment("LARDER_FULL_DISK_SECONDS") ?? "") ?? 4
    let seed = Seed.announce()
    var random = seed.generator()
    try disk.with(in: TemporaryDirectory()) { place in
      let path = place + "/store"
      let store = try SharedStore(at: path, .init(budget: .megabytes(megabytes)))
      func start(_ index: Int) throws -> ChildProcess {
        let peer = try TestExecutable.peer.start()
        // The last one writes as on a file system where nothing may be written through the map.
        // No room even to open is an error as well.
        try eventually("there is room") {
          let answer = try peer.ask("open \(path)" + (index == 3 ? " unmapped" : ""))
          try #require(
            answer == "opened 1" || answer.hasPrefix("error storageFull"), "\(answer)")
          return answer == "opened 1"
        }
        return peer
      }
      var peers = try (0..<4).map { try start($0) }
      let ballast = try TestExecutable.peer.start()
      try ballast.send("ballast \(place)/ballast \(seed.value & 0xFFFF)")

      var (writes, full, mapped, kills, verified) = (0, 0, 0, 0, 0)
      let end = ContinuousClock.now + .seconds(seconds)
      let limit = end + .seconds(600)
      // On a busy machine it takes longer until the disk is full.
      while try ContinuousClock.now < end
        || (full + store.statistics().evictions == 0 && ContinuousClock.now < limit)
      {
        for peer in peers {
          try peer.send("squeeze \(UInt32.random(in: 0...UInt32.max, using: &random)) 150")
        }
        // A process is killed while others write.
        let victim = random.chance(50) ? Int.random(in: 1..<4, using: &random) : nil
        for index in peers.indices where index != victim {
          let answer = try peers[index].nextLine()
          if index == 0, let victim { peers[victim].kill() }
          let words = answer.split(separator: " ")
          try #require(words[0] == "squeezed", "\(answer), \(peers[index]), \(seed)")
          writes += try #require(Int(words[1]))
          full += try #require(Int(words[2]))
          #expect(words[3] == "0", "\(answer), \(seed)")
          if index < 3 { mapped += try #require(Int(words[4])) }
          if index == 3 { #expect(words[4] == "0") }
        }
        if let victim {
          _ = try peers[victim].wait()
          kills += 1
          peers[victim] = try start(victim)
        }
        let findings = try store.verify()
        try #require(findings == [], "\(seed)")
        verified += 1
      }
      try ballast.order("stop")
      for peer in peers { try peer.dismiss() }
      try ballast.dismiss()
      let evictions = try store.statistics().evictions
      print(
        "\(disk), \(megabytes) MB: \(writes) writes, \(full) refused, \(mapped) through the map, \(evictions) "
          + "evictions, \(kills) kills, sound \(verified) times, generation "
          + "\(try store.statistics().generation)")
      #expect(writes > 0 && mapped > 0 && full + evictions > 0)
      // ext4 gives the blocks of a deleted file away once its journal is committed.
      _ = try ChildProcess.run("/bin/sync", ["-f", place])
      // Now that there is room, everything works.
      for key in 0..<100 {
        try store.setBytes([UInt8](repeating: 1, count: 1000), forKey: key, in: "after")
      }
      #expect(try store.verify() == [])
      #expect(try store.statistics().generation == 1)
      store.close()
    }
  }

  @Test(
    .enabled(if: SmallDisk.available.contains(.tmpfs), SmallDisk.reason), .timeLimit(.minutes(60)))
  func `The snapshot of a killed process refuses no write on a full disk`() throws {
    try SmallDisk.tmpfs.with(in: TemporaryDirectory()) { place in
      let path = place + "/store"
      let store = try SharedStore(at: path, .init(budget: .megabytes(64)))
      let value = [UInt8](repeating: 7, count: 2000)
      func isStored(_ key: Int) throws -> Bool {
        do {
          try store.setBytes(value, forKey: key)
          return true
        } catch let error as StoreError where error.code == .storageFull {
          return false
        }
      }
      var key = 0
      while try store.statistics().evictions == 0 {
        for _ in 0..<100 {
          key += 1
          _ = try isStored(key)
        }
      }
      for _ in 0..<5 {
        let reader = try TestExecutable.peer.start()
        #expect(try reader.ask("open \(path)") == "opened 1")
        #expect(try reader.ask("pin") == "pinned")
        // The pages that eviction frees are pinned.
        var (isRefused, tries) = (false, 0)
        while !isRefused, tries < 20_000 {
          key += 1
          tries += 1
          isRefused = try !isStored(key)
        }
        try #require(isRefused)
        reader.kill()
        _ = try reader.wait()
        key += 1
        #expect(try isStored(key))
      }
      #expect(try store.verify() == [])
      store.close()
    }
  }
}
