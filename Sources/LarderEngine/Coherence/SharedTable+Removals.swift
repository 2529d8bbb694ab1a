// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// THE REMOVAL RING
//
// A region of `shared.table` in which writers record the entries that they remove, while a process
// wants to know. Words of 64 bits:
//
//    0  wanted until     milliseconds of the monotonic clock until which writers record; 0: no process
//                        has ever subscribed
//    1  head             position behind the newest event; positions are in words, and only grow
//    2  count            events up to the head
//    3  reserved         position up to which words may have been overwritten
//    4  pending version  commit version of the events behind the head; 0: there are none
//    5  pending end      their end
//    6  pending count    events up to that end
//    8  the ring         the word at a position is at its remainder
//
// An event is 3 words and its key:
//
//    0  words of the event u16, cause u8, key tag u8, pid u32
//    1  number of the event u64, from 0
//    2  bytes u32 (the highest bit: a negative entry), namespace u32
//    3  length of the key u32 (the highest bit: only its beginning is stored), 4 bytes of the key, then
//       the rest of it
//
//   E1  W3 stores the events of a transaction behind the head, then pending end and version.
//   E2  W5 moves the head to the pending end, and clears the pending version.
//   E3  W1, if there is a pending version: a writer was killed, or its commit failed. The events are
//       published if the transaction of that version is committed: if the version that begins is
//       later. Otherwise they are discarded.
//
// A reader treats pending events as published once a snapshot contains their version. It copies an
// event, and then compares the position with `reserved`: words that were overwritten are a gap. The
// numbers of the events tell how many are missing. Any word may be garbage: that is a gap as well.

/// An event of the removal ring.
struct RecordedRemoval: Sendable {
  /// The longest part of a key that is recorded, in bytes.
  static let keyLimit = 256

  var cause: UInt8
  var keyTag: UInt8
  var pid: UInt32
  var bytes: UInt32
  var isAbsent: Bool
  var namespace: UInt32
  var key: [UInt8]
  var isKeyCut: Bool

  /// Appends the words of the event with a number.
  func append(to words: inout [UInt64], number: UInt64) {
    var content: [UInt8] = []
    content.reserveCapacity(key.count + 12)
    content.append(littleEndian: UInt32(key.count) | (isKeyCut ? 1 << 31 : 0))
    content += key
    while content.count % 8 != 0 { content.append(0) }
    words.append(
      UInt64(3 + content.count / 8) | UInt64(cause) << 16 | UInt64(keyTag) << 24
        | UInt64(pid) << 32)
    words.append(number)
    words.append(
      UInt64(bytes & 0x7FFF_FFFF) | (isAbsent ? 1 << 31 : 0) | UInt64(namespace) << 32)
    for offset in stride(from: 0, to: content.count, by: 8) {
      words.append(content.integer(at: offset)!)
    }
  }

  /// Decodes the words of an event, or returns `nil` if they are garbage.
  init?(_ words: [UInt64]) {
    guard words.count >= 4 else { return nil }
    var content: [UInt8] = []
    content.reserveCapacity((words.count - 3) * 8)
    for word in words[3...] { content.append(littleEndian: word) }
    let length = Int(words[3] & 0x7FFF_FFFF)
    guard length <= content.count - 4 else { return nil }
    cause = UInt8(truncatingIfNeeded: words[0] >> 16)
    keyTag = UInt8(truncatingIfNeeded: words[0] >> 24)
    pid = UInt32(truncatingIfNeeded: words[0] >> 32)
    bytes = UInt32(truncatingIfNeeded: words[2]) & 0x7FFF_FFFF
    isAbsent = words[2] & 1 << 31 != 0
    namespace = UInt32(truncatingIfNeeded: words[2] >> 32)
    isKeyCut = words[3] & 1 << 31 != 0
    key = Array(content[4..<(4 + length)])
  }

