// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// OFFERED WRITES
//
// A process that finds the writer ticket taken offers its write to the holder, which executes it in
// its transaction together with its own requests: `StoreCore+Offers.swift` has the rules. This is the
// memory of it, in the coordination region of the table.
//
//     0  offered   u64   a bit for each slot: set by the owner after it has offered
//   128  claimed   u64   a bit for each slot: set by a writer before it claims
//   256  slots     1,024 bytes for each of the first 63 process slots
//
//   slot:   0 state u64   0 free, 1 offered; V << 2 | 2: claimed by the transaction with the commit
//                         version V; V << 2 | 3: settled by it
//           8 check u64   XXH64 of the offer
//          16 offer, as words: `OfferedWrite.swift`
//        1008 outcome u64 1 stored, 2 overflow, 3 refused: the owner executes it
//        1016 result u64  increment: the bit pattern of the new value, or of the old one after an overflow
//
// Only the owner changes a state from free or settled to offered, and from offered to free. Only the holder
// of the writer ticket claims and settles: with LMDB's writer lock, except after its commit (O3), when it
// settles its own claims only. A claimed slot is left alone by its owner, so the writer reads the offer
// without a race, and a writer that was killed leaves it as it is. A process that enters or leaves its slot
// withdraws the offer of the process before it.

extension OfferedWrite {
  fileprivate var check: UInt64 {
    unsafe words.withUnsafeBytes { unsafe XXH64.hash($0, seed: 0x1C) }
  }
}

/// An offer that a writer has claimed.
package typealias ClaimedOffer = (slot: Int, offer: OfferedWrite)

/// The state of an offered write.
package enum OfferState: Hashable {
  case free, offered
  case claimed(UInt64)
  case settled(UInt64)

  package var isSettled: Bool { if case .settled = self { true } else { false } }
  var isClaimed: Bool { if case .claimed = self { true } else { false } }

  var word: UInt64 {
    switch self {
    case .free: 0
    case .offered: 1
    case .claimed(let version): version << 2 | 2
    case .settled(let version): version << 2 | 3
    }
  }

  init(word: UInt64) {
    switch word & 3 {
    case 2: self = .claimed(word >> 2)
    case 3: self = .settled(word >> 2)
    default: self = word == 1 ? .offered : .free
    }
  }
}

/// The outcome of an offered write.
package enum OfferOutcome: Hashable {
  case stored(UInt64)
  case overflow(UInt64)
  case refused
}

extension SharedTable {
  private static var slotsOffset: Int { 256 }
  private static var slotSize: Int { 1024 }

  /// The number of process slots whose processes can offer writes. A small store has none.
  package var offerSlots: Int {
    max(0, min(64, (shape.remote - shape.coordination - Self.slotsOffset) / Self.slotSize))
  }

  private func offset(offer slot: Int) -> Int {
    precondition(slot >= 0 && slot < offerSlots, "no such slot")
    return shape.coordination + Self.slotsOffset + slot * Self.slotSize
  }

