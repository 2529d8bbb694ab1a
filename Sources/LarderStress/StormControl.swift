// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import Synchronization

// THE STORM'S MEMORY
//
// A small mapped file that outlives every killed process: per key the highest sequence number that
// was handed out and the highest that was acknowledged, and what the readers found.
//
//     word   0 …  63   issued[key]
//           64 … 127   acknowledged[key]
//          128         reads        129  misses of the cache (no value)
//          130         stale: older than acknowledged before the read
//          131         new then old, by one reader
//          132         torn: value and key, or value and check, do not belong together
//          133         lost: no value although one was acknowledged
//          134         errors reported
//          135         stop: everybody ends

/// What the processes of a storm know of each other outside the store.
final class StormControl: Sendable {
  static let keyCount = 24
  private let region: MappedRegion

  enum Count: Int, CaseIterable {
    case reads = 128
    case misses, stale, newThenOld, torn, lost, errors, stop
  }

  init(path: String) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    if try file.status.size < 4096 { try file.preallocate(4096) }
    region = try MappedRegion(sharing: file, count: 4096)
  }

  private func word(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (region.base + index * 8).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  func issue(_ key: Int) -> UInt64 {
    unsafe word(key).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
  }

  func acknowledge(_ key: Int, _ sequence: UInt64) {
    unsafe word(64 + key).pointee.max(sequence, ordering: .sequentiallyConsistent)
  }

  func acknowledged(_ key: Int) -> UInt64 {
    unsafe word(64 + key).pointee.load(ordering: .sequentiallyConsistent)
  }

  func add(_ count: Count, _ amount: UInt64 = 1) {
    unsafe word(count.rawValue).pointee.wrappingAdd(amount, ordering: .relaxed)
  }

  func value(_ count: Count) -> UInt64 {
    unsafe word(count.rawValue).pointee.load(ordering: .sequentiallyConsistent)
  }

  var isOver: Bool { value(.stop) != 0 }
}

/// What a storm stores: a value that knows its key and its place in the order of writes.
struct StormValue: Codable, Sendable {
  let key: Int
  let sequence: UInt64
  let check: UInt64
  let padding: [UInt8]

  init(key: Int, sequence: UInt64) {
    self.key = key
    self.sequence = sequence
    self.check = StormValue.check(key, sequence)
    // Now and then a value that goes into chunks.
    let size = sequence % 41 == 0 ? 40_000 : Int(sequence % 200)
    self.padding = [UInt8](repeating: UInt8(truncatingIfNeeded: sequence), count: size)
  }

  static func check(_ key: Int, _ sequence: UInt64) -> UInt64 {
    (sequence &* 0x9E37_79B9_7F4A_7C15) ^ UInt64(key)
  }

  func isWhole(for key: Int) -> Bool {
    self.key == key && check == StormValue.check(key, sequence)
      && padding.allSatisfy { $0 == UInt8(truncatingIfNeeded: sequence) }
  }
}
