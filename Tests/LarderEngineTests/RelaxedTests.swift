// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct RelaxedTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Nothing is synced in the background within an hour.
  static let options = {
    var options = StoreOptions(durability: .relaxed, syncInterval: .seconds(3600))
    options.idleSyncDelay = nil
    return options
  }()

  func open(_ path: String? = nil) throws -> SharedStore {
    try SharedStore(at: path ?? self.path, Self.options)
  }

  /// Opens a new store whose log has begun: before that, each commit needs a checkpoint.
  func openLogged() throws -> SharedStore {
    let store = try open()
    try store.setBytes([0], forKey: "first")
    try store.sync()
    return store
  }

  /// Makes a checkpoint, whether or not one is due.
  func checkpoint(_ store: SharedStore) { store.core.syncIfDue(now: .max / 2) }

  /// The files of the log.
  func log() throws -> [(name: String, bytes: [UInt8])] {
    let files = try StoreFiles(of: path).generation
    return try (0..<32).map { "log-\($0)" }.filter { TestFiles.exists(files + "/" + $0) }
      .map { ($0, try TestFiles.contents(of: files + "/" + $0)) }
  }

  /// The store's files as they are now, and every page of them on the disk, after a crash of the
  /// system.
  ///
  /// - Parameter log: The files of the log, if those of the store did not come to the disk.
  func crashed(
    _ name: String = "crashed", log: [(name: String, bytes: [UInt8])]? = nil
  ) throws -> String {
    let copy = directory.path + "/" + name
    try run("/bin/cp", "-a", path, copy)
    if let log {
      let files = try StoreFiles(of: copy).generation
      for number in 0..<32 { TestFiles.removeAll(files + "/log-\(number)") }
      for (name, bytes) in log { try TestFiles.write(bytes, to: files + "/" + name) }
    }
    let file = try StoreFiles(of: copy).state
    var state = try #require(try StoreState.read(from: file))
    state.bootID = state.bootID &+ 1
    try state.write(to: file)
    return copy
  }

  func synced(_ path: String) throws -> String { try StoreFiles(of: path).generation + "/synced" }

  @Test func `After a crash of the system a relaxed store is as it was at its last sync`() throws {
    let store = try open()
    for key in 0..<40 { try store.setBytes(.init(repeating: 1, count: key * 300), forKey: key) }
    try store.sync()
    let synced = try log()
    for key in 0..<40 { try store.setBytes(.init(repeating: 2, count: key * 300), forKey: key) }
    try store.remove(forKey: 7)
    let commitVersion = try store.core.generation().table.lastStamped
    let path = try crashed(log: synced)
    let log = EventLog()
    var options = log.options(.relaxed)
    options.syncInterval = .seconds(3600)
    let again = try SharedStore(at: path, options)
    for key in 0..<40 {
      #expect(try again.bytes(forKey: key) == .init(repeating: 1, count: key * 300))
    }
    #expect(try again.verify() == [])
    #expect(log.events.count == 1 && log.restored == 1, "\(log.events)")
    // Commit versions only grow: a new commit is never mistaken for a lost one.
    try again.setBytes([3], forKey: 1)
    #expect(try again.core.generation().table.lastStamped > commitVersion)
    again.close()
    #expect(try open(path).bytes(forKey: 1) == [3])
  }

  @Test func `An orderly reboot that closes nothing loses no commit of a relaxed store`() throws {
    let store = try openLogged()
    for key in 0..<120 {
      try store.setBytes(.init(repeating: UInt8(key % 250), count: key * 30), forKey: key)
    }
    for key in 0..<20 { try store.remove(forKey: key) }
    #expect(try store.statistics().unsyncedCommits == 140)
    #expect(try log().count > 2)
    let again = try open(crashed())
    for key in 0..<120 {
      let value = [UInt8](repeating: UInt8(key % 250), count: key * 30)
      #expect(try again.bytes(forKey: key) == (key < 20 ? nil : value))
    }
    #expect(try again.verify() == [])
  }

  @Test(arguments: [Durability.relaxed, .durable, .durableStrict])
  func `A store whose log was removed begins another one`(durability: Durability) throws {
    var options = Self.options
    if durability != .relaxed { options = StoreOptions(durability: durability) }
    let store = try SharedStore(at: path, options)
    for key in 0..<10 { try store.setBytes([1], forKey: key) }
    store.close()
    let files = try StoreFiles(of: path).generation
    for number in 0..<32 { TestFiles.removeAll(files + "/log-\(number)") }
    let again = try SharedStore(at: path, options)
    for key in 0..<10 { try again.setBytes([2], forKey: key) }
    let table = try again.core.generation().table
    // At most the first one needs a checkpoint.
    #expect(table.logGap &+ 9 <= table.lastStamped)
    #expect(try again.verify() == [])
  }

  @Test func `A relaxed store keeps its pin when nothing is left to sync`() throws {
    let store = try openLogged()
    checkpoint(store)
    #expect(store.core.syncIfDue() == nil)
    #expect(try store.core.generation().readers().contains { $0.transaction != nil })
  }

  @Test func `A file of the log that a crash left empty is made again`() throws {
    let store = try openLogged()
    for key in 0..<100 { try store.setBytes(.init(repeating: 1, count: 2000), forKey: key) }
    let files = try log()
    #expect(files.count >= 3)
    let path = try crashed(log: [files[0]] + files.dropFirst().map { ($0.name, []) })
    let again = try open(path)
    for key in 0..<100 { try again.setBytes(.init(repeating: 2, count: 2000), forKey: key) }
    let names = try (0..<32).filter {
      TestFiles.exists(try StoreFiles(of: path).generation + "/log-\($0)")
    }
    #expect(names.count <= files.count)
    #expect(try again.verify() == [])
  }

  @Test func `A relaxed store whose log is full writes on, and logs again after a checkpoint`()
    throws
  {
    let store = try openLogged()
    let core = store.core
    let table = try core.generation().table
    let value = [UInt8](repeating: 5, count: 1 << 20)
    func isThere(_ keys: Range<Int>, _ image: String) throws -> [Int] {
      let again = try open(crashed(image))
      #expect(try again.verify() == [])
      return try keys.filter { try again.bytes(forKey: $0) == value }
    }
    do {
      // As if another process were in the middle of a long checkpoint.
      let presence = try OwnedFile(path: try core.generation().path + "/presence")
      // The checkpoint after the first commit may not have ended.
      try eventually("no checkpoint runs") {
        try presence.tryLock(.exclusive, at: PresenceLocks.syncer)
      }
      let before = table.checkpointVersion
      for key in 0..<100 { try store.setBytes(value, forKey: key) }
      #expect(table.checkpointVersion == before)
      #expect(try store.statistics().unsyncedCommits == 100)
      #expect(try log().reduce(0) { $0 + $1.bytes.count } <= 64 << 20)
      // The first ones.
      let found = try isThere(0..<100, "full")
      #expect(found == Array(0..<found.count) && found.count > 30 && found.count < 70)
    }
    for key in 100..<110 {
      try store.setBytes(value, forKey: key)
      core.syncIfDue()
    }
    #expect(table.logGap <= table.checkpointVersion)
    try store.setBytes([1], forKey: 200)
    #expect(table.logEnd(after: table.lastStamped) != nil)
    #expect(try isThere(0..<110, "again") == Array(0..<110))
    #expect(try open(directory.path + "/again").bytes(forKey: 200) == [1])
  }

  @Test func `A place in the changes after the last sync is followed by a gap after a crash`()
    throws
  {
    let store = try open()
    _ = try store.recentChanges(since: store.changeCursor())
    try store.setBytes([1], forKey: 1)
    try store.sync()
    let log = try log()
    let synced = try store.changeCursor()
    try store.setBytes([2], forKey: 1)
    let lost = try store.changeCursor()
    let again = try open(crashed(log: log))
    try again.setBytes([3], forKey: 2)
    for cursor in [synced, lost] {
      let events = try again.recentChanges(since: cursor)
      guard case .gap? = events.first, case .commit(let changes, _)? = events.last else {
        Issue.record("no gap: \(events)")
        continue
      }
      #expect(changes.map(\.keyText) == ["2"] && events.count == 2)
    }
    #expect(try again.verify() == [])
  }

  @Test func `A crash right after a crash recovery changes nothing`() throws {
    let store = try open()
    try store.setBytes([1], forKey: 1)
    try store.sync()
    try store.setBytes([2], forKey: 1)
    let path = try crashed()
    let files = try StoreFiles(of: path)
    let record = try TestFiles.contents(of: synced(path))
    let state = try TestFiles.contents(of: files.state)
    for hasRecorded in [false, true, true] {
      try open(path).close()
      // As far as the metas, or the record, and not to the state.
      if !hasRecorded { try TestFiles.write(record, to: synced(path)) }
      try TestFiles.write(state, to: files.state)
    }
    let again = try open(path)
    #expect(try again.bytes(forKey: 1) == [2])
    #expect(try again.verify() == [])
  }

  @Test func `A sync that was not done is due after the interval, and shown`() throws {
    let store = try openLogged()
    #expect(try store.statistics().syncInterval == .seconds(3600))
    #expect(try store.statistics().unsyncedCommits == 0)
    let table = try store.core.generation().table
    let now = table.logSyncedAt
    #expect(store.core.syncIfDue(now: now + 10_000_000) == nil)
    try store.setBytes([1], forKey: 1)
    try store.setBytes([2], forKey: 2)
    #expect(try store.statistics().unsyncedCommits == 2)
    #expect(store.core.syncIfDue(now: now + 3_599_000) == 250_000_000)
    #expect(try store.statistics().unsyncedCommits == 2)
    #expect(store.core.syncIfDue(now: now + 3_600_000) != nil)
    #expect(try store.statistics().unsyncedCommits == 0)
    #expect(store.core.syncIfDue(now: now + 10_000_000) == nil)
    try store.setBytes([3], forKey: 3)
    try store.sync()
    #expect(try store.statistics().unsyncedCommits == 0)
    // Other kinds have neither.
    let cache = try SharedStore(at: directory.path + "/cache")
    #expect(try cache.statistics().syncInterval == nil)
    #expect(try cache.statistics().unsyncedCommits == nil)
  }

  @Test func `The interval belongs to the store, and a new one applies to every process`() throws {
    try open().close()
    let store = try SharedStore(at: path, .init(durability: .relaxed))
    #expect(try store.statistics().syncInterval == .seconds(3600))
    let other = try SharedStore(
      at: path, .init(durability: .relaxed, syncInterval: .milliseconds(1500)))
    #expect(try store.statistics().syncInterval == .milliseconds(1500))
    other.close()
    store.close()
    let again = try SharedStore(at: path, .init(durability: .relaxed))
    #expect(try again.statistics().syncInterval == .milliseconds(1500))
    try again.compact()
    #expect(try again.statistics().syncInterval == .milliseconds(1500))
    for wrong in [Duration.zero, .seconds(-1), .seconds(86_401), .nanoseconds(3)] {
      let error = #expect(throws: StoreError.self) {
        try SharedStore(at: path, .init(durability: .relaxed, syncInterval: wrong))
      }
      #expect(error?.code == .invalidOption, "\(wrong)")
    }
    let error = #expect(throws: StoreError.self) {
      try SharedStore(
        at: directory.path + "/durable", .init(durability: .durable, syncInterval: .seconds(1)))
    }
    #expect(error?.code == .invalidOption)
  }

  @Test func `Another durability than relaxed is an error that names both`() throws {
    for kind in Durability.allCases {
      let path = directory.path + "/\(kind)"
      try SharedStore(at: path, .init(durability: kind)).close()
      #expect(try SharedStore.durability(ofStoreAt: path) == kind)
      for other in Durability.allCases where other != kind {
        let error = #expect(throws: StoreError.self) {
          try SharedStore(at: path, .init(durability: other))
        }
        #expect(error?.code == .durabilityMismatch)
        #expect(error?.message.contains(".\(kind)") == true, "\(error?.message ?? "")")
        #expect(error?.message.contains(".\(other)") == true, "\(error?.message ?? "")")
      }
    }
  }

  @Test func `Records that are lost while the system runs cost nothing and come again`() throws {
    let store = try open()
    try store.setBytes([1], forKey: 1)
    try store.sync()
    let file = try synced(path)
    for damage in [[], [UInt8](repeating: 0x5a, count: 100)] {
      TestFiles.removeAll(file)
      if !damage.isEmpty { try TestFiles.write(damage, to: file) }
      try store.setBytes([2], forKey: 1)
      checkpoint(store)
      #expect(try TestFiles.size(file) == CheckpointFile.size)
      let copy = try crashed("crashed-\(damage.count)")
      #expect(try open(copy).bytes(forKey: 1) == [2])
    }
    store.close()
    TestFiles.removeAll(file)
    let again = try open()
    #expect(try again.bytes(forKey: 1) == [2])
    // The first write needs a record before it.
    try again.setBytes([3], forKey: 1)
    #expect(try open(try crashed("last")).bytes(forKey: 1) == [3])
  }

  @Test
  func `Without a record a crash of the system is an error, and a repair keeps what is readable`()
    throws
  {
    let store = try open()
    for key in 0..<20 { try store.setBytes([UInt8(key)], forKey: key) }
    let path = try crashed()
    let files = try StoreFiles(of: path)
    try TestFiles.overwrite(
      .init(repeating: 0, count: CheckpointFile.size), at: 0, in: synced(path))
    let before = try TestFiles.contents(of: files.data)
    let error = #expect(throws: StoreError.self) { try open(path) }
    #expect(error?.code == .damaged && error?.message.contains("larder repair") == true)
    #expect(try TestFiles.contents(of: files.data) == before)
    let report = try SharedStore.repair(at: path)
    #expect(report.outcome == .repaired && report.mayMissCommits && report.kept == 20)
    #expect(report.durability == .relaxed)
    let again = try open(path)
    for key in 0..<20 { #expect(try again.bytes(forKey: key) == [UInt8(key)]) }
    #expect(try again.verify() == [])
  }

  @Test func `A repair after a crash of the system also reads the log of a relaxed store`() throws {
    let store = try openLogged()
    try store.setBytes([1], forKey: 1)
    let log = try log()
    try store.setBytes([2], forKey: 1)
    let path = try crashed(log: log)
    let before = try TestFiles.contents(of: StoreFiles(of: path).data)
    #expect(try SharedStore.repair(at: path, dryRun: true).outcome == .repairable)
    #expect(try TestFiles.contents(of: StoreFiles(of: path).data) == before)
    let report = try SharedStore.repair(at: path)
    #expect(report.outcome == .repaired && report.kept == 2 && report.lost == 0)
    #expect(try SharedStore.repair(at: path).outcome == .sound)
    #expect(try open(path).bytes(forKey: 1) == [1])
  }

  @Test func `After a failed sync the next write creates new files`() throws {
    let store = try open()
    try store.setBytes([1], forKey: 1)
    let before = try store.core.generation()
    before.table.noteFailedSync()
    try store.setBytes([2], forKey: 2)
    #expect(try store.statistics().generation == before.number + 1)
    #expect(try !store.core.generation().table.hasFailedSync)
    try store.sync()
    try store.setBytes([3], forKey: 3)
    try store.core.generation().table.noteFailedSync()
    try store.sync()
    #expect(try store.statistics().unsyncedCommits == 0)
    #expect(try store.statistics().generation == before.number + 2)
    let again = try open(try crashed())
    #expect(try again.bytes(forKey: 1) == [1] && again.bytes(forKey: 2) == [2])
  }

  @Test func `The pages of the last checkpoint are kept, and used again after the next one`()
    throws
  {
    let store = try open()
    func rounds(_ count: Int, checkpoints: Bool) throws {
      for round in 0..<count {
        try store.setBytes(.init(repeating: UInt8(round), count: 20_000), forKey: round % 3)
        if checkpoints { checkpoint(store) }
      }
    }
    try rounds(20, checkpoints: true)
    let small = try store.statistics().fileBytes
    try rounds(200, checkpoints: true)
    #expect(try store.statistics().fileBytes < 2 * small)
    try rounds(200, checkpoints: false)
    let large = try store.statistics().fileBytes
    #expect(large > small + 200 * 20_000)
    checkpoint(store)
    try rounds(150, checkpoints: false)
    #expect(try store.statistics().fileBytes == large)
  }

  @Test func `A large amount written is synced before the interval ends`() throws {
    let store = try openLogged()
    let value = [UInt8](repeating: 1, count: 1_000_000)
    var rounds = 0
    while try store.statistics().unsyncedCommits == rounds, rounds < 200 {
      try store.setBytes(value, forKey: rounds % 3)
      rounds += 1
    }
    #expect(rounds >= 20)
    // The thread that is woken for it may get no time before the last write.
    try eventually("it is synced") { try store.statistics().unsyncedCommits != rounds }
  }

  @Test func `A sync record with a missing byte is invalid`() throws {
    try open().close()
    let bytes = try TestFiles.contents(of: synced(path))
    let record = try #require(CheckpointRecord(bytes))
    #expect(record.bytes() == Array(bytes[..<CheckpointRecord.size]))
    for index in 0..<CheckpointRecord.size {
      var damaged = bytes
      damaged[index] ^= 0x10
      #expect(CheckpointRecord(damaged) == nil, "byte \(index)")
    }
    #expect(CheckpointRecord([]) == nil)
  }
}
