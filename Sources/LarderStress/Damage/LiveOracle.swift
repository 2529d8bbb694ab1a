// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import Synchronization

/// What the users of a store that is damaged under them know of each other: mapped memory beside
/// the store.
///
///     word   0 …  63   issued[key]         64 … 127   acknowledged[key]
///          128         reads               129        values found
///          130         writes              131        errors, all of them typed
///          132         every process ends when this is not 0
///          133         when files were removed last, in monotonic nanoseconds
///          140 …       per process: operations that got through (a write read back)
final class LiveOracle: Sendable {
  static let keyCount = 48

  enum Count: Int { case reads = 128, hits, writes, errors, stop, removal }

  private let region: MappedRegion

  init(path: String) throws {
    let file = try OwnedFile(path: path, creation: .createIfMissing)
    if try file.status.size < 4096 { try file.preallocate(4096) }
    region = try MappedRegion(sharing: file, count: 4096)
  }

  private func word(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (region.base + index * 8).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  private func load(_ index: Int) -> UInt64 {
    unsafe word(index).pointee.load(ordering: .sequentiallyConsistent)
  }

  func issue(_ key: Int) -> UInt64 {
    unsafe word(key).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
  }

  func issued(_ key: Int) -> UInt64 { load(key) }
  func acknowledged(_ key: Int) -> UInt64 { load(64 + key) }

  func acknowledge(_ key: Int, _ sequence: UInt64) {
    unsafe word(64 + key).pointee.max(sequence, ordering: .sequentiallyConsistent)
  }

  func add(_ count: Count) {
    unsafe word(count.rawValue).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  func value(_ count: Count) -> UInt64 { load(count.rawValue) }
  var isOver: Bool { value(.stop) != 0 }

  /// Whether files were removed a short while ago. A process that has them open goes on with them
  /// until it looks again; who opens meanwhile begins anew, so the two do not see each other.
  var isSplit: Bool {
    let last = value(.removal)
    return last != 0 && Clocks.monotonicNanoseconds() &- last < 3_000_000_000
  }

  func noteRemoval() {
    unsafe word(Count.removal.rawValue).pointee.store(
      Clocks.monotonicNanoseconds(), ordering: .sequentiallyConsistent)
  }

  func progress(_ process: Int) -> UInt64 { load(140 + process) }
  func addProgress(_ process: Int) {
    unsafe word(140 + process).pointee.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }
}
