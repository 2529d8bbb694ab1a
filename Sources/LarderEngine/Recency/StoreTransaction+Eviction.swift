// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// EVICTION
//
// Eviction runs inside the write transaction, before the insert, so no commit of any process
// exceeds a budget. It first removes expired entries, which the table `expiries` finds. Then the
// policy chooses.
//
// `.adaptive` takes the next entry of the eviction queues (`EvictionQueues.swift`):
//
//   small queue over its share: its first entry. If it was used, it moves to the main queue,
//     otherwise it is evicted.
//   otherwise the first entry of the main queue. If it was used, it moves to the end with one use
//     less, otherwise it is evicted.
//
// A number of such steps finds a victim; after that the first entry of the main queue is one, used
// or not. So the work for an insert is bounded, except where guaranteed minimums have most of the
// entries: then samples, and in the end all entries, are searched for one that may go.
//
// `.sampledLRU` evicts the least recently used entries of a random sample. Entries are ordered by a
// keyed hash, so the neighbours of a random position are a random sample, and one cursor reads them
// in sequence. There is no list and no heap, so a crash leaves nothing to repair. The more bytes
// must be freed, the larger the sample and the share that is evicted from it. A sample is also what
// finds the entries that the queues do not name.

extension StoreTransaction {
  private static var sampleSize: Int { 32 }
  private static var maximumVictims: Int { 16 }
  /// The rounds without a victim after which entries of the transaction itself are evicted. The last
  /// of them, and each later one, visits all entries of the store.
  private static var sparingRounds: Int { 4 }
  /// The most elements of the queues that are looked at for a victim.
  private static var maximumSteps: Int { 64 }
  /// The entries that one transaction evicts in a store that exceeds a lower budget, beyond what makes
  /// room for its own.
  private static var step: Int { 1000 }
  /// The uses with which an entry of the small queue moves to the main queue.
  private static var usesToStay: Int { 2 }

  /// Evicts until an entry of `cost` bytes fits into the budgets.
  mutating func makeRoom(for cost: Int) throws {
    if isOver(adding: cost, entries: 1) { try makeRoom(for: cost, entries: 1) }
    try limitPages(adding: cost)
  }

  /// Counts bytes of objects against the budget.
  package mutating func countObjects(removing old: UInt64, adding new: UInt64) {
    totals.objectBytes = totals.objectBytes - min(totals.objectBytes, old) &+ new
  }

  /// Evicts entries for the objects that the transaction has added.
  ///
  /// - Throws: ``StoreError/Code/valueTooLarge`` if no entries are left that may be evicted.
  package mutating func makeRoomForObjects() throws {
    if totals.objectBytes > storedTotals.objectBytes {
      try requireRoom(forBytes: Int(clamping: totals.objectBytes - storedTotals.objectBytes))
    }
    guard isOver(adding: 0, entries: 0, countsEntries: false),
      totals.charged > storedTotals.charged
    else { return }
    try makeRoom(for: 0, entries: 0)
  }

