// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Synchronization
import Testing

/// Damage to the file `locks`, while it is in use and between two uses.
@Suite(.timeLimit(.minutes(60))) struct LockDamageTests {
  let directory: TemporaryDirectory
  var path: String { directory.appending("store") }
  var file: String { path + "/v1/locks" }

  init() throws { directory = try TemporaryDirectory() }

  /// Uses several locks, and requires that each is free.
  private func use(_ store: SharedStore, _ names: Range<Int> = 0..<20) throws {
    for name in names {
      try store.lock("n\(name)").withLock(timeout: .seconds(600)) { #expect($0.isHeld) }
    }
  }

  @Test func `Random bytes in a lock file between two uses are healed`() throws {
    let seed = Seed.announce()
    for trial in seed.trials(20) {
      var random = trial.generator()
      do {
        let store = try SharedStore(at: path)
        try use(store)
        store.close()
      }
      let size = try TestFiles.size(file)
      for _ in 0..<Int.random(in: 1...40, using: &random) {
        let count = Int.random(in: 1...4000, using: &random)
        let offset = Int.random(in: 0..<(size - count), using: &random)
        try TestFiles.overwrite(random.bytes(count), at: offset, in: file)
      }
      let store = try SharedStore(at: path)
      try use(store, 0..<40)
      store.close()
    }
  }

  @Test func `Random bytes in the lock file of an open store are healed`() throws {
    let seed = Seed.announce()
    let store = try SharedStore(at: path)
    try use(store)
    let size = try TestFiles.size(file)
    for trial in seed.trials(20) {
      var random = trial.generator()
      try store.lock("held").withLock { _ in
        for _ in 0..<Int.random(in: 1...40, using: &random) {
          let count = Int.random(in: 1...4000, using: &random)
          let offset = Int.random(in: 0..<(size - count), using: &random)
          try TestFiles.overwrite(random.bytes(count), at: offset, in: file)
        }
      }
      try use(store, 0..<40)
      try store.lock("held").withLock(timeout: .seconds(600)) { _ in }
      try store.barrier("met", parties: 1).wait(timeout: .seconds(600))
      _ = try store.locks()
    }
  }

  /// Uses the locks of a store that nothing refers to afterwards: it keeps the file open.
  private func useOnce() throws {
    let store = try SharedStore(at: path)
    try use(store)
    store.close()
  }

  /// Makes the file one of version 1, as a program of that version has left it.
  private func makeOlder() throws {
    let size = try TestFiles.size(file)
    var header = Array(try TestFiles.contents(of: file).prefix(40))
    header.replaceSubrange(8..<16, with: [1, 0, 0, 0, 0, 0, 0, 0])
    try TestFiles.overwrite([UInt8](repeating: 0x5A, count: size - 48), at: 48, in: file)
    try TestFiles.overwrite(header, at: 0, in: file)
    try TestFiles.overwrite(bytes(of: XXH64.hash(header)), at: 40, in: file)
  }

  private func bytes(of word: UInt64) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * UInt64($0))) }
  }

  @Test func `A lock file of an older version that no process uses is replaced`() throws {
    try useOnce()
    try makeOlder()
    let store = try SharedStore(at: path)
    try use(store)
    #expect(Array(try TestFiles.contents(of: file)[8..<16]) == bytes(of: 2))
  }

  @Test func `A lock file in use by an older version is refused and unchanged`()
    throws
  {
    try useOnce()
    try makeOlder()
    let older = try OwnedFile(path: file)
    // The byte of an owner slot, as version 1 locks it.
    #expect(try older.tryLock(.exclusive, at: 1 << 40 + 7))
    let before = try TestFiles.contents(of: file)
    let store = try SharedStore(at: path)
    let error = #expect(throws: StoreError.self) {
      try store.lock("a").withLock(timeout: .seconds(60)) { _ in }
    }
    #expect(error?.code == .inUse)
    #expect(error?.message.contains("older version of Larder") == true)
    #expect(try TestFiles.contents(of: file) == before)
    // The rest of the store works, and locks do once that process has ended.
    try store.setBytes([1], forKey: "a")
    #expect(try older.tryLock(.none, at: 1 << 40 + 7))
    try use(store)
  }

  @Test func `Random bytes in the file of limiters are healed`() throws {
    let seed = Seed.announce()
    let store = try SharedStore(at: path)
    let limit = RateLimit.slidingWindow(limit: 1000, per: .seconds(3600))
    func use() throws {
      for name in 0..<40 {
        _ = try store.rateLimiter("n\(name)", limit).tryAcquire()
        _ = try store.rateLimiter("n\(name)", .tokenBucket(rate: 1, burst: 1000)).tryAcquire()
      }
    }
    try use()
    let file = path + "/v1/rates"
    let size = try TestFiles.size(file)
    for trial in seed.trials(20) {
      var random = trial.generator()
      for _ in 0..<Int.random(in: 1...40, using: &random) {
        let count = Int.random(in: 1...20_000, using: &random)
        let offset = Int.random(in: 0..<(size - count), using: &random)
        try TestFiles.overwrite(random.bytes(count), at: offset, in: file)
      }
      try use()
      _ = try store.locks()
      #expect(try store.rateLimiter("trial \(trial.value)", limit).tryAcquire())
    }
  }

  @Test func `Callers that wait while the lock file is overwritten get the lock`() async throws {
    let seed = Seed.announce()
    let store = try SharedStore(at: path)
    try use(store)
    let size = try TestFiles.size(file)
    for (index, trial) in seed.trials(12).enumerated() {
      var random = trial.generator()
      let lock = store.lock("held")
      let ended = Ended()
      var tasks: [Task<Void, any Error>] = []
      var threads: [JoinableThread<Void>] = []
      try await lock.withLock { _ in
        for _ in 0..<3 {
          tasks.append(
            Task.detached { try await lock.withLock(timeout: .seconds(3600)) { _ async in } })
          threads.append(
            JoinableThread {
              try? lock.withLock(timeout: .seconds(3600)) { _ in ended.locked.add() }
              ended.threads.add()
            })
        }
        try await awaitEventually("six wait") { try store.locks().first?.waiters.count == 6 }
        let bytes =
          switch index % 3 {
          case 0: [UInt8](repeating: 0, count: size)
          case 1: [UInt8](repeating: 0xFF, count: size)
          default: random.bytes(size)
          }
        try TestFiles.overwrite(bytes, at: 0, in: file)
      }
      for task in tasks { try await task.value }
      try await awaitEventually("the threads end") { ended.threads.value == 3 }
      for thread in threads { thread.join() }
      #expect(ended.locked.value == 3)
      try use(store)
    }
  }

  private final class Ended: Sendable {
    let locked = AtomicCount()
    let threads = AtomicCount()
  }

  private final class AtomicCount: Sendable {
    private let count = Atomic<Int>(0)
    var value: Int { count.load(ordering: .acquiring) }
    func add() { count.wrappingAdd(1, ordering: .acquiringAndReleasing) }
  }

  @Test func `A lock file of zeros, an empty one and a short one are filled again`() throws {
    for count in [0, 100, 5000, 806_912] {
      do {
        let store = try SharedStore(at: path)
        try use(store)
        store.close()
      }
      let bytes = [UInt8](repeating: 0, count: count)
      try TestFiles.write(bytes, to: file)
      let store = try SharedStore(at: path)
      try use(store)
      store.close()
    }
  }

  @Test func `A lock file of a newer version is an error, and stays as it is`() throws {
    do {
      let store = try SharedStore(at: path)
      try use(store)
      store.close()
    }
    let before = try TestFiles.contents(of: file)
    var bytes = before
    bytes[8] = 3
    let checksum = XXH64.hash(Array(bytes[..<40]))
    for index in 0..<8 { bytes[40 + index] = UInt8(truncatingIfNeeded: checksum >> (8 * index)) }
    try TestFiles.write(bytes, to: file)
    let store = try SharedStore(at: path)
    let error = #expect(throws: StoreError.self) { try store.lock("n1").withLock { _ in } }
    #expect(error?.code == .newerFormat)
    #expect(try TestFiles.contents(of: file) == bytes)
  }

  @Test func `A lock file that is deleted under an open store is created again`() throws {
    let store = try SharedStore(at: path)
    try use(store)
    TestFiles.removeAll(file)
    try eventually("the file is there") {
      try use(store)
      return TestFiles.exists(file)
    }
  }
}
