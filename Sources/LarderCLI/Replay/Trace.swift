// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderEngine

/// A trace: the accesses of a program to a cache, with keys numbered in the order of their first
/// access.
struct Trace: Equatable {
  /// The key of each access.
  private(set) var keys: [Int32] = []
  /// The size of each access in bytes; empty if the trace has no sizes.
  private(set) var sizes: [Int32] = []
  /// The bytes of each distinct key in a store.
  private var keyLengths: [UInt8] = []
  /// The operation of each access; empty if all are gets.
  private var operations: [Operation] = []
  /// The first accesses, which fill a cache and are not counted.
  var warmUp = 0

  /// The effect of an access on a cache.
  enum Operation: UInt8 {
    /// A get, and after a miss a set.
    case get
    /// A set without a get, which is neither a hit nor a miss.
    case put
    case remove
  }

  /// The size of a value in a trace without sizes.
  static let fixedSize = 16
  /// The largest size of an access.
  static let largestSize = 1 << 30

  var count: Int { keys.count }
  /// The number of distinct keys.
  var keyCount: Int { keyLengths.count }
  var hasSizes: Bool { !sizes.isEmpty }

  /// The limit of a cache.
  enum Capacity: Hashable {
    case entries(Int)
    case bytes(Int)

    var number: Int {
      switch self {
      case .entries(let number), .bytes(let number): number
      }
    }

    var isEntries: Bool { if case .entries = self { true } else { false } }

    /// The capacity with its unit.
    var text: String {
      switch self {
      case .entries(let count): TextLayout.count(count, "entry", "entries")
      case .bytes(let count): "\(ByteCount(bytes: count))"
      }
    }
  }

  /// Adds an access.
  ///
  /// - Parameters:
  ///   - key: The number of the key: at most the number of distinct keys so far.
  ///   - size: The size, or nil for a trace without sizes.
  ///   - operation: The effect of the access. A trace in a file has gets only.
  mutating func append(_ key: Int32, size: Int32? = nil, _ operation: Operation = .get) {
    if operation != .get, operations.isEmpty {
      operations = [Operation](repeating: .get, count: count)
    }
    if operation != .get || !operations.isEmpty { operations.append(operation) }
    keys.append(key)
    if let size { sizes.append(size) }
    if key == keyCount { keyLengths.append(UInt8(EncodedKey(Int(key)).bytes.count)) }
  }

  func operation(_ index: Int) -> Operation {
    operations.isEmpty ? .get : operations[index]
  }

  func size(_ index: Int) -> Int { hasSizes ? Int(sizes[index]) : Self.fixedSize }

  /// Returns the bytes of an entry, as the budget of a store counts it.
  func cost(_ index: Int) -> Int {
    EntryHeader.size + Int(keyLengths[Int(keys[index])]) + size(index)
  }

  /// Returns a byte budget that does not limit a store of `entries` entries.
  func ampleBudget(entries: Int) -> Int {
    var largest = [Int](repeating: 0, count: keyCount)
    for index in keys.indices {
      let key = Int(keys[index])
      largest[key] = max(largest[key], cost(index))
    }
    let all = largest.reduce(0, +)
    let (some, isMore) = (largest.max() ?? 0).multipliedReportingOverflow(by: entries)
    return (isMore ? all : min(all, some)) + 16 << 20
  }

  // MARK: The file for worker processes

  // A count of accesses, a one if there are sizes, all keys, all sizes: integers of four bytes, the
  // lowest first.

  /// The contents of the file.
  var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(4 * (2 + keys.count + sizes.count))
    func append(_ number: Int32) {
      for shift in stride(from: 0, to: 32, by: 8) {
        bytes.append(UInt8(truncatingIfNeeded: number >> Int32(shift)))
      }
    }
    append(Int32(keys.count))
    append(hasSizes ? 1 : 0)
    keys.forEach(append)
    sizes.forEach(append)
    return bytes
  }

  init() {}

  /// Reads the contents of the file; returns nil if they are not complete.
  init?(bytes: [UInt8]) {
    func number(_ index: Int) -> Int32 {
      let start = index * 4
      return Int32(bytes[start]) | Int32(bytes[start + 1]) << 8 | Int32(bytes[start + 2]) << 16
        | Int32(bytes[start + 3]) << 24
    }
    guard bytes.count >= 8 else { return nil }
    let (count, hasSizes) = (Int(number(0)), number(1) == 1)
    guard count >= 0, bytes.count == 4 * (2 + count * (hasSizes ? 2 : 1)) else { return nil }
    for index in 0..<count {
      append(number(2 + index), size: hasSizes ? number(2 + count + index) : nil)
    }
  }
}
#endif
