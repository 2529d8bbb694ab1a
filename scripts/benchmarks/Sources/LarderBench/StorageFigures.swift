// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LMDBBaseline
import Larder
import Synchronization

/// What the storage algebra costs on a hit: 1,000 hot keys, a struct of five fields.
struct StorageFigures {
  let isQuick: Bool

  private static let count = 1000
  private var rounds: Int { isQuick ? 7 : 41 }
  private var repeats: Int { isQuick ? 100 : 400 }

  /// A dictionary behind a mutex: what a program has without a storage.
  private final class Guarded: Sendable {
    let values = Mutex<[String: Person]>([:])
  }

  private func keys() -> [String] {
    var numbers = Numbers(seed: 5)
    return (0..<Self.count).map { "person-\($0)" }.shuffled(using: &numbers)
  }

  /// The time of one read, over all keys in their order, many times.
  @inline(__always)
  private func time(
    _ keys: [String], _ sum: inout Int, _ read: (String) throws -> Person?
  ) throws -> Double {
    var mine = 0
    let time = try Rounds.nanoseconds {
      for _ in 0..<repeats {
        for key in keys {
          guard let person = try read(key) else { throw BenchFailure("A hot key is missing.") }
          mine &+= person.id &+ person.name.utf8.count
        }
      }
    }
    sum = mine
    return time / Double(repeats * keys.count)
  }

  /// A bounded storage in memory beside an unbounded dictionary in a mutex.
  func memoryGet() throws -> Figure {
    let memory = MemoryStorage<String, Person>(countLimit: Self.count * 2)
    let guarded = Guarded()
    for number in 0..<Self.count {
      try memory.set(.sample(number), forKey: "person-\(number)")
      guarded.values.withLock { $0["person-\(number)"] = .sample(number) }
    }
    let keys = keys()
    var (own, other) = (0, 0)
    let result = try Rounds.compare(count: rounds) { _ in
      try time(keys, &own) { try memory.value(forKey: $0) }
    } rival: { _ in
      try time(keys, &other) { key in guarded.values.withLock { $0[key] } }
    }
    guard own == other else { throw BenchFailure("The storage and the dictionary differ.") }
    return Figure(
      id: "storage.memory_get", value: result.ratio, unit: "x", bar: .atMost(3),
      own: result.own, rival: "a Dictionary in a Mutex", rivalValue: result.rival,
      rivalUnit: "ns", spread: result.spread)
  }

  /// What three layers add to a hit in the first: memory, memory, files, in their synchronous form,
  /// less the first memory alone.
  func layers() throws -> Figure {
    let memory = MemoryStorage<Filename, Person>(countLimit: Self.count * 2)
    let folder = DiskFolderStorage(folderURL: .init(fileURLWithPath: "/nonexistent/larder"))
    let layered = memory.combined(
      with: MemoryStorage<Filename, Person>().combined(with: folder.mapJSONObject(Person.self))
    ).makeSyncStorage()
    let keys = keys()
    let names = keys.map { Filename(rawValue: $0) }
    for (number, name) in names.enumerated() { try memory.set(.sample(number), forKey: name) }
    func time(_ read: (Filename) throws -> Person?) throws -> Double {
      var sum = 0
      let time = try Rounds.nanoseconds {
        for _ in 0..<repeats {
          for name in names {
            guard let person = try read(name) else { throw BenchFailure("A hot key is missing.") }
            sum &+= person.id
          }
        }
      }
      guard sum == repeats * (Self.count - 1) * Self.count / 2 else {
        throw BenchFailure("The layers give other values.")
      }
      return time / Double(repeats * names.count)
    }
    var differences: [Double] = []
    let result = try Rounds.compare(count: rounds) { _ in
      let own = try time { try layered.value(forKey: $0) }
      differences.append(own)
      return own
    } rival: { _ in
      let alone = try time { try memory.value(forKey: $0) }
      differences[differences.count - 1] -= alone
      return alone
    }
    return Figure(
      id: "storage.layers_ns", value: Rounds.median(Array(differences.dropFirst())), unit: "ns",
      bar: .atMost(150), own: result.own, rival: "the first layer alone",
      rivalValue: result.rival, rivalUnit: "ns",
      spread: Rounds.quartiles(Array(differences.dropFirst())))
  }
}
