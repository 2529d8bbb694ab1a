// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// The kind of a file system in a file.
private enum ImageKind: String {
  case ext4, xfs, btrfs

  /// The smallest that all versions of its tool make.
  var size: String { self == .ext4 ? "96M" : "320M" }
  var makeOption: String { self == .ext4 ? "-F" : "-f" }
  var mountOptions: String {
    switch self {
    case .ext4: "loop,errors=remount-ro"
    // A snapshot has the same identifier as the original, which may be mounted.
    case .xfs: "loop,nouuid"
    case .btrfs: "loop"
    }
  }
}

/// A file system in a file, mounted on this machine.
private struct LoopDisk {
  let kind: ImageKind
  let image: String
  let mount: String

  /// - Parameter image: A file with a file system, or `nil` for a new one.
  init(
    _ kind: ImageKind = .ext4, in directory: TemporaryDirectory, _ name: String = "disk",
    image: String? = nil
  ) throws {
    self.kind = kind
    mount = directory.appending(name)
    self.image = image ?? directory.appending(name + ".image")
    if image == nil {
      try Self.run("truncate", "-s", kind.size, self.image)
      try Self.run("mkfs.\(kind.rawValue)", "-q", kind.makeOption, self.image)
    }
    try TestFiles.makeDirectory(mount)
    try mountAgain()
  }

  func mountAgain() throws {
    try Self.run("mount", "-o", kind.mountOptions, image, mount)
    try Self.run("chmod", "700", mount)
  }

