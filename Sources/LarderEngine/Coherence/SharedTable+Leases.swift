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
// The leader fills a slot, then sets its bit in the lease map, then reads the store; a writer
// announces its label, then reads the map and the slots whose bits are set. Sequential consistency
// orders the two: either the writer sees the bit, and with it the lease, and cancels it, or the
// leader sees the writer's label and takes a snapshot that contains its transaction.
//
// The map keeps a write as fast as it was after a burst of computations: 16 words are read, and no
// slot that nobody holds. A bit is cleared before its slot is free, by the one that changed the
// state to "being freed". So nobody can acquire the slot in between, and a bit that is set for a new
// lease is never cleared for an old one. A writer that misses the bit of a lease that is being given
// up misses nothing: its result has been stored, or never will be.
//
// A state word contains how often the slot was acquired. So the three that change a state, the owner,
// a writer and a cleaner of dead processes, each change the lease they saw or none: an owner that was
// taken for dead cannot give up, nor trust, the lease of its successor in the slot.

/// A lease held in the table.
package struct Lease: Sendable, Hashable {
  let index: Int
  /// The state word from the acquisition until it is cancelled: owner, count and "active".
  let state: UInt64
  let hash: UInt64
}

extension SharedTable {
  private static var free: UInt64 { 0 }
  private static var changing: UInt64 { 1 }
  private static var active: UInt64 { 2 }
  private static var cancelled: UInt64 { 3 }

  private static func phase(_ state: UInt64) -> UInt64 { state & 0xFF }
  /// The state without its phase: one acquisition of a slot by one process.
  private static func holding(_ state: UInt64) -> UInt64 { state & ~0xFF }
  private static func owner(_ state: UInt64) -> UInt64 { state >> 8 & 0xFFFF }
  private static func count(_ state: UInt64) -> UInt64 { state >> 24 }

  private func offset(lease index: Int) -> Int {
    SharedTableLayout.leases + index * SharedTableLayout.leaseSize
  }

  // MARK: The map

  private static var mapWords: Int { SharedTableLayout.leaseCount / 64 }

  @unsafe private func map(_ word: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe self.word(SharedTableLayout.leaseMap + word * 8)
  }

  private func setBit(of index: Int) {
    unsafe map(index / 64).pointee.bitwiseOr(
      1 << UInt64(index % 64), ordering: .sequentiallyConsistent)
  }

  private func clearBit(of index: Int) {
    unsafe map(index / 64).pointee.bitwiseAnd(
      ~(1 << UInt64(index % 64)), ordering: .sequentiallyConsistent)
  }

  /// How many slots a writer has to read.
  package var leasesInUse: Int {
    (0..<Self.mapWords).reduce(0) {
      unsafe $0 + map($1).pointee.load(ordering: .relaxed).nonzeroBitCount
    }
  }

  // MARK: The owner

  /// Registers a computation for a key's hash; `nil` when every slot is taken.
  package func takeLease(hash: UInt64, namespace: UInt32, process: Int) -> Lease? {
    for number in 0..<Self.mapWords {
      var free = unsafe ~map(number).pointee.load(ordering: .relaxed)
      while free != 0 {
        let index = number * 64 + free.trailingZeroBitCount
        free &= free - 1
        if let lease = take(index, hash, namespace, process) { return lease }
      }
    }
    return nil
  }

  private func take(
    _ index: Int, _ hash: UInt64, _ namespace: UInt32, _ process: Int
  ) -> Lease? {
    let offset = offset(lease: index)
    let state = unsafe word(offset)
    let found = unsafe state.pointee.load(ordering: .relaxed)
    guard Self.phase(found) == Self.free else { return nil }
    let mine = (Self.count(found) &+ 1) << 24 | UInt64(process + 1) << 8
    let (taken, _) = unsafe state.pointee.compareExchange(
      expected: found, desired: mine | Self.changing, ordering: .acquiringAndReleasing)
    guard taken else { return nil }
    unsafe word(offset + 8).pointee.store(hash, ordering: .relaxed)
    unsafe word(offset + 16).pointee.store(UInt64(namespace), ordering: .relaxed)
    unsafe state.pointee.store(mine | Self.active, ordering: .sequentiallyConsistent)
    setBit(of: index)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    return Lease(index: index, state: mine | Self.active, hash: hash)
  }

