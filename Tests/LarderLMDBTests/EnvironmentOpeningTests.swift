// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import CLarderLMDB
import Larder
import LarderLMDB
import LarderSystem
import LarderTesting
import Testing

/// Accepted and refused directories, and the errors about them.
@Suite(.timeLimit(.minutes(60))) struct EnvironmentOpeningTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  var path: String { directory.appending("environment") }

  func open(_ path: String? = nil, _ options: EnvironmentOptions = .init()) throws -> Environment {
    try Environment(at: path ?? self.path, options)
  }

  /// An environment with some entries, closed again.
  func fill(_ options: EnvironmentOptions = .init(mapSize: 1 << 26), keys: Int = 2000) throws {
    let environment = try open(nil, options)
    let table = try environment.table("words")
    try environment.withWriteTransaction { transaction in
      for key in 0..<keys { try transaction.put("value \(key)", forKey: "\(key)", in: table) }
    }
    try environment.close()
  }

  @Test func `A directory is opened once per process, by whatever path, and again when closed`()
    throws
  {
    let environment = try open()
    let link = directory.appending("link")
    try TestFiles.makeSymbolicLink(link, to: path)
    for other in [path, path + "/.", directory.path + "/./environment", link] {
      #expect(code { _ = try open(other) } == .alreadyOpen, "\(other)")
    }
    let table = try environment.table("words")
    try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    try environment.close()
    try environment.close()
    let again = try open(link)
    let words = try again.table("words")
    #expect(try again.withReadTransaction { try $0.contains(key: "a", in: words) })
  }

  @Test func `A directory or file that other users can change is refused by name`() throws {
    try fill(keys: 1)
    let files = [("", 0o700), ("/data.mdb", 0o600), ("/lock.mdb", 0o600), ("/gate", 0o600)]
    for (name, mode) in files {
      for wrong in [mode | 0o020, mode | 0o002] {
        try TestFiles.setMode(wrong, of: path + name)
        let error = #expect(throws: LMDBError.self) { _ = try open() }
        #expect(error?.code == .unsafeDirectory, "\(name), \(String(describing: error))")
        #expect(error.map { "\($0)".contains("\(path)\(name) (other users may") } == true)
      }
      try TestFiles.setMode(mode, of: path + name)
      // Only root can change the owner.
      guard FileSystem.userID == 0 else { continue }
      try #require(ChildProcess.run("/bin/chown", ["4321", path + name]).status == .exited(0))
      let error = #expect(throws: LMDBError.self) { _ = try open() }
      #expect(error?.code == .unsafeDirectory, "\(name), \(String(describing: error))")
      #expect(error.map { "\($0)".contains("belongs to user 4321") } == true)
      try #require(ChildProcess.run("/bin/chown", ["0", path + name]).status == .exited(0))
    }
    // In this parent directory, other users could replace the environment.
    try TestFiles.setMode(0o777, of: directory.path)
    let error = #expect(throws: LMDBError.self) { _ = try open() }
    #expect(error?.code == .unsafeDirectory, "\(String(describing: error))")
    try TestFiles.setMode(0o700, of: directory.path)
    try open().close()
  }

  @Test func `An environment keeps its directory when that is renamed`() throws {
    let environment = try open()
    let table = try environment.table("words")
    let moved = directory.appending("moved")
    try TestFiles.move(path, to: moved)
    try open().close()
    try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    try environment.close()
    let again = try open(moved)
    let words = try again.table("words")
    #expect(try again.withReadTransaction { try $0.contains(key: "a", in: words) })
  }

  @Test func `An environment closes with its last reference`() throws {
    do { _ = try open() }
    do {
      let environment = try open()
      let table = try environment.table("words")
      try environment.withWriteTransaction { try $0.put("1", forKey: "a", in: table) }
    }
    try open().close()
  }

  @Test func `A directory that is not an environment is refused and left unchanged`() throws {
    let file = directory.appending("file")
    try TestFiles.write([1, 2, 3], to: file)
    #expect(code { _ = try open(file) }?.rawValue == 20)
    #expect(code { _ = try open(file + "/below") }?.rawValue == 20)
    #expect(code { _ = try open("") } == .invalidOption)
    #expect(code { _ = try open("a\0b") } == .invalidOption)
    #expect(try TestFiles.contents(of: file) == [1, 2, 3])
    for (name, bytes) in [
      ("text", Array("{\"not\": \"LMDB\"}".utf8)), ("zeros", [UInt8](repeating: 0, count: 8192)),
      ("one", [7]), ("noise", (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }),
      ("SQLite", Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 4080)),
    ] {
      let path = directory.appending(name)
      try TestFiles.makeDirectory(path)
      try TestFiles.write(bytes, to: path + "/data.mdb")
      let error = #expect(throws: LMDBError.self) { try open(path) }
      #expect(error?.code == .invalid, "\(name)")
      #expect(error.map { "\($0)".contains("Pass the directory of an LMDB") } == true)
      #expect(try TestFiles.contents(of: path + "/data.mdb") == bytes)
    }
    // A link at the path of a file leads to another user's file.
    let linked = directory.appending("linked")
    try TestFiles.makeDirectory(linked)
    try TestFiles.makeSymbolicLink(linked + "/data.mdb", to: file)
    #expect(code { _ = try open(linked) }?.rawValue == 20)
  }

  @Test(arguments: [0, 1, 512, 8192, 65_536, 1 << 31])
  func `A file that claims another page size is an error, never a signal`(size: UInt32) throws {
    try fill()
    for meta in [0, 4096] {
      var bytes: [UInt8] = []
      bytes.append(littleEndian: size)
      try TestFiles.overwrite(bytes, at: meta + 40, in: path + "/data.mdb")
    }
    #expect(code { _ = try open() } == .damaged)
  }

  @Test func `A file that lost its end is refused before LMDB maps it`() throws {
    try fill()
    let data = path + "/data.mdb"
    TestFiles.removeAll(path + "/gate")
    try TestFiles.truncate(data, to: 40_960)
    // The file's origin is unknown: each page is verified.
    let error = #expect(throws: LMDBError.self) { try open() }
    #expect(error?.code == .damaged && error?.operation.contains("file-too-short") == true)
    #expect(try !Environment.verify(at: path).isSound)
    // Its gate records its former length.
    TestFiles.removeAll(path)
    try fill()
    #expect(try Environment.verify(at: path).isSound)
    try TestFiles.truncate(data, to: 40_960)
    #expect(code { _ = try open() } == .damaged)
    try TestFiles.truncate(data, to: 0)
    #expect(code { _ = try open() } == .damaged)
  }

  @Test func `A page that is damaged is found where the whole file is verified`() throws {
    try fill()
    let size = try TestFiles.size(path + "/data.mdb")
    let zeros = [UInt8](repeating: 0, count: 4096)
    try TestFiles.overwrite(zeros, at: size / 2 & ~4095, in: path + "/data.mdb")
    #expect(code { _ = try open(nil, .init(verification: .always)) } == .damaged)
    #expect(try !Environment.verify(at: path).isSound)
  }

  @Test func `After a crash of the system, a file that was not synced is verified`() throws {
    try fill(.init(mapSize: 1 << 26, durability: .onDemand))
    // As the processes of an earlier boot left it, which did not come to close it.
    var record = try TestFiles.contents(of: path + "/gate")
    var flags: UInt32 = record.integer(at: 12)!
    #expect(flags == 7)
    flags = 5
    record.store(flags, at: 12)
    record.store(UInt64(12345), at: 32)
    record.store(XXH64.hash(Array(record.prefix(72))), at: 72)
    try TestFiles.write(record, to: path + "/gate")
    try open(nil, .init(durability: .onDemand)).close()
    try TestFiles.write(record, to: path + "/gate")
    let size = try TestFiles.size(path + "/data.mdb")
    try TestFiles.overwrite(
      [UInt8](repeating: 0, count: 4096), at: size / 2 & ~4095, in: path + "/data.mdb")
    #expect(code { _ = try open(nil, .init(durability: .onDemand)) } == .damaged)
  }

  @Test
  func `Files of a killed creator are removed, and other files are kept`()
    throws
  {
    try open().close()
    let gate = path + "/gate"
    var record = try TestFiles.contents(of: gate)
    record.store(UInt32(0), at: 12)
    record.store(UInt32(1), at: 40)
    for (size, isOpened) in [(UInt64(0), true), (8192, false)] {
      record.store(size, at: 48)
      record.store(XXH64.hash(Array(record.prefix(72))), at: 72)
      try TestFiles.write(record, to: gate)
      try TestFiles.truncate(path + "/data.mdb", to: 4096)
      #expect(code { try open().close() } == (isOpened ? nil : .damaged))
    }
    #expect(try TestFiles.size(path + "/data.mdb") == 4096)
  }

  @Test func `Tables of other programs that Larder does not have are refused by name`() throws {
    try TestFiles.makeDirectory(path)
    do {
      let raw = try RawEnvironment(path)
      try raw.write { transaction in
        for (name, flags) in [
          ("reverse", RawEnvironment.reverseKey), ("plain", 0),
          ("four", RawEnvironment.integerKey),
        ] {
          let table = try transaction.table(name, flags | RawEnvironment.create)
          try transaction.put(table, name == "four" ? [1, 0, 0, 0] : [1, 2], [9])
        }
      }
    }
    let environment = try open()
    #expect(code { _ = try environment.table("reverse") } == .incompatible)
    #expect(code { _ = try environment.table("four") } == .incompatible)
    #expect(code { _ = try environment.table("four", keys: .integers) } == .incompatible)
    #expect(code { _ = try environment.table("plain", keys: .integers) } == .incompatible)
    let plain = try environment.table("plain")
    #expect(try environment.withReadTransaction { try $0.bytes(forKey: [1, 2], in: plain) } == [9])
    #expect(code { _ = try environment.table("plain", keys: .integers) } == .incompatible)
    try environment.close()
    // Several values for a key: not even opened.
    do {
      let raw = try RawEnvironment(path)
      try raw.write { transaction in
        let table = try transaction.table(
          "duplicates", RawEnvironment.duplicates | RawEnvironment.create)
        try transaction.put(table, [1], [1])
        try transaction.put(table, [1], [2])
      }
    }
    #expect(code { _ = try open(nil, .init(verification: .always)) } == .incompatible)
    let trusting = try open()
    #expect(code { _ = try trusting.table("duplicates") } == .incompatible)
  }

  @Test func `A Larder store is refused as an environment by any of its directories`() throws {
    for durability in [Durability.cache, .durable] {
      let store = try TemporaryStore(StoreOptions(durability: durability))
      try store.store.setBytes([1], forKey: "a")
      let root = durability == .cache ? store.path + "/v1" : store.path
      for path in [store.path, root, root + "/g-1"] {
        let before = TestFiles.names(in: path).sorted()
        let error = #expect(throws: LMDBError.self) { try open(path) }
        #expect(error?.code == .larderStore, "\(path)")
        #expect(error.map { "\($0)".contains("SharedStore") } == true)
        #expect(TestFiles.names(in: path).sorted() == before)
      }
      store.store.close()
      // Its data file alone, moved elsewhere.
      let moved = directory.appending("moved-\(durability)")
      try TestFiles.makeDirectory(moved)
      try TestFiles.write(
        try TestFiles.contents(of: root + "/g-1/data.mdb"), to: moved + "/data.mdb")
      #expect(code { _ = try open(moved) } == .larderStore)
      // Without CURRENT it is one as well.
      TestFiles.removeAll(root + "/CURRENT")
      #expect(code { _ = try open(root) } == .larderStore)
    }
  }

  @Test func `Options that make no sense are errors that name them`() throws {
    for options in [
      EnvironmentOptions(mapSize: 0), .init(mapSize: -1), .init(mapSize: 4096),
      .init(mapSize: .max), .init(maximumTables: 0), .init(maximumReaders: 1),
      .init(maximumReaders: .max), .init(openTimeout: .seconds(-1)),
    ] {
      #expect(code { _ = try open(nil, options) } == .invalidOption, "\(options)")
    }
    #expect(!TestFiles.exists(path))
    let environment = try open()
    for name in ["", String(repeating: "x", count: 512), "a\0b"] {
      #expect(code { _ = try environment.table(name) } == .invalidOption, "\(name)")
    }
  }

  @Test func `The map grows for a process that opens alone, and never shrinks`() throws {
    try fill(.init(mapSize: 1 << 21), keys: 10)
    #expect(try open().information().mapSize == 1 << 21)
    #expect(try open(nil, .init(mapSize: 1 << 23)).information().mapSize == 1 << 23)
    let environment = try open(nil, .init(mapSize: 1 << 20))
    #expect(try environment.information().mapSize == 1 << 23)
  }

  @Test func `A map that is too small is an error, and nothing is lost`() throws {
    let environment = try open(nil, .init(mapSize: 1 << 20, durability: .onDemand))
    let table = try environment.table("words")
    try environment.withWriteTransaction { try $0.put("kept", forKey: "a", in: table) }
    let large = [UInt8](repeating: 1, count: 2 << 20)
    #expect(
      code { try environment.withWriteTransaction { try $0.put(large, forKey: "b", in: table) } }
        == .mapFull)
    // Caught inside, it ends the transaction all the same.
    let caught = code {
      try environment.withWriteTransaction { transaction in
        try transaction.put("c", forKey: "c", in: table)
        try? transaction.put(large, forKey: "b", in: table)
      }
    }
    #expect(caught == .badTransaction)
    try environment.withWriteTransaction { try $0.put("more", forKey: "d", in: table) }
    let keys = try environment.withReadTransaction { snapshot in
      var keys: [String] = []
      try snapshot.forEach(in: table) { key, _ in keys.append(key.text()!) }
      return keys
    }
    #expect(keys == ["a", "d"])
    try environment.close()
    #expect(try Environment.verify(at: path).isSound)
  }

  @Test func `The lock file owns its blocks: no hole that a full disk turns into a signal`() throws
  {
    let environment = try open(nil, .init(maximumReaders: 4094))
    #expect(try environment.information().maximumReaders >= 4094)
    var status = stat()
    #expect(unsafe stat(path + "/lock.mdb", &status) == 0)
    #expect(Int(status.st_blocks) * 512 >= Int(status.st_size) && status.st_size >= 262_144)
  }

  @Test func `A copy is complete or not there, and opens like the original`() throws {
    try fill(keys: 5000)
    let environment = try open()
    let table = try environment.table("words")
    let removed = try environment.withWriteTransaction {
      try $0.removeAll(in: table, .from("3"))
    }
    #expect(removed > 1000)
    let copy = directory.appending("copy")
    // One of a killed process, and one that another process writes.
    for name in ["killed", "written"] { try TestFiles.makeDirectory("\(copy).unfinished-\(name)") }
    try TestFiles.write([1], to: "\(copy).unfinished-killed/data.mdb")
    let lock = try OwnedFile(path: "\(copy).unfinished-written", writable: false)
    #expect(try lock.tryExclusiveLock())
    try environment.copy(to: copy)
    lock.unlock()
    let unfinished = TestFiles.names(in: directory.path).filter { $0.contains("unfinished") }
    #expect(unfinished == ["copy.unfinished-written"])
    TestFiles.removeAll("\(copy).unfinished-written")
    #expect(try Environment.verify(at: copy).isSound)
    #expect(code { try environment.copy(to: copy) }?.rawValue == 17)
    let other = try open(copy)
    let words = try other.table("words")
    let counts = try [(environment, table), (other, words)].map { environment, table in
      try environment.withReadTransaction { try $0.statistics(of: table).entries }
    }
    #expect(counts[0] == counts[1] && counts[0] > 1000)
    let sizes = try [copy, path].map { try TestFiles.size($0 + "/data.mdb") }
    #expect(sizes[0] < sizes[1])
    #expect(code { try environment.copy(to: path) }?.rawValue == 17)
    #expect(TestFiles.names(in: directory.path).allSatisfy { !$0.contains("unfinished") })
  }
}