  /// The name of the device, as in sysfs.
  private var device: String {
    get throws {
      let outcome = try ChildProcess.run("findmnt", ["-n", "-o", "SOURCE", mount])
      return String(try #require(outcome.lines.first).split(separator: "/").last!)
    }
  }

  /// Lets the file system fail, as after an error of the device: nothing more is written to it.
  func fail() throws {
    switch kind {
    case .ext4:
      let place = "/sys/fs/ext4/\(try device)/trigger_fs_error"
      try Self.run("/bin/sh", "-c", "echo failure > \(place)")
    case .xfs: try Self.run("xfs_io", "-x", "-c", "shutdown", mount)
    case .btrfs: Issue.record("btrfs has no command for it")
    }
  }

  /// Unmounts the file system, and waits until no process has it mounted. A process that another test has started in
  /// a mount namespace has a copy of each mount; until its end a second mount is of the same, failed super block.
  func unmount() throws {
    try Self.run("umount", mount)
    try eventually("no other mount namespace has \(mount)") {
      try ChildProcess.run("losetup", ["--noheadings", "--associated", image]).lines
        .allSatisfy(\.isEmpty)
    }
  }

  static func run(_ command: String, _ arguments: String...) throws {
    let outcome = try ChildProcess.run(command, arguments)
    try #require(outcome.status.isSuccess, "\(command) \(arguments): \(outcome.standardError)")
  }

  /// Unmounts the file system, if it is mounted.
  func remove() { _ = try? ChildProcess.run("umount", ["-l", mount]) }
}

/// Whether this process may mount a file system that is in a file.
private let canMountImages = canMount(.ext4)
private let canMountXFS = canMount(.xfs)
private let canMountBtrfs = canMount(.btrfs)
private let needsImages: Comment =
  "file systems in files cannot be mounted here (root on Linux with loop devices can)"
private let needsTools: Comment =
  "such file systems cannot be made or mounted here (xfsprogs, btrfs-progs; root on Linux)"

private func canMount(_ kind: ImageKind) -> Bool {
  guard let directory = try? TemporaryDirectory(), let disk = try? LoopDisk(kind, in: directory)
  else { return false }
  disk.remove()
  return true
}

/// Whether this process may create mount namespaces.
private let canUnshareMounts: Bool = {
  let outcome = try? ChildProcess.run("unshare", ["--mount", "true"])
  return outcome?.status.isSuccess ?? false
}()
private let needsMounts: Comment = "mount namespaces cannot be created here (root on Linux can)"

private final class Events: Sendable {
  private let seen = Mutex<[StoreEvent]>([])
  var all: [StoreEvent] { seen.withLock { $0 } }
  var restored: Int { all.count { if case .restored = $0 { true } else { false } } }
  var emptied: Int { all.count { if case .resetToEmpty = $0 { true } else { false } } }
  func note(_ event: StoreEvent) { seen.withLock { $0.append(event) } }
}

extension Processes {
  @Suite(.timeLimit(.minutes(60))) struct MountTests {
    let directory: TemporaryDirectory
    init() throws { directory = try TemporaryDirectory() }

    /// Starts a process that has a store open, also in another mount namespace.
    private func peer(
      _ path: String, _ options: String, inNamespace: Bool = false
    ) throws -> ChildProcess {
      let peer =
        inNamespace
        ? try ChildProcess("unshare", ["--mount", TestExecutable.peer.path])
        : try TestExecutable.peer.start()
      let answer = try peer.ask("open \(path) \(options)")
      try #require(answer.hasPrefix("opened "), "\(answer)")
      return peer
    }

    private func kill(_ peers: ChildProcess...) throws {
      for peer in peers {
        peer.kill()
        _ = try peer.wait()
      }
    }

    private func write(_ keys: Range<Int>, _ peer: ChildProcess) throws {
      for key in keys { try peer.order("set \(key) value\(key)") }
    }

    /// Opens a store, and returns the keys that it has.
    private func keys(_ path: String, _ durability: Durability, _ events: Events) throws -> [Int] {
      let store = try SharedStore(
        at: path, StoreOptions(durability: durability, onEvent: { events.note($0) }))
      defer { store.close() }
      #expect(try store.verify() == [])
      let numbers = PersistentCache<Int, String>(storage: store)
      return try (0..<300).filter { key in
        let value = try numbers.value(forKey: key)
        #expect(value == nil || value == "value\(key)")
        return value != nil
      }
    }

    @Test(
      .enabled(if: canMountImages, needsImages),
      arguments: [Durability.durable, .durableStrict, .relaxed])
    func `After its file system failed and was mounted again a store has what was acknowledged`(
      durability: Durability
    ) throws {
      try failAndMountAgain(.ext4, durability)
    }

    @Test(
      .enabled(if: canMountXFS, needsTools),
      arguments: [Durability.durable, .durableStrict, .relaxed])
    func `After xfs failed and was mounted again a store has what was acknowledged`(
      durability: Durability
    ) throws {
      try failAndMountAgain(.xfs, durability)
    }

    private func failAndMountAgain(_ kind: ImageKind, _ durability: Durability) throws {
      let disk = try LoopDisk(kind, in: directory)
      defer { disk.remove() }
      let path = disk.mount + "/store"
      for round in 0..<3 {
        let first = try peer(path, "\(durability)")
        let second = try peer(path, "\(durability)")
        try write(round * 80..<round * 80 + 40, first)
        try write(round * 80 + 40..<round * 80 + 80, second)
        // A relaxed store promises no more.
        if durability == .relaxed { try first.order("sync") }
        try disk.fail()
        try kill(first, second)
        try disk.unmount()
        try disk.mountAgain()
        let events = Events()
        #expect(try keys(path, durability, events) == Array(0..<round * 80 + 80))
        #expect(events.restored == 1 && events.all.count == 1, "\(events.all)")
      }
    }

    @Test(
      .enabled(if: canMountImages, needsImages), arguments: [Durability.durable, .durableStrict])
    func `A snapshot of the device that is opened on the same boot has what was acknowledged`(
      durability: Durability
    ) throws {
      let disk = try LoopDisk(in: directory)
      defer { disk.remove() }
      let first = try peer(disk.mount + "/store", "\(durability)")
      let second = try peer(disk.mount + "/store", "\(durability)")
      for round in 0..<4 {
        try write(round * 40..<round * 40 + 20, first)
        try write(round * 40 + 20..<round * 40 + 40, second)
        let image = directory.appending("snapshot-\(round).image")
        try LoopDisk.run("cp", "--sparse=always", disk.image, image)
        let snapshot = try LoopDisk(in: directory, "snapshot-\(round)", image: image)
        defer { snapshot.remove() }
        let events = Events()
        #expect(
          try keys(snapshot.mount + "/store", durability, events) == Array(0..<round * 40 + 40))
        #expect(events.restored == 1, "\(events.all)")
      }
      // The store that is open is not concerned.
      #expect(try first.ask("verify") == "sound")
      try first.dismiss()
      try second.dismiss()
    }

    @Test(.enabled(if: canMountImages, needsImages))
    func `A cache whose file system was mounted again starts empty unless it was synced`() throws {
      try mountCacheAgain(.ext4)
    }

    @Test(.enabled(if: canMountXFS, needsTools))
    func `A cache whose xfs was mounted again starts empty unless it was synced`() throws {
      try mountCacheAgain(.xfs)
    }

    @Test(.enabled(if: canMountBtrfs, needsTools))
    func `A cache whose btrfs was mounted again starts empty unless it was synced`() throws {
      try mountCacheAgain(.btrfs)
    }

