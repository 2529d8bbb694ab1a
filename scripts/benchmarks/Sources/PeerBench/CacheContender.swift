// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder

/// The typed cache: memory in front of the store, sets committed when the call returns.
final class CacheContender: BenchmarkSubject {
  let name = "Larder, memory and store"
  private let data: Dataset
  private let cache: PersistentCache<String, [UInt8]>

  init(_ store: SharedStore, _ data: Dataset) {
    self.data = data
    cache = PersistentCache(storage: store, namespace: "values")
  }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    var sum: UInt64 = 0
    for key in keys {
      let name = data.keys[Int(key)]
      guard let bytes = try recordingTimings(&times, { try cache.value(forKey: name) }) else {
        throw BenchFailure("A key is missing.")
      }
      sum &+= Dataset.first(bytes)
    }
    return sum
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    for key in keys {
      let (name, value) = (data.keys[Int(key)], data.values[(Int(key) + shift) % data.count])
      try recordingTimings(&times) { try cache.setValue(value, forKey: name) }
    }
  }

  func value(_ key: Int) throws -> [UInt8] { try cache.value(forKey: data.keys[key]) ?? [] }
}
