// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// LEASES
//
// The table's half of single flight: which keys are being computed right now. The other half is a
// kernel lock in `leases`, which decides who computes; the slot here lets a writer of the same key
// forbid the computed result from being stored.
//
// The leader fills a slot, then reads the store; a writer announces its label, then looks through
// the slots. Sequential consistency orders the two: either the writer sees the lease and cancels
// it, or the leader sees the writer's label and takes a snapshot that contains its transaction.

/// A lease held in the table.
package struct Lease: Sendable, Hashable {
  let index: Int
}

extension SharedTable {
  // The state word: the phase in the low byte, the owner's process slot + 1 above it, so that a
  // slot whose owner died at any instruction can be told and freed.
  private static var free: UInt64 { 0 }
  private static var filling: UInt64 { 1 }
  private static var active: UInt64 { 2 }
  private static var cancelled: UInt64 { 3 }

  private static func phase(_ state: UInt64) -> UInt64 { state & 0xFF }

  private func offset(lease index: Int) -> Int {
    SharedTableLayout.leases + index * SharedTableLayout.leaseSize
  }

  /// Registers a computation for a key's hash; `nil` when every slot is taken.
  package func takeLease(hash: UInt64, namespace: UInt32, process: Int) -> Lease? {
    let owner = UInt64(process + 1) << 8
    for index in 0..<SharedTableLayout.leaseCount {
      let offset = offset(lease: index)
      let state = unsafe word(offset)
      guard unsafe state.pointee.load(ordering: .relaxed) == Self.free else { continue }
      let (taken, _) = unsafe state.pointee.compareExchange(
        expected: Self.free, desired: owner | Self.filling, ordering: .acquiringAndReleasing)
      guard taken else { continue }
      unsafe word(offset + 8).pointee.store(hash, ordering: .relaxed)
      unsafe word(offset + 16).pointee.store(UInt64(namespace), ordering: .relaxed)
      raiseLeasesInUse(to: UInt32(index + 1))
      unsafe state.pointee.store(owner | Self.active, ordering: .sequentiallyConsistent)
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      return Lease(index: index)
    }
    return nil
  }

  private func raiseLeasesInUse(to count: UInt32) {
    let address = unsafe half(SharedTableLayout.leasesInUse)
    var current = unsafe address.pointee.load(ordering: .relaxed)
    while current < count {
      let (done, now) = unsafe address.pointee.compareExchange(
        expected: current, desired: count, ordering: .sequentiallyConsistent)
      if done { return }
      current = now
    }
  }

  private var usedLeases: Int {
    let count = unsafe half(SharedTableLayout.leasesInUse).pointee.load(
      ordering: .sequentiallyConsistent)
    return min(Int(count), SharedTableLayout.leaseCount)
  }

  package func dropLease(_ lease: Lease) {
    unsafe word(offset(lease: lease.index)).pointee.store(Self.free, ordering: .releasing)
  }

  /// Whether the lease still allows its result to be stored. Under the writer lock.
  package func isValid(_ lease: Lease) -> Bool {
    let state = unsafe word(offset(lease: lease.index)).pointee.load(
      ordering: .sequentiallyConsistent)
    return Self.phase(state) == Self.active
  }

  /// Under the writer lock: a put or remove of a key forbids computed results for it.
  package func cancelLeases(hash: UInt64) {
    cancelLeases { unsafe word($0 + 8).pointee.load(ordering: .relaxed) == hash }
  }

  /// Under the writer lock: clearing a namespace forbids computed results for all its keys.
  package func cancelLeases(namespace: UInt32) {
    cancelLeases {
      // Zero: the namespace did not exist when the lease was taken.
      let owner = unsafe word($0 + 16).pointee.load(ordering: .relaxed)
      return owner == UInt64(namespace) || owner == 0
    }
  }

  package func cancelAllLeases() { cancelLeases { _ in true } }

  private func cancelLeases(where matches: (Int) -> Bool) {
    for index in 0..<usedLeases {
      let offset = offset(lease: index)
      let address = unsafe word(offset)
      let state = unsafe address.pointee.load(ordering: .sequentiallyConsistent)
      guard Self.phase(state) == Self.active, matches(offset) else { continue }
      _ = unsafe address.pointee.compareExchange(
        expected: state, desired: state & ~0xFF | Self.cancelled,
        ordering: .sequentiallyConsistent)
    }
  }

  /// The process slot of the process that computes a key of a hash; `nil` when there is no lease.
  package func leaseHolder(hash: UInt64) -> Int? {
    for index in 0..<usedLeases {
      let offset = offset(lease: index)
      let state = unsafe word(offset).pointee.load(ordering: .acquiring)
      guard Self.phase(state) == Self.active || Self.phase(state) == Self.cancelled else {
        continue
      }
      if unsafe word(offset + 8).pointee.load(ordering: .relaxed) == hash {
        return Int(state >> 8) - 1
      }
    }
    return nil
  }

  /// Under the gate: frees the slots of a process that is gone.
  func freeLeases(ofProcess process: Int) {
    for index in 0..<usedLeases {
      let offset = offset(lease: index)
      let state = unsafe word(offset).pointee.load(ordering: .relaxed)
      guard state >> 8 == UInt64(process + 1) else { continue }
      unsafe word(offset).pointee.store(Self.free, ordering: .releasing)
    }
  }
}