  /// Gives up a lease. Without effect on a slot that is another's by now.
  package func dropLease(_ lease: Lease) {
    let address = unsafe word(offset(lease: lease.index))
    var state = unsafe address.pointee.load(ordering: .acquiring)
    while Self.holding(state) == Self.holding(lease.state),
      [Self.active, Self.cancelled].contains(Self.phase(state))
    {
      if release(lease.index, in: &state) { return }
    }
  }

  /// Whether the lease still allows its result to be stored: it is this one, of this key, and has not
  /// been cancelled. Under the writer lock.
  package func isValid(_ lease: Lease) -> Bool {
    let offset = offset(lease: lease.index)
    let state = unsafe word(offset).pointee.load(ordering: .sequentiallyConsistent)
    let hash = unsafe word(offset + 8).pointee.load(ordering: .relaxed)
    return state == lease.state && hash == lease.hash
  }

  /// Frees a slot whose state is still `state`; otherwise `state` is what it is now.
  private func release(_ index: Int, in state: inout UInt64) -> Bool {
    let address = unsafe word(offset(lease: index))
    let (isOurs, now) = unsafe address.pointee.compareExchange(
      expected: state, desired: Self.holding(state) | Self.changing,
      ordering: .acquiringAndReleasing)
    guard isOurs else {
      state = now
      return false
    }
    clearBit(of: index)
    unsafe address.pointee.store(Self.count(state) << 24 | Self.free, ordering: .releasing)
    return true
  }

  // MARK: Writers

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

  /// Under the writer lock: a commit without stamps may have changed any key.
  package func cancelAllLeases() { cancelLeases { _ in true } }

  private func cancelLeases(where matches: (Int) -> Bool) {
    for number in 0..<Self.mapWords {
      var used = unsafe map(number).pointee.load(ordering: .sequentiallyConsistent)
      while used != 0 {
        let offset = offset(lease: number * 64 + used.trailingZeroBitCount)
        used &= used - 1
        let address = unsafe word(offset)
        let state = unsafe address.pointee.load(ordering: .sequentiallyConsistent)
        guard Self.phase(state) == Self.active, matches(offset) else { continue }
        // If it fails, the lease was given up, and perhaps the slot acquired again: by a leader that
        // sees this writer's label.
        _ = unsafe address.pointee.compareExchange(
          expected: state, desired: Self.holding(state) | Self.cancelled,
          ordering: .sequentiallyConsistent)
      }
    }
  }

  /// The process slot of the process that computes a key of a hash; `nil` when there is no lease.
  package func leaseHolder(hash: UInt64) -> Int? {
    for number in 0..<Self.mapWords {
      var used = unsafe map(number).pointee.load(ordering: .sequentiallyConsistent)
      while used != 0 {
        let offset = offset(lease: number * 64 + used.trailingZeroBitCount)
        used &= used - 1
        let state = unsafe word(offset).pointee.load(ordering: .acquiring)
        guard Self.phase(state) == Self.active || Self.phase(state) == Self.cancelled,
          unsafe word(offset + 8).pointee.load(ordering: .relaxed) == hash
        else { continue }
        return Int(Self.owner(state)) - 1
      }
    }
    return nil
  }

  // MARK: Cleaning

  /// Under the gate: frees the slots of a process that is gone, or that leaves.
  ///
  /// - Parameter isAlive: Whether it is this process: one of its threads may be acquiring or giving up
  ///   a lease right now and then ends that by itself.
  func freeLeases(ofProcess process: Int, isAlive: Bool) {
    for index in 0..<SharedTableLayout.leaseCount {
      var state = unsafe word(offset(lease: index)).pointee.load(ordering: .relaxed)
      while Self.owner(state) == UInt64(process + 1), Self.phase(state) != Self.free,
        !(isAlive && Self.phase(state) == Self.changing)
      {
        if release(index, in: &state) { break }
      }
    }
  }
}