  @unsafe private var offered: UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe word(shape.coordination)
  }
  @unsafe private var claimed: UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe word(shape.coordination + 128)
  }

  // MARK: The owner

  package func offerState(_ slot: Int) -> OfferState {
    OfferState(word: unsafe word(offset(offer: slot)).pointee.load(ordering: .acquiring))
  }

  /// Offers a write.
  ///
  /// - Returns: `false` if the slot still contains a claimed one, of this process or the one before.
  package func offer(_ write: OfferedWrite, slot: Int) -> Bool {
    let start = offset(offer: slot)
    switch offerState(slot) {
    case .claimed: return false
    case .offered: if !withdrawOffer(slot) { return false }
    case .free, .settled: break
    }
    unsafe word(start + 8).pointee.store(write.check, ordering: .relaxed)
    for (index, value) in write.words.enumerated() {
      unsafe word(start + 16 + 8 * index).pointee.store(value, ordering: .relaxed)
    }
    unsafe word(start).pointee.store(OfferState.offered.word, ordering: .releasing)
    unsafe offered.pointee.bitwiseOr(1 << UInt64(slot), ordering: .releasing)
    return true
  }

  /// Withdraws an offer that no writer has claimed.
  func withdrawOffer(_ slot: Int) -> Bool { change(slot, from: .offered, to: .free) }

  /// Stores a word of the region, for tests with garbage in it.
  package func setOfferRegionWord(_ offset: Int, _ value: UInt64) {
    precondition(offset >= 0 && offset < Self.slotsOffset + offerSlots * Self.slotSize)
    unsafe word(shape.coordination + offset).pointee.store(value, ordering: .relaxed)
  }

  /// Withdraws the offer that a process has left in its slot.
  func discardOffer(process: Int) {
    if process < offerSlots { _ = withdrawOffer(process) }
  }

  /// Returns the outcome of a settled offer.
  package func offerOutcome(_ slot: Int) -> OfferOutcome {
    let start = offset(offer: slot)
    let result = unsafe word(start + 1016).pointee.load(ordering: .relaxed)
    return switch unsafe word(start + 1008).pointee.load(ordering: .relaxed) {
    case 1: .stored(result)
    case 2: .overflow(result)
    default: .refused
    }
  }

  private func change(_ slot: Int, from old: OfferState, to new: OfferState) -> Bool {
    unsafe word(offset(offer: slot)).pointee.compareExchange(
      expected: old.word, desired: new.word, ordering: .acquiringAndReleasing
    ).exchanged
  }

  // MARK: The writer

  /// Whether a write may be offered.
  @inline(__always)
  var hasOffers: Bool {
    unsafe offerSlots > 0 && offered.pointee.load(ordering: .relaxed) != 0
  }

  /// The number of offers that are out, at most.
  var offerCount: Int {
    unsafe offerSlots > 0 ? offered.pointee.load(ordering: .relaxed).nonzeroBitCount : 0
  }

  /// The number of offers that the last transaction has claimed.
  var combined: Int {
    get { unsafe Int(half(SharedTableLayout.combined).pointee.load(ordering: .relaxed)) }
    set {
      unsafe half(SharedTableLayout.combined).pointee.store(UInt32(newValue), ordering: .relaxed)
    }
  }

  /// Claims all offers for a transaction. The caller holds LMDB's writer lock.
  package func claimOffers(commitVersion: UInt64) -> [ClaimedOffer] {
    var map = unsafe offered.pointee.exchange(0, ordering: .acquiringAndReleasing)
    unsafe claimed.pointee.bitwiseOr(map, ordering: .sequentiallyConsistent)
    var claims: [ClaimedOffer] = []
    while map != 0 {
      let slot = map.trailingZeroBitCount
      map &= map - 1
      guard slot < offerSlots, change(slot, from: .offered, to: .claimed(commitVersion)) else {
        continue
      }
      setOutcome(.refused, slot: slot)
      if let offer = offer(in: slot), !offer.isTooOld { claims.append((slot, offer)) }
    }
    return claims
  }

  private func offer(in slot: Int) -> OfferedWrite? {
    let start = offset(offer: slot) + 16
    func words(_ range: Range<Int>) -> [UInt64] {
      range.map { unsafe word(start + 8 * $0).pointee.load(ordering: .relaxed) }
    }
    let head = words(0..<OfferedWrite.headWords)
    guard let count = OfferedWrite.count(head: head) else { return nil }
    let offer = OfferedWrite(words: head + words(head.count..<count))
    return unsafe word(start - 8).pointee.load(ordering: .relaxed) == offer.check ? offer : nil
  }

  /// Stores the outcome of a claimed offer, which counts if the transaction is committed.
  package func setOutcome(_ outcome: OfferOutcome, slot: Int) {
    let start = offset(offer: slot)
    let (code, result): (UInt64, UInt64) =
      switch outcome {
      case .stored(let value): (1, value)
      case .overflow(let old): (2, old)
      case .refused: (3, 0)
      }
    unsafe word(start + 1016).pointee.store(result, ordering: .relaxed)
    unsafe word(start + 1008).pointee.store(code, ordering: .releasing)
  }

  /// Settles the offers that transactions have claimed (O3, O4).
  ///
  /// - Parameters:
  ///   - commitVersion: The commit version of the caller's transaction.
  ///   - isEnd: Whether it was committed just now. Otherwise it has just begun, or ends without changes, and
  ///     the caller holds LMDB's writer lock.
  /// - Returns: Whether some are settled now.
  @inline(__always)
  @discardableResult
  func settleOffers(commitVersion: UInt64, isEnd: Bool) -> Bool {
    guard offerSlots > 0, unsafe claimed.pointee.load(ordering: .relaxed) != 0 else { return false }
    return settleClaims(commitVersion, isEnd)
  }

  @inline(never)
  private func settleClaims(_ commitVersion: UInt64, _ isEnd: Bool) -> Bool {
    let map = unsafe claimed.pointee.load(ordering: .sequentiallyConsistent)
    var settled: UInt64 = 0
    for slot in 0..<64 where map >> UInt64(slot) & 1 != 0 {
      let state = slot < offerSlots ? offerState(slot) : .free
      // After the commit, another writer may be about to claim the other slots.
      if isEnd, state != .claimed(commitVersion) { continue }
      if case .claimed(let version) = state {
        if !isEnd, !wasCommitted(version, before: commitVersion) {
          setOutcome(.refused, slot: slot)
        }
        _ = change(slot, from: .claimed(version), to: .settled(version))
      }
      settled |= 1 << UInt64(slot)
    }
    unsafe claimed.pointee.bitwiseAnd(~settled, ordering: .sequentiallyConsistent)
    // Their owners wait for the ticket. After a commit its release wakes them.
    if settled != 0, !isEnd { ticket.wakeAll() }
    return settled != 0
  }

  /// Whether the transaction with a commit version was committed, at the beginning of another one. Each is
  /// stamped before it is committed; the number alone may be that of a program that uses LMDB directly.
  private func wasCommitted(_ version: UInt64, before commitVersion: UInt64) -> Bool {
    if Mutant.offersCountAsDone.isActive { return true }
    return version < commitVersion && version <= lastStamped
      && !Mutant.offersCountAsRefused.isActive
  }
}
