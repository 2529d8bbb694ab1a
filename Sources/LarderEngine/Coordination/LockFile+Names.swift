// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The lock slots of names. A name has one slot; a slot is used again for another name only if all
/// slots are in use, and this one by no process.
extension LockFile {
  /// Returns the slot of a name.
  func find(_ key: LockKey) -> Int? {
    let start = Int(key.hash % UInt64(Layout.slotCount))
    // Damage can free a slot in the middle, so a free slot does not end the search.
    for step in 0..<Layout.slotCount {
      let slot = (start + step) & (Layout.slotCount - 1)
      if matches(slot, key) { return slot }
    }
    return nil
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
  /// - Throws: ``StoreError/Code/tooManyLocks`` if each slot has another name and is in use.
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
    if let slot = try create(call, replacing: false, mayWait) { return slot }
    if let slot = try create(call, replacing: true, mayWait) { return slot }
    // Without waiting, a slot whose ticket is damaged cannot be used.
    if !mayWait { return nil }
    throw StoreError(
      .tooManyLocks, during: "lock", path: path,
      "\(Layout.slotCount) names of locks of this store are in use. Use fewer names, or another store."
    )
  }

  /// Gives a name a slot.
  ///
  /// - Parameter isReplacing: Whether slots are used that are damaged, or whose name no process uses.
  private func create(
    _ call: LockCall, replacing isReplacing: Bool, _ mayWait: Bool
  ) throws -> Int? {
    let start = Int(call.key.hash % UInt64(Layout.slotCount))
    for step in 0..<Layout.slotCount {
      let slot = (start + step) & (Layout.slotCount - 1)
      let isUnused = words.load(Layout.slot(slot)) == 0
      let isFree = isUnused || isReplacing && key(of: slot) == nil
      guard isFree || isReplacing else { continue }
      if !tryEnter(slot) {
        // A damaged slot has a damaged ticket, which is free after a nap.
        let nap = Clocks.monotonicNanoseconds() + Self.checkNanoseconds
        guard isFree, mayWait, try enter(slot, until: nap, proceed: { try call.proceed() }) else {
          continue
        }
      }
      defer { leave(slot) }
      if !isFree {
        reap(slot)
        guard words.load32(Layout.slot(slot) + Layout.slotFirst) == 0, isAtRest(slot) else {
          continue
        }
      }
      write(call, to: slot)
      return slot
    }
    return nil
  }

  private func write(_ call: LockCall, to slot: Int) {
    let offset = Layout.slot(slot)
    let key = call.key
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
      words.store(0, at: offset + Layout.slotParameters + 8 * index)
    }
    words.store(key.hash, at: offset)
  }
}
