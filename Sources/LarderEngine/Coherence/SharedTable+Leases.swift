// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// LEASES
//
// The table's half of single flight: the keys that are being computed. The other half is a kernel
// lock in `leases`, which decides which process computes. With the slot here, a writer of the same
// key prevents the computed result from being stored.
//
// The computing process fills a slot, then sets its bit in the lease map, then reads the store. A
// writer publishes its commit version, then reads the map and the slots whose bits are set.
// Sequential consistency orders the two: either the writer reads the bit, and with it the lease,
// and cancels it, or the computing process reads the writer's commit version and takes a snapshot
// that contains its transaction.
//
// The map keeps a write fast after a burst of computations: a write reads 16 words and no free
// slot. The process that changed the state to "being freed" clears the bit before it frees the
// slot. So no process can acquire the slot in between, and a bit that is set for a new lease is
// never cleared for an old one. If a writer misses the bit of a lease that is being released,
// nothing is lost: the result of that lease has been stored, or never will be.
//
// A state word contains the number of times the slot was acquired. Three parties change a state:
// the owner, a writer, and a process that cleans up after dead processes. Because of the count,
// each of them changes the lease that it read, or none: an owner that was considered dead can
// neither release nor trust the lease of its successor in the slot.

/// A lease held in the shared-memory table.
package struct Lease: Sendable, Hashable {
  let index: Int
  /// The state word from the acquisition until the cancellation: owner, count and "active".
  let state: UInt64
  let hash: UInt64
}

extension SharedTable {
  private static var free: UInt64 { 0 }
  private static var changing: UInt64 { 1 }
  private static var active: UInt64 { 2 }
  private static var cancelled: UInt64 { 3 }

  private static func phase(_ state: UInt64) -> UInt64 { state & 0xFF }
  /// Returns the state without its phase: one acquisition of a slot by one process.
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

  /// The number of slots that a writer has to read.
  package var leasesInUse: Int {
    (0..<Self.mapWords).reduce(0) {
      unsafe $0 + map($1).pointee.load(ordering: .relaxed).nonzeroBitCount
    }
  }

  // MARK: The owner

  /// Acquires a slot for the computation of a key with `hash`.
  ///
  /// - Parameter key: The key, for display.
  /// - Returns: The lease, or `nil` if every slot is taken.
  package func takeLease(
    hash: UInt64, namespace: UInt32, process: Int, key: EncodedKey? = nil
  ) -> Lease? {
    for number in 0..<Self.mapWords {
      var free = unsafe ~map(number).pointee.load(ordering: .relaxed)
      while free != 0 {
        let index = number * 64 + free.trailingZeroBitCount
        free &= free - 1
        if let lease = acquire(index, hash, namespace, process, key) { return lease }
      }
    }
    return nil
  }

  private func acquire(
    _ index: Int, _ hash: UInt64, _ namespace: UInt32, _ process: Int, _ key: EncodedKey?
  ) -> Lease? {
    let offset = offset(lease: index)
    let state = unsafe word(offset)
    let found = unsafe state.pointee.load(ordering: .relaxed)
    guard Self.phase(found) == Self.free else { return nil }
    let mine = (Self.count(found) &+ 1) << 24 | UInt64(process + 1) << 8
    let (acquired, _) = unsafe state.pointee.compareExchange(
      expected: found, desired: mine | Self.changing, ordering: .acquiringAndReleasing)
    guard acquired else { return nil }
    unsafe word(offset + SharedTableLayout.leaseHash).pointee.store(hash, ordering: .relaxed)
    unsafe word(offset + SharedTableLayout.leaseNamespace).pointee.store(
      UInt64(namespace), ordering: .relaxed)
    describe(lease: index, key)
    unsafe state.pointee.store(mine | Self.active, ordering: .sequentiallyConsistent)
    setBit(of: index)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    return Lease(index: index, state: mine | Self.active, hash: hash)
  }

  /// Releases a lease. Has no effect if the slot has been acquired again since.
  package func dropLease(_ lease: Lease) {
    let address = unsafe word(offset(lease: lease.index))
    var state = unsafe address.pointee.load(ordering: .acquiring)
    while Self.holding(state) == Self.holding(lease.state),
      [Self.active, Self.cancelled].contains(Self.phase(state))
    {
      if release(lease.index, in: &state) { return }
    }
  }

  /// Returns whether the result of the lease may be stored: the slot still contains this lease, for
  /// this key, and no writer has cancelled it. The caller holds the writer lock.
  package func isValid(_ lease: Lease) -> Bool {
    let offset = offset(lease: lease.index)
    let state = unsafe word(offset).pointee.load(ordering: .sequentiallyConsistent)
    let hash = unsafe word(offset + SharedTableLayout.leaseHash).pointee.load(ordering: .relaxed)
    return state == lease.state && hash == lease.hash
  }

  /// Frees a slot whose state is still `state`; otherwise loads the current state into `state`.
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

  /// Cancels the leases of a key that is put or removed. The caller holds the writer lock.
  package func cancelLeases(hash: UInt64) {
    cancelLeases {
      unsafe word($0 + SharedTableLayout.leaseHash).pointee.load(ordering: .relaxed) == hash
    }
  }

  /// Cancels the leases of all keys of a namespace that is cleared. The caller holds the writer
  /// lock.
  package func cancelLeases(namespace: UInt32) {
    cancelLeases {
      // Zero: the namespace did not exist when the lease was acquired.
      let owner = unsafe word($0 + SharedTableLayout.leaseNamespace).pointee.load(
        ordering: .relaxed)
      return owner == UInt64(namespace) || owner == 0
    }
  }

  /// Cancels every lease, because a commit without stamps may have changed any key. The caller
  /// holds the writer lock.
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
        // If the exchange fails, the lease was released. If the slot was then acquired again, its
        // new owner reads this writer's commit version.
        _ = unsafe address.pointee.compareExchange(
          expected: state, desired: Self.holding(state) | Self.cancelled,
          ordering: .sequentiallyConsistent)
      }
    }
  }

  /// Returns the process slot of the process that computes a key with `hash`, or `nil` if no
  /// process holds a lease for it.
  ///
  /// - Parameter isPresent: Whether the process in a slot lives. The lease of one that was killed stays
  ///   until the next opening.
  package func leaseHolder(hash: UInt64, isPresent: (Int) -> Bool) -> Int? {
    for number in 0..<Self.mapWords {
      var used = unsafe map(number).pointee.load(ordering: .sequentiallyConsistent)
      while used != 0 {
        let offset = offset(lease: number * 64 + used.trailingZeroBitCount)
        used &= used - 1
        let state = unsafe word(offset).pointee.load(ordering: .acquiring)
        guard Self.phase(state) == Self.active || Self.phase(state) == Self.cancelled,
          unsafe word(offset + SharedTableLayout.leaseHash).pointee.load(ordering: .relaxed)
            == hash,
          case let process = Int(Self.owner(state)) - 1, isPresent(process)
        else { continue }
        return process
      }
    }
    return nil
  }

  // MARK: Cleaning

  /// Frees the lease slots of a process that has exited or is closing. The caller holds the open
  /// lock.
  ///
  /// - Parameter isAlive: Whether the process is this one. One of its threads may be in the middle
  ///   of acquiring or releasing a lease, and completes that itself.
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