    @Test(
      .enabled(if: canMountBtrfs, needsTools),
      arguments: [Durability.durable, .durableStrict, .relaxed])
    func `A store whose btrfs was mounted again is restored and has what was acknowledged`(
      durability: Durability
    ) throws {
      let disk = try LoopDisk(.btrfs, in: directory)
      defer { disk.remove() }
      let path = disk.mount + "/store"
      for round in 0..<2 {
        let writer = try peer(path, "\(durability)")
        try write(round * 40..<round * 40 + 40, writer)
        if durability == .relaxed { try writer.order("sync") }
        try kill(writer)
        // Only the same mount is a proof.
        if round == 0 {
          let events = Events()
          #expect(try keys(path, durability, events) == Array(0..<40))
          #expect(events.restored == (ProcessIdentity.kernelVersion >= (6, 8) ? 0 : 1))
          continue
        }
        try disk.unmount()
        try disk.mountAgain()
        let events = Events()
        #expect(try keys(path, durability, events) == Array(0..<80))
        #expect(events.restored == 1 && events.all.count == 1, "\(events.all)")
      }
    }

    private func mountCacheAgain(_ kind: ImageKind) throws {
      let disk = try LoopDisk(kind, in: directory)
      defer { disk.remove() }
      let (busy, idle) = (disk.mount + "/busy", disk.mount + "/idle")
      let writer = try peer(busy, "")
      try write(0..<20, writer)
      let other = try peer(idle, "idle=1")
      try write(0..<20, other)
      let (found, _) = try #require(StoreDirectory.find(idle))
      let state = found.generation(1) + "/state"
      try eventually("the idle cache is synced", within: .seconds(300)) {
        try StoreState.read(from: state)?.isDirty == false
      }
      try kill(writer, other)
      try disk.unmount()
      try disk.mountAgain()
      let (busyEvents, idleEvents) = (Events(), Events())
      #expect(try keys(busy, .cache, busyEvents) == [])
      #expect(busyEvents.emptied == 1, "\(busyEvents.all)")
      #expect(try keys(idle, .cache, idleEvents) == Array(0..<20))
      #expect(idleEvents.all == [])
    }

    @Test(
      .enabled(if: canMountImages && canUnshareMounts, needsMounts), arguments: Durability.allCases)
    func `Processes of several mount namespaces share a store, and kills there lose nothing`(
      durability: Durability
    ) throws {
      let disk = try LoopDisk(in: directory)
      defer { disk.remove() }
      let path = disk.mount + "/store"
      let first = try peer(path, "\(durability)", inNamespace: true)
      try write(0..<20, first)
      let second = try peer(path, "\(durability)", inNamespace: true)
      #expect(try second.ask("get 7") == "value value7")
      try write(20..<40, second)
      #expect(try first.ask("get 27") == "value value27")
      try kill(first)
      try write(40..<60, second)
      try kill(second)
      // The super block is the same: ext4 has a proof of it for other mounts.
      let third = try peer(path, "\(durability)", inNamespace: true)
      for key in [0, 27, 59] { #expect(try third.ask("get \(key)") == "value value\(key)") }
      try write(60..<70, third)
      try kill(third)
      let bound = directory.appending("bound")
      try TestFiles.makeDirectory(bound)
      try LoopDisk.run("mount", "--bind", disk.mount, bound)
      defer { _ = try? ChildProcess.run("umount", ["-l", bound]) }
      let events = Events()
      #expect(try keys(bound + "/store", durability, events) == Array(0..<70))
      #expect(events.all == [])
    }

    @Test(.enabled(if: canMountImages, needsImages))
    func `A repair after the file system was mounted again restores before it salvages`() throws {
      let disk = try LoopDisk(in: directory)
      defer { disk.remove() }
      let path = disk.mount + "/store"
      let writer = try peer(path, "durable")
      try write(0..<100, writer)
      try disk.fail()
      try kill(writer)
      try disk.unmount()
      try disk.mountAgain()
      let plan = try SharedStore.repair(at: path, dryRun: true)
      #expect(plan.outcome == .repairable && plan.kept == 100 && plan.lost == 0, "\(plan)")
      let report = try SharedStore.repair(at: path)
      #expect(report.outcome == .repaired && report.kept == 100 && report.isComplete, "\(report)")
      #expect("\(report.findings)".contains("mounted again"))
      let events = Events()
      #expect(try keys(path, .durable, events) == Array(0..<100))
      #expect(events.all == [])
    }
  }
}
