// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderObjects
import LarderStorage
import LarderSystem
import LarderTesting
import Synchronization
import Testing

// Unusual keys, paths that are not files, folders that are deleted.

@Suite(.timeLimit(.minutes(60)))
struct BadInputTests {
  private static let keys = [
    "", "/", "a/b", "..", "../x", "/etc/passwd", "\0", "a\0b", "a\0", ".", "~", "\u{FEFF}",
    String(repeating: "k", count: 10_000), String(repeating: "k", count: 10_001),
    String(repeating: "ü/", count: 5000),
  ]

  @Test func `Keys with slashes, dots, zeros, of 10,000 characters and empty are keys`()
    async throws
  {
    struct Note: Storable {
      let id: String
      var body: Data
      static let storedName = "Note"
    }
    let directory = try TemporaryDirectory()
    let temporary = try TemporaryStore()
    let objects = try ObjectStore(
      at: directory.appending("objects"), StoreOptions(durability: .cache))
    let notes = objects.collection(Note.self).asStorage()
    let folder = directory.folder("below/folder").usingStringKeys()
    let storages: [Storage<String, Data>] = [
      MemoryStorage<String, Data>().asStorage(), NSCacheStorage<String, Data>().asStorage(), folder,
      temporary.store.storage("keys", keys: String.self, values: Data.self),
      PersistentCache<String, Data>(storage: nil).asStorage(),
      MemoryStorage<String, Data>().combined(with: folder),
    ]
    for storage in storages {
      for (number, key) in Self.keys.enumerated() {
        try await storage.set(text("\(number)"), forKey: key)
        try await storage.update(forKey: key) { $0 += text("!") }
      }
      for (number, key) in Self.keys.enumerated() {
        #expect(
          try await storage.value(forKey: key) == text("\(number)!"),
          "\(storage.storageName), \(key.prefix(10))")
        try await storage.singleKey(key).remove()
        #expect(try await storage.contains(key) == false)
      }
    }
    for key in Self.keys {
      try await notes.set(Note(id: key, body: text("1")), forKey: key)
      try await notes.update(forKey: key) { $0.body = text("2") }
      #expect(try await notes.value(forKey: key)?.body == text("2"))
    }
    #expect(try await Set(notes.keys()) == Set(Self.keys))
    // Nothing was made outside.
    #expect(try Set(FileSystem.names(in: directory.path)) == ["below", "objects"])
    #expect(try FileSystem.names(in: directory.appending("below")) == ["folder"])
    objects.close()
    try temporary.verifyAndClose()
  }

  @Test func `A non-file at the path of a file is an error and is not followed`() throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    try folder.set(text("1"), forKey: "good")
    let secret = directory.appending("secret")
    try text("secret").write(to: URL(fileURLWithPath: secret))
    let place = folder.fileURL(forFilename: "bad").path
    func isRefused() -> Bool {
      do {
        _ = try folder.value(forKey: "bad")
        return false
      } catch {
        return error is StorageError
      }
    }
    // A link, a folder, a pipe.
    try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: secret)
    #expect(isRefused())
    try folder.set(text("2"), forKey: "bad")
    #expect(try folder.value(forKey: "bad") == text("2"))
    try folder.remove(forKey: "bad")
    try FileManager.default.createDirectory(
      atPath: place, withIntermediateDirectories: false)
    #expect(isRefused())
    #expect(throws: StorageError.self) { try folder.set(text("3"), forKey: "bad") }
    try FileManager.default.removeItem(atPath: place)
    // Of no length, and of other programs.
    for bytes in [Data(), text("hello"), Data(count: 100_000)] {
      try bytes.write(to: URL(fileURLWithPath: place))
      #expect(isRefused())
    }
    try folder.set(text("4"), forKey: "bad")
    #expect(try folder.value(forKey: "bad") == text("4"))
    #expect(try Data(contentsOf: URL(fileURLWithPath: secret)) == text("secret"))
  }

  @Test func `An expiration that is not a number is a typed error, and none lives for ever`()
    async throws
  {
    let storage = MemoryStorage<String, Int>()
    let never = Date(timeIntervalSinceReferenceDate: .nan)
    do {
      try await storage.set(1, forKey: "a", expires: never)
      Issue.record("It was stored.")
    } catch StorageError.Code.unsupported {}
    try await storage.asStorage().operations.write(StorageWrite(key: "a", value: 1, expires: never))
    #expect(try await storage.value(forKey: "a") == nil)
    #expect(try await storage.keys() == [])
    try await storage.set(1, forKey: "a", expires: .distantFuture)
    #expect(try await storage.value(forKey: "a") == 1)
  }

  @Test func `A text that a property list reads as nil is a typed error and not stored`()
    async throws
  {
    let data = MemoryStorage<String, Data>()
    let lists = data.mapPlistObject([String: String?].self)
    do {
      try await lists.set(["nick": "$null"], forKey: "a")
      Issue.record("It was stored.")
    } catch StorageError.Code.unsupported {}
    #expect(try await data.value(forKey: "a") == nil)
    try await lists.set(["nick": "$nul", "other": nil], forKey: "a")
    #expect(try await lists.value(forKey: "a")?["nick"] == "$nul")
  }

  @Test func `A value that could not be read again is a typed error and not stored`() async throws {
    indirect enum Deep: Codable, Sendable { case leaf, node(Deep) }
    let data = MemoryStorage<String, Data>()
    let values = (0..<64).reduce(Deep.leaf) { deep, _ in .node(deep) }
    do {
      try await data.mapPlistObject(Deep.self).set(values, forKey: "a")
      Issue.record("It was stored.")
    } catch StorageError.Code.unsupported {}
    do {
      try await data.mapJSONObject([Decimal].self).set([1, .nan], forKey: "a")
      Issue.record("It was stored.")
    } catch StorageError.Code.unsupported {}
    #expect(try await data.value(forKey: "a") == nil)
    try await data.mapJSONObject([String].self).set(["NaN"], forKey: "a")
    #expect(try await data.mapJSONObject([String].self).value(forKey: "a") == ["NaN"])
  }

  /// Foundation's reading of these ends the process.
  @Test func `Documents that nest without end are undecodable`() async throws {
    let levels = 100_000
    let list =
      "<plist version=\"1.0\">" + String(repeating: "<array>", count: levels)
      + String(repeating: "</array>", count: levels) + "</plist>"
    let json = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
    let data = MemoryStorage<String, Data>(storage: ["list": text(list), "json": text(json)])
    for storage in [data.mapPlist(), data.mapJSON()] {
      for key in ["list", "json"] {
        do {
          _ = try await storage.value(forKey: key)
          Issue.record("It was read.")
        } catch StorageError.Code.undecodable {}
      }
    }
  }

  @Test func `Clearing a folder removes what is its own, and follows no link`() throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    let outside = directory.appending("outside")
    try FileManager.default.createDirectory(atPath: outside, withIntermediateDirectories: false)
    try text("kept").write(to: URL(fileURLWithPath: outside + "/a.value"))
    try folder.set(text("1"), forKey: "a")
    for name in ["b.value", "link"] {
      try FileManager.default.createSymbolicLink(
        atPath: directory.appending("folder/\(name)"), withDestinationPath: outside)
    }
    try folder.clear()
    #expect(try FileSystem.names(in: outside) == ["a.value"])
    // Something foreign is in it: it stays.
    #expect(try FileSystem.names(in: directory.appending("folder")) == ["link"])
    try folder.set(text("2"), forKey: "a")
    try FileManager.default.removeItem(atPath: directory.appending("folder/link"))
    try folder.clear()
    #expect(!FileManager.default.fileExists(atPath: directory.appending("folder")))
    // A whole tree goes without what its links lead to.
    let tree = directory.appending("tree")
    try FileManager.default.createDirectory(
      atPath: tree + "/x/y", withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: tree + "/x/link", withDestinationPath: outside)
    FileSystem.removeTree(tree)
    #expect(!FileManager.default.fileExists(atPath: tree))
    let link = directory.appending("link")
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: outside)
    FileSystem.removeTree(link)
    #expect(!FileManager.default.fileExists(atPath: link))
    #expect(try FileSystem.names(in: outside) == ["a.value"])
  }

  @Test func `Clearing does not interrupt concurrent writes`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("folder")
    let ended = Mutex(false)
    let clearing = JoinableThread { () -> (any Error)? in
      let folder = DiskFolderStorage(folderURL: URL(fileURLWithPath: path))
      do {
        while !ended.withLock({ $0 }) {
          try folder.clear()
          OSThread.yield()
        }
        return nil
      } catch {
        return error
      }
    }
    let writers = (0..<3).map { thread in
      JoinableThread { () -> (any Error)? in
        let folder = DiskFolderStorage(folderURL: URL(fileURLWithPath: path)).makeSyncStorage()
        let key = Filename(rawValue: "\(thread)")
        do {
          for number in 0..<150 {
            try folder.set(text("\(number)"), forKey: key)
            if let found = try folder.value(forKey: key), found != text("\(number)") {
              throw Broken()
            }
            _ = try folder.updateOrInsert(forKey: "all") { $0 = $0 ?? Data() }
          }
          return nil
        } catch {
          return error
        }
      }
    }
    let errors = writers.compactMap { $0.join() }
    ended.withLock { $0 = true }
    #expect(errors.isEmpty, "\(errors)")
    let error = clearing.join()
    #expect(error == nil, "\(String(describing: error))")
  }

  @Test func `A folder that vanishes again and again loses values and nothing else`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("folder")
    let ended = Mutex(false)
    let vanishing = JoinableThread {
      while !ended.withLock({ $0 }) {
        FileSystem.removeTree(path)
        for _ in 0..<50 { OSThread.yield() }
      }
    }
    let users = (0..<3).map { thread in
      JoinableThread { () -> [String] in
        let folder = DiskFolderStorage(folderURL: URL(fileURLWithPath: path))
        let layers = MemoryStorage<Filename, Data>(countLimit: 1).combined(with: folder)
          .makeSyncStorage()
        let key = Filename(rawValue: "\(thread)")
        var wrong: [String] = []
        for number in 0..<150 {
          do {
            try folder.set(text("\(number)"), forKey: key)
            if let found = try folder.value(forKey: key), found != text("\(number)") {
              wrong.append("\(number): \(found)")
            }
            _ = try layers.updateOrInsert(forKey: key) { $0 = text("\(number)") }
            try folder.remove(forKey: key)
          } catch StorageError.Code.inaccessible {
            // It went more often than a write tries.
          } catch {
            wrong.append("\(error)")
          }
        }
        return wrong
      }
    }
    let wrong = users.flatMap { $0.join() }
    ended.withLock { $0 = true }
    vanishing.join()
    #expect(wrong.isEmpty, "\(wrong)")
    let folder = directory.folder()
    try folder.set(text("after"), forKey: "a")
    #expect(try folder.value(forKey: "a") == text("after"))
  }

  @Test func `A backfill is not stored in a folder that was deleted and created again`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    let (asked, answer) = (Door(), Door())
    let back = ReadOnlyStorage<Filename, Data>(storageName: "slow") { _ in
      asked.open()
      await answer.pass()
      return text("old")
    }
    try await folder.set(text("1"), forKey: "other")
    async let slow = folder.backed(by: back).value(forKey: "a")
    await asked.pass()
    // The same number of writes as before, in a new folder.
    try FileManager.default.removeItem(atPath: folder.folderURL.path)
    try await folder.set(text("new"), forKey: "a")
    try await folder.remove(forKey: "a")
    answer.open()
    #expect(try await slow == text("old"))
    #expect(try await folder.value(forKey: "a") == nil)
    // Undisturbed, it is, also in a folder that is not there yet.
    try folder.clear()
    #expect(try await folder.backed(by: back).value(forKey: "a") == text("old"))
    #expect(try await folder.value(forKey: "a") == text("old"))
  }
}
