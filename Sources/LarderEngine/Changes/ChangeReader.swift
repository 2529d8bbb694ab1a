// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

/// A pass over the change log.
struct ChangeReader {
  private let storeID: UInt64
  private var position: UInt64
  private(set) var events: [ChangeEvent] = []
  private var names: [UInt32: String] = [:]

  init(after cursor: ChangeCursor) {
    storeID = cursor.storeID
    position = cursor.commitVersion
  }

  /// The place up to which the events are known.
  var cursor: ChangeCursor { ChangeCursor(storeID: storeID, commitVersion: position) }

  /// Reads the events of a snapshot after the position.
  ///
  /// - Parameter name: Returns the name of a namespace.
  mutating func read(
    _ snapshot: borrowing Snapshot, _ totals: StoreTotals, limit: Int,
    _ name: (UInt32) throws -> String
  ) throws {
    let newest = snapshot.commitVersion
    guard limit > 0 else { return }
    guard totals.changeCapacity > 0 else {
      if position < newest { gap(to: newest) }
      return
    }
    if position + 1 < totals.changeStart { gap(to: totals.changeStart - 1) }
    let oldest = totals.changeCount - min(totals.changeCount, totals.changeCapacity)
    let first = try search(snapshot, totals, from: oldest)
    // Of the records before the oldest chunk, some may be later than the position.
    var mayMiss = first == oldest && oldest > 0
    for number in first...totals.changeCount {
      for record in try chunk(number, snapshot, totals) {
        guard events.count < limit else { return }
        guard let record else {
          mayMiss = true
          continue
        }
        guard record.commitVersion > position else {
          mayMiss = false
          continue
        }
        if mayMiss || isRestored(to: record.commitVersion), record.commitVersion > position + 1 {
          gap(to: record.commitVersion - 1)
          guard events.count < limit else { return }
        }
        mayMiss = false
        try add(record, name)
      }
    }
    if mayMiss || isRestored(to: newest), position < newest {
      guard events.count < limit else { return }
      gap(to: newest)
    }
    position = newest
  }

  /// Returns whether a relaxed store went back to its last checkpoint between the position and a commit:
  /// commits after the checkpoint, which may be those before the position, are undone.
  private func isRestored(to commitVersion: UInt64) -> Bool {
    // The jump of the transaction numbers, less than the commits after a checkpoint.
    commitVersion - position >= StoreOpener.restoredJump / 2
      && commitVersion >> Generation.versionBits == position >> Generation.versionBits
  }

  /// Returns the number of the last chunk that begins with a commit up to the position, or that of the
  /// oldest chunk if there is none or chunks are damaged.
  private func search(
    _ snapshot: borrowing Snapshot, _ totals: StoreTotals, from oldest: UInt64
  ) throws -> UInt64 {
    var (low, high) = (oldest, totals.changeCount + 1)
    while low + 1 < high {
      let middle = low + (high - low) / 2
      let records = try chunk(middle, snapshot, totals)
      if middle == totals.changeCount, records.isEmpty {
        high = middle
        continue
      }
      guard let record = records.first ?? nil else { return oldest }
      if record.commitVersion > position { high = middle } else { low = middle }
    }
    return low
  }

  /// Returns the records of a chunk. The newest one is in the main table, and empty at first.
  private func chunk(
    _ number: UInt64, _ snapshot: borrowing Snapshot, _ totals: StoreTotals
  ) throws -> [ChangeRecord?] {
    if number == totals.changeCount {
      return try snapshot.changeTail().withRawSpan { ChangeRecord.records(in: $0) }
    }
    guard
      let bytes = try snapshot.transaction.value(
        forKey: number % totals.changeCapacity, in: snapshot.generation.changes)
    else { return [nil] }
    return ChangeRecord.records(in: bytes)
  }

  /// Adds a gap up to a commit version, and joins it with a gap before it.
  private mutating func gap(to version: UInt64) {
    var first = position + 1
    if case .gap(let from, let to, _)? = events.last, to + 1 == first {
      first = from
      events.removeLast()
    }
    position = version
    events.append(.gap(from: first, to: version, cursor: cursor))
  }

  private mutating func add(
    _ record: ChangeRecord, _ name: (UInt32) throws -> String
  ) throws {
    if record.isCut { return gap(to: record.commitVersion) }
    position = record.commitVersion
    let changes = try record.changes.map { change in
      if names[change.namespace] == nil, change.namespace != 0 {
        names[change.namespace] = try name(change.namespace)
      }
      return StoreChange(change, of: record, namespace: names[change.namespace])
    }
    events.append(.commit(changes, cursor: cursor))
  }
}
