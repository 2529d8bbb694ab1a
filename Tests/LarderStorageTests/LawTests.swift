// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderObjects
import LarderStorage
import LarderTesting
import Testing

// One kit of laws for all storages: the module's, those over stores, and compositions.

@Suite(.timeLimit(.minutes(60)))
struct LawTests {
  private func expectLaws(
    _ storage: some StorageProtocol<String, Data>, operations: Int = 120,
    except exceptions: Set<StorageLaws.Law> = [],
    location: SourceLocation = #_sourceLocation
  ) async {
    var laws = StorageLaws(storage)
    laws.operations = operations
    laws.largestValue = 1 << 16
    let wanted = StorageLaws.Law.allCases.filter { !exceptions.contains($0) }
    let violations = await laws.violations(of: wanted)
    #expect(violations == [], "\(violations)", sourceLocation: location)
    var sync = StorageLaws(storage.makeSyncStorage())
    sync.operations = operations / 2
    sync.largestValue = 1 << 12
    let again = await sync.violations(of: wanted)
    #expect(again == [], "synchronous: \(again)", sourceLocation: location)
  }

  @Test func `Memory keeps the laws`() async {
    await expectLaws(MemoryStorage<Filename, Data>().usingStringKeys(), operations: 400)
    await expectLaws(
      MemoryStorage<String, Data>(), except: [.canonicallyEqualKeysAreTwo])
  }

  @Test func `An NSCache keeps the laws`() async {
    await expectLaws(NSCacheStorage<Filename, Data>().usingStringKeys())
  }

  @Test func `A folder of files keeps the laws`() async throws {
    let directory = try TemporaryDirectory()
    await expectLaws(directory.folder().usingStringKeys())
  }

  @Test func `Two handles of one folder keep the laws`() async throws {
    let directory = try TemporaryDirectory()
    let (one, two) = (directory.folder().usingStringKeys(), directory.folder().usingStringKeys())
    await expectLaws(Storage(read: one, write: two).keeping(one))
  }

  @Test func `A shared store keeps the laws`() async throws {
    let temporary = try TemporaryStore()
    let storage = temporary.store.storage("laws", keys: String.self, values: Data.self)
    await expectLaws(storage)
    try temporary.verifyAndClose()
  }

  @Test func `A cache in memory only keeps the laws`() async {
    let cache = PersistentCache<String, Data>(storage: nil)
    await expectLaws(cache.asStorage(), except: [.canonicallyEqualKeysAreTwo])
  }

  @Test func `A custom storage keeps the laws`() async {
    await expectLaws(Remote().removable)
  }

  @Test func `A tiered storage keeps the laws`() async throws {
    let directory = try TemporaryDirectory()
    let memory = MemoryStorage<Filename, Data>(countLimit: 7)
    await expectLaws(memory.combined(with: directory.folder()).usingStringKeys())
    await expectLaws(
      MemoryStorage<Filename, Data>(countLimit: 3).usingStringKeys()
        .combined(with: Remote().removable))
    let temporary = try TemporaryStore()
    let shared = temporary.store.storage("laws", keys: String.self, values: Data.self)
    await expectLaws(
      MemoryStorage<Filename, Data>(countLimit: 5).usingStringKeys()
        .combined(with: shared.combined(with: directory.folder("back").usingStringKeys())),
      operations: 60)
  }

  @Test func `Views, mappings and recoveries keep the laws`() async {
    let memory = MemoryStorage<Filename, Data>()
    let mapped = memory.usingStringKeys()
      .mapValues(
        to: [UInt8].self, transformIn: { Array($0.reversed()) },
        transformOut: { Data($0.reversed()) }
      )
      .mapValues(transformIn: { Data($0) }, transformOut: { Array($0) })
      .renaming(to: "mapped").recovering(.readErrorsAsMisses)
    await expectLaws(mapped)
    await expectLaws(
      memory.usingStringKeys().asyncMapValues(transformIn: { $0 }, transformOut: { $0 })
        .validate { _ in true })
    await expectLaws(
      memory.usingStringKeys().pushingOnSet(to: NSCacheStorage<Filename, Data>().usingStringKeys())
    )
    await expectLaws(
      zip(memory.usingStringKeys(), MemoryStorage<Filename, Data>().usingStringKeys())
        .mapValues(transformIn: { $0.0 }, transformOut: { ($0, $0) }))
  }