  private mutating func makeRoom(for cost: Int, entries: UInt64) throws {
    let (budget, limit, entryBudget) = (budget, byteLimit, entryBudget)
    // Objects are no entries: an entry budget says nothing about them.
    let isOfEntry = entries > 0
    try removeExpired(limit: 256) { totals in
      budget > 0 && totals.charged + UInt64(cost) > limit
        || isOfEntry && entryBudget > 0 && totals.entries + entries > entryBudget
    }
    // A process that lowered a budget was killed before the store fitted it. Objects are counted by now.
    let before = isOfEntry ? totals : storedTotals
    let wasOver = isOfEntry ? isOver(adding: 0, entries: 0) : budget > 0 && before.charged > limit
    func hasGrown(_ now: StoreTotals) -> Bool {
      now.charged + UInt64(cost) > before.charged
        || isOfEntry && now.entries + entries > before.entries
    }
    var emptyRounds = 0
    defer { takesFromMinimums = false }
    while isOver(adding: cost, entries: entries, countsEntries: isOfEntry),
      totals.entries > totals.pinned.entries
    {
      takesFromMinimums = emptyRounds >= Self.sparingRounds
      let count = try evict(
        wanted: victims(adding: cost, entries: entries), round: emptyRounds,
        sparingOwn: sparesOwn && emptyRounds < Self.sparingRounds)
      if wasOver { trimmed += count }
      emptyRounds = count == 0 ? emptyRounds + 1 : 0
      // All entries were visited. The next insert of this transaction would search in vain again.
      if emptyRounds >= Self.sparingRounds { sparesOwn = false }
      // The rest is left to later writes: a transaction has room for a limited number of pages.
      if wasOver, trimmed >= Self.step, !hasGrown(totals) { break }
      // The last round has visited all entries.
      if emptyRounds > Self.sparingRounds {
        // Without entries that must stay, the totals are wrong.
        if totals.pinned.entries == 0, try sumOfMinimums() == 0 { try recount() }
        break
      }
    }
    if isOver(adding: cost, entries: entries, countsEntries: isOfEntry),
      !wasOver || hasGrown(totals)
    {
      throw try noRoom(for: cost)
    }
    try fault(throwing: .afterEviction)
  }

  /// Returns the error for an entry, or for objects (with a cost of 0), for which only pinned or
  /// guaranteed entries would have to go.
  func noRoom(for cost: Int) throws -> StoreError {
    let guaranteed = ByteCount(bytes: Int(clamping: try sumOfMinimums()))
    let pinned = ByteCount(bytes: Int(clamping: totals.pinned.bytes))
    var budgets: [String] = []
    if budget > 0 { budgets.append("\(ByteCount(bytes: Int(clamping: budget)))") }
    if entryBudget > 0 { budgets.append("\(entryBudget) entries") }
    let objects = ByteCount(bytes: Int(clamping: totals.objectBytes))
    let subject =
      cost == 0 ? "The objects do not fit." : "The entry has \(ByteCount(bytes: cost))."
    return StoreError(
      .valueTooLarge, during: cost == 0 ? "save" : "set", path: generation.path,
      "\(subject) Of the budget of \(budgets.joined(separator: " and ")), objects have \(objects), "
        + "\(totals.pinned.entries) pinned entries have \(pinned), and namespaces are guaranteed "
        + "\(guaranteed). Raise the budget, or remove objects, pinned entries or a minimum.")
  }

  /// Evicts at most `limit` entries towards lower budgets. Returns `false` if more eviction is
  /// needed.
  mutating func trim(limit: Int) throws -> Bool {
    var removed = 0
    var emptyRounds = 0
    defer { takesFromMinimums = false }
    while isOver(adding: 0, entries: 0), totals.entries > totals.pinned.entries,
      emptyRounds <= Self.sparingRounds
    {
      takesFromMinimums = emptyRounds >= Self.sparingRounds
      if removed >= limit { return false }
      let count = try evict(
        wanted: victims(adding: 0, entries: 0), round: emptyRounds, sparingOwn: false)
      removed += count
      emptyRounds = count == 0 ? emptyRounds + 1 : 0
    }
    return true
  }

  /// Evicts up to `share` entries of samples, to free space on the disk.
  mutating func evict(share: Int) throws {
    var removed = 0
    var emptyRounds = 0
    while removed < share, totals.entries > totals.pinned.entries,
      emptyRounds <= Self.sparingRounds
    {
      let count = try evict(wanted: Self.maximumVictims, round: emptyRounds, sparingOwn: false)
      removed += count
      emptyRounds = count == 0 ? emptyRounds + 1 : 0
    }
  }

  /// Evicts neighbours that fill about as many pages, at most an eighth of the entries.
  mutating func evictNeighbours(pages: Int) throws {
    let average = max(Int(clamping: totals.bytes / max(totals.entries, 1)), 64)
    let eighth = Int(clamping: totals.entries / 8)
    // Expirations and tags of many small entries are on as many other pages.
    try evictNeighbours(max(min(pages * 4096 / average, eighth, 1000), 1))
  }

