// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderStorage
import LarderSystem
import LarderTesting
import Synchronization
import Testing

// The guarantees of layers when values expire, when a part fails, and about the reach of updates.

@Suite(.timeLimit(.minutes(60)))
struct LayerTests {
  /// Memory on a clock of the test's.
  private struct Clocked: Sendable {
    let clock = ManualClock()
    var now: @Sendable () -> Date {
      let clock = clock
      return { Date(timeIntervalSince1970: Double(clock.now) / 1000) }
    }
    init() { clock.set(to: 1_000_000_000) }
    func memory() -> MemoryStorage<String, Data> { MemoryStorage(now: now) }
    func passes(seconds: Int64) { clock.set(to: clock.now + seconds * 1000) }
  }

  /// Two methods and removing: nothing expires in it.
  private func plain(
    _ memory: MemoryStorage<String, Data>, removes: Bool = true
  ) -> Storage<String, Data> {
    var operations = StorageOperations<String, Data>(
      read: memory.operations.read, write: memory.operations.write)
    if removes {
      operations.remove = memory.operations.remove
      operations.removeAll = memory.operations.removeAll
    }
    return Storage(storageName: "plain", operations: operations)
  }

  @Test func `No value outlives its time through any composition`() async throws {
    let directory = try TemporaryDirectory()
    let time = Clocked()
    typealias Stores = (name: String, storage: Storage<String, Data>, back: Storage<String, Data>)
    func over(_ make: (Storage<String, Data>) -> Storage<String, Data>) -> Stores {
      let back = time.memory().asStorage()
      return ("\(make(back).storageName)", make(back), back)
    }
    let now = time.now
    let folder = DiskFolderStorage(
      folderURL: URL(fileURLWithPath: directory.appending("folder")), now: now
    ).usingStringKeys()
    let all: [Stores] = [
      over { self.plain(MemoryStorage()).combined(with: $0) },
      over { time.memory().combined(with: $0) },
      over { self.plain(MemoryStorage(), removes: false).combined(with: $0) },
      over { self.plain(MemoryStorage()).backed(by: $0) },
      over { time.memory().backed(by: $0) },
      over { NSCacheStorage<String, Data>().combined(with: $0) },
      over { time.memory().combined(with: self.plain(MemoryStorage()).combined(with: $0)) },
      over { self.plain(MemoryStorage()).combined(with: time.memory().combined(with: $0)) },
      over { time.memory().combined(with: $0.defaulting(to: text("default"))) },
      over { self.plain(MemoryStorage()).combined(with: $0.recovering(.readErrorsAsMisses)) },
      over {
        time.memory().combined(with: $0.asyncMapValues(transformIn: { $0 }, transformOut: { $0 }))
      },
      over {
        time.memory().combined(
          with: zip($0, $0).mapValues(transformIn: { $0.0 }, transformOut: { ($0, $0) }))
      },
      over {
        // A storage that expires values and does not report when.
        var operations = $0.operations
        operations.entry = nil
        return time.memory().combined(with: Storage(storageName: "mute", operations: operations))
      },
      over {
        var operations = $0.operations
        operations.entry = nil
        let mute = Storage(storageName: "mute", operations: operations)
        return time.memory().combined(with: self.plain(MemoryStorage()).combined(with: mute))
      },
      ("folder", time.memory().combined(with: folder), folder),
      ("folder", self.plain(MemoryStorage()).combined(with: folder), folder),
    ]
    for (name, storage, back) in all {
      for path in 0..<3 {
        try await back.set(text("1"), forKey: "a", expires: now().addingTimeInterval(10))
        switch path {
        case 0: _ = try await storage.value(forKey: "a")
        case 1: _ = try? await storage.updateOrInsert(forKey: "a") { $0? += text("2") }
        default:
          // Through the composition, if it can.
          try? await storage.set(text("1"), forKey: "a", expires: now().addingTimeInterval(10))
        }
        let known = try await storage.value(forKey: "a")
        #expect(known == text("1") || known == text("12"), "\(name), \(path)")
        time.passes(seconds: 10)
        let left = try await storage.value(forKey: "a")
        #expect(left == nil || left == text("default"), "\(name), \(path)")
        #expect(try await back.value(forKey: "a") == nil, "\(name), \(path)")
        try? await storage.removeAll()
        try await back.removeAll()
      }
    }
  }

  @Test func `A store's expiration time is kept with its value, in updates and in backfills`()
    async throws
  {
    let temporary = try TemporaryStore()
    let store = temporary.store.storage("expiring", keys: String.self, values: Data.self)
    let soon = Date(timeIntervalSinceNow: 3600)
    let memory = MemoryStorage<String, Data>()
    let layers = memory.combined(with: store)
    try await layers.set(text("1"), forKey: "a", expires: soon)
    try await layers.update(forKey: "a") { $0 += text("2") }
    for storage in [store, memory.asStorage(), layers] {
      let entry = try #require(try await storage.operations.entry?("a"))
      #expect(entry.value == text("12"))
      #expect(abs(try #require(entry.expires).timeIntervalSince(soon)) < 0.01)
    }
    // An expiration time in the past is expired in every layer.
    try await layers.set(text("3"), forKey: "b", expires: Date(timeIntervalSinceNow: -1))
    #expect(try await layers.value(forKey: "b") == nil)
    try temporary.verifyAndClose()
  }

