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

// Defects measured in Shallows, M1 to M4, and their correct behaviour.

@Suite(.timeLimit(.minutes(60)))
struct DefectTests {
  @Test func `M1: eight threads set and get in one memory`() throws {
    let memory = MemoryStorage<Int, [Int]>(countLimit: 50)
    let threads = (0..<8).map { thread in
      JoinableThread { () -> Int in
        var foreign = 0
        for number in 0..<5000 {
          let key = (number &* 31 &+ thread) % 100
          try? memory.set([key, number], forKey: key)
          if let value = try? memory.value(forKey: key), value[0] != key { foreign += 1 }
          if number % 50 == 0 { try? memory.remove(forKey: key) }
        }
        return foreign
      }
    }
    #expect(threads.map { $0.join() } == [Int](repeating: 0, count: 8))
    #expect(try memory.keys().count <= 50)
  }

  @Test func `M2: a synchronous call in a completion of the same storage returns`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder()
    try await folder.set(text("1"), forKey: "a")
    let layered = MemoryStorage<Filename, Data>().combined(with: folder)
    let remote = MemoryStorage<String, Data>().combined(with: Remote())
    try await remote.set(text("1"), forKey: "a")
    for storage in [folder.usingStringKeys(), layered.usingStringKeys(), remote] {
      let sync = storage.makeSyncStorage()
      let found: Data? = try await withCheckedThrowingContinuation { continuation in
        storage.retrieve(forKey: "a") { first in
          storage.set(text("2"), forKey: "b") { _ in
            continuation.resume(
              with: Result {
                try sync.set(first.get(), forKey: "c")
                return try sync.retrieve(forKey: "c")
              })
          }
        }
      }
      #expect(found == text("1"))
      #expect(try await storage.retrieve(forKey: "b") == text("2"))
    }
  }

  @Test func `Every thread of Swift's pool may wait for asynchronous work at once`() async throws {
    let storage = MemoryStorage<String, Data>(countLimit: 1).combined(with: Remote())
    let sync = storage.makeSyncStorage()
    let count = ProcessInfo.processInfo.activeProcessorCount * 4
    let sum = try await withThrowingTaskGroup(of: Int.self) { group in
      for number in 0..<count {
        group.addTask {
          // One key for all: they take turns, with all threads of the pool blocked.
          for _ in 0..<20 {
            try sync.updateOrInsert(forKey: "all") { $0 = Data(($0 ?? Data()) + [1]) }
            try sync.set(Data([UInt8(number)]), forKey: "\(number)")
          }
          return try sync.retrieve(forKey: "\(number)") == Data([UInt8(number)]) ? 1 : 0
        }
      }
      return try await group.reduce(0, +)
    }
    #expect(sum == count)
    #expect(try await storage.retrieve(forKey: "all").count == count * 20)
  }

  @Test func `M3: a slow back never overwrites a newer value in front`() async throws {
    let memory = MemoryStorage<String, Int>()
    for isRemoved in [false, true] {
      let (asked, answer) = (Door(), Door())
      let back = ReadOnlyStorage<String, Int>(storageName: "slow") { _ in
        asked.open()
        await answer.pass()
        return 1
      }
      let storage = memory.backed(by: back)
      async let slow = storage.value(forKey: "key")
      await asked.pass()
      // Past the composition as well as through it.
      if isRemoved {
        try await storage.set(2, forKey: "key")
        try await memory.remove(forKey: "key")
      } else {
        try await memory.set(2, forKey: "key")
      }
      answer.open()
      #expect(try await slow == 1)
      #expect(try await memory.value(forKey: "key") == (isRemoved ? nil : 2))
      try await memory.removeAll()
    }
    let back = ReadOnlyStorage<String, Int>(storageName: "back") { _ in 1 }
    // Undisturbed, the front is filled.
    #expect(try await memory.backed(by: back).value(forKey: "key") == 1)
    #expect(try await memory.value(forKey: "key") == 1)
  }

  @Test(arguments: [0, 1, 2])
  func `M3: whatever races, front and back agree in the end`(kind: Int) async throws {
    for seed in Seed.announce("layers \(kind)").trials(20) {
      let directory = try TemporaryDirectory()
      let front = MemoryStorage<Filename, Data>(countLimit: kind == 2 ? 2 : .max)
      let back: Storage<Filename, Data>
      if kind == 0 {
        back = directory.folder().asStorage()
      } else {
        back = Remote().removable.mapKeys(to: Filename.self) { $0.rawValue }
      }
      // A front of the two methods only is guarded by the composition.
      let plain = Storage(
        storageName: "plain",
        operations: {
          var operations = StorageOperations<Filename, Data>(
            read: front.operations.read, write: front.operations.write)
          operations.remove = front.operations.remove
          operations.removeAll = front.operations.removeAll
          return operations
        }())
      let storage = (kind == 1 ? plain : front.asStorage()).combined(with: back)
      let keys: [Filename] = ["a", "b", "c"]
      await withTaskGroup(of: Void.self) { group in
        for task in 0..<6 {
          group.addTask {
            var random = seed.generator(stream: UInt64(task))
            for number in 0..<40 {
              let key = keys.randomElement(using: &random)!
              switch Int.random(in: 0..<10, using: &random) {
              case 0..<3: try? await storage.set(Data([UInt8(task), UInt8(number)]), forKey: key)
              case 3: try? await storage.remove(forKey: key)
              case 4: try? await front.remove(forKey: key)
              case 5: _ = try? await storage.updateOrInsert(forKey: key) { $0?.append(1) }
              default: _ = try? await storage.value(forKey: key)
              }
            }
          }
        }
      }
      for key in keys {
        let (inFront, inBack) = (
          try await front.value(forKey: key), try await back.value(forKey: key)
        )
        #expect(inFront == nil || inFront == inBack, "\(key), \(seed)")
        #expect(try await storage.value(forKey: key) == inBack, "\(key), \(seed)")
      }
    }
  }

  @Test func `M4: any key is a separate file inside the folder`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.folder("below/folder")
    let long = String(repeating: "k", count: 10_000)
    let keys =
      [
        "???", "???aaa", "", ".", "..", "../../out", "/etc/passwd", "a/b", "a\0b", "a\0", "a", "A",
        "CON", ".hidden", "%", "%25", "a%", "caf\u{E9}", "cafe\u{301}", "~", long, long + "x",
        String(repeating: "ü", count: 300), "a.value", ".lock-0",
      ] + StorageLaws.defaultHostileKeys
    for (number, key) in keys.enumerated() {
      try await folder.set(text("\(number)"), forKey: Filename(rawValue: key))
    }
    var last: [[UInt8]: Int] = [:]
    for (number, key) in keys.enumerated() { last[Array(key.utf8)] = number }
    for key in keys {
      let filename = Filename(rawValue: key)
      #expect(
        try await folder.value(forKey: filename) == text("\(last[Array(key.utf8)]!)"), "\(key)")
      #expect(filename.fileName.utf8.count <= 140)
      #expect(!filename.fileName.hasPrefix(".") && !filename.fileName.contains("/"))
    }
    #expect(Set(try await folder.keys().map { Array($0.rawValue.utf8) }) == Set(last.keys))
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["below"])
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: directory.appending("below"))
        == ["folder"])
    // Those that file systems may take for one name.
    #expect(Set(keys.map { Filename(rawValue: $0).fileName.lowercased() }).count == last.count)
  }
}
