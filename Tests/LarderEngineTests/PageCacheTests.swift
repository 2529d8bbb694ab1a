// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Stores whose processes were killed, and whose files are not those that the processes wrote to, on one boot.
@Suite(.timeLimit(.minutes(60))) struct PageCacheTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Whether the file system of temporary directories proves whose page cache a file has.
  static let hasProof: Bool = {
    guard let tests = try? PageCacheTests(),
      let file = try? OwnedFile(path: tests.directory.appending("file"), creation: .createNew)
    else { return false }
    return PageCacheIdentity(ofDescriptor: file.descriptor) != .none
  }()

  static let kept: [Durability] = [.durable, .durableStrict, .relaxed]

  /// A process that has written the keys of a range, each as its own commit.
  func writer(_ durability: Durability, _ keys: Range<Int>) throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    // No checkpoint of an idle store comes in between, however slow the machine is.
    let options = durability == .relaxed ? "relaxed interval=3600000" : "\(durability) restless"
    #expect(try peer.ask("open \(path) \(options)").hasPrefix("opened "))
    // The log of a relaxed store begins after its first commit.
    try write(keys.prefix(1), peer)
    #expect(try peer.ask("sync") == "ok")
    try write(keys.dropFirst(), peer)
    return peer
  }

  func write(_ keys: Range<Int>, _ peer: ChildProcess) throws {
    for key in keys { #expect(try peer.ask("set \(key) value\(key)") == "ok") }
  }

  func kill(_ peer: ChildProcess) throws {
    peer.kill()
    _ = try peer.wait()
  }

  /// Opens the store and returns the keys that it has, in order; checks that their values are right.
  func keys(_ durability: Durability, at place: String? = nil, _ log: EventLog) throws -> [Int] {
    let store = try SharedStore(at: place ?? path, log.options(durability))
    defer { store.close() }
    #expect(try store.verify() == [])
    let numbers = PersistentCache<Int, String>(storage: store)
    return try (0..<200).filter { key in
      let value = try numbers.value(forKey: key)
      #expect(value == nil || value == "value\(key)")
      return value != nil
    }
  }

  /// Copies a file over another one: its inode stays.
  func copy(_ file: String, over other: String) throws { try run("/bin/cp", file, other) }

  @Test(arguments: Durability.allCases)
  func `The files that killed processes wrote to are trusted`(durability: Durability) throws {
    let first = try writer(durability, 0..<20)
    let second = try TestExecutable.peer.start()
    #expect(try second.ask("open \(path) \(durability) restless").hasPrefix("opened "))
    try write(20..<40, second)
    try kill(first)
    try write(40..<60, second)
    try kill(second)
    let log = EventLog()
    #expect(try keys(durability, log) == Array(0..<60))
    #expect(log.events == [])
  }

  @Test(arguments: kept)
  func `A copy of a store in use has every commit, from the checkpoint and the log`(
    durability: Durability
  ) throws {
    let peer = try writer(durability, 0..<40)
    let copy = directory.path + "/copy"
    try run("/bin/cp", "-a", path, copy)
    try kill(peer)
    let log = EventLog()
    #expect(try keys(durability, at: copy, log) == Array(0..<40))
    #expect("\(log.events)".contains("its files were copied") && log.restored == 1)
    // Once is enough, and the original is untouched.
    let again = EventLog()
    #expect(try keys(durability, at: copy, again) == Array(0..<40))
    #expect(try keys(durability, again) == Array(0..<40))
    #expect(again.events == [])
  }

  @Test func `A copy of a cache in use starts empty, and one of an idle cache does not`() throws {
    let store = try SharedStore(at: path, IdleTests.options())
    let numbers = PersistentCache<Int, String>(storage: store)
    for key in 0..<10 { try numbers.setValue("value\(key)", forKey: key) }
    try run("/bin/cp", "-a", path, directory.path + "/busy")
    let now = IdleTests.now()
    store.core.checkpointIfIdle(now: now)
    store.core.checkpointIfIdle(now: now + 1_100_000)
    let state = try StoreFiles(of: path).state
    try eventually("the store is clean") {
      try StoreState.read(from: state)?.isDirty == false
    }
    try run("/bin/cp", "-a", path, directory.path + "/idle")
    let log = EventLog()
    #expect(try keys(.cache, at: directory.path + "/busy", log) == [])
    #expect(log.resetToEmpty)
    let quiet = EventLog()
    #expect(try keys(.cache, at: directory.path + "/idle", quiet) == Array(0..<10))
    #expect(quiet.events == [])
  }

  @Test(arguments: kept, [false, true])
  func `An older data file is replaced by the checkpoint and the log`(
    durability: Durability, keepsInode: Bool
  ) throws {
    let peer = try writer(durability, 0..<40)
    let data = try StoreFiles(of: path).data
    try run("/bin/cp", "-a", data, directory.path + "/older")
    try write(40..<80, peer)
    try kill(peer)
    if keepsInode {
      try copy(directory.path + "/older", over: data)
    } else {
      try TestFiles.move(directory.path + "/older", to: data)
    }
    let log = EventLog()
    #expect(try keys(durability, log) == Array(0..<80))
    #expect(log.restored == 1, "\(log.events)")
  }

  @Test(arguments: [false, true])
  func `A cache with an older data file starts empty`(isClosed: Bool) throws {
    let peer = try writer(.cache, 0..<10)
    let data = try StoreFiles(of: path).data
    #expect(try peer.ask("sync") == "ok")
    try run("/bin/cp", "-a", data, directory.path + "/older")
    try write(5..<15, peer)
    if isClosed {
      #expect(try peer.ask("close") == "ok")
    }
    try kill(peer)
    try copy(directory.path + "/older", over: data)
    let log = EventLog()
    #expect(try keys(.cache, log) == [])
    #expect(log.resetToEmpty && "\(log.events)".contains("older"))
  }

  @Test(arguments: kept)
  func `An older data file of a closed store is an error, and nothing is touched`(
    durability: Durability
  ) throws {
    let peer = try writer(durability, 0..<10)
    let data = try StoreFiles(of: path).data
    try run("/bin/cp", "-a", data, directory.path + "/older")
    try write(10..<20, peer)
    #expect(try peer.ask("close") == "ok")
    try kill(peer)
    try copy(directory.path + "/older", over: data)
    let before = try TestFiles.contents(of: data)
    // The checkpoint of the end has pages that the older file has not.
    let error = #expect(throws: StoreError.self) { try keys(durability, EventLog()) }
    #expect(error?.code == .damaged && error?.message.contains("older") == true, "\(error as Any)")
    #expect(try TestFiles.contents(of: data) == before)
  }

  @Test(arguments: Durability.allCases)
  func `Files of an earlier moment that were copied over the store are not trusted`(
    durability: Durability
  ) throws {
    let peer = try writer(durability, 0..<40)
    try run("/bin/cp", "-a", path, directory.path + "/earlier")
    try write(40..<60, peer)
    try kill(peer)
    try run("/bin/cp", "-a", directory.path + "/earlier/.", path)
    let log = EventLog()
    #expect(try keys(durability, log) == (durability == .cache ? [] : Array(0..<40)))
    #expect(log.events.count == 1 && "\(log.events)".contains("replaced"), "\(log.events)")
  }

  @Test(arguments: Durability.allCases)
  func `An older shared table costs no commit`(durability: Durability) throws {
    let peer = try writer(durability, 0..<40)
    let files = try StoreFiles(of: path)
    try run("/bin/cp", "-a", files.table, directory.path + "/older")
    try write(40..<60, peer)
    try kill(peer)
    try copy(directory.path + "/older", over: files.table)
    let log = EventLog()
    #expect(try keys(durability, log) == Array(0..<60))
  }

  @Test(arguments: [Durability.durable, .durableStrict])
  func `An older log costs no commit, also if the system crashes next`(durability: Durability)
    throws
  {
    let peer = try writer(durability, 0..<20)
    let log = try StoreFiles(of: path).generation + "/log-0"
    try run("/bin/cp", "-a", log, directory.path + "/older")
    try write(20..<40, peer)
    try kill(peer)
    try copy(directory.path + "/older", over: log)
    let events = EventLog()
    let store = try SharedStore(at: path, events.options(durability))
    #expect("\(events.events)".contains("the log was older"))
    #expect(try store.verify() == [])
    let crashed = directory.path + "/crashed"
    try run("/bin/cp", "-a", path, crashed)
    let file = try StoreFiles(of: crashed).state
    var state = try #require(try StoreState.read(from: file))
    (state.isDirty, state.bootID) = (true, state.bootID &+ 1)
    try state.write(to: file)
    #expect(try keys(durability, at: crashed, EventLog()) == Array(0..<40))
  }

  @Test(
    .enabled(if: hasFaults, needsFaults),
    arguments: ["restoreWritten", "restoreSynced", "restoreRecorded", "logReplayed"])
  func `A process that is killed while it restores is followed by one that restores`(
    point: String
  ) throws {
    let peer = try writer(.durable, 0..<40)
    let data = try StoreFiles(of: path).data
    try run("/bin/cp", "-a", data, directory.path + "/older")
    try write(40..<80, peer)
    try kill(peer)
    try copy(directory.path + "/older", over: data)
    let killed = try TestExecutable.peer.start(
      environment: ["LARDER_FAULTS": "\(point):kill@1"])
    try killed.send("open \(path) durable")
    #expect(try killed.wait() == .signalled(9))
    let log = EventLog()
    #expect(try keys(.durable, log) == Array(0..<80))
    #expect(log.restored == 1, "\(log.events)")
  }

  @Test(.enabled(if: hasProof, "this file system has no proof of its page cache"))
  func `Another file, another boot and no proof are not the page cache of a file`() throws {
    let (first, second) = (directory.path + "/first", directory.path + "/second")
    let file = try OwnedFile(path: first, creation: .createNew)
    let other = try OwnedFile(path: second, creation: .createNew)
    let identity = PageCacheIdentity(ofDescriptor: file.descriptor)
    #expect(identity.isProven(forDescriptor: file.descriptor))
    #expect(!identity.isProven(forDescriptor: other.descriptor))
    #expect(!PageCacheIdentity.none.isProven(forDescriptor: file.descriptor))
    // One proof is enough, and no proof is none.
    for proof in [
      PageCacheIdentity(mount: identity.mount, fileSystem: 1),
      PageCacheIdentity(mount: 1, fileSystem: identity.fileSystem),
      PageCacheIdentity(mount: 0, fileSystem: identity.fileSystem),
    ] where proof.mount > 1 || proof.fileSystem > 1 {
      #expect(proof.isProven(forDescriptor: file.descriptor), "\(proof)")
    }
    #expect(!PageCacheIdentity(mount: 1, fileSystem: 1).isProven(forDescriptor: file.descriptor))
    // Renamed files keep theirs, and so do those that are written to.
    try file.write([1, 2, 3], at: 0)
    try TestFiles.move(first, to: directory.path + "/third")
    let moved = try OwnedFile(path: directory.path + "/third", writable: false)
    #expect(identity.isProven(forDescriptor: moved.descriptor))
  }
}