  @Test func `Plain files and single keys keep the laws`() async throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("files")
    let files = DiskStorage.main.mapKeys(to: String.self) {
      URL(fileURLWithPath: path + "/" + Filename(rawValue: $0).fileName)
    }
    var operations = files.operations
    operations.removeAll = .blocking { _ in try FileManager.default.removeItem(atPath: path) }
    let clearing = operations.removeAll!
    operations.removeAll = .blocking { _ in
      if FileManager.default.fileExists(atPath: path) { try clearing.wait(()) }
    }
    await expectLaws(Storage(storageName: "files", operations: operations), operations: 60)
    // Each key in a separate storage.
    let memory = MemoryStorage<Filename, Data>().usingStringKeys()
    var single = StorageOperations<String, Data>(
      read: .asynchronous { try await memory.singleKey($0).value() },
      write: .asynchronous { try await memory.singleKey($0.key).set($0.value) })
    single.remove = .asynchronous { try await memory.singleKey($0).removeAll() }
    single.removeAll = memory.operations.removeAll
    single.keys = memory.operations.keys
    single.update = .asynchronous { update in
      try await memory.singleKey(update.key).operations.update!(
        StorageUpdate(key: (), changing: update.change, recovering: update.recover))
    }
    await expectLaws(Storage(storageName: "single", operations: single))
  }

  @Test func `Objects keep the laws`() async throws {
    struct Note: Storable {
      let id: String
      var body: Data
      static let storedName = "Note"
    }
    let directory = try TemporaryDirectory()
    let objects = try ObjectStore(
      at: directory.appending("store"), StoreOptions(durability: .cache))
    let notes = objects.collection(Note.self).asStorage()
    // An object is stored under its own id, and refused under another.
    await #expect(throws: StorageError.self) {
      try await notes.set(Note(id: "a", body: Data()), forKey: "b")
    }
    try await notes.set(Note(id: "a", body: text("1")), forKey: "a")
    #expect(try await notes.update(forKey: "a") { $0.body = text("2") }.body == text("2"))
    #expect(try objects.object(Note.self, id: "a")?.body == text("2"))
    #expect(try await notes.keys() == ["a"])
    #expect(try await notes.contains("a"))
    try await notes.remove(forKey: "a")
    #expect(try await notes.value(forKey: "a") == nil)
    // As texts and bytes, by nothing but the storage's own operations.
    let sync = notes.makeSyncStorage()
    var operations = StorageOperations<String, Data>(
      read: StorageOperation { try sync.value(forKey: $0)?.body },
      write: .blocking { try sync.set(Note(id: $0.key, body: $0.value), forKey: $0.key) })
    operations.remove = .blocking { try sync.remove(forKey: $0) }
    operations.removeAll = .blocking { _ in try sync.removeAll() }
    operations.keys = .blocking { _ in try sync.keys() }
    operations.contains = .blocking { try sync.contains($0) }
    operations.update = .blocking { update in
      try sync.updateOrInsert(forKey: update.key) { note in
        let known = note.map { StorageEntry($0.body) }
        note = try update.applied { known }.map { Note(id: update.key, body: $0.value) }
      }.map { StorageEntry($0.body) }
    }
    // Identifiers that are equal in Swift are one object.
    await expectLaws(
      Storage(storageName: "notes", operations: operations), operations: 60,
      except: [.canonicallyEqualKeysAreTwo])
    objects.close()
  }
}

extension Storage {
  /// With the operations of another on the same values, but those for reading and writing.
  fileprivate func keeping(_ other: Storage) -> Storage {
    var result = operations
    result.update = other.operations.update
    result.fill = other.operations.fill
    return Storage(storageName: storageName, operations: result)
  }
}
