// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// THE SLOTS OF NAMES
//
// A name has one slot; a slot is used again for another name only if all slots within its reach are in
// use, and this one by no process. If there is no such slot, a lock is refused. A limiter shares a slot
// then: the slot's name is the rate and a number that the hash of the limiter's name gives. The calls of
// all names that share it count together, so none is ever permitted more than its rate.
//
// A limiter gets a separate slot, later, only while no caller waits in the shared one, under the
// ticket of that, and with its state: calls that were counted there count for the name still. A caller
// that found the shared slot searches again when it has its ticket.

/// The slots in which the slot of a name is, in the order of the search.
private struct LockPlaces {
  private let first: Int
  private let count: Int
  private let start: Int
  let reach: Int

  init(of key: LockKey, in table: LockTable) {
    (first, count) = key.isShared ? (table.named, table.shared) : (0, table.named)
    start = Int(key.hash % UInt64(count))
    reach = key.isShared ? count : table.reach
  }

  subscript(step: Int) -> Int {
    let place = start + step
    return first + (place < count ? place : place - count)
  }
}

extension LockFile {
  /// Returns the slot of a name.
  func find(_ key: LockKey) -> Int? {
    let places = LockPlaces(of: key, in: table)
    // Damage can free a slot in the middle, so a free slot does not end the search.
    for step in 0..<places.reach where matches(places[step], key) { return places[step] }
    return nil
  }

  /// Returns whether a slot is that of a call, which has its ticket.
  func serves(_ slot: Int, _ call: LockCall) -> Bool {
    if slot < table.named { return matches(slot, call.key) }
    return matches(slot, call.key.shared(call.parameters)) && find(call.key) == nil
  }

  /// Returns whether a slot belongs to a name: all bytes are compared.
  func matches(_ slot: Int, _ key: LockKey) -> Bool {
    let offset = Layout.slot(slot)
    guard words.load(offset) == key.hash, words.load(offset + Layout.slotKey) == key.word else {
      return false
    }
    for (index, word) in key.words.enumerated()
    where words.load(offset + Layout.slotName + 8 * index) != word {
      return false
    }
    return true
  }

  /// Returns the name in a slot, or `nil` if the slot is free or damaged.
  func key(of slot: Int) -> LockKey? {
    let offset = Layout.slot(slot)
    let (hash, word) = (words.load(offset), words.load(offset + Layout.slotKey))
    guard hash != 0, let kind = LockKind(code: UInt8(truncatingIfNeeded: word)),
      (1...UInt64(LockKey.longestName)).contains(word >> 8)
    else { return nil }
    let name = (0..<Int(word >> 8)).map { index in
      UInt8(
        truncatingIfNeeded: words.load(offset + Layout.slotName + index / 8 * 8)
          >> UInt64(index % 8 * 8))
    }
    let key = LockKey(kind, name: name)
    return key.hash == hash ? key : nil
  }

  /// Returns the slot of a name, and creates it if the name has none.
  ///
  /// - Returns: `nil` if another process creates a slot and the caller must not wait, or the deadline
  ///   passed.
  /// - Throws: ``StoreError/Code/tooManyLocks`` if each slot has another name and is in use; for a
  ///   limiter, another rate.
  func slot(of call: LockCall, mayWait: Bool) throws -> Int? {
    if let slot = find(call.key) { return slot }
    let ticket = words.ticket(at: Layout.allocation)
    if !ticket.tryTake(as: ownNumber) {
      guard mayWait,
        try waitForTicket(
          at: Layout.allocation, inside: Layout.allocationInside, until: call.deadline,
          { try call.proceed() })
      else { return nil }
    }
    words.store(owner, at: Layout.allocationInside)
    defer {
      words.store(0, at: Layout.allocationInside)
      ticket.release(as: ownNumber)
    }
    if let slot = find(call.key) { return slot }
    let slot = table.shared > 0 ? try sharingSlot(of: call, mayWait) : try create(call, mayWait)
    // Without waiting, a slot whose ticket is damaged cannot be used.
    if let slot { return slot }
    if !mayWait { return nil }
    throw StoreError(
      .tooManyLocks, during: "lock", path: path,
      table.shared > 0
        ? "The limiters of this store have too many different rates. Use fewer, or another store."
        : "\(table.named) names of locks of this store are in use. Use fewer names, or another store."
    )
  }

