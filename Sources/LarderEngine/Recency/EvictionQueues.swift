// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE EVICTION QUEUES
//
// The policy `.adaptive`: S3-FIFO (Yang and others, "FIFO queues are all you need for cache
// eviction", SOSP 2023) with a boundary that moves by the learning rule of ARC (Megiddo and Modha,
// FAST 2003). Readers only raise the counts of the use table. The rest is written by the process
// that holds the writer lock, in `shared.table`, so each writer continues where the last one stopped.
//
// A new entry enters the small queue; one that is remembered as a ghost enters the main queue, unless
// it is much larger than the others (four times the average): a large entry has to be used
// twice in the small queue first, so that one of them does not push out many small ones. Both are
// rings of elements in the order of entry: the hash prefix of the entry's key in the upper half, and
// the number of its admission in the lower half. The entry contains the number too, so an element
// whose entry was removed, or removed and written again, is recognized when it is read, and
// dropped. Nothing has to find an element when an entry is removed.
//
// Admissions to the small queue have even numbers and those to the main queue odd ones, all from one
// sequence. An entry is in the small queue if its number is even and between that of the queue's
// first element and the next one to be given.
//
// The ghosts are a hash table of buckets of four words: 15 bits of the hash prefix, a bit that is
// set if the entry left the main queue, and 16 bits of the count of ghosts when it was evicted. A
// ghost is forgotten when a quarter more than the store has entries have come after it.
//
// The share of the small queue grows when an entry comes back that left it, and shrinks when one
// comes back that left the main queue. Each step is weighted with the part of the ghosts that left
// the other queue: the share rests where a ghost of either queue is equally likely to come back.
// The weights and the rule for large entries are ours.
//
// The state of the queues, 16 words:
//   0 small first   1 small end   2 main first   3 main end: positions, which only grow
//   4 bytes in the small queue   5 share of the small queue, in units of 2^-32 of all bytes
//   6 last admission   7 count of ghosts   8 recent ghosts of the small queue   9 of the main queue
//
// A transaction works on a copy of the state and publishes it before its commit. A process that is
// killed between the two, or whose commit fails, leaves elements without an entry, and entries
// without an element. So do a full ring and a lost table. If the queues name fewer entries than the
// store has, eviction takes a sample (`StoreTransaction+Eviction.swift`), and all of them
// are found in the end. No word is trusted: positions are taken modulo the size of the ring.