  /// Evicts neighbours regardless of their recency: that touches few pages and frees whole ones.
  mutating func evictNeighbours(_ count: Int) throws {
    for victim in try sample(.init(count: count, visits: 32 * count)).reversed() {
      if try isGuaranteed(victim.header, at: victim.offset, hash: victim.hash) { continue }
      try evict(victim.header, at: victim.offset, hash: victim.hash)
    }
  }

  // MARK: The budgets

  private var byteLimit: UInt64 { budget + (Mutant.budgetOffByOne.isActive ? 1 : 0) }

  /// Returns whether entries of this number and cost exceed a budget.
  private func isOver(adding cost: Int, entries: UInt64, countsEntries: Bool = true) -> Bool {
    budget > 0 && totals.charged + UInt64(cost) > byteLimit
      || countsEntries && isOverEntries(adding: entries)
  }

  /// Returns whether this number of entries exceeds the entry budget.
  func isOverEntries(adding entries: UInt64) -> Bool {
    entryBudget > 0 && totals.entries + entries > entryBudget
  }

  /// Returns how many entries of the average size have to go, within the limit of one sample.
  private func victims(adding cost: Int, entries: UInt64) -> Int {
    var wanted: UInt64 = 1
    if budget > 0, totals.charged + UInt64(cost) > byteLimit {
      let average = max(totals.bytes / max(totals.entries, 1), 1)
      wanted = (totals.charged + UInt64(cost) - byteLimit) / average + 1
    }
    if entryBudget > 0, totals.entries + entries > entryBudget {
      wanted = max(wanted, totals.entries + entries - entryBudget)
    }
    return Int(min(wanted, UInt64(Self.maximumVictims)))
  }

  // MARK: The queues

  /// Adds a new entry to the eviction queues, if the store has them.
  ///
  /// - Returns: The number of the admission, for the entry's header.
  mutating func admit(_ header: EntryHeader, hash: UInt64) throws -> UInt32 {
    guard usesQueues, !header.isPinned else { return 0 }
    return withQueues { [totals] in
      $0.admit(prefix: hashPrefix(hash), cost: header.cost, totals)
    }
  }

  mutating func withQueues<R>(_ body: (inout EvictionQueues) throws -> R) rethrows -> R {
    if queues == nil { queues = EvictionQueues(generation.table) }
    return try body(&queues!)
  }

  /// Evicts entries by the policy of the store.
  ///
  /// - Parameters:
  ///   - wanted: The number of victims, if they come from a sample.
  ///   - round: The number of samples before this one in which there was no victim.
  ///   - sparingOwn: Whether entries of this transaction stay, if others can be found.
  /// - Returns: The number of entries that were removed.
  mutating func evict(wanted: Int, round: Int, sparingOwn: Bool) throws -> Int {
    if usesQueues, try evictFromQueues(sparingOwn: sparingOwn) { return 1 }
    guard EvictionPolicy(code: generation.table.policyCode) != nil else {
      throw StoreError.unknownPolicy(
        generation.table.policyCode, during: "write", path: generation.path)
    }
    return try evictFromSample(
      wanted: wanted,
      .init(
        count: Self.sampleSize * wanted,
        visits: round < Self.sparingRounds - 1 ? 32 * Self.sampleSize : .max,
        sparesOwn: sparingOwn))
  }

