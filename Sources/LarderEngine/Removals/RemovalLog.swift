// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// The removals of one transaction, if a process wants to know them.
struct RemovalLog {
  /// A longer time than a process asks writers to record, in milliseconds; a later one is garbage.
  static var longestInterest: UInt64 { 60_000 }

  private let limit: Int
  private(set) var words: [UInt64] = []
  private(set) var count: UInt64 = 0
  private let first: UInt64

  /// Creates the log of a transaction, or returns `nil` if no process wants to know removals.
  init?(_ table: SharedTable) {
    guard Self.isWanted(table) else { return nil }
    limit = table.removalLimit
    first = table.removalCount
  }

  /// Returns whether a process wants to know removals.
  static func isWanted(_ table: SharedTable) -> Bool {
    let wanted = table.removalsWantedUntil
    guard wanted != 0 else { return false }
    let now = Clocks.monotonicNanoseconds() / 1_000_000
    return now < wanted && wanted <= now + longestInterest
  }

  /// Adds an event, or only counts it if the transaction has too many.
  mutating func append(_ removal: RecordedRemoval) {
    defer { count += 1 }
    guard words.count < limit else { return }
    removal.append(to: &words, number: first &+ count)
  }
}

extension StoreTransaction {
  /// Records the removal of an entry that is still stored, for subscribers.
  @inline(__always)
  mutating func noteRemoval(_ item: RecordEntry, hash: UInt64, _ cause: RemovalCause) throws {
    if removals == nil {
      unrecordedRemovals += 1
      // A value that was replaced, or removed with others, is another change.
      if changes == nil || cause.change == 0 { return }
    }
    try recordRemoval(item, hash: hash, cause)
  }

  private mutating func recordRemoval(
    _ item: RecordEntry, hash: UInt64, _ cause: RemovalCause
  ) throws {
    let isChange = cause.change != 0
    var cause = cause
    if [.evicted, .replaced, .removed, .unused].contains(cause) {
      // No process could see the entry any more.
      if generation.table.isExpired(item.header, hash: hash, at: now) {
        cause = .expired
      } else if try isRemoved(item.header, at: item.offset, hash: hash) {
        cause = .invalidated
      }
    }
    // Of a longer key, one byte more than is recorded says that it is longer.
    let length = min(item.header.keyLength, RecordedRemoval.keyLimit + 1)
    var key: [UInt8]?
    if let record = try transaction.value(forKey: hash, in: generation.entries) {
      key = try withSnapshot {
        try $0.content(of: item.header, in: record, at: item.offset, length: length)
      }
    }
    removals?.append(RecordedRemoval(item.header, key: key ?? [], cause: cause.code))
    if isChange, cause.change != 0 {
      let kind = ChangeKind.named(cause.change)
      changes?.append(kind, tag: item.header.keyTag, key: key ?? [], item.header.namespace)
    }
  }
}