/// The eviction queues, as one write transaction sees them.
package struct EvictionQueues {
  /// The words of the state in `shared.table`.
  package enum Word: Int, CaseIterable {
    case smallFirst, smallEnd, mainFirst, mainEnd, smallBytes, share, admissions, ghosts
    case smallGhosts, mainGhosts
  }

  /// An element of a queue.
  struct Element {
    let prefix: UInt32
    let admission: UInt32

    init(prefix: UInt32, admission: UInt32) {
      self.prefix = prefix
      self.admission = admission
    }

    init(_ word: UInt64) {
      prefix = UInt32(truncatingIfNeeded: word >> 32)
      admission = UInt32(truncatingIfNeeded: word)
    }

    var word: UInt64 { UInt64(prefix) << 32 | UInt64(admission) }
  }

  /// The share of the small queue in a new table: a fifth.
  static let initialShare: UInt64 = (1 << 32) / 5
  /// The limits of the share: a fiftieth and nine tenths.
  private static let shares: ClosedRange<UInt64> = (1 << 32) / 50...(1 << 32) / 10 * 9
  /// The entries by which the share changes for one entry that comes back, at most.
  private static let step: UInt64 = 4
  /// More bytes than a store has; a damaged word may contain more.
  private static let mostBytes: UInt64 = 1 << 50
  /// A multiple of the average cost from which an entry is a large one.
  private static let largeMultiple: UInt64 = 4

  private let table: SharedTable
  private var small: Ring
  private var main: Ring
  private(set) var smallBytes: UInt64
  private var share: UInt64
  private var admissions: UInt32
  private var ghosts: GhostTable

  /// Reads the state of the queues. The caller holds the writer lock.
  init(_ table: SharedTable) {
    self.table = table
    func word(_ word: Word) -> UInt64 { table.queueWord(word.rawValue) }
    let slots = UInt64(table.shape.queueSlots)
    small = Ring(
      start: table.shape.smallQueue, first: word(.smallFirst), end: word(.smallEnd), slots: slots)
    main = Ring(
      start: table.shape.mainQueue, first: word(.mainFirst), end: word(.mainEnd), slots: slots)
    smallBytes = min(word(.smallBytes), Self.mostBytes)
    share = min(max(word(.share), Self.shares.lowerBound), Self.shares.upperBound)
    admissions = UInt32(truncatingIfNeeded: word(.admissions))
    ghosts = GhostTable(
      table, count: word(.ghosts), small: word(.smallGhosts), main: word(.mainGhosts))
  }

  /// Stores the state for the next writer of any process.
  func publish() {
    func set(_ word: Word, _ value: UInt64) { table.setQueueWord(word.rawValue, value) }
    // An entry that leaves the head of a queue and stays has a lower count of uses. A memory tier
    // notices that only when the use clock advances.
    let part = max(count / 8, 64)
    let firsts = [Word.smallFirst, .mainFirst].map { table.queueWord($0.rawValue) }
    if (small.first &+ main.first) / part != (firsts[0] &+ firsts[1]) / part { table.renewUses() }
    set(.smallFirst, small.first)
    set(.smallEnd, small.end)
    set(.mainFirst, main.first)
    set(.mainEnd, main.end)
    set(.smallBytes, smallBytes)
    set(.share, share)
    set(.admissions, UInt64(admissions))
    set(.ghosts, ghosts.count)
    set(.smallGhosts, ghosts.small)
    set(.mainGhosts, ghosts.main)
  }

  /// The number of elements in both queues, including those without an entry.
  var count: UInt64 { small.count + main.count }
  var isSmallEmpty: Bool { small.count == 0 }
  var isMainEmpty: Bool { main.count == 0 }

  /// Returns whether the small queue has more than its share of the stored bytes.
  func isSmallOverShare(ofBytes bytes: UInt64) -> Bool {
    smallBytes
      > UInt64(
        (share.multipliedFullWidth(by: bytes).high << 32)
          | share.multipliedFullWidth(by: bytes).low >> 32)
  }

  // MARK: Entries

  /// Adds a new entry to the queue that it belongs to, and learns from its ghost.
  ///
  /// - Parameter totals: The totals of the store without the entry.
  /// - Returns: The number of its admission.
  mutating func admit(prefix: UInt32, cost: Int, _ totals: StoreTotals) -> UInt32 {
    let ghost = ghosts.take(prefix, limit: totals.entries + totals.entries / 4)
    if let ghost { learn(from: ghost, entries: totals.entries) }
    let isLarge = UInt64(cost) * totals.entries >= Self.largeMultiple * totals.bytes
    admissions &+= 2
    let admission = ghost == nil || isLarge ? admissions : admissions | 1
    let element = Element(prefix: prefix, admission: admission)
    if admission & 1 == 0 {
      small.append(element, table)
      smallBytes += UInt64(cost)
    } else {
      main.append(element, table)
    }
    return admission
  }

  /// Returns whether the entry with this number of admission is in the small queue.
  func isInSmall(_ admission: UInt32) -> Bool {
    guard admission & 1 == 0, let first = small.peek(table) else { return false }
    return admission &- first.admission <= admissions &- first.admission
  }

  /// Changes the bytes of the small queue, for an entry in it that was removed or replaced.
  mutating func changeSmallBytes(removing old: Int, adding new: Int) {
    smallBytes -= min(smallBytes, UInt64(old))
    smallBytes += UInt64(new)
  }

  // MARK: Eviction

  /// The first element of the small queue, or `nil` if it is empty.
  var firstSmall: Element? { small.peek(table) }

  /// Removes the first element of the small queue.
  mutating func popSmall() {
    small.removeFirst()
    if small.count == 0 { smallBytes = 0 }
  }

  /// Removes and returns the first element of the main queue, or returns `nil` if it is empty.
  mutating func popMain() -> Element? {
    guard let element = main.peek(table) else { return nil }
    main.removeFirst()
    return element
  }

  /// Adds an element to the end of the main queue.
  mutating func appendToMain(_ element: Element) { main.append(element, table) }

  /// Remembers an evicted entry.
  ///
  /// - Parameter entries: The number of entries in the store.
  mutating func addGhost(_ prefix: UInt32, fromMain: Bool, entries: UInt64) {
    ghosts.add(prefix, isOfMain: fromMain, entries: entries)
  }

  private mutating func learn(from ghost: GhostTable.Ghost, entries: UInt64) {
    let step = (1 << 32) / max(entries, 1) * Self.step
    let all = max(ghosts.small + ghosts.main, 1)
    switch ghost {
    case .ofSmall:
      share = min(share + step * ghosts.main / all, Self.shares.upperBound)
    case .ofMain:
      let loss = step * ghosts.small / all
      share = max(share - min(share, loss), Self.shares.lowerBound)
    }
  }
}

extension EvictionQueues {
  /// One of the queues: a ring in the table.
  private struct Ring {
    /// More than a queue has in its lifetime; a damaged word may contain more.
    private static let mostPositions: UInt64 = 1 << 62

    let start: Int
    let slots: UInt64
    private(set) var first: UInt64
    private(set) var end: UInt64

    init(start: Int, first: UInt64, end: UInt64, slots: UInt64) {
      self.start = start
      self.slots = slots
      self.end = end
      // A torn or damaged state: the elements are forgotten.
      let isValid = end < Self.mostPositions && end >= first && end - first <= slots
      if !isValid { self.end = 0 }
      self.first = isValid ? first : 0
    }

    var count: UInt64 { end - first }

    func peek(_ table: SharedTable) -> Element? {
      count == 0 ? nil : Element(table.queueElement(start, first))
    }

    mutating func removeFirst() { if count > 0 { first += 1 } }

    /// Adds an element; a full ring forgets its first one.
    mutating func append(_ element: Element, _ table: SharedTable) {
      if count == slots { first += 1 }
      table.setQueueElement(start, end, element.word)
      end &+= 1
    }
  }
}