  /// Evicts the next entry of the queues, if they name as many entries as the store has.
  ///
  /// - Returns: Whether an entry was evicted.
  private mutating func evictFromQueues(sparingOwn: Bool) throws -> Bool {
    let evictable = totals.entries - min(totals.entries, totals.pinned.entries)
    guard withQueues({ $0.count >= evictable }) else { return false }
    for step in 1...Self.maximumSteps {
      if let done = try evictFromSmall(sparingOwn: sparingOwn) {
        if done { return true }
        continue
      }
      guard let element = queues!.popMain() else { return false }
      let uses = generation.table.uses.uses(element.prefix)
      if uses > 0, step < Self.maximumSteps {
        generation.table.uses.setUses(element.prefix, uses - 1)
        queues!.appendToMain(element)
        continue
      }
      guard let found = try entry(of: element) else { continue }
      if try sparingOwn && found.header.commitVersion == commitVersion
        || isGuaranteed(found.header, at: found.offset, hash: found.hash)
      {
        queues!.appendToMain(element)
        continue
      }
      try evict(found, element, fromMain: true)
      return true
    }
    return false
  }

  /// Looks at the first entry of the small queue, if it is the small queue's turn.
  ///
  /// - Returns: Whether the entry was evicted, or `nil` if it is the main queue's turn.
  private mutating func evictFromSmall(sparingOwn: Bool) throws -> Bool? {
    guard let element = queues!.firstSmall,
      queues!.isMainEmpty || queues!.isSmallOverShare(ofBytes: totals.bytes)
    else { return nil }
    guard let found = try entry(of: element) else {
      queues!.popSmall()
      return false
    }
    // All later entries of the small queue are of this transaction as well.
    if sparingOwn, found.header.commitVersion == commitVersion { return nil }
    queues!.changeSmallBytes(removing: found.header.cost, adding: 0)
    queues!.popSmall()
    let uses = generation.table.uses
    let stays = uses.uses(element.prefix) >= Self.usesToStay
    if try stays && !isDead(found)
      || isGuaranteed(found.header, at: found.offset, hash: found.hash)
    {
      uses.setUses(element.prefix, 0)
      queues!.appendToMain(element)
      return false
    }
    try evict(found, element, fromMain: false)
    return true
  }

  private mutating func evict(
    _ found: FoundEntry, _ element: EvictionQueues.Element, fromMain: Bool
  ) throws {
    if try !isDead(found) {
      queues!.addGhost(element.prefix, fromMain: fromMain, entries: totals.entries)
    }
    try evict(found.header, at: found.offset, hash: found.hash)
  }

  /// Removes an entry, and counts an eviction if a process could see the entry.
  @discardableResult
  mutating func evict(_ header: EntryHeader, at offset: Int, hash: UInt64) throws -> Int {
    if generation.table.isExpired(header, hash: hash, at: now) {
      expired += 1
    } else if try !isRemoved(header, at: offset, hash: hash) {
      evicted += 1
    }
    return try removeItems(hash: hash, .evicted) { $0.offset == offset }
  }

  private mutating func isDead(_ found: FoundEntry) throws -> Bool {
    try !isVisible(found.header, at: found.offset, hash: found.hash)
  }

  private struct FoundEntry {
    let hash: UInt64
    let offset: Int
    let header: EntryHeader

    /// Searches a record for the entry with a number of admission.
    init?(_ hash: UInt64, in record: RawSpan, admission: UInt32) {
      var offset = 0
      while offset < record.byteCount, let header = try? EntryHeader(in: record, at: offset) {
        if header.admission == admission, !header.isPinned {
          self.hash = hash
          self.offset = offset
          self.header = header
          return
        }
        offset += header.storedLength
      }
      return nil
    }
  }

  /// Returns the entry that an element of a queue names, or `nil` if it was removed.
  private mutating func entry(of element: EvictionQueues.Element) throws -> FoundEntry? {
    var cursor = try Cursor(over: generation.entries, in: transaction)
    var more = try cursor.move(atLeast: UInt64(element.prefix) << 32)
    // More than one key with the same half of its hash is rare.
    for _ in 0..<16 {
      guard more else { return nil }
      let hash = cursor.currentInteger
      guard hashPrefix(hash) == element.prefix else { return nil }
      if let found = FoundEntry(hash, in: cursor.currentValue, admission: element.admission) {
        return found
      }
      more = try cursor.moveToNext()
    }
    return nil
  }
}