  // MARK: What updates reach

  @Test func `An update begins with the default, and with what was recovered`() async throws {
    let directory = try TemporaryDirectory()
    let counts = MemoryStorage<String, Int>()
    #expect(try await counts.defaulting(to: 5).update(forKey: "a") { $0 += 1 } == 6)
    #expect(try await counts.value(forKey: "a") == 6)
    #expect(try await counts.defaulting(to: 5).update(forKey: "a") { $0 += 1 } == 7)
    #expect(
      try await counts.asyncMapValues(transformIn: { $0 * 10 }, transformOut: { $0 / 10 })
        .defaulting(to: 100).update(forKey: "b") { $0 += 10 } == 110)
    #expect(try await counts.value(forKey: "b") == 11)
    // A file that is damaged.
    let folder = directory.folder()
    try await folder.set(text("1"), forKey: "a")
    let url = folder.fileURL(forFilename: "a")
    for kind in 0..<3 {
      try text("damage").write(to: url)
      await #expect(throws: StorageError.self) {
        try await folder.update(forKey: "a") { $0 += text("2") }
      }
      switch kind {
      case 0:
        let result = try await folder.defaulting(to: text("0")).update(forKey: "a") {
          $0 += text("2")
        }
        #expect(result == text("02"))
      case 1:
        let reported = Mutex(0)
        let lenient = folder.recovering(.readErrorsAsMisses { _ in reported.withLock { $0 += 1 } })
        #expect(try await lenient.updateOrInsert(forKey: "a") { $0 = $0 ?? text("3") } == text("3"))
        #expect(reported.withLock { $0 } == 1)
      default:
        // The contents of the file are complete, and not JSON.
        try await folder.set(text("no JSON"), forKey: "a")
        let numbers = folder.mapJSONObject([Int].self)
        await #expect(throws: StorageError.self) {
          try await numbers.update(forKey: "a") { $0.append(1) }
        }
        #expect(
          try await numbers.defaulting(to: [0]).update(forKey: "a") { $0.append(1) } == [0, 1])
      }
    }
  }

  @Test func `Updates through views are as atomic as what is below`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder("views").usingStringKeys()
    let memory = MemoryStorage<String, Data>()
    let empty = MemoryStorage<String, Data>().asReadOnlyStorage()
    for below in [folder, memory.asStorage()] {
      // Each thread has a separate view; only the storage below is shared.
      let views: [Storage<String, Data>] = [
        below.backed(by: empty), below.pushingOnSet(to: NSCacheStorage<String, Data>()),
        below.validate { _ in true },
        below.asyncMapValues(
          transformIn: { bytes in
            await Task.yield()
            return bytes
          }, transformOut: { $0 }),
        below.recovering(.readErrorsAsMisses), below.mapKeys { $0 },
      ]
      try await below.remove(forKey: "count")
      let threads = views.map { view in
        JoinableThread { () -> (any Error)? in
          do {
            for _ in 0..<40 {
              _ = try view.makeSyncStorage().updateOrInsert(forKey: "count") {
                $0 = Data(($0 ?? Data()) + [1])
              }
            }
            return nil
          } catch {
            return error
          }
        }
      }
      #expect(threads.compactMap { $0.join() }.isEmpty)
      #expect(try await below.value(forKey: "count")?.count == views.count * 40)
    }
    // Values that cannot be compared are converted inside the update below.
    struct Opaque: Sendable { var number: Int }
    let opaque = MemoryStorage<String, Opaque>(storage: ["a": Opaque(number: 0)])
    let threads = (0..<4).map { _ in
      JoinableThread {
        let view = opaque.asyncMapValues(
          transformIn: { $0.number }, transformOut: { Opaque(number: $0) }
        ).makeSyncStorage()
        for _ in 0..<50 { _ = try? view.update(forKey: "a") { $0 += 1 } }
      }
    }
    for thread in threads { thread.join() }
    #expect(try await opaque.value(forKey: "a")?.number == 200)
  }

  @Test func `A backed storage's update begins with the back's value`() async throws {
    let back = MemoryStorage<String, Data>(storage: ["a": text("back")])
    for front in [MemoryStorage<String, Data>().asStorage(), Remote().removable] {
      let storage = front.backed(by: back)
      #expect(try await storage.update(forKey: "a") { $0 += text("+") } == text("back+"))
      #expect(try await storage.update(forKey: "a") { $0 += text("+") } == text("back++"))
      #expect(try await front.value(forKey: "a") == text("back++"))
      #expect(try await back.value(forKey: "a") == text("back"))
      #expect(
        try await storage.updateOrInsert(forKey: "none") { $0 = $0 ?? text("x") } == text("x"))
    }
  }

  // MARK: Fronts that fail

  /// A front that fails on command.
  private final class Moody: Sendable {
    let memory = MemoryStorage<String, Data>()
    let failsSetting = Mutex(false)
    let failsRemoving = Mutex(false)

    func storage(removes: Bool) -> Storage<String, Data> {
      var operations = StorageOperations<String, Data>(
        read: memory.operations.read,
        write: StorageOperation { item in
          if self.failsSetting.withLock({ $0 }) { throw Broken() }
          try self.memory.set(item.value, forKey: item.key)
        })
      operations.keys = memory.operations.keys
      if removes {
        operations.remove = StorageOperation { key in
          if self.failsRemoving.withLock({ $0 }) { throw Broken() }
          try self.memory.remove(forKey: key)
        }
        operations.removeAll = StorageOperation { _ in
          if self.failsRemoving.withLock({ $0 }) { throw Broken() }
          try self.memory.removeAll()
        }
      }
      return Storage(storageName: "moody", operations: operations)
    }
  }

  @Test func `A front that cannot follow the back is invalidated, or gone around`() async throws {
    func code(_ body: () async throws -> Void) async -> StorageError.Code? {
      do {
        try await body()
        return nil
      } catch {
        return (error as? StorageError)?.code
      }
    }
    for isAsynchronous in [false, true] {
      let front = Moody()
      let back: Storage<String, Data> =
        isAsynchronous ? Remote().removable : MemoryStorage<String, Data>().asStorage()
      let storage = front.storage(removes: true).combined(with: back)
      try await storage.set(text("1"), forKey: "a")

      // It cannot take the new value, but forget the old one.
      front.failsSetting.withLock { $0 = true }
      #expect(try await storage.update(forKey: "a") { $0 += text("2") } == text("12"))
      #expect(try await front.memory.value(forKey: "a") == nil)
      #expect(try await storage.value(forKey: "a") == text("12"))
      front.failsSetting.withLock { $0 = false }
      #expect(try await storage.value(forKey: "a") == text("12"))

      // Neither is possible: the error reports it, and no read returns its stale value.
      front.failsSetting.withLock { $0 = true }
      front.failsRemoving.withLock { $0 = true }
      #expect(
        await code { try await storage.update(forKey: "a") { $0 += text("3") } } == .staleFront)
      #expect(try await front.memory.value(forKey: "a") == text("12"))
      #expect(try await storage.value(forKey: "a") == text("123"))
      #expect(await code { try await storage.remove(forKey: "a") } == .staleFront)
      #expect(try await storage.value(forKey: "a") == nil)
      #expect(try await storage.contains("a") == false)
      // Until it is well again.
      front.failsSetting.withLock { $0 = false }
      front.failsRemoving.withLock { $0 = false }
      try await storage.set(text("4"), forKey: "a")
      #expect(try await front.memory.value(forKey: "a") == text("4"))
      #expect(try await storage.value(forKey: "a") == text("4"))

      // The same for everything.
      front.failsRemoving.withLock { $0 = true }
      #expect(await code { try await storage.removeAll() } == .staleFront)
      #expect(try await front.memory.value(forKey: "a") == text("4"))
      #expect(try await storage.value(forKey: "a") == nil)
      front.failsRemoving.withLock { $0 = false }
      try await storage.removeAll()
      #expect(front.memory.storage.isEmpty)

      // A front that never removes: what it could not follow is refused before anything is changed.
      let kept = Moody()
      let keeping = kept.storage(removes: false).combined(with: back)
      try await keeping.set(text("5"), forKey: "a")
      #expect(
        await code { try await keeping.updateOrInsert(forKey: "a") { $0 = nil } } == .unsupported)
      #expect(try await keeping.value(forKey: "a") == text("5"))
      #expect(try await back.value(forKey: "a") == text("5"))
      kept.failsSetting.withLock { $0 = true }
      #expect(
        await code { try await keeping.update(forKey: "a") { $0 += text("6") } } == .staleFront)
      #expect(try await keeping.value(forKey: "a") == text("56"))
    }
  }

  @Test func `What is removed with everything is not brought back by an update`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder().usingStringKeys()
    let memory = MemoryStorage<String, Data>()
    for storage in [
      memory.asStorage(), folder, NSCacheStorage<String, Data>().asStorage(), Remote().removable,
      MemoryStorage<String, Data>().combined(with: MemoryStorage<String, Data>()),
      MemoryStorage<String, Data>().combined(with: directory.folder("b").usingStringKeys()),
      MemoryStorage<String, Data>().combined(with: Remote().removable),
    ] {
      let sync = storage.makeSyncStorage()
      try sync.set(text("old"), forKey: "a")
      let inside = Event()
      let removing = Event()
      let removed = Event()
      let update = JoinableThread {
        _ = try? sync.updateOrInsert(forKey: "a") { value in
          inside.set()
          removing.wait()
          // A removal that does not wait for the update ends here.
          removed.wait(nanoseconds: 20_000_000)
          value? += text("+")
        }
      }
      inside.wait()
      let removal = JoinableThread {
        removing.set()
        try? sync.removeAll()
        removed.set()
      }
      update.join()
      removal.join()
      #expect(try sync.value(forKey: "a") == nil, "\(storage.storageName)")
    }
  }
}