  init(
    _ header: EntryHeader, key: [UInt8], cause: UInt8
  ) {
    self.cause = cause
    keyTag = header.keyTag
    pid = UInt32(truncatingIfNeeded: ProcessIdentity.pid)
    bytes = UInt32(clamping: header.cost)
    isAbsent = header.isAbsent
    namespace = header.namespace
    isKeyCut = header.keyLength > Self.keyLimit
    self.key = Array(key.prefix(Self.keyLimit))
  }
}

/// The place of a reader in the removal ring.
struct RemovalCursor: Sendable {
  var position: UInt64
  /// The number of the next event.
  var number: UInt64
}

extension SharedTable {
  private enum RingWord: Int {
    case wantedUntil = 0
    case head, count, reserved, pendingVersion, pendingEnd, pendingCount
  }

  private static var ringStart: Int { 8 }
  /// More words than are ever recorded; a position or a number beyond it is garbage.
  private static var mostWords: UInt64 { 1 << 60 }
  private var ringSlots: UInt64 { UInt64(shape.removalWords - Self.ringStart) }

  @unsafe private func ring(_ name: RingWord) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe word(shape.removals + name.rawValue * 8)
  }

  @unsafe private func ring(at position: UInt64) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe word(shape.removals + (Self.ringStart + Int(position % ringSlots)) * 8)
  }

  /// The time until which writers record removals, in milliseconds of the monotonic clock.
  var removalsWantedUntil: UInt64 {
    unsafe ring(.wantedUntil).pointee.load(ordering: .acquiring)
  }

  /// Extends the time until which writers record removals.
  ///
  /// - Parameter limit: A later time than any process asks for: a word beyond it is garbage.
  func wantRemovals(until time: UInt64, limit: UInt64) {
    let word = unsafe ring(.wantedUntil)
    if unsafe word.pointee.load(ordering: .relaxed) > limit {
      unsafe word.pointee.store(time, ordering: .releasing)
    }
    _ = unsafe word.pointee.max(time, ordering: .acquiringAndReleasing)
  }

  /// The most words of the events of one transaction. Later events of it are left out and counted.
  var removalLimit: Int { Int(ringSlots / 2) }

  /// The number of the next event. The caller holds the writer lock.
  var removalCount: UInt64 { unsafe ring(.count).pointee.load(ordering: .relaxed) }

  /// Whether events wait for the commit of their transaction.
  var hasPendingRemovals: Bool {
    unsafe ring(.pendingVersion).pointee.load(ordering: .relaxed) != 0
  }

  /// The place behind the newest event.
  var newestRemoval: RemovalCursor {
    let number = unsafe ring(.count).pointee.load(ordering: .acquiring)
    return RemovalCursor(
      position: unsafe ring(.head).pointee.load(ordering: .acquiring), number: number)
  }

  // MARK: The writer

  /// E1: stores the events of a transaction. The caller holds the writer lock.
  func stageRemovals(_ words: [UInt64], count: UInt64, commitVersion: UInt64) {
    let head = unsafe ring(.head).pointee.load(ordering: .relaxed)
    let end = head &+ UInt64(words.count)
    unsafe ring(.reserved).pointee.store(end, ordering: .relaxed)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    for (offset, value) in words.enumerated() {
      unsafe ring(at: head &+ UInt64(offset)).pointee.store(value, ordering: .relaxed)
    }
    unsafe ring(.pendingEnd).pointee.store(end, ordering: .relaxed)
    unsafe ring(.pendingCount).pointee.store(removalCount &+ count, ordering: .relaxed)
    unsafe ring(.pendingVersion).pointee.store(commitVersion, ordering: .releasing)
  }

  /// E2: publishes the events of the transaction that was committed, if it has any. The caller holds
  /// the ticket.
  func publishRemovals(of commitVersion: UInt64) {
    let version = unsafe ring(.pendingVersion).pointee.load(ordering: .relaxed)
    if version == commitVersion { publishRemovals() }
  }

  private func publishRemovals() {
    let end = unsafe ring(.pendingEnd).pointee.load(ordering: .relaxed)
    let count = unsafe ring(.pendingCount).pointee.load(ordering: .relaxed)
    unsafe ring(.count).pointee.store(count, ordering: .relaxed)
    unsafe ring(.head).pointee.store(end, ordering: .releasing)
    unsafe ring(.pendingVersion).pointee.store(0, ordering: .releasing)
  }

  /// E3: publishes or discards the events that another writer left. The caller holds the writer lock
  /// for the transaction `commitVersion`.
  func settleRemovals(before commitVersion: UInt64) {
    let version = unsafe ring(.pendingVersion).pointee.load(ordering: .relaxed)
    if version == 0 { return }
    if version < commitVersion { return publishRemovals() }
    unsafe ring(.pendingVersion).pointee.store(0, ordering: .releasing)
  }

  // MARK: A reader

  /// The outcome of a read at a place of the ring.
  enum NextRemoval {
    case none
    case event(RecordedRemoval)
    /// Events were overwritten or left out: at least this number.
    case lost(Int)
  }

  /// Reads the next event, and moves the cursor behind it.
  ///
  /// - Parameter isCommitted: Returns whether a transaction is committed.
  func nextRemoval(
    _ cursor: inout RemovalCursor, isCommitted: (UInt64) throws -> Bool
  ) rethrows -> NextRemoval {
    let end = try endOfRemovals(isCommitted)
    if end.position == cursor.position {
      // The last transaction had more events than are recorded.
      return end.number > cursor.number ? skip(to: end, &cursor) : .none
    }
    guard end.position < Self.mostWords, end.position > cursor.position,
      end.position - cursor.position <= ringSlots,
      let words = copyEvent(at: cursor.position, before: end.position)
    else {
      return skip(to: end, &cursor)
    }
    guard words[1] == cursor.number, cursor.number < Self.mostWords else {
      let lost = words[1] > cursor.number ? words[1] - cursor.number : 0
      if lost == 0 || words[1] >= Self.mostWords { return skip(to: end, &cursor) }
      cursor.number = words[1]
      return .lost(Int(clamping: lost))
    }
    guard let event = RecordedRemoval(words) else { return skip(to: end, &cursor) }
    cursor.position += UInt64(words.count)
    cursor.number += 1
    return .event(event)
  }

  private func skip(to end: RemovalCursor, _ cursor: inout RemovalCursor) -> NextRemoval {
    let lost = end.number > cursor.number ? end.number - cursor.number : 0
    cursor = end
    return .lost(Int(clamping: lost))
  }

  private func endOfRemovals(_ isCommitted: (UInt64) throws -> Bool) rethrows -> RemovalCursor {
    let version = unsafe ring(.pendingVersion).pointee.load(ordering: .acquiring)
    guard version != 0, try isCommitted(version) else { return newestRemoval }
    let pending = RemovalCursor(
      position: unsafe ring(.pendingEnd).pointee.load(ordering: .relaxed),
      number: unsafe ring(.pendingCount).pointee.load(ordering: .relaxed))
    atomicMemoryFence(ordering: .acquiring)
    // Otherwise another writer has begun, and has settled it.
    guard unsafe ring(.pendingVersion).pointee.load(ordering: .relaxed) == version else {
      return newestRemoval
    }
    return pending
  }

  private func copyEvent(at position: UInt64, before end: UInt64) -> [UInt64]? {
    let first = unsafe ring(at: position).pointee.load(ordering: .relaxed)
    let length = first & 0xFFFF
    guard (4...UInt64(4 + RecordedRemoval.keyLimit / 8)).contains(length), position + length <= end
    else { return nil }
    var words: [UInt64] = []
    words.reserveCapacity(Int(length))
    for offset in 0..<length {
      words.append(unsafe ring(at: position + offset).pointee.load(ordering: .relaxed))
    }
    atomicMemoryFence(ordering: .acquiring)
    let reserved = unsafe ring(.reserved).pointee.load(ordering: .relaxed)
    return reserved >= position && reserved - position <= ringSlots ? words : nil
  }

  /// Lets writers of this table record what those of another one record.
  func inheritRemovalInterest(from old: SharedTable) {
    wantRemovals(until: old.removalsWantedUntil, limit: .max)
  }
}
