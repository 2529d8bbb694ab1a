// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderObjects
import LarderStorage
import LarderSystem
import LarderTestSupport
import LarderTesting
import Synchronization
import Testing

// Updates that wait for each other, and what blocks the threads that others need.

@Suite(.timeLimit(.minutes(60)))
struct UpdateDeadlockTests {
  /// Two threads, each in an update of one storage whose closure writes the other, at the same time.
  ///
  /// - Returns: The codes of the errors that the two ended with.
  private func cross(
    _ one: Storage<String, Data>, _ other: Storage<String, Data>
  ) throws -> [StorageError.Code?] {
    let inside = [Event(), Event()]
    let threads = [(one, other), (other, one)].enumerated().map { index, pair in
      JoinableThread { () -> StorageError.Code? in
        do {
          _ = try pair.0.makeSyncStorage().updateOrInsert(forKey: "a") { value in
            inside[index].set()
            inside[1 - index].wait()
            _ = try pair.1.makeSyncStorage().updateOrInsert(forKey: "a") { $0 = text("inner") }
            value = text("outer")
          }
          return nil
        } catch {
          return (error as? StorageError)?.code ?? StorageError.Code(rawValue: "\(error)")
        }
      }
    }
    return threads.map { $0.join() }
  }

  private func expectOneGoesOn(
    _ one: Storage<String, Data>, _ other: Storage<String, Data>,
    location: SourceLocation = #_sourceLocation
  ) throws {
    for _ in 0..<3 {
      let codes = try cross(one, other)
      // One fails and the other continues.
      #expect(
        codes.filter { $0 == nil }.count == 1 && codes.contains(.deadlock),
        "\(one.storageName), \(other.storageName): \(codes)", sourceLocation: location)
      // Both work on.
      for storage in [one, other] {
        let sync = storage.makeSyncStorage()
        try sync.set(text("after"), forKey: "a")
        #expect(try sync.value(forKey: "a") == text("after"), sourceLocation: location)
      }
    }
  }

  @Test func `While an update of a folder lasts, other writers fail at the time limit`() throws {
    let directory = try TemporaryDirectory()
    let folder = DiskFolderStorage(
      folderURL: URL(fileURLWithPath: directory.appending("folder")),
      lockTimeout: .milliseconds(300)
    ).usingStringKeys().makeSyncStorage()
    let (isInside, mayEnd) = (Event(), Event())
    let update = JoinableThread {
      Result {
        try folder.updateOrInsert(forKey: "a") { value in
          isInside.set()
          mayEnd.wait(nanoseconds: 600_000_000_000)
          value = text("updated")
        }
      }
    }
    #expect(isInside.wait(nanoseconds: 600_000_000_000))
    let writers = (0..<6).map { _ in
      JoinableThread { Result { try folder.set(text("other"), forKey: "a") } }
    }
    for writer in writers {
      let error = #expect(throws: StorageError.self) { try writer.join().get() }
      #expect(error?.code == .lockTimeout)
    }
    mayEnd.set()
    _ = try update.join().get()
    #expect(try folder.value(forKey: "a") == text("updated"))
    try folder.set(text("after"), forKey: "a")
    #expect(try folder.value(forKey: "a") == text("after"))
  }

  @Test func `A task that waits for the turn of its key ends when it is cancelled`() async throws {
    let storage = Remote().removable
    let (isInside, mayEnd) = (Event(), Event())
    let update = Task.detached {
      try await storage.updateOrInsert(forKey: "a") { value in
        isInside.set()
        mayEnd.wait(nanoseconds: 600_000_000_000)
        value = text("updated")
      }
    }
    while !isInside.wait(nanoseconds: 1_000_000) { await Task.yield() }
    let writer = Task.detached { try await storage.set(text("other"), forKey: "a") }
    await Task.yield()
    writer.cancel()
    await #expect(throws: CancellationError.self) { try await writer.value }
    mayEnd.set()
    _ = try await update.value
    #expect(try await storage.value(forKey: "a") == text("updated"))
    try await storage.set(text("after"), forKey: "a")
    #expect(try await storage.value(forKey: "a") == text("after"))
  }

  @Test func `Updates that write each other's storage: one fails, the other continues`() throws {
    let directory = try TemporaryDirectory()
    let temporary = try TemporaryStore()
    let second = try TemporaryStore()
    let store = temporary.store.storage("a", keys: String.self, values: Data.self)
    let memory = MemoryStorage<String, Data>().asStorage()
    let folder = directory.folder("one").usingStringKeys()
    try expectOneGoesOn(memory, MemoryStorage<String, Data>().asStorage())
    try expectOneGoesOn(folder, directory.folder("two").usingStringKeys())
    try expectOneGoesOn(memory, folder)
    try expectOneGoesOn(store, folder)
    try expectOneGoesOn(store, second.store.storage("b", keys: String.self, values: Data.self))
    try expectOneGoesOn(Remote().removable, NSCacheStorage<String, Data>().asStorage())
    try expectOneGoesOn(
      MemoryStorage<String, Data>().combined(with: directory.folder("three").usingStringKeys()),
      MemoryStorage<String, Data>().combined(with: Remote().removable))
    try temporary.verifyAndClose()
    try second.verifyAndClose()
  }

  @Test func `Three updates in a ring: one fails, the others continue`() throws {
    let storages = (0..<3).map { _ in MemoryStorage<String, Int>().makeSyncStorage() }
    let inside = (0..<3).map { _ in Event() }
    let threads = (0..<3).map { index in
      JoinableThread { () -> Bool in
        do {
          _ = try storages[index].updateOrInsert(forKey: "a") { value in
            inside[index].set()
            for event in inside { event.wait() }
            try storages[(index + 1) % 3].set(1, forKey: "a")
            value = 2
          }
          return true
        } catch StorageError.Code.deadlock {
          return false
        } catch {
          Issue.record("\(error)")
          return false
        }
      }
    }
    #expect(threads.map { $0.join() }.filter { $0 }.count == 2)
  }

  @Test func `Asynchronous updates that cross end as well`() async throws {
    let one = Remote().removable
    let other = Remote().removable
    let met = [Door(), Door()]
    // The write of a custom storage may wait; both wait for the other's lock.
    func wrapped(_ storage: Storage<String, Data>, _ index: Int, _ next: Storage<String, Data>)
      -> Storage<String, Data>
    {
      Storage(
        storageName: "wrapped \(index)",
        operations: StorageOperations(
          read: storage.operations.read,
          write: .asynchronous { item in
            met[index].open()
            await met[1 - index].pass()
            try await next.updateOrInsert(forKey: item.key) { _ in }
          }))
    }
    let ring = Mutex<[Storage<String, Data>]>([])
    let first = wrapped(
      one, 0,
      Storage(
        storageName: "late",
        operations: StorageOperations(
          read: other.operations.read,
          write: .asynchronous { item in
            let second = ring.withLock { $0[1] }
            try await second.set(item.value, forKey: item.key)
          })))
    let second = wrapped(
      other, 1,
      Storage(
        storageName: "late",
        operations: StorageOperations(
          read: one.operations.read,
          write: .asynchronous { item in
            let first = ring.withLock { $0[0] }
            try await first.set(item.value, forKey: item.key)
          })))
    ring.withLock { $0 = [first, second] }
    try await one.set(text("1"), forKey: "a")
    try await other.set(text("1"), forKey: "a")
    let codes = await withTaskGroup(of: StorageError.Code?.self) { group in
      for storage in [first, second] {
        group.addTask {
          do {
            try await storage.set(text("2"), forKey: "a")
            return nil
          } catch {
            return (error as? StorageError)?.code
          }
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    // The continuing update reaches its own storage again, which is a separate error.
    #expect(codes.contains(.deadlock), "\(codes)")
  }

  @Test func `Two handles of one folder, by different paths, are one storage`() throws {
    let directory = try TemporaryDirectory()
    let link = directory.appending("link")
    let one = directory.folder("one")
    try one.set(text("1"), forKey: "a")
    try FileManager.default.createSymbolicLink(
      atPath: link, withDestinationPath: directory.appending("one"))
    let other = DiskFolderStorage(folderURL: URL(fileURLWithPath: link))
    #expect {
      try one.makeSyncStorage().update(forKey: "a") { _ in
        try other.set(text("2"), forKey: "a")
      }
    } throws: {
      ($0 as? StorageError)?.code == .recursiveUpdate
    }
    // And they count together.
    let counted = [one, other].map { storage in
      JoinableThread { () -> Int in
        var done = 0
        for number in 0..<100 {
          let sync = storage.makeSyncStorage()
          _ = try? sync.updateOrInsert(forKey: Filename(rawValue: "\(number % 3)")) { value in
            value = Data((value ?? Data()) + [1])
          }
          done += 1
        }
        return done
      }
    }.map { $0.join() }
    #expect(counted == [100, 100])
    let lengths = try (0..<3).map { try one.value(forKey: Filename(rawValue: "\($0)"))!.count }
    #expect(lengths.reduce(0, +) == 200)
  }

  @Test func `Two forms of one storage count together`() async throws {
    let directory = try TemporaryDirectory()
    let cache = NSCacheStorage<String, Data>()
    let file = URL(fileURLWithPath: directory.appending("plain"))
    let files = [DiskStorage(), DiskStorage()].map {
      $0.mapKeys(to: String.self) { _ in file }
    }
    let memory = PersistentCache<String, Data>(storage: nil)
    let own = ClassStorage()
    for forms in [
      [cache.asStorage(), cache.asStorage()], files, [memory.asStorage(), memory.asStorage()],
      [own.asStorage(), own.asStorage()],
    ] {
      let threads = forms.map { form in
        JoinableThread {
          let sync = form.makeSyncStorage()
          for _ in 0..<300 {
            _ = try? sync.updateOrInsert(forKey: "a") { $0 = Data(($0 ?? Data()) + [1]) }
          }
        }
      }
      for thread in threads { thread.join() }
      #expect(try await forms[0].value(forKey: "a")?.count == 600, "\(forms[0].storageName)")
    }
  }

  /// A storage of two methods that yields between reading and writing.
  private final class ClassStorage: SynchronousStorage {
    let values = Mutex<[String: Data]>([:])
    func value(forKey key: String) throws -> Data? {
      defer { OSThread.yield() }
      return values.withLock { $0[key] }
    }
    func set(_ value: Data, forKey key: String) throws { values.withLock { $0[key] = value } }
  }

  @Test func `A process stopped in an update is named, and the wait ends`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("folder")
    let peer = try TestExecutable.peer.start()
    try peer.send("folder \(path) hold 1")
    try peer.expect("holding")
    let folder = DiskFolderStorage(
      folderURL: URL(fileURLWithPath: path), lockTimeout: .milliseconds(100))
    for attempt in 0..<2 {
      do {
        if attempt == 0 {
          try folder.set(text("1"), forKey: "held")
        } else {
          try folder.removeAll()
        }
        Issue.record("It was written.")
      } catch let error as StorageError {
        #expect(error.code == .lockTimeout)
        #expect(error.message.contains("process \(peer.processIdentifier)"), "\(error)")
      }
    }
    // Reading does not wait.
    #expect(try folder.value(forKey: "held") == nil)
    // A lock of a dead process does not count.
    peer.kill()
    _ = try peer.wait()
    try folder.set(text("2"), forKey: "held")
    #expect(try folder.value(forKey: "held") == text("2"))
  }

  @Test func `Updates of plain files by several processes lose nothing`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("below/count")
    let peers = try (0..<3).map { _ in try TestExecutable.peer.start() }
    for peer in peers { try peer.send("folder \(path) plain 60") }
    for peer in peers { try peer.expect("ok") }
    #expect(
      try DiskStorage.main.value(forKey: URL(fileURLWithPath: path)) == text("180"))
    #expect(try FileSystem.names(in: directory.appending("below")) == ["count"])
    for peer in peers { peer.closeInput() }
    for peer in peers { #expect(try peer.wait() == .exited(0)) }
  }

  // MARK: Threads

  @Test func `Calls nested 200 deep, each on a thread that waits for the next, return`() throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    try folder.set(text("deep"), forKey: "a")
    let storage = folder.usingStringKeys()
    // Each completion blocks its thread until the one below is done.
    @Sendable func nest(_ depth: Int) -> Int {
      if depth == 0 { return 0 }
      let done = Event()
      let below = Mutex(-1)
      storage.retrieve(forKey: "a") { result in
        let found = (try? result.get()) == text("deep")
        below.withLock { $0 = nest(depth - 1) + (found ? 1 : 0) }
        done.set()
      }
      done.wait()
      return below.withLock { $0 }
    }
    #expect(JoinableThread { nest(200) }.join() == 200)
  }

  @Test func `With all threads of Swift's pool blocked, storages continue`() throws {
    let directory = try TemporaryDirectory()
    // In a separate process: other tests need the pool of this one.
    let peer = try TestExecutable.peer.start()
    try peer.send("folder \(directory.appending("folder")) blocked 1")
    try peer.expect("123")
    peer.closeInput()
    #expect(try peer.wait() == .exited(0))
  }
}
