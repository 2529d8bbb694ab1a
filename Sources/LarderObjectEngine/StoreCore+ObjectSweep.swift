// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// Tombstones (`d:<identifier>` in the catalog) name dropped types and indexes. The store's thread
// of any process with an object store sweeps their records, a thousand in one transaction.

extension StoreTransaction {
  private static var droppedPrefix: [UInt8] { Array("d:".utf8) }

  /// Removes some of the records of dropped types and indexes.
  ///
  /// - Returns: Whether there may be more.
  package mutating func sweepDropped(limit: Int) throws -> Bool {
    var dropped: (number: UInt32, isIndex: Bool)?
    try withSnapshot { snapshot in
      var cursor = try Cursor(over: .main, in: snapshot.transaction)
      guard try cursor.move(atLeast: Self.droppedPrefix) else { return }
      guard
        cursor.currentKey.byteCount == 6,
        cursor.currentKey.slice(0..<2)!.equals(Self.droppedPrefix),
        let number: UInt32 = cursor.currentKey.integer(at: 2)
      else { return }
      dropped = (number.byteSwapped, cursor.currentValue.integer(at: 0, as: UInt8.self) == 2)
    }
    guard let dropped else { return false }
    try fault(throwing: .sweepStep)
    let count =
      dropped.isIndex
      ? try sweepIndex(dropped.number, limit) : try sweepType(dropped.number, limit)
    if count < limit {
      try transaction.remove(key: ObjectTypeCounters.droppedKey(dropped.number), in: .main)
      try transaction.remove(key: ObjectTypeCounters.key(dropped.number), in: .main)
      objects[dropped.number].books = nil
    }
    force()
    return true
  }

  private mutating func sweepIndex(_ number: UInt32, _ limit: Int) throws -> Int {
    var keys: [[UInt8]] = []
    try withSnapshot { snapshot in
      try ObjectReading.scanIndex(number, in: snapshot) { key, sequence in
        keys.append(
          ObjectFormat.indexEntry(
            ObjectIndexKey(index: number, bytes: key.copied()), sequence: sequence))
        return keys.count < limit
      }
    }
    for key in keys { try transaction.remove(key: key, in: generation.indexes) }
    return keys.count
  }

  private mutating func sweepType(_ number: UInt32, _ limit: Int) throws -> Int {
    var found: [(sequence: UInt64, id: [UInt8]?)] = []
    try withSnapshot { snapshot in
      // As they are stored: the layouts of a dropped type are gone.
      try ObjectReading.scan(type: number, in: snapshot) {
        found.append(($0.sequence, nil))
        return found.count < limit
      } _: { head, id, _ in
        found.append((head.sequence, id.copied()))
        return found.count < limit
      }
    }
    var damaged: Set<UInt64> = []
    for (sequence, id) in found {
      // The tombstones of the indexes cover the index entries.
      if let id, try delete(type: number, id: id) { continue }
      damaged.insert(sequence)
      try transaction.remove(
        key: ObjectFormat.objectKey(type: number, sequence: sequence), in: generation.objects)
    }
    if !damaged.isEmpty { try removeDanglingKeys(of: damaged, number) }
    if found.count < limit {
      try transaction.remove(
        key: ObjectFormat.objectKey(type: number, sequence: 0), in: generation.objects)
    }
    return found.count
  }
}

extension StoreCore {
  /// Returns whether the catalog contains a tombstone.
  private func hasDropped() -> Bool {
    let found = try? withGeneration { generation in
      try generation.withSnapshot { snapshot in
        var cursor = try Cursor(over: .main, in: snapshot.transaction)
        guard try cursor.move(atLeast: Array("d:".utf8)) else { return false }
        return cursor.currentKey.slice(0..<2)?.equals(Array("d:".utf8)) ?? false
      }
    }
    return found ?? false
  }

  /// Queues a sweep if there is a tombstone. The store's thread calls this about once a second.
  package func sweepDroppedObjects() {
    guard hasDropped() else { return }
    do {
      try enqueueWriteBehind(
        WriteRequest(
          .exclusive { core in
            do {
              // About a tenth of a second of work; the rest follows at the next tick.
              for _ in 0..<10 {
                let more = try core.withGeneration { generation in
                  try core.transact(in: generation) { try $0.sweepDropped(limit: 1000) }.result
                }
                if !more { break }
              }
            } catch {
              core.reportSweep(error)
            }
          }))
    } catch {
      reportSweep(error)
    }
  }

  /// Reports an error of a sweep, except that the store is being closed: another process or the
  /// next opener continues.
  private func reportSweep(_ error: any Error) {
    if (error as? StoreError)?.code != .closed { report(error) }
  }
}