  /// Gives the name of a limiter a slot: its own, or the one that it shares. The caller has the ticket
  /// of the allocation.
  private func sharingSlot(of call: LockCall, _ mayWait: Bool) throws -> Int? {
    let key = call.key.shared(call.parameters)
    guard let shared = find(key) else {
      return try create(call, mayWait) ?? create(call, as: key, mayWait)
    }
    guard enterSoon(shared) else { return shared }
    defer { leave(shared) }
    guard words.load32(Layout.slot(shared) + Layout.slotFirst) == 0 else { return shared }
    return try create(call, withStateOf: shared, mayWait) ?? shared
  }

  /// Gives a name a slot: a free one, or else one that is damaged, or whose name no process uses.
  private func create(
    _ call: LockCall, as key: LockKey? = nil, withStateOf shared: Int? = nil, _ mayWait: Bool
  ) throws -> Int? {
    let key = key ?? call.key
    for isReplacing in [false, true] {
      guard let slot = try enterNew(for: key, call, replacing: isReplacing, mayWait) else {
        continue
      }
      defer { leave(slot) }
      write(key, to: slot, call, withStateOf: shared)
      return slot
    }
    return nil
  }

  /// Acquires the ticket of a slot that can be given to a name.
  private func enterNew(
    for key: LockKey, _ call: LockCall, replacing isReplacing: Bool, _ mayWait: Bool
  ) throws -> Int? {
    let places = LockPlaces(of: key, in: table)
    for step in 0..<places.reach {
      let slot = places[step]
      let isUnused = words.load(Layout.slot(slot)) == 0
      let isFree = isUnused || isReplacing && self.key(of: slot) == nil
      guard isFree || isReplacing && isAtRest(slot) else { continue }
      if !tryEnter(slot) {
        // A damaged slot has a damaged ticket, which is free after a nap.
        let nap = Clocks.monotonicNanoseconds() + Self.checkNanoseconds
        guard isFree, mayWait, try enter(slot, until: nap, proceed: { try call.proceed() }) else {
          continue
        }
      }
      if isFree { return slot }
      reap(slot)
      if words.load32(Layout.slot(slot) + Layout.slotFirst) == 0, isAtRest(slot) { return slot }
      leave(slot)
    }
    return nil
  }

  private func write(
    _ key: LockKey, to slot: Int, _ call: LockCall, withStateOf shared: Int?
  ) {
    let offset = Layout.slot(slot)
    // Tokens of the former name stay below later ones, in case it gets a slot again.
    let former = token(at: offset + Layout.slotToken) ?? 0
    if former > token(at: Layout.tokenFloor) ?? 0 { storeToken(former, at: Layout.tokenFloor) }
    words.store(0, at: offset)
    // Holders of a name whose slot was damaged do not hold the new name.
    for request in 0..<Layout.requestCount
    where words.load32(Layout.request(request) + Layout.requestSlot) == UInt32(slot) {
      words.store32(.max, at: Layout.request(request) + Layout.requestSlot)
    }
    words.store32(0, at: offset + Layout.slotFirst)
    words.store(key.word, at: offset + Layout.slotKey)
    for index in 0..<32 {
      words.store(
        index < key.words.count ? key.words[index] : 0, at: offset + Layout.slotName + 8 * index)
    }
    words.store(1, at: offset + Layout.slotNextID)
    let commitVersion = (try? call.store.core.generation().table.writerVersion) ?? 0
    storeToken(lowestToken(commitVersion), at: offset + Layout.slotToken)
    for index in 0..<(2 + Layout.slotWordCount) {
      let word = Layout.slotParameters + 8 * index
      words.store(shared.map { words.load(Layout.slot($0) + word) } ?? 0, at: offset + word)
    }
    words.store(key.hash, at: offset)
  }
}
