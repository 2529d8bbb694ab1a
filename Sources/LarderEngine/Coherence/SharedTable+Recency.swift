// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

/// The words of the table that eviction chooses by.
extension SharedTable {
  /// The code of the policy by which entries are evicted. A newer version of the library may have
  /// stored one that this version does not know.
  package var policyCode: UInt8 {
    get {
      UInt8(
        truncatingIfNeeded: unsafe word(SharedTableLayout.policy).pointee.load(
          ordering: .acquiring))
    }
    set {
      unsafe word(SharedTableLayout.policy).pointee.store(UInt64(newValue), ordering: .releasing)
    }
  }

  /// The most entries that the store may contain; zero means no limit.
  package var entryBudget: UInt64 {
    get { unsafe word(SharedTableLayout.entryBudget).pointee.load(ordering: .acquiring) }
    set { unsafe word(SharedTableLayout.entryBudget).pointee.store(newValue, ordering: .releasing) }
  }

  // MARK: Uses

  /// Records a use of an entry. Wait-free; at most one relaxed store, usually none.
  @inline(__always)
  package func touch(hash: UInt64) {
    let now = unsafe word(SharedTableLayout.useClock).pointee.load(ordering: .relaxed)
    uses.touch(hashPrefix(hash), now: now)
  }

  /// Records a use of an object, whose type may evict the one that was used first: with the newest
  /// tick whatever the policy of the store.
  @inline(__always)
  package func touchExactly(hash: UInt64) {
    let now = unsafe word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    uses.touch(hashPrefix(hash), now: now)
  }

  /// Returns the tick of the recency clock at which a key of this hash was last used.
  @inline(__always)
  package func lastUse(hash: UInt64) -> UInt64 { uses.lastUse(hashPrefix(hash)) }

  /// Stores the tick of the recency clock at which a key of this hash was last used.
  package func setLastUse(hash: UInt64, tick: UInt64, isNew: Bool = false) {
    uses.recordWrite(hashPrefix(hash), tick: tick, isNew: isNew)
  }

  /// Forgets the last use of a key, as happens when its word is replaced. For tests.
  package func forgetUse(hash: UInt64) { uses.forget(hashPrefix(hash)) }

  // MARK: The recency clock

  /// The low bits of a recency tick, which count the writes of one millisecond.
  private static let tickBits: UInt64 = 20
  /// The distance of two ticks: the lowest bits are those of a use word.
  private static let tickStep = ~UseTable.tickMask + 1
  /// The bits of a tick within a period of 16.384 seconds, in which all uses get one tick.
  private static let coarseBits: UInt64 = 34

  /// Returns the first recency tick of a time in milliseconds since 1970.
  package static func tick(milliseconds: Int64) -> UInt64 {
    UInt64(bitPattern: max(milliseconds, 0)) << tickBits
  }

  /// Returns the time of a recency tick in milliseconds since 1970.
  package static func milliseconds(ofTick tick: UInt64) -> Int64 { Int64(tick >> tickBits) }

  /// Advances the recency clock, so that every write has a new tick and the clock lags the wall
  /// clock by at most one write. The caller holds the writer lock.
  package func advanceClock(milliseconds: Int64) -> UInt64 {
    let last = unsafe word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    let tick =
      max(last &+ SharedTable.tickStep, SharedTable.tick(milliseconds: milliseconds))
      & UseTable.tickMask
    // Other processes may raise the clock at the same time; see `raiseClock(milliseconds:)`.
    let now = unsafe word(SharedTableLayout.clock).pointee.max(tick, ordering: .relaxed).newValue
    raiseUseClock(to: now)
    return now & UseTable.tickMask
  }

  /// Advances the recency clock, and returns the tick with which a write of an entry is recorded: the
  /// one that readers store. The caller holds the writer lock.
  func advanceUseClock(milliseconds: Int64) -> UInt64 {
    _ = advanceClock(milliseconds: milliseconds)
    return unsafe word(SharedTableLayout.useClock).pointee.load(ordering: .relaxed)
  }

  /// Raises the recency clock without the writer lock, about once a second, so that ticks of reads
  /// remain accurate without writes.
  package func raiseClock(milliseconds: Int64) {
    let tick = SharedTable.tick(milliseconds: milliseconds)
    let now = unsafe word(SharedTableLayout.clock).pointee.max(tick, ordering: .relaxed).newValue
    raiseUseClock(to: now)
  }

  /// Raises the tick that readers store: always if eviction compares the ticks of uses, otherwise
  /// once in 16.384 seconds.
  private func raiseUseClock(to now: UInt64) {
    let address = unsafe word(SharedTableLayout.useClock)
    let last = unsafe address.pointee.load(ordering: .relaxed)
    guard
      policyCode == EvictionPolicy.sampledLRU.code || (now ^ last) >> SharedTable.coarseBits != 0
    else { return }
    _ = unsafe address.pointee.max(now & UseTable.tickMask, ordering: .relaxed)
  }

