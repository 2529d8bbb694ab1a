// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline
import Larder
import Synchronization

/// The store itself: every get goes to the file.
final class StoreContender: BenchmarkSubject {
  let name: String
  let store: SharedStore
  private let data: Dataset
  private let namespace: StoreNamespace

  init(
    in directory: String, _ data: Dataset, _ durability: Durability = .cache, loads: Bool = true
  ) throws {
    self.data = data
    name = durability == .cache ? "Larder, store" : "Larder, \(durability)"
    // Room for all values and their chunks: nothing is evicted.
    let budget = ByteCount(bytes: max(256 << 20, data.count * (data.size + 128) * 2))
    store = try SharedStore(
      at: directory + "/larder-\(durability)", .init(durability: durability, budget: budget))
    namespace = try store.namespace("values")
    let (keys, values) = (data.keys, data.values)
    for start in stride(from: 0, to: loads ? data.count : 0, by: 1000) {
      try store.write { transaction in
        for key in start..<min(start + 1000, keys.count) {
          try transaction.setBytes(values[key], forKey: keys[key], in: "values")
        }
      }
    }
  }

  deinit { store.close() }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    var sum: UInt64 = 0
    for key in keys {
      let name = data.keys[Int(key)]
      guard let bytes = try recordingTimings(&times, { try namespace.bytes(forKey: name) }) else {
        throw BenchFailure("A key is missing.")
      }
      sum &+= Dataset.first(bytes)
    }
    return sum
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    for key in keys {
      let (name, value) = (data.keys[Int(key)], data.values[(Int(key) + shift) % data.count])
      try recordingTimings(&times) { try namespace.setBytes(value, forKey: name) }
    }
  }

  /// Sets keys in one transaction.
  func setTogether(_ keys: [UInt32], shift: Int) throws {
    let (count, names, values) = (data.count, data.keys, data.values)
    try store.write { transaction in
      for key in keys {
        try transaction.setBytes(
          values[(Int(key) + shift) % count], forKey: names[Int(key)], in: "values")
      }
    }
  }

  func value(_ key: Int) throws -> [UInt8] { try namespace.bytes(forKey: data.keys[key]) ?? [] }
}

/// What is in this process's memory. A call is too short for a clock: of groups of them, and each
/// key several times.
final class MemoryContender: BenchmarkSubject {
  let name: String
  private let data: Dataset
  private let read: (String) throws -> [UInt8]?
  static let group = 50
  private static let passes = 40

  private init(_ name: String, _ data: Dataset, _ read: @escaping (String) throws -> [UInt8]?) {
    self.name = name
    self.data = data
    self.read = read
  }

  /// A cache in front of a store that holds the data.
  static func cache(_ store: SharedStore, _ data: Dataset) -> MemoryContender {
    let cache = PersistentCache<String, [UInt8]>(storage: store, namespace: "values")
    return MemoryContender("Larder, memory", data) { cache[$0] }
  }

  /// What a program has without a cache: the limit.
  static func dictionary(_ data: Dataset) -> MemoryContender {
    final class Guarded: Sendable { let values = Mutex<[String: [UInt8]]>([:]) }
    let guarded = Guarded()
    guarded.values.withLock { values in
      for (key, value) in zip(data.keys, data.values) { values[key] = value }
    }
    return MemoryContender("Dictionary in a Mutex", data) { key in
      guarded.values.withLock { $0[key] }
    }
  }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    let names = keys.map { data.keys[Int($0)] }
    var sum: UInt64 = 0
    for _ in 0..<Self.passes {
      sum = 0
      for start in stride(from: 0, to: names.count, by: Self.group) {
        let end = min(start + Self.group, names.count)
        let time = bench_now()
        for index in start..<end {
          guard let bytes = try read(names[index]) else { throw BenchFailure("A key is missing.") }
          sum &+= Dataset.first(bytes)
        }
        times.append(UInt32(clamping: (bench_now() - time) / UInt64(end - start)))
      }
    }
    return sum
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    throw BenchFailure("Memory is only read here.")
  }

  func value(_ key: Int) throws -> [UInt8] { try read(data.keys[key]) ?? [] }
}
