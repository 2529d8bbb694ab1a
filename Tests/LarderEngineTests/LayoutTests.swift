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

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The paths of a store's files, and the guarantees about them before they contain data.
@Suite(.timeLimit(.minutes(60))) struct LayoutTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  @Test(arguments: Durability.allCases)
  func `Every file of a store has its documented path and belongs to its user alone`(
    durability: Durability
  ) async throws {
    let store = try SharedStore(at: path, .init(durability: durability))
    let cache = PersistentCache<Int, Int>(storage: store)
    _ = try await cache.value(forKey: 1) { 1 }
    let root = durability == .cache ? path + "/v1" : path
    let generation = root + "/g-1"
    if durability == .cache { #expect(TestFiles.names(in: path) == ["v1"]) }
    #expect(TestFiles.names(in: root) == ["CURRENT", "g-1", "gate", "leases"])
    let inside =
      ["data.mdb", "lock.mdb"] + (durability == .cache ? [] : ["log-0"])
      + ["presence", "shared.table", "state"] + (durability == .cache ? [] : ["synced"])
    #expect(TestFiles.names(in: generation) == inside)
    for made in [path, root, generation] { #expect(try TestFiles.mode(made) == 0o700, "\(made)") }
    for file in ["CURRENT", "gate", "leases"].map({ "\(root)/\($0)" })
      + inside.map({ "\(generation)/\($0)" })
    {
      #expect(try TestFiles.mode(file) == 0o600, "\(file)")
    }
    // Also the copy that a compaction makes.
    try await store.compact()
    let copied = TestFiles.names(in: root).filter { $0.hasPrefix("g-") }
    #expect(copied.count >= 1 && copied != ["g-1"])
    for generation in copied.map({ root + "/" + $0 }) {
      for file in TestFiles.names(in: generation) {
        #expect(try TestFiles.mode(generation + "/" + file) == 0o600, "\(file)")
      }
    }
  }

  @Test func `Files of a newer version next to a cache are neither read nor changed`() throws {
    let newer = path + "/v2"
    try TestFiles.makeDirectory(path)
    try TestFiles.makeDirectory(newer)
    try TestFiles.makeDirectory(newer + "/g-1")
    try TestFiles.write(Array("larder 2 g-1 0\n".utf8), to: newer + "/CURRENT")
    try TestFiles.write([1, 2, 3], to: newer + "/g-1/data.mdb")
    for _ in 0..<2 {
      let store = try SharedStore(at: path)
      try store.setBytes([1], forKey: 1)
      #expect(try store.bytes(forKey: 1) == [1])
      store.close()
    }
    #expect(TestFiles.names(in: path) == ["v1", "v2"])
    #expect(TestFiles.names(in: newer) == ["CURRENT", "g-1"])
    #expect(try TestFiles.contents(of: newer + "/CURRENT") == Array("larder 2 g-1 0\n".utf8))
    #expect(try TestFiles.contents(of: newer + "/g-1/data.mdb") == [1, 2, 3])
  }

  @Test func `The lock file and the table own every block of theirs`() throws {
    let store = try SharedStore(at: path)
    let files = try StoreFiles(of: path)
    #expect(try TestFiles.size(files.lock) == 262_144)
    #expect(try store.statistics().maximumReaders == 4094)
    for file in [files.lock, files.table] {
      var information = stat()
      try #require(unsafe stat(file, &information) == 0)
      // A hole would be a SIGBUS on a full disk.
      #expect(Int(information.st_blocks) * 512 >= Int(information.st_size), "\(file)")
    }
  }

  @Test func `The map is one constant, whatever the budget becomes`() throws {
    func mapSize(_ store: SharedStore) throws -> Int {
      try store.core.generation().information().mapSize
    }
    let durable = try SharedStore(at: path + "-durable", .init(durability: .durable))
    #expect(try mapSize(durable) == 1 << 40)
    let large = try SharedStore(at: path + "-large", .init(budget: .megabytes(768)))
    #expect(try mapSize(large) == 6 << 30)
    let store = try SharedStore(at: path, .init(budget: .megabytes(16)))
    #expect(try mapSize(store) == 4 << 30)
    store.close()
    for budget in [ByteCount.megabytes(1), .megabytes(512), .kilobytes(64)] {
      let again = try SharedStore(at: path, .init(budget: budget))
      #expect(try again.statistics().budget == budget.bytes)
      #expect(try mapSize(again) == 4 << 30)
      again.close()
    }
  }

  #if os(Linux)
  @Test func `The data file is mapped for reading only, but in writers of caches`() throws {
    func permissions(_ path: String) throws -> Set<String> {
      let data = try #require(StoreDirectory.find(path)).0.generation(1) + "/data.mdb"
      let maps = String(decoding: try TestFiles.contents(of: "/proc/self/maps"), as: UTF8.self)
      let own = maps.split(separator: "\n").filter { $0.hasSuffix(data) }
      return Set(own.map { String($0.split(separator: " ")[1]) })
    }
    var unmapped = StoreOptions()
    unmapped.usesWriteMap = false
    for options in [unmapped, StoreOptions(durability: .durable)] {
      let path = path + "-\(options.durability)"
      let store = try SharedStore(at: path, options)
      try store.setBytes([1], forKey: 1)
      #expect(try permissions(path) == ["r--s"])
      #expect(try !store.statistics().usesWriteMap)
      store.close()
    }
    // As long as a process does not write, its map cannot be written to.
    let store = try SharedStore(at: path + "-cache")
    #expect(try store.bytes(forKey: 1) == [1])
    #expect(try permissions(path + "-cache") == ["r--s"])
    let isPossible = try store.statistics().usesWriteMap
    try store.setBytes([2], forKey: 1)
    #expect(try permissions(path + "-cache") == [isPossible ? "rw-s" : "r--s"])
    #expect(try store.bytes(forKey: 1) == [2])
    store.close()
  }
  #endif

  @Test func `Each store hashes keys with a separate secret`() throws {
    let space = try NamespaceHandle(name: "n")
    let key = EncodedKey("key")
    let hashes = try (0..<4).map { index in
      let store = try SharedStore(at: path + "-\(index)")
      return space.hash(of: key, in: try store.core.generation())
    }
    #expect(Set(hashes).count == 4)
  }

  @Test(arguments: ["gate", "leases", "g-1/presence"])
  func `Without its lock files a store is complete`(name: String) throws {
    for durability in Durability.allCases {
      let path = "\(path)-\(durability)"
      let store = try SharedStore(at: path, .init(durability: durability))
      try store.setBytes([1, 2, 3], forKey: "kept")
      store.close()
      let root = try StoreFiles(of: path).root
      for damage in [nil, [UInt8](repeating: 255, count: 5000)] {
        TestFiles.removeAll("\(root)/\(name)")
        if let damage { try TestFiles.write(damage, to: "\(root)/\(name)") }
        let log = EventLog()
        let again = try SharedStore(at: path, log.options(durability))
        #expect(try again.bytes(forKey: "kept") == [1, 2, 3])
        try again.setBytes([1], forKey: "new")
        #expect(try again.verify() == [])
        #expect(log.events == [])
        again.close()
      }
    }
  }

  // MARK: Permission to open

  /// Replaces the record of a closed store's state.
  private func replace(_ meta: [UInt8], with other: [UInt8], in path: String) throws {
    let data = try StoreFiles(of: path).data
    let contents = try TestFiles.contents(of: data)
    var found = 0
    for offset in 0...(contents.count - meta.count)
    where contents[offset + 8] == meta[8] && contents[offset] == meta[0] {
      guard contents[offset..<(offset + meta.count)].elementsEqual(meta) else { continue }
      try TestFiles.overwrite(other, at: offset, in: data)
      found += 1
    }
    try #require(found > 0)
  }

  @Test(arguments: Durability.allCases)
  func `A store of a newer format is a typed error and is left as it is`(
    durability: Durability
  ) throws {
    let store = try SharedStore(at: path, .init(durability: durability))
    try store.setBytes([1], forKey: 1)
    let meta = try store.core.generation().meta
    store.close()
    var newer = meta
    newer.version = StoreMeta.version + 1
    try replace(meta.bytes(), with: newer.bytes(), in: path)
    let files = try StoreFiles(of: path)
    let before = try TestFiles.contents(of: files.data)
    for _ in 0..<3 {
      let error = #expect(throws: StoreError.self) {
        try SharedStore(at: path, .init(durability: durability))
      }
      #expect(error?.code == .newerFormat)
      #expect(error?.message.contains("format \(newer.version)") == true)
      #expect(try TestFiles.contents(of: files.data) == before)
    }
    #expect(TestFiles.names(in: files.root).filter { $0.hasPrefix("g-") } == ["g-1"])
    // The newer program is back.
    try replace(newer.bytes(), with: meta.bytes(), in: path)
    let again = try SharedStore(at: path, .init(durability: durability))
    #expect(try again.bytes(forKey: 1) == [1])
  }

  @Test func `A second copy of the library in one process is refused`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: 1)
    store.close()
    // The locks that the other copy would hold.
    let presence = try OwnedFile(path: StoreFiles(of: path).generation + "/presence")
    try #require(
      try presence.tryLock(.exclusive, at: 1 << 40 + Int64(ProcessIdentity.pid)))
    let error = #expect(throws: StoreError.self) { try SharedStore(at: path) }
    #expect(error?.code == .duplicateLibrary)
    _ = try presence.tryLock(.none, at: 0, count: 0)
    #expect(try SharedStore(at: path).bytes(forKey: 1) == [1])
  }

  @Test(
    .enabled(if: hasTools, needsTools),
    .enabled(if: PreloadShim.isAvailable, "\(PreloadShim.reason)"))
  func `A process of another machine is refused while a local one has the store open`() throws {
    let boot = try SystemBoot()
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: "k")
    let tool = try TestExecutable.tool.path
    let outcome = try ChildProcess.run(
      tool, ["get", "k", "--store", path], environment: boot.environment)
    #expect(!outcome.status.isSuccess)
    #expect(outcome.standardError.contains("another machine"), "\(outcome)")
    #expect(try store.bytes(forKey: "k") == [1])
    #expect(try store.statistics().generation == 1)
  }
}
