// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderStorage
import LarderSystem
import LarderTestSupport
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct DiskTests {
  @Test func `Updates of one file by several processes lose nothing`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("folder")
    let peers = try (0..<3).map { _ in try TestExecutable.peer.start() }
    for peer in peers { try peer.send("folder \(path) count 100") }
    for peer in peers { try peer.expect("ok") }
    let folder = directory.folder()
    #expect(try folder.value(forKey: "all") == text("300"))
    #expect(try folder.keys().count == 4)
    for peer in peers { peer.closeInput() }
    for peer in peers { #expect(try peer.wait() == .exited(0)) }
  }

  @Test func `A killed writer leaves no half of a file, and its rests are tidied up`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("folder")
    let folder = directory.folder()
    for _ in 0..<5 {
      let peer = try TestExecutable.peer.start()
      try peer.send("folder \(path) fill 0")
      var seen = 0
      while seen < 20 {
        guard let value = try folder.value(forKey: "big") else { continue }
        #expect(value.count == 200_000 && Set(value).count == 1)
        seen += 1
      }
      peer.kill()
      _ = try peer.wait()
    }
    _ = directory.folder()
    let left = try FileSystem.names(in: path).filter { $0.hasPrefix(".new-") }
    #expect(left == [])
    try folder.set(text("after"), forKey: "big")
    #expect(try folder.value(forKey: "big") == text("after"))
  }

  @Test func `A file that is damaged in any way is an error that names it, never a value`() throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    try folder.set(text("a value of some length"), forKey: "key")
    let url = folder.fileURL(forFilename: "key")
    let good = try Data(contentsOf: url)
    var random = Seed.announce("damage").generator()
    for round in 0..<200 {
      var bad = good
      switch round % 3 {
      case 0: bad = good.prefix(Int.random(in: 0..<good.count, using: &random))
      case 1: bad[Int.random(in: 0..<good.count, using: &random)] ^= 1 << UInt8(round / 3 % 8)
      default: bad.append(7)
      }
      try bad.write(to: url)
      #expect { try folder.value(forKey: "key") } throws: { error in
        (error as? StorageError)?.code == .undecodable && "\(error)".contains(url.path)
      }
    }
    #expect(throws: StorageError.self) { try folder.keys() }
    let lenient = folder.recovering(.readErrorsAsMisses).makeSyncStorage()
    #expect(try lenient.value(forKey: "key") == nil)
    try folder.set(text("new"), forKey: "key")
    #expect(try folder.value(forKey: "key") == text("new"))
    // The file of another key under this one's name.
    try FileManager.default.copyItem(at: url, to: folder.fileURL(forFilename: "other"))
    #expect { try folder.value(forKey: "other") } throws: { $0 as? StorageError != nil }
  }

  @Test func `A folder that vanishes is made again by the next write`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder("deep/folder")
    #expect(try await folder.value(forKey: "a") == nil)
    #expect(try await folder.keys() == [])
    try await folder.remove(forKey: "a")
    try await folder.removeAll()
    #expect(!FileManager.default.fileExists(atPath: folder.folderURL.path))
    for round in 0..<3 {
      try await folder.set(text("\(round)"), forKey: "a")
      #expect(try await folder.value(forKey: "a") == text("\(round)"))
      try FileManager.default.removeItem(atPath: directory.appending("deep"))
      #expect(try await folder.value(forKey: "a") == nil)
      #expect(try await folder.updateOrInsert(forKey: "b") { $0 = text("b") } == text("b"))
    }
    try folder.clear()
    #expect(!FileManager.default.fileExists(atPath: folder.folderURL.path))
    let strict = DiskStorage(creatingDirectories: false).folder(
      at: URL(fileURLWithPath: directory.appending("none")))
    #expect { try strict.set(Data(), forKey: "a") } throws: {
      ($0 as? StorageError)?.code == .inaccessible
    }
    // A file where the folder should be.
    try text("file").write(to: URL(fileURLWithPath: directory.appending("file")))
    let blocked = directory.folder("file")
    #expect { try blocked.set(Data(), forKey: "a") } throws: {
      ($0 as? StorageError)?.code == .inaccessible
    }
  }

  @Test func `Values in memory and in files expire, and backfills keep the expiration time`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let clock = ManualClock()
    let now: @Sendable () -> Date = {
      Date(timeIntervalSince1970: Double(clock.now) / 1000)
    }
    clock.set(to: 1_000_000_000)
    let disk = DiskFolderStorage(
      folderURL: URL(fileURLWithPath: directory.appending("folder")), now: now)
    let memory = MemoryStorage<Filename, Data>(now: now)
    let storage = memory.combined(with: disk)
    try await storage.set(text("1"), forKey: "a", expires: now().addingTimeInterval(10))
    try await memory.removeAll()
    #expect(try await storage.value(forKey: "a") == text("1"))
    #expect(try await memory.value(forKey: "a") == text("1"))
    clock.set(to: 1_000_010_000)
    #expect(try await memory.value(forKey: "a") == nil)
    #expect(try await disk.value(forKey: "a") == nil)
    #expect(try await storage.contains("a") == false)
    #expect(try await storage.keys() == [])
    await #expect(throws: StorageError.self) {
      try await Remote().set(Data(), forKey: "a", expiresIn: .seconds(1))
    }
  }

  @Test func `A plain file is replaced at once and read as it is`() async throws {
    let directory = try TemporaryDirectory()
    let url = URL(fileURLWithPath: directory.appending("below/settings.json"))
    let settings = DiskStorage.main.singleKey(url).mapJSONObject([String: Int].self)
    #expect(try await settings.value() == nil)
    try await settings.set(["a": 1])
    #expect(try await settings.update { $0["b"] = 2 } == ["a": 1, "b": 2])
    #expect(
      try JSONDecoder().decode([String: Int].self, from: Data(contentsOf: url)) == ["a": 1, "b": 2])
    try text("no JSON").write(to: url)
    do {
      _ = try await settings.value()
      Issue.record("It was read.")
    } catch StorageError.Code.undecodable {
    }
    try await settings.remove()
    #expect(try await settings.value() == nil)
    let folder = DiskStorage.url(forFolder: "../../x/../y", in: .cachesDirectory)
    #expect(folder.path.hasSuffix("/x/y") && !folder.path.contains(".."))
  }

  @Test func `A URL that is not a file is an error and touches no file`() throws {
    let directory = try TemporaryDirectory()
    let place = directory.appending("file")
    try text("mine").write(to: URL(fileURLWithPath: place))
    let remote = try #require(URL(string: "https://example.com" + place))
    func isRefused(_ body: () throws -> Void) -> Bool {
      do {
        try body()
        return false
      } catch { return (error as? StorageError)?.code == .unsupported }
    }
    #expect(isRefused { try DiskStorage.main.set(text("1"), forKey: remote) })
    #expect(isRefused { _ = try DiskStorage.main.value(forKey: remote) })
    #expect(isRefused { try DiskStorage.main.remove(forKey: remote) })
    #expect(
      isRefused {
        _ = try DiskStorage.main.makeSyncStorage().updateOrInsert(forKey: remote) { _ in }
      })
    let below = try #require(URL(string: "https://example.com" + directory.appending("folder")))
    let folder = DiskFolderStorage(folderURL: below)
    #expect(isRefused { try folder.set(text("1"), forKey: "a") })
    #expect(isRefused { _ = try folder.value(forKey: "a") })
    #expect(isRefused { _ = try folder.keys() })
    #expect(isRefused { try folder.remove(forKey: "a") })
    #expect(isRefused { try folder.clear() })
    #expect(try FileSystem.names(in: directory.path) == ["file"])
    #expect(try Data(contentsOf: URL(fileURLWithPath: place)) == text("mine"))
    // A device has no value, and is not waited for.
    #expect {
      try DiskStorage.main.value(forKey: URL(fileURLWithPath: "/dev/zero"))
    } throws: {
      ($0 as? StorageError)?.code == .undecodable
    }
  }

  @Test func `Lock files with foreign contents still lock`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    for length in [0, 7, 16, 40] {
      try await folder.set(text("1"), forKey: "a")
      for stripe in 0..<16 {
        let name = ".lock-" + String(stripe, radix: 16)
        try Data(count: length).write(to: folder.folderURL.appendingPathComponent(name))
      }
      let back = MemoryStorage<Filename, Data>(storage: ["b": text("back")])
      #expect(try await folder.backed(by: back).value(forKey: "b") == text("back"))
      #expect(try await folder.value(forKey: "b") == text("back"))
      try await folder.removeAll()
      #expect(try await folder.keys() == [])
    }
  }

  @Test(.enabled(if: SmallFileSystem.isAvailable, SmallFileSystem.reason))
  func `A full disk is an error, keeps what there was, and removing gives room`() throws {
    let directory = try TemporaryDirectory()
    let disk = directory.appending("disk")
    try FileManager.default.createDirectory(atPath: disk, withIntermediateDirectories: false)
    try SmallFileSystem.with(kilobytes: 256, at: disk) { try fillAndEmpty(directory, disk) }
  }

  private func fillAndEmpty(_ directory: TemporaryDirectory, _ disk: String) throws {
    for removesAll in [false, true] {
      let folder = directory.folder("disk/folder")
      try folder.set(text("kept"), forKey: "a")
      #expect { try folder.set(Data(count: 1_000_000), forKey: "a") } throws: {
        ($0 as? StorageError)?.code == .inaccessible
      }
      #expect(try folder.value(forKey: "a") == text("kept"))
      // Not a block is left.
      let ballast = try OwnedFile(path: disk + "/ballast", creation: .createIfMissing)
      var size = 0
      for block in [4096, 512, 1] {
        while (try? ballast.write([UInt8](repeating: 1, count: block), at: size)) != nil {
          size += block
        }
      }
      #expect(throws: StorageError.self) { try folder.set(text("more"), forKey: "b") }
      #expect(try folder.value(forKey: "a") == text("kept"))
      if removesAll { try folder.removeAll() } else { try folder.remove(forKey: "a") }
      #expect(try folder.value(forKey: "a") == nil)
      try folder.set(text("again"), forKey: "a")
      #expect(try folder.value(forKey: "a") == text("again"))
      #expect(
        try FileSystem.names(in: disk + "/folder").contains { $0.hasPrefix(".new-") } == false)
      try ballast.truncate(to: 0)
      try folder.clear()
    }
  }

  @Test func `A limit of file sizes is an error, no signal`() throws {
    let directory = try TemporaryDirectory()
    let peer = try TestExecutable.peer.start()
    try peer.send("folder \(directory.appending("folder")) limited 100000")
    try peer.expect("inaccessible kept")
    peer.closeInput()
    #expect(try peer.wait() == .exited(0))
  }

  @Test func `SHA-256 is that of FIPS 180-4`() {
    // The examples published with the standard.
    #expect(
      SHA256.hexadecimal(Array("abc".utf8))
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    #expect(
      SHA256.hexadecimal([])
        == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    #expect(
      SHA256.hexadecimal(
        Array("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".utf8))
        == "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1")
  }
}
