// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LMDBBaseline
import Larder

/// 100,000 keys with values of 256 bytes, in a store and in the rival's environment.
final class StoreDataset {
  static let count = 100_000
  static let size = 256

  let store: SharedStore
  /// Whether both write through LMDB's map: the rival does as the store does.
  let usesWriteMap: Bool
  let namespace: StoreNamespace
  let rival: OpaquePointer
  let keys: [String]
  let values: [[UInt8]]
  private let flat: UnsafeMutableBufferPointer<UInt8>

  init(in directory: String) throws {
    let (count, size) = (Self.count, Self.size)
    var numbers = Numbers(seed: 1)
    flat = .allocate(capacity: count * size)
    for index in flat.indices { flat[index] = UInt8(truncatingIfNeeded: numbers.next()) }
    let flat = flat
    let values = (0..<count).map { Array(flat[$0 * size..<($0 + 1) * size]) }
    let keys = (0..<count).map { index in
      let digits = String(index)
      return "key-" + String(repeating: "0", count: 6 - digits.count) + digits
    }
    self.values = values
    self.keys = keys
    let order = Self.order(0)
    store = try SharedStore(at: directory + "/store", .init(budget: .megabytes(256)))
    usesWriteMap = try store.statistics().usesWriteMap
    try Files.make(directory + "/rival")
    guard
      let opened = rival_open(
        directory + "/rival", 4 << 30, UInt32(count), flat.baseAddress!, size, order,
        usesWriteMap ? 1 : 0)
    else { throw BenchFailure("The rival could not be opened.") }
    rival = opened
    namespace = try store.namespace("values")
    for start in stride(from: 0, to: count, by: 1000) {
      try store.write { transaction in
        for key in order[start..<start + 1000] {
          try transaction.setBytes(values[Int(key)], forKey: keys[Int(key)], in: "values")
        }
      }
    }
    try verify()
  }

  deinit {
    rival_close(rival)
    store.close()
    flat.deallocate()
  }

  /// All keys, shuffled.
  static func order(_ round: Int) -> [UInt32] {
    var numbers = Numbers(seed: UInt64(round) + 17)
    return (0..<UInt32(count)).shuffled(using: &numbers)
  }

  /// Throws unless both hold the same bytes for every key.
  func verify() throws {
    var theirs = [UInt8](repeating: 0, count: 4096)
    for index in 0..<Self.count {
      let count = rival_value(rival, UInt32(index), &theirs)
      guard let ours = try namespace.bytes(forKey: keys[index]), ours.count == count,
        ours.elementsEqual(theirs.prefix(count))
      else { throw BenchFailure("The store and its rival differ at \(keys[index]).") }
    }
  }
}
