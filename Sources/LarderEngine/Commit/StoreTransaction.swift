// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// The state of a layer above the engine during one write transaction.
package struct TransactionLayer {
  package let state: AnyObject
  /// Called after the last call of the user, before the engine writes its counters.
  let finish: (inout StoreTransaction) throws -> Void

  package init(
    _ state: AnyObject, finish: @escaping (inout StoreTransaction) throws -> Void
  ) {
    self.state = state
    self.finish = finish
  }
}

/// A write transaction of a store. All of its changes become visible at once, or none.
///
/// ```swift
/// try store.write { transaction in
///   try transaction.setBytes([1], forKey: "a", in: "accounts")
///   try transaction.setBytes([2], forKey: "b", in: "accounts")
/// }
/// ```
///
/// The transaction is valid only during the closure, on the closure's thread. Other processes see
/// its changes when the closure has returned and the commit has ended.
public struct StoreTransaction: ~Copyable {
  package var transaction: WriteTransaction
  package let generation: Generation
  /// The commit version of every entry that this transaction writes.
  package let commitVersion: UInt64
  package let now: Int64
  package let budget: UInt64
  let entryBudget: UInt64
  /// The eviction queues, once the transaction has used them.
  var queues: EvictionQueues?
  let usesQueues: Bool

  var totals: StoreTotals
  var storedTotals: StoreTotals
  private(set) var namespaces = NamespaceRecordCache()
  /// The namespaces used by name, so that each is hashed and searched once.
  private var spaces: [NamespaceHandle] = []
  /// The slots whose keys were written or removed; they are stamped before the commit.
  package private(set) var touchedSlots = TouchedSlots()
  var clearedNamespaces: [UInt32] = []
  package var raisesFloor = false
  /// The entries that the transaction removes, while a process wants to know them.
  var removals: RemovalLog?
  /// The entries that the transaction removes without recording them.
  var unrecordedRemovals: UInt64 = 0
  /// The changes of entries, if the store has a change log.
  var changes: ChangeWriter?
  /// The number of removals by tag.
  var tagRemovals: UInt32 = 0
  /// The namespaces of entries that were written or removed, if the store has monitors.
  var writtenSpaces: [NamespaceHandle]?
  private var newNumbers: [(NamespaceHandle, UInt32)] = []
  /// Whether pinned entries are stored beyond their share of the budget.
  var exceedsPinLimit = false
  /// The deques that the transaction has used.
  var deques: [UsedDeque] = []
  /// The state of the object layer, once it has used the transaction.
  package var layer: TransactionLayer?
  private var isForced = false
  /// Whether LMDB has something to commit even if the counters are unchanged.
  var hasWrittenEntries = false
  package var evicted: UInt64 = 0
  /// The hashes of entries that the transaction may have stored and then evicted, or changed for another
  /// process.
  var replacedOwn: Set<UInt64> = []
  /// The pages that a full disk has left, if the transaction must leave some of them.
  var room: DiskRoom?
  /// The claimed offers that are not executed yet.
  var offers: [ClaimedOffer] = []
  /// Whether an eviction may still find entries that this transaction did not store.
  var sparesOwn = true
  /// The namespace of the entry that is stored now, or zero.
  var writing: UInt32 = 0
  /// Whether an eviction takes all but the minimums of namespaces, because nothing else is left.
  var takesFromMinimums = false
  /// The error of an operation that failed after it had changed something.
  var failure: StoreError?
  /// The entries that were evicted because the store exceeded a lower budget.
  var trimmed = 0
  var expired: UInt64 = 0
  /// The number of entries that the transaction has stored.
  var puts = 0
  /// The earliest expiration time after the transaction, once a search has found it.
  var earliestExpiry: Int64?
  package var bytesWritten: UInt64 = 0
  package var random = SystemRandomNumberGenerator()

