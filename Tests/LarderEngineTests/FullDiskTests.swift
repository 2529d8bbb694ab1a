// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// No room, files that vanish, handles that were closed.
@Suite(.timeLimit(.minutes(60))) struct FullDiskTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  static func value(_ key: Int) -> [UInt8] { [UInt8](repeating: UInt8(key & 255), count: 30_000) }

  @Test(
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason),
    arguments: Durability.allCases)
  func `On a full disk writes fail, reads continue, and room makes writes work`(
    durability: Durability
  ) throws {
    try directory.withSmallDisk(kilobytes: 8 * 1024) { disk in
      let store = try SharedStore(
        at: disk + "/store", .init(durability: durability, budget: .megabytes(1)))
      let ballast = disk + "/ballast"
      try store.setBytes(Self.value(0), forKey: 0)
      // Takes all remaining room: `cp` fails at the end.
      _ = try ChildProcess.run("/bin/cp", ["/dev/zero", ballast])
      #expect(try TestFiles.size(ballast) > 0)

      var failures = 0
      for key in 1..<40 {
        do {
          try store.setBytes(Self.value(key), forKey: key)
          #expect(try store.bytes(forKey: key) == Self.value(key))
        } catch let error as StoreError {
          #expect(error.code == .storageFull, "\(error)")
          failures += 1
          let found = try store.bytes(forKey: key)
          #expect(found == nil)
        }
      }
      // The room reserved for a cache's file still holds as much as the budget allows.
      let evictions = try store.statistics().evictions
      #expect(failures > 0 || evictions > 0)
      let first = try store.bytes(forKey: 0)
      #expect(first == Self.value(0) || (first == nil && evictions > 0))

      TestFiles.removeAll(ballast)
      for key in 100..<120 {
        try store.setBytes(Self.value(key), forKey: key)
        #expect(try store.bytes(forKey: key) == Self.value(key))
      }
      #expect(try store.verify() == [])
      store.close()
    }
  }

  @Test(
    .enabled(if: hasTools, needsTools),
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `On a disk without a free block a store is not created, without a signal`() throws {
    try directory.withSmallDisk(kilobytes: 4096) { disk in
      _ = try ChildProcess.run("/bin/cp", ["/dev/zero", disk + "/ballast"])
      let full = try TestFiles.size(disk + "/ballast")
      // From no block at all to enough for the first files.
      for free in [0, 1, 2, 3, 4, 8, 16, 17, 18, 32] {
        try run("/usr/bin/truncate", "-s", "\(full - free * 4096)", disk + "/ballast")
        let tool = try TestExecutable.tool.path
        let set = try ChildProcess.run(tool, ["set", "k", "v", "--store", disk + "/store"])
        guard case .exited(let code) = set.status, code != 0 else {
          Issue.record("\(free) blocks: \(set.status): \(set.standardError)")
          continue
        }
        #expect(set.standardError.contains("no space left"), "\(set.standardError)")
      }
    }
  }

  @Test(.enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `A store is not created on a full disk, without a signal`() throws {
    try directory.withSmallDisk(kilobytes: 64) { disk in
      for _ in 0..<2 {
        let error = #expect(throws: StoreError.self) { try SharedStore(at: disk + "/store") }
        #expect(error?.code == .storageFull, "\(error.map { "\($0)" } ?? "")")
      }
      try run("/bin/mount", "-o", "remount,size=16m", disk)
      let store = try SharedStore(at: disk + "/store", .init(budget: .megabytes(1)))
      try store.setBytes([1], forKey: 1)
      #expect(try store.bytes(forKey: 1) == [1])
      store.close()
    }
  }

  @Test(.enabled(if: hasTools, needsTools))
  func `A limit on the size of files is an error and not a signal`() throws {
    let tool = try TestExecutable.tool.path
    let store = try SharedStore(at: path, .init(budget: .megabytes(64)))
    try store.setBytes([1], forKey: 1)
    let script = directory.path + "/value"
    try TestFiles.write([UInt8](repeating: 65, count: 12 << 20), to: script)
    for _ in 0..<2 {
      let outcome = try ChildProcess.run(
        "/bin/bash",
        ["-c", "ulimit -f 6000; exec \"$0\" set big --store \"$1\" < \"$2\"", tool, path, script])
      guard case .exited(let code) = outcome.status else {
        Issue.record("\(outcome.status): \(outcome.standardError)")
        return
      }
      #expect(code != 0)
      #expect(outcome.standardError.contains("no space left"), "\(outcome.standardError)")
    }
    #expect(try store.bytes(forKey: "big") == nil)
    try store.setBytes([2], forKey: 1)
    let get = try ChildProcess.run(
      "/bin/bash", ["-c", "ulimit -f 6000; exec \"$0\" stat --store \"$1\"", tool, path])
    #expect(get.status.isSuccess, "\(get.standardError)")
    #expect(try store.bytes(forKey: 1) == [2])
    #expect(try store.verify() == [])
  }

  // MARK: Closed, gone

  @Test func `Every use after closing is the error closed`() throws {
    let store = try SharedStore(at: path)
    let other = try SharedStore(at: path)
    let namespace = try store.namespace("n")
    try store.setBytes([1], forKey: 1)
    store.close()
    store.close()
    let uses: [() throws -> Void] = [
      { _ = try store.bytes(forKey: 1) }, { try store.setBytes([1], forKey: 1) },
      { try store.remove(forKey: 1) }, { try store.removeAll() },
      { try store.removeAll(in: "n") }, { try store.sync() }, { try store.removeExpired() },
      { try store.write { try $0.setBytes([1], forKey: 1) } }, { _ = try store.statistics() },
      { _ = try store.verify() }, { _ = try namespace.bytes(forKey: 1) },
      { try namespace.setBytes([1], forKey: 1) }, { _ = try namespace.contains(1) },
      { try namespace.removeAll() },
    ]
    for (index, use) in uses.enumerated() {
      let error = #expect(throws: StoreError.self, "use \(index)") { try use() }
      #expect(error?.code == .closed, "use \(index)")
    }
    let cache = PersistentCache<Int, Int>(storage: store)
    #expect(cache[1] == nil)
    #expect(throws: StoreError.self) { try cache.value(forKey: 1) }
    #expect(try other.bytes(forKey: 1) == [1])
  }

  @Test(.enabled(if: hasTools, needsTools), arguments: [Durability.durable, .relaxed])
  func `A store that survives crashes refuses writes and handles after its files were deleted`(
    durability: Durability
  ) throws {
    let store = try SharedStore(at: path, StoreOptions(durability: durability))
    try store.setBytes([1], forKey: "a")
    try run("/bin/rm", "-rf", path)
    for _ in 0..<2 {
      let error = #expect(throws: StoreError.self) { try store.setBytes([2], forKey: "a") }
      #expect(error?.code == .damaged && error?.message.contains("deleted or replaced") == true)
    }
    let error = #expect(throws: StoreError.self) {
      _ = try SharedStore(at: path, StoreOptions(durability: durability))
    }
    #expect(error?.code == .damaged && error?.path == path)
    store.close()
    let again = try SharedStore(at: path, StoreOptions(durability: durability))
    try again.setBytes([3], forKey: "a")
    #expect(try again.verify() == [])
  }

  @Test(arguments: [Durability.durable, .relaxed])
  func `A store that survives crashes creates no file in place of deleted ones`(
    durability: Durability
  ) throws {
    var options = StoreOptions(durability: durability)
    options.idleSyncDelay = nil
    let store = try SharedStore(at: path, options)
    try store.setBytes([1], forKey: "a")
    try store.setBytes([2], forKey: "a")
    try run("/usr/bin/find", path, "-type", "f", "-delete")
    store.core.syncIfDue(now: .max / 2)
    store.close()
    let left = try ChildProcess.run("/usr/bin/find", [path, "-type", "f"])
    #expect(left.output == "")
  }

  @Test func `A checkpoint file that was deleted alone is created again`() throws {
    let store = try SharedStore(at: path, StoreOptions(durability: .relaxed))
    try store.setBytes([1], forKey: "a")
    try store.sync()
    let file = try StoreFiles(of: path).generation + "/synced"
    TestFiles.removeAll(file)
    try store.setBytes([2], forKey: "a")
    store.core.syncIfDue(now: .max / 2)
    #expect(TestFiles.exists(file))
    #expect(try store.verify() == [])
  }

  @Test func `A sync of a relaxed store whose files were deleted is an error`() throws {
    let store = try SharedStore(at: path, StoreOptions(durability: .relaxed))
    try store.setBytes([1], forKey: "a")
    try store.sync()
    try run("/bin/rm", "-rf", path)
    let error = #expect(throws: StoreError.self) { try store.sync() }
    #expect(error?.code == .damaged && error?.message.contains("deleted or replaced") == true)
  }

  @Test(arguments: [false, true])
  func `The log of a relaxed store that was moved is synced, and its loss is reported once`(
    hasGap: Bool
  ) throws {
    let errors = Mutex<[String]>([])
    let store = try SharedStore(
      at: path,
      StoreOptions(
        durability: .relaxed, syncInterval: .seconds(86_400),
        onError: { error in errors.withLock { $0.append("\(error)") } }))
    // The first commit of a store has no record in the log.
    if !hasGap {
      try store.setBytes([1], forKey: "a")
      try store.sync()
    }
    let table = try store.core.generation().table
    try store.write {
      try TestFiles.move(path, to: path + "-moved")
      try $0.setBytes([2], forKey: "b")
    }
    for _ in 0..<3 { store.core.syncIfDue(now: .max / 2) }
    #expect((table.durableVersion == table.lastStamped) == !hasGap)
    store.core.watchFiles()
    try eventually("the loss is reported") { errors.withLock { !$0.isEmpty } }
    for _ in 0..<3 { store.core.syncIfDue(now: .max / 2) }
    store.close()
    #expect(errors.withLock { $0.count } == 1, "\(errors.withLock { $0 })")
    let moved = try SharedStore(at: path + "-moved", StoreOptions(durability: .relaxed))
    #expect(try moved.bytes(forKey: "b") == [2])
  }

  @Test(.enabled(if: hasTools, needsTools), arguments: [false, true])
  func `A store whose files were moved is not copied into another place`(isReplaced: Bool) throws {
    let options = StoreOptions(durability: .relaxed)
    let store = try SharedStore(at: path, options)
    try store.setBytes([1], forKey: "a")
    try store.sync()
    try TestFiles.move(path, to: path + "-moved")
    if isReplaced {
      let tool = try TestExecutable.tool.path
      let arguments = ["set", "b", "2", "--store", path, "--durability", "relaxed"]
      #expect(try ChildProcess.run(tool, arguments).status == .exited(0))
    }
    // The disk refuses a sync: what is stored has to be copied.
    try store.core.generation().table.noteFailedSync()
    store.core.syncIfDue(now: .max / 2)
    for use in [store.sync, { try store.setBytes([2], forKey: "a") }, store.compact] {
      let error = #expect(throws: StoreError.self) { try use() }
      #expect(error?.code == .damaged && error?.message.contains("deleted or replaced") == true)
    }
    #expect(try store.bytes(forKey: "a") == [1])
    store.close()
    let moved = try SharedStore(at: path + "-moved", options)
    #expect(try moved.bytes(forKey: "a") == [1])
  }

  @Test(.enabled(if: hasTools, needsTools), arguments: [Durability.durable, .relaxed])
  func `A store that others have compacted twice has lost no files`(durability: Durability) throws {
    let options = StoreOptions(durability: durability)
    let store = try SharedStore(at: path, options)
    try store.setBytes([1], forKey: "a")
    for _ in 0..<2 {
      let tool = try TestExecutable.tool.path
      #expect(try ChildProcess.run(tool, ["compact", "--store", path]).status == .exited(0))
    }
    #expect(try SharedStore(at: path, options).bytes(forKey: "a") == [1])
    try store.sync()
    #expect(try store.bytes(forKey: "a") == [1])
  }

  @Test func `A durable commit during which the files are moved has an unknown outcome`() throws {
    let options = StoreOptions(durability: .durable)
    let store = try SharedStore(at: path, options)
    // The first commit has no record in the log, so it needs a checkpoint.
    let error = #expect(throws: StoreError.self) {
      try store.write {
        try TestFiles.move(path, to: path + "-moved")
        try $0.setBytes([1], forKey: "a")
      }
    }
    #expect(error?.code == .outcomeUnknown)
    #expect(
      error?.message.contains("nothing was stored") == false, "\(error.map { "\($0)" } ?? "")")
    store.close()
    let moved = try SharedStore(at: path + "-moved", options)
    #expect(try moved.bytes(forKey: "a") == [1])
    #expect(try moved.verify() == [])
  }

  @Test func `A cache whose directory was deleted does not create it again when it closes`() throws
  {
    // A cache whose thread finds the deletion before the close begins is created again: then the round is repeated.
    for round in 1...20 {
      let path = "\(path)-\(round)"
      let store = try SharedStore(at: path)
      try store.setBytes([1], forKey: "a")
      // Starts the store's thread.
      store.core.watchFiles()
      try TestFiles.move(path, to: path + "-moved")
      store.close()
      if !TestFiles.exists(path) { return }
    }
    Issue.record("It was created again in each of twenty rounds.")
  }

  @Test(arguments: [Durability.durable, .relaxed])
  func `A store that survives crashes refuses writes within seconds after its files were replaced`(
    durability: Durability
  ) throws {
    let store = try SharedStore(at: path, StoreOptions(durability: durability))
    try store.setBytes([1], forKey: "a")
    try TestFiles.move(path, to: path + "-moved")
    let tool = try TestExecutable.tool.path
    let arguments = ["set", "b", "2", "--store", path, "--durability", durability.rawValue]
    #expect(try ChildProcess.run(tool, arguments).status == .exited(0))
    let deadline = ContinuousClock.now + .seconds(300)
    var error: (any Error)?
    while error == nil, ContinuousClock.now < deadline {
      do { try store.setBytes([2], forKey: "a") } catch let refusal { error = refusal }
    }
    #expect((error as? StoreError)?.code == .damaged, "\(String(describing: error))")
  }

  @Test(.enabled(if: hasTools, needsTools))
  func `A store whose directory is removed while it is open starts empty`() throws {
    let store = try SharedStore(at: path)
    let cache = PersistentCache<String, Int>(storage: store)
    try cache.setValue(1, forKey: "old")
    #expect(cache["old"] == 1)
    try run("/bin/rm", "-rf", path)
    let deadline = ContinuousClock.now + .seconds(300)
    var (works, said) = (false, "")
    while !works, ContinuousClock.now < deadline {
      try? cache.setValue(2, forKey: "new")
      // Another process checks: it sees the directory without this process's state.
      let tool = try TestExecutable.tool.path
      let get = try ChildProcess.run(tool, ["get", "new", "--store", path])
      works = get.lines == ["2"]
      said = "\(get)"
    }
    #expect(works, "\(said)")
    #expect(cache["new"] == 2)
    #expect(cache["old"] == nil)
    #expect(try SharedStore(at: path).core === store.core)
    #expect(try store.verify() == [])
  }
}
