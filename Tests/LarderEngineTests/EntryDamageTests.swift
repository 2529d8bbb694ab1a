// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

/// Damage to single entries of a store that is open, and what is left of an operating system's crash.
@Suite(.timeLimit(.minutes(60))) struct EntryDamageTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Bytes that occur nowhere else.
  static func payload(_ size: Int) -> [UInt8] {
    var random = SeededRandom(seed: UInt64(size) + 99)
    return (0..<size).map { _ in UInt8.random(in: 0...255, using: &random) }
  }

  /// Flips a bit of every copy of `payload` in the data file, as a failing disk would.
  static func flip(_ payload: [UInt8], in file: String) throws -> Int {
    let data = try TestFiles.contents(of: file)
    let mark = Array(payload.prefix(32))
    var found = 0
    for offset in 0..<(data.count - mark.count) where data[offset] == mark[0] {
      guard data[offset..<(offset + mark.count)].elementsEqual(mark) else { continue }
      try TestFiles.overwrite([mark[7] ^ 0x10], at: offset + 7, in: file)
      found += 1
    }
    return found
  }

  @Test(arguments: [40, 1500, 20_000, 200_000])
  func `A damaged entry of an open store is a miss, counted and removed`(size: Int) throws {
    let log = EventLog()
    let store = try SharedStore(at: path, log.options())
    let payload = Self.payload(size)
    try store.setBytes(payload, forKey: "broken")
    try store.setBytes([1], forKey: "neighbour")
    #expect(try Self.flip(payload, in: StoreFiles(of: path).data) > 0)
    #expect(try store.verify() != [])

    let before = try store.statistics()
    let error = #expect(throws: StoreError.self) { try store.bytes(forKey: "broken") }
    #expect(error?.code == .unreadableEntry)
    #expect(log.damagedEntries == 1)
    #expect(try store.statistics().damagedEntries == before.damagedEntries + 1)
    #expect(try store.statistics().misses == before.misses + 1)
    #expect(try store.statistics().storeHits == before.storeHits)

    // After the removal, which is queued: sync() waits for what callers have set.
    try store.write { _ in }
    #expect(try store.bytes(forKey: "broken") == nil)
    #expect(try store.bytes(forKey: "neighbour") == [1])
    #expect(try store.statistics().entries == 1)
    #expect(try store.verify() == [])
    try store.setBytes(payload, forKey: "broken")
    #expect(try store.bytes(forKey: "broken") == payload)
    #expect(!log.resetToEmpty)
  }

  @Test(arguments: [40, 200_000])
  func `A durable store reports a damaged entry and keeps it`(size: Int) throws {
    let log = EventLog()
    let store = try SharedStore(at: path, log.options(.durable))
    let payload = Self.payload(size)
    try store.setBytes(payload, forKey: "broken")
    #expect(try Self.flip(payload, in: StoreFiles(of: path).data) > 0)
    for round in 1...3 {
      let error = #expect(throws: StoreError.self) { try store.bytes(forKey: "broken") }
      #expect(error?.code == .unreadableEntry)
      #expect(log.damagedEntries == round)
    }
    #expect(try store.statistics().entries == 1)
    #expect(try store.remove(forKey: "broken"))
    #expect(try store.bytes(forKey: "broken") == nil)
    #expect(try store.verify() == [])
  }

  @Test(arguments: [40, 200_000], Durability.allCases)
  func `Damage of an entry's key never yields another key`(size: Int, durability: Durability) throws
  {
    let log = EventLog()
    let store = try SharedStore(at: path, log.options(durability))
    let key = String(decoding: Self.payload(size).prefix(80).map { $0 % 26 + 97 }, as: UTF8.self)
    try store.setBytes(Self.payload(size), forKey: key)
    #expect(try Self.flip(Array(key.utf8), in: StoreFiles(of: path).data) > 0)
    let error = #expect(throws: StoreError.self) { try store.bytes(forKey: key) }
    #expect(error?.code == .unreadableEntry)
    #expect(log.damagedEntries == 1)
    #expect(try store.statistics().damagedEntries == 1)
  }

  @Test func `A write of a key whose entry is damaged replaces it`() throws {
    let store = try SharedStore(at: path)
    for size in [40, 200_000] {
      let payload = Self.payload(size)
      try store.setBytes(payload, forKey: size)
      #expect(try Self.flip(payload, in: StoreFiles(of: path).data) > 0)
      try store.setBytes([1, 2], forKey: size)
      #expect(try store.bytes(forKey: size) == [1, 2])
    }
    #expect(try store.verify() == [])
  }

  @Test func `A typed cache never decodes a damaged entry`() throws {
    let log = EventLog()
    let errors = EventLog()
    var options = log.options()
    options.onError = { errors.options().onEvent?(.damagedEntry("\($0)")) }
    let store = try SharedStore(at: path, options)
    let cache = PersistentCache<String, String>(storage: store)
    let text = String(repeating: "a text that is long enough to be found, ", count: 40)
    try cache.setValue(text, forKey: "k")
    #expect(cache["k"] == text)
    let stored = Array(text.utf8)
    #expect(try Self.flip(Array(stored.prefix(40)), in: StoreFiles(of: path).data) > 0)
    // The value in memory was checked when it was read.
    #expect(cache["k"] == text)
    cache.clearMemoryCache()
    #expect(throws: StoreError.self) { try cache.value(forKey: "k") }
    #expect(cache["k"] == nil)
    try store.write { _ in }
    #expect(try cache.value(forKey: "k") == nil)
    #expect(try store.verify() == [])
  }

  // MARK: A crash of the operating system

  /// Puts the store into the state after a crash in another boot while it was in use.
  func crash(_ path: String) throws {
    let file = try StoreFiles(of: path).state
    var state = try #require(try StoreState.read(from: file))
    state.isDirty = true
    state.bootID = state.bootID &+ 1
    try state.write(to: file)
  }

  @Test func `After a crash of the system a cache starts empty with an event`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: 1)
    store.close()
    try crash(path)
    let log = EventLog()
    let again = try SharedStore(at: path, log.options())
    #expect(log.resetToEmpty)
    #expect("\(log.events)".contains("went down"))
    #expect(try again.bytes(forKey: 1) == nil)
    try again.setBytes([2], forKey: 1)
    again.close()
    let third = EventLog()
    #expect(try SharedStore(at: path, third.options()).bytes(forKey: 1) == [2])
    #expect(third.events == [])
  }

  // That its commits are on the disk is in `RedoLogPowerCutTests.swift`: here a read finds them in any case.
  @Test func `A durable store that was complete in another boot has every commit`() throws {
    let store = try SharedStore(at: path, .init(durability: .durable))
    for key in 0..<50 { try store.setBytes(Self.payload(key * 300), forKey: key) }
    store.close()
    try crash(path)
    let log = EventLog()
    let again = try SharedStore(at: path, log.options(.durable))
    for key in 0..<50 { #expect(try again.bytes(forKey: key) == Self.payload(key * 300)) }
    #expect(try again.verify() == [])
    #expect(log.events.count == 1 && log.restored == 1, "\(log.events)")
  }

  // The order of its syncs is in `CloseSyncTests.swift`.
  @Test(
    .enabled(if: hasTools, needsTools),
    .enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"))
  func `A store that was closed in order outlives a restart`() throws {
    let boot = try SystemBoot()
    for durability in Durability.allCases {
      let path = "\(path)-\(durability)"
      let tool = try TestExecutable.tool.path
      let set = try ChildProcess.run(
        tool, ["set", "k", "value", "--durability", "\(durability)", "--store", path],
        environment: boot.environment)
      #expect(set.status.isSuccess, "\(set.standardError)")
      let get = try ChildProcess.run(tool, ["get", "k", "--store", path])
      #expect(get.lines == ["value"] && get.standardError.isEmpty, "\(get)")
    }
  }

  @Test(
    .enabled(if: hasTools, needsTools),
    .enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"))
  func `A process killed in one boot leaves a cache that the next boot does not trust`() throws {
    let boot = try SystemBoot()
    for durability in Durability.allCases {
      let path = "\(path)-\(durability)"
      let tool = try TestExecutable.tool.path
      let set = try ChildProcess.run(
        tool, ["set", "k", "value", "--store", path, "--durability", "\(durability)"])
      #expect(set.status.isSuccess, "\(set.standardError)")
      // The state that a killed writer leaves: dirty, of its boot.
      let file = try StoreFiles(of: path).state
      var state = try #require(try StoreState.read(from: file))
      #expect(state.bootID == ProcessIdentity.bootID && !state.isDirty)
      state.isDirty = true
      try state.write(to: file)
      // The same boot trusts it: the kernel has every page.
      let same = try ChildProcess.run(
        tool, ["get", "k", "--store", path])
      #expect(same.lines == ["value"], "\(same)")
      try state.write(to: file)
      // A command that only reads leaves the recovery to one that writes.
      let early = try ChildProcess.run(
        tool, ["get", "k", "--store", path], environment: boot.environment)
      #expect(early.lines == [] && early.status == .exited(70), "\(early)")
      #expect(early.standardError.contains("Nothing was changed"), "\(early)")
      let write = try ChildProcess.run(
        tool, ["set", "other", "1", "--store", path], environment: boot.environment)
      #expect(write.status.isSuccess, "\(write)")
      #expect(write.standardError.contains("started empty") == (durability == .cache), "\(write)")
      let next = try ChildProcess.run(
        tool, ["get", "k", "--store", path], environment: boot.environment)
      switch durability {
      // The tool closes what it opens: everything was synced.
      case .durable, .durableStrict, .relaxed: #expect(next.lines == ["value"], "\(next)")
      case .cache: #expect(next.lines == [] && next.status == .exited(1), "\(next)")
      }
    }
  }
}