  init(
    _ transaction: consuming WriteTransaction, in generation: Generation, commitVersion: UInt64,
    now: Int64
  ) throws {
    let before = transaction.id &- 1
    let known = generation.books.withLock { $0?.transaction == before ? $0 : nil }
    if let namespace = known?.namespace { namespaces.learn(namespace.number, namespace.record) }
    var totals = known?.totals
    if totals == nil, let record = try transaction.value(forKey: StoreTotals.key, in: .main) {
      totals = StoreTotals(record)
    }
    guard let totals else {
      throw LMDBError(.corrupted, during: "the totals record")
    }
    self.transaction = transaction
    self.generation = generation
    self.commitVersion = commitVersion
    self.now = now
    self.budget = generation.table.budget
    self.entryBudget = generation.table.entryBudget
    usesQueues =
      (budget > 0 || entryBudget > 0)
      && generation.table.policyCode == EvictionPolicy.adaptive.code
    removals = RemovalLog(generation.table)
    if totals.changeCapacity > 0 { changes = ChangeWriter(tail: known?.changeTail) }
    self.totals = totals
    self.storedTotals = totals
  }

  /// Whether there is something to commit.
  var hasChanges: Bool {
    isForced || !touchedSlots.isEmpty || namespaces.hasChanges || totals != storedTotals
  }

  /// Makes the transaction commit without changes (a no-op commit).
  package mutating func force() { isForced = true }

  package mutating func touch(hash: UInt64) { touchedSlots.append(StampSlot(hash: hash)) }

  /// Makes the transaction store nothing, because an operation failed after it had changed something.
  mutating func fail(_ error: any Error) {
    let cause = StoreError(wrapping: error, during: "write", path: generation.path)
    failure = StoreError(
      cause.code, during: "write", path: generation.path,
      "An operation of the transaction failed after a partial write, and the closure caught the error. "
        + "The transaction stores nothing. Rethrow the error from the closure. The error: "
        + cause.message)
  }

  /// Throws the error of an earlier operation that failed after it had changed something.
  func requireNoFailure() throws(StoreError) { if let failure { throw failure } }

  /// Returns the error for an entry that the current budget does not allow, or `nil` if the entry
  /// is allowed.
  func refusal(of content: EntryContent, for key: EncodedKey) -> StoreError? {
    do throws(StoreError) {
      try StoreCore.check(
        keyLength: key.bytes.count, content: content, budget: budget)
      return nil
    } catch {
      return error
    }
  }

  /// Runs `body` in a snapshot that contains the transaction's own changes.
  package func withSnapshot<R>(_ body: (borrowing Snapshot) throws -> R) rethrows -> R {
    try transaction.withReading {
      try body(
        Snapshot(
          SnapshotView(generation: generation, commitVersion: commitVersion), $0,
          showsUncommitted: true))
    }
  }

  // MARK: Namespaces

  /// Records a namespace for the monitors of the store.
  @inline(__always)
  mutating func noteWrite(in space: NamespaceHandle) {
    if writtenSpaces != nil { addWritten(space) }
  }

  @inline(never)
  private mutating func addWritten(_ space: NamespaceHandle) {
    guard writtenSpaces!.count < 64,
      !writtenSpaces!.contains(where: { $0.nameBytes == space.nameBytes })
    else { return }
    writtenSpaces!.append(space)
  }

  /// Returns the namespace with a name.
  mutating func space(named name: String) throws(StoreError) -> NamespaceHandle {
    for space in spaces where space.isNamed(name) { return space }
    let space = try NamespaceHandle(name: name)
    // Few names are usual. The limit bounds the search in a transaction over many namespaces.
    if spaces.count >= 16 { spaces.removeAll(keepingCapacity: true) }
    spaces.append(space)
    return space
  }

  /// Returns the identifier of a namespace. Assigns one if it has none.
  package mutating func number(of space: NamespaceHandle) throws -> UInt32 {
    let known = space.number(in: generation)
    if known != 0 { return known }
    if let found = newNumbers.first(where: { $0.0 === space }) { return found.1 }
    let key = NamespaceRecord.nameKey(space.nameBytes)
    var number: UInt32?
    if let bytes = try transaction.value(forKey: key, in: .main) {
      number = NamespaceRecord.number(in: bytes, name: space.nameBytes)
      if number == nil { throw LMDBError(.corrupted, during: "a namespace's name") }
    }
    if number == nil {
      let created = totals.nextNamespace
      totals.nextNamespace += 1
      try transaction.put(
        NamespaceRecord.nameRecord(created, name: space.nameBytes), forKey: key, in: .main)
      namespaces.learn(created, NamespaceRecord(name: space.nameBytes))
      namespaces.change(created) { _ in }
      number = created
    }
    newNumbers.append((space, number!))
    return number!
  }