  /// Raises the tick that readers store, so that the keys in use are marked again. The caller holds the
  /// writer lock, and has lowered counts of uses.
  func renewUses() {
    let now = unsafe word(SharedTableLayout.clock).pointee.load(ordering: .relaxed)
    _ = unsafe word(SharedTableLayout.useClock).pointee.max(
      now & UseTable.tickMask, ordering: .relaxed)
  }

  // MARK: Words of the queues

  /// Reads a word of the state of the eviction queues.
  package func queueWord(_ index: Int) -> UInt64 {
    unsafe word(SharedTableLayout.queues + index * 8).pointee.load(ordering: .relaxed)
  }

  /// Stores a word of the state of the eviction queues. The caller holds the writer lock.
  package func setQueueWord(_ index: Int, _ value: UInt64) {
    unsafe word(SharedTableLayout.queues + index * 8).pointee.store(value, ordering: .relaxed)
  }

  /// Reads an element of a queue that begins at `start`; positions wrap.
  func queueElement(_ start: Int, _ position: UInt64) -> UInt64 {
    unsafe word(start + slot(position) * 8).pointee.load(ordering: .relaxed)
  }

  /// Stores an element of a queue that begins at `start`. The caller holds the writer lock.
  package func setQueueElement(_ start: Int, _ position: UInt64, _ value: UInt64) {
    unsafe word(start + slot(position) * 8).pointee.store(value, ordering: .relaxed)
  }

  private func slot(_ position: UInt64) -> Int {
    Int(truncatingIfNeeded: position) & (shape.queueSlots - 1)
  }

  /// Reads one of the `queueSlots` words of the ghosts.
  func ghost(_ index: Int) -> UInt32 {
    unsafe half(shape.ghosts + index * 4).pointee.load(ordering: .relaxed)
  }

  /// Stores one of the `queueSlots` words of the ghosts. The caller holds the writer lock.
  package func setGhost(_ index: Int, _ value: UInt32) {
    unsafe half(shape.ghosts + index * 4).pointee.store(value, ordering: .relaxed)
  }

  // MARK: A new generation

  /// Copies the use words, the state of the queues, the recency clock and the counters of another
  /// generation's table.
  package func inherit(from old: SharedTable) {
    for counter in Counter.allCases {
      unsafe word(SharedTableLayout.retired + counter.rawValue * 8).pointee.store(
        old.total(counter), ordering: .relaxed)
    }
    for offset in [SharedTableLayout.clock, SharedTableLayout.useClock] {
      copyWords(at: offset, count: 1, from: old)
    }
    inheritRemovalInterest(from: old)
    guard shape.recencySlots == old.shape.recencySlots else {
      uses.inherit(from: old.uses)
      return inheritQueues(from: old)
    }
    copyWords(at: SharedTableLayout.queues, count: EvictionQueues.Word.allCases.count, from: old)
    for offset in stride(from: 0, to: shape.coordination - shape.recency, by: 8) {
      let value = unsafe old.word(old.shape.recency + offset).pointee.load(ordering: .relaxed)
      if value != 0 { unsafe word(shape.recency + offset).pointee.store(value, ordering: .relaxed) }
    }
  }

  /// Copies the queues of a table of another shape. If they do not fit they begin empty, as those of a lost
  /// table; so do the ghosts.
  private func inheritQueues(from old: SharedTable) {
    func word(_ word: EvictionQueues.Word) -> UInt64 { old.queueWord(word.rawValue) }
    let rings = [
      (start: shape.smallQueue, old.shape.smallQueue, word(.smallFirst), word(.smallEnd)),
      (start: shape.mainQueue, old.shape.mainQueue, word(.mainFirst), word(.mainEnd)),
    ]
    let room = UInt64(min(shape.queueSlots, old.shape.queueSlots))
    guard rings.allSatisfy({ $0.2 <= $0.3 && $0.3 - $0.2 <= room }) else { return }
    for (start, oldStart, first, end) in rings {
      for position in first..<end {
        setQueueElement(start, position, old.queueElement(oldStart, position))
      }
    }
    let kept: [EvictionQueues.Word] = [
      .smallFirst, .smallEnd, .mainFirst, .mainEnd, .smallBytes, .share, .admissions,
    ]
    for kind in kept { setQueueWord(kind.rawValue, word(kind)) }
  }

  private func copyWords(at offset: Int, count: Int, from old: SharedTable) {
    for index in 0..<count {
      let value = unsafe old.word(offset + index * 8).pointee.load(ordering: .relaxed)
      unsafe word(offset + index * 8).pointee.store(value, ordering: .relaxed)
    }
  }
}
