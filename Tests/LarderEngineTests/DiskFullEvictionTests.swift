// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderSystem
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

/// The behaviour of a store on a full disk that is smaller than its budget.
@Suite(.timeLimit(.minutes(60))) struct DiskFullEvictionTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  @Test(
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason),
    arguments: [200, 2000, 20_000])
  func `A cache on a full disk makes room by evicting`(size: Int) throws {
    try directory.withSmallDisk(kilobytes: 1024 * 12) { disk in try fill(disk, size) }
  }

  @Test(
    .enabled(if: SmallFileSystem.hasOverlays, SmallFileSystem.overlayReason),
    arguments: [200, 20_000])
  func `A cache on an overlay over a full disk makes room by evicting`(size: Int) throws {
    try directory.withSmallDisk(kilobytes: 1024 * 12) { disk in
      try SmallFileSystem.withOverlay(on: disk) { overlay in try fill(overlay, size) }
    }
  }

  /// Fills a disk with entries of a cache, and goes on.
  private func fill(_ disk: String, _ size: Int) throws {
    // The table for so large a budget takes room as well.
    let store = try SharedStore(at: disk + "/store", .init(budget: .megabytes(128)))
    let value = [UInt8](repeating: 7, count: size)
    // Until the disk is full, then two hundred more.
    var (failures, key, rest) = (0, 0, 200)
    while rest > 0 {
      key += 1
      if rest < 200 || failures > 0 {
        rest -= 1
      } else if key % 20 == 0, try store.statistics().evictions > 0 {
        rest -= 1
      }
      do {
        try store.setBytes(value, forKey: key)
        #expect(try store.bytes(forKey: key) == value)
      } catch let error as StoreError {
        #expect(error.code == .storageFull)
        failures += 1
      }
    }
    let statistics = try store.statistics()
    print("size \(size): \(failures) of \(key) failed, \(statistics.evictions) evicted")
    #expect(failures <= 5)
    #expect(statistics.evictions > 0)
    #expect(try store.verify() == [])
    store.close()
  }

  @Test(
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason), arguments: [100, 500, 1500],
    [true, false])
  func `A cache on a full disk keeps enough pages to evict`(size: Int, throughMap: Bool) throws {
    // With very few pages in all, one too many that is used is the last one.
    for kilobytes in stride(from: 2700, through: 3100, by: 80) {
      try TemporaryDirectory().withSmallDisk(kilobytes: kilobytes) { disk in
        var options = StoreOptions(budget: .megabytes(16))
        options.usesWriteMap = throughMap
        let store = try SharedStore(at: disk + "/store", options)
        let value = [UInt8](repeating: 7, count: size)
        var failures = 0
        for key in 0..<1000 {
          do { try store.setBytes(value, forKey: key) } catch let error as StoreError {
            #expect(error.code == .storageFull)
            failures += 1
          }
        }
        print("\(kilobytes) kB, size \(size): \(failures) failed")
        #expect(failures <= 5)
        #expect(try store.verify() == [])
        store.close()
      }
    }
  }

  @Test(.enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `A transaction of several writes on a full disk makes room as well`() throws {
    try directory.withSmallDisk(kilobytes: 1024 * 4) { disk in
      let store = try SharedStore(at: disk + "/store", .init(budget: .megabytes(16)))
      let value = [UInt8](repeating: 7, count: 3000)
      for round in 0..<200 {
        try store.write { transaction in
          for key in 0..<10 { try transaction.setBytes(value, forKey: round * 10 + key) }
        }
        #expect(try store.bytes(forKey: round * 10 + 9) == value)
      }
      #expect(try store.statistics().evictions > 0)
      #expect(try store.verify() == [])
      store.close()
    }
  }

  @Test(
    .enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason), arguments: [true, false])
  func `A value that fits evicts nothing, and neither does one that never fits`(throughMap: Bool)
    throws
  {
    try directory.withSmallDisk(kilobytes: 1024 * 12) { disk in
      var options = StoreOptions(budget: .megabytes(64))
      options.usesWriteMap = throughMap
      let store = try SharedStore(at: disk + "/store", options)
      for key in 0..<40 { try store.setBytes([UInt8](repeating: 1, count: 100), forKey: key) }
      try store.setBytes([UInt8](repeating: 2, count: 3 << 20), forKey: 100)
      #expect(try store.statistics().evictions == 0)
      #expect {
        try store.setBytes([UInt8](repeating: 3, count: 20 << 20), forKey: 101)
      } throws: { ($0 as? StoreError)?.code == .storageFull }
      #expect {
        try store.write { try $0.setBytes([UInt8](repeating: 3, count: 20 << 20), forKey: 101) }
      } throws: { ($0 as? StoreError)?.code == .storageFull }
      #expect(try store.statistics().evictions == 0)
      #expect(try store.statistics().entries == 41)
      store.close()
    }
  }

  @Test(.enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `Removing on a disk that another program filled evicts nothing`() throws {
    try directory.withSmallDisk(kilobytes: 1024 * 4) { disk in
      let store = try SharedStore(at: disk + "/store", .init(budget: .megabytes(16)))
      let cache = PersistentCache<Int, [UInt8]>(storage: store)
      for key in 0..<100 { try cache.setValue([UInt8](repeating: 1, count: 500), forKey: key) }
      _ = try ChildProcess.run("/bin/cp", ["/dev/zero", disk + "/ballast"])
      #expect(try cache.removeValue(forKey: 1))
      #expect(try cache.removeValues(forKeys: [2, 3]) == 2)
      #expect(try cache.takeValue(forKey: 4) != nil)
      #expect(try store.statistics().evictions == 0)
      #expect(try store.statistics().entries == 96)
      // Storing makes room.
      for key in 200..<300 { try cache.setValue([UInt8](repeating: 2, count: 500), forKey: key) }
      #expect(try store.verify() == [])
      store.close()
    }
  }

  @Test func `A transaction that throws the full disk of another store runs once`() throws {
    let store = try SharedStore(at: directory.path + "/store", .init())
    for key in 0..<100 { try store.setBytes([1], forKey: key) }
    let runs = Mutex(0)
    #expect(throws: StoreError.self) {
      try store.write { _ in
        runs.withLock { $0 += 1 }
        throw StoreError(.storageFull, during: "write", path: "/other", "No space left.")
      }
    }
    #expect(runs.withLock { $0 } == 1)
    #expect(try store.statistics().evictions == 0)
    store.close()
  }

  @Test(.enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `A durable store on a full disk evicts nothing`() throws {
    try directory.withSmallDisk(kilobytes: 1024 * 6) { disk in
      let store = try SharedStore(at: disk + "/store", .init(durability: .durable))
      let value = [UInt8](repeating: 7, count: 20_000)
      var stored: [Int] = []
      var failures = 0
      for key in 0..<400 {
        do {
          try store.setBytes(value, forKey: key)
          stored.append(key)
        } catch let error as StoreError {
          #expect(error.code == .storageFull)
          failures += 1
        }
      }
      #expect(failures > 0)
      #expect(try store.statistics().evictions == 0)
      for key in stored { #expect(try store.bytes(forKey: key) == value) }
      #expect(try store.statistics().entries == stored.count)
      store.close()
    }
  }

  @Test(.enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `The error callback of a pending write on a full disk may make room`() throws {
    try directory.withSmallDisk(kilobytes: 1024 * 6) { disk in
      let callback = CallbackTests.Callback()
      let store = try SharedStore(
        at: disk + "/store",
        .init(
          durability: .durable, openTimeout: .seconds(800), writeTimeout: .seconds(800),
          onError: { _ in callback.call() }))
      let cache = PersistentCache<Int, [UInt8]>(storage: store)
      callback.body.withLock {
        $0 = {
          for key in 0..<20 { try cache.removeValue(forKey: key) }
          try store.removeAll(in: "other")
        }
      }
      let start = ContinuousClock.now
      for key in 0..<400 where callback.outcomes.withLock({ $0.isEmpty }) {
        cache[key] = [UInt8](repeating: 7, count: 20_000)
        if key % 10 == 9 { try store.sync() }
      }
      // An error is reported shortly after sync() has returned.
      try eventually("the callback has run") { callback.outcomes.withLock { !$0.isEmpty } }
      // No thread has waited for itself until a time limit.
      #expect(ContinuousClock.now - start < .seconds(600))
      callback.body.withLock { $0 = nil }
      store.close()
    }
  }

  @Test func `All errors of systems without room are one error`() {
    // ENOSPC, EFBIG, EDQUOT.
    for code: Int32 in [28, 27, 122] {
      let system = StoreError(SystemError(errno: code, operation: "write"), during: "write")
      let ours = StoreError(
        LMDBError(.init(rawValue: code), during: "mdb_txn_commit"), during: "write")
      for error in [system, ours] {
        #expect(error.code == .storageFull && error.errorNumber == code)
        #expect(error.message.contains("no space left"))
      }
    }
    let other = StoreError(
      LMDBError(.init(rawValue: 13), during: "mdb_txn_commit"), during: "write")
    #expect(other.code == .system)
  }

  @Test func `EIO is an error of the disk and never a lack of room`() {
    let system = StoreError(SystemError(errno: 5, operation: "write"), during: "write")
    let ours = StoreError(
      LMDBError(.init(rawValue: 5), during: "mdb_txn_commit"), during: "write")
    for error in [system, ours] {
      #expect(error.code == .system && error.errorNumber == 5)
      #expect(!error.message.contains("no space"), "\(error)")
    }
    #expect(!LMDBError(.init(rawValue: 5), during: "mdb_txn_commit").isStorageFull)
  }
}