  /// Returns the epoch of a namespace identifier, and caches its record.
  @discardableResult
  mutating func epoch(_ number: UInt32) throws -> UInt32 {
    if let known = namespaces.epoch(of: number) { return known }
    var found: NamespaceRecord?
    try withByteScratch(NamespaceRecord.keySize) { key in
      NamespaceRecord.writeKey(number, to: &key)
      if let bytes = try transaction.value(forKey: key.span, in: .main) {
        found = NamespaceRecord(bytes)
        if found == nil { throw LMDBError(.corrupted, during: "a namespace's record") }
      }
    }
    let record = found ?? NamespaceRecord(name: [])
    namespaces.learn(number, record)
    return record.epoch
  }

  @inline(__always)
  package mutating func changeNamespace(
    _ number: UInt32, _ body: (inout NamespaceRecord) -> Void
  ) throws {
    try epoch(number)
    namespaces.change(number, body)
  }

  // MARK: Counters

  /// Subtracts a stored entry from the counters.
  mutating func account(removing header: EntryHeader) throws {
    totals.subtract(header)
    accountInQueues(header, removing: header.cost, adding: 0)
    if try epoch(header.namespace) == header.epoch {
      try changeNamespace(header.namespace) {
        $0.bytes -= min($0.bytes, UInt64(header.cost))
        $0.entries -= min($0.entries, 1)
      }
    }
  }

  /// Counts a new entry in place of the old one of its key.
  mutating func account(replacing old: EntryHeader, with header: EntryHeader) throws {
    guard old.epoch == header.epoch, old.namespace == header.namespace,
      old.isPinned == header.isPinned, old.isAbsent == header.isAbsent
    else {
      try account(removing: old)
      try account(adding: header)
      // It keeps the place in the queues.
      return accountInQueues(header, removing: 0, adding: header.cost)
    }
    bytesWritten += UInt64(header.cost)
    if old.cost == header.cost { return }
    accountInQueues(header, removing: old.cost, adding: header.cost)
    totals.subtract(old)
    totals.add(header)
    try changeNamespace(header.namespace) {
      $0.bytes -= min($0.bytes, UInt64(old.cost))
      $0.bytes += UInt64(header.cost)
    }
  }

  mutating func accountInQueues(_ header: EntryHeader, removing old: Int, adding new: Int) {
    guard usesQueues, !header.isPinned else { return }
    withQueues {
      if $0.isInSmall(header.admission) { $0.changeSmallBytes(removing: old, adding: new) }
    }
  }

  mutating func account(adding header: EntryHeader) throws {
    totals.add(header)
    bytesWritten += UInt64(header.cost)
    try changeNamespace(header.namespace) {
      $0.bytes += UInt64(header.cost)
      $0.entries += 1
    }
  }

  // MARK: End

  /// Writes the counters. No changes are allowed afterwards.
  mutating func finish() throws {
    if let finish = layer?.finish { try finish(&self) }
    try writeDeques()
    try writeChanges()
    try namespaces.forEachChanged { number, namespace in
      try withByteScratch(NamespaceRecord.keySize) { key in
        NamespaceRecord.writeKey(number, to: &key)
        try withByteScratch(namespace.encodedSize) { record in
          namespace.write(to: &record)
          try transaction.put(record.span, forKey: key.span, in: .main)
        }
      }
    }
    // LMDB does not commit an empty transaction: the next one would get the same id.
    if hasWrittenEntries, totals == storedTotals { return }
    try withByteScratch(StoreTotals.size) { record in
      totals.write(to: &record)
      try StoreTotals.key.withRawSpan { key throws(LMDBError) in
        try transaction.put(record.span, forKey: key, in: .main)
      }
    }
  }

  /// The totals that the next transaction can reuse once this one is committed.
  var knownBooks: CachedTotals {
    CachedTotals(
      transaction: transaction.id, totals: totals, namespace: namespaces.single,
      changeTail: changes?.tail)
  }

  /// Returns closures to run after the commit: the identifiers assigned here are valid then.
  func postCommitUpdates() -> [() -> Void] {
    if newNumbers.isEmpty { return [] }
    return newNumbers.map { space, number in
      { [generation] in space.learn(number: number, in: generation) }
    }
  }
}
