// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// Scans of many objects, or of the entries of an index.

extension ObjectReading {
  /// The order of a scan of objects.
  package enum Order: Sendable {
    /// The order of insertion, from a sequence on.
    case insertion(from: UInt64)
    case backwards
  }

  /// Scans the objects of a type in the order of insertion, or backwards from the last one.
  ///
  /// - Parameters:
  ///   - start: The first sequence; without effect on a backward scan.
  ///   - body: A closure that gets each object, or its damage. The scan ends when it returns
  ///     `false`.
  package static func scan(
    type: UInt32, from start: UInt64 = 1, backwards: Bool = false,
    in snapshot: borrowing Snapshot,
    _ body: (Result<StoredObject, DamagedObject>) throws -> Bool
  ) throws {
    try scan(type: type, backwards ? .backwards : .insertion(from: start), in: snapshot) {
      try body(.failure($0))
    } _: { head, id, object in
      try body(.success(StoredObject(head, id: id, object, in: snapshot)))
    }
  }

  /// Scans the objects of a type like ``scan(type:from:backwards:in:_:)``, and passes their parts as
  /// they are stored, without copying them.
  ///
  /// - Parameter admits: Called with the codec and the bytes of most objects before their checksum is
  ///   verified; the scan omits the object if it returns `false`. Damage that makes it return `false`
  ///   is not reported, and has no effect: a damaged object is in no result.
  package static func scan(
    type: UInt32, _ order: Order = .insertion(from: 1), in snapshot: borrowing Snapshot,
    damaged: (DamagedObject) throws -> Bool,
    admits: ((_ codec: UInt16, _ object: RawSpan) -> Bool)? = nil,
    _ body: (_ head: StoredObjectMetadata, _ id: RawSpan, _ object: RawSpan) throws -> Bool
  ) throws {
    // Unwrapped in the loop, it would be retained for each object.
    let (filters, admits) = (admits != nil, admits ?? { _, _ in true })
    var cursor = try Cursor(over: snapshot.generation.objects, in: snapshot.transaction)
    var more: Bool
    var backwards = false
    switch order {
    case .insertion(let start):
      more = try cursor.move(atLeast: ObjectFormat.objectKey(type: type, sequence: max(start, 1)))
    case .backwards:
      backwards = true
      more = try move(&cursor, below: ObjectFormat.objectKey(type: type, sequence: .max))
    }
    while more {
      guard
        let sequence = ObjectFormat.sequence(ofObjectKey: cursor.currentKey, type: type),
        sequence > 0
      else { return }
      if filters, rejects(cursor.currentValue, admits) {
        more = backwards ? try cursor.moveToPrevious() : try cursor.moveToNext()
        continue
      }
      let goesOn: Bool
      do {
        goesOn = try withObject(
          at: cursor.currentValue, type, sequence, snapshot, body)
      } catch let damage as DamagedObject {
        goesOn = try damaged(damage)
      }
      guard goesOn else { return }
      more = backwards ? try cursor.moveToPrevious() : try cursor.moveToNext()
    }
  }

  @inline(__always)
  private static func rejects(_ record: RawSpan, _ admits: (UInt16, RawSpan) -> Bool) -> Bool {
    guard let found = ObjectHeader.unverifiedObject(in: record) else { return false }
    return !admits(found.codec, found.object)
  }

  /// Moves the cursor to the last key that is not above `key`.
  @_lifetime(cursor: copy cursor)
  static func move(_ cursor: inout Cursor, below key: [UInt8]) throws -> Bool {
    guard try cursor.move(atLeast: key) else { return try cursor.moveToLast() }
    let isExact = cursor.currentKey.equals(key)
    return isExact ? true : try cursor.moveToPrevious()
  }

  /// Scans the entries of an index whose keys are in a range of bytes.
  ///
  /// - Parameters:
  ///   - lower: The first key, or a prefix of the first keys.
  ///   - upper: The end of the range, which is not included, or `nil` for the end of the index.
  ///   - body: A closure that gets each key's bytes and its object's sequence. The scan ends when
  ///     it returns `false`.
  package static func scanIndex(
    _ index: UInt32, from lower: [UInt8] = [], below upper: [UInt8]? = nil,
    backwards: Bool = false, in snapshot: borrowing Snapshot,
    _ body: (_ key: RawSpan, _ sequence: UInt64) throws -> Bool
  ) throws {
    var cursor = try Cursor(over: snapshot.generation.indexes, in: snapshot.transaction)
    let first = ObjectFormat.indexPrefix(index, lower)
    let last =
      upper.map { ObjectFormat.indexPrefix(index, $0) } ?? ObjectFormat.indexPrefix(index &+ 1)
    var more: Bool
    if backwards {
      more = try cursor.move(atLeast: last)
      more = more ? try cursor.moveToPrevious() : try cursor.moveToLast()
    } else {
      more = try cursor.move(atLeast: first)
    }
    while more {
      do {
        let entry = cursor.currentKey
        guard let parts = PackedKey(entry), parts.number == index else { return }
        let key = entry.slice(parts.bytes)!
        if backwards {
          if key.precedes(lower) { return }
        } else if let upper, !key.precedes(upper) {
          return
        }
        guard try body(key, parts.sequence) else { return }
      }
      more = backwards ? try cursor.moveToPrevious() : try cursor.moveToNext()
    }
  }

  /// Scans the entries of an index whose keys are in one of several ranges, in their order.
  ///
  /// A range without a key between two others costs no search in the tree: after each entry, the next range
  /// that ends above its key is found among the ranges.
  ///
  /// - Parameters:
  ///   - ranges: The ranges in ascending order without overlaps.
  ///   - body: A closure that gets each key's bytes and its object's sequence. The scan ends when
  ///     it returns `false`.
  package static func scanIndex(
    _ index: UInt32, _ ranges: [IndexKeyRange], in snapshot: borrowing Snapshot,
    _ body: (_ key: RawSpan, _ sequence: UInt64) throws -> Bool
  ) throws {
    guard ranges.count > 1 else {
      guard let range = ranges.first else { return }
      return try scanIndex(index, from: range.lower, below: range.upper, in: snapshot, body)
    }
    var cursor = try Cursor(over: snapshot.generation.indexes, in: snapshot.transaction)
    var position = 0
    search: while position < ranges.count {
      var more = try cursor.move(atLeast: ObjectFormat.indexPrefix(index, ranges[position].lower))
      while more {
        do {
          let entry = cursor.currentKey
          guard let parts = PackedKey(entry), parts.number == index else { return }
          let key = entry.slice(parts.bytes)!
          if let end = ranges[position].upper, !key.precedes(end) {
            position = IndexKeyRange.firstEnding(after: key, in: ranges, from: position + 1)
            guard position < ranges.count else { return }
            if key.precedes(ranges[position].lower) { continue search }
          }
          guard try body(key, parts.sequence) else { return }
        }
        more = try cursor.moveToNext()
      }
      return
    }
  }
}

extension IndexKeyRange {
  private func ends(after key: RawSpan) -> Bool {
    guard let upper else { return true }
    return key.precedes(upper)
  }

  /// Returns the position of the first range whose end is above a key; the number of ranges if there is
  /// none.
  fileprivate static func firstEnding(
    after key: RawSpan, in ranges: [IndexKeyRange], from start: Int
  ) -> Int {
    // The wanted range is often near, so the steps begin small.
    var (low, step) = (start, 1)
    while low + step - 1 < ranges.count, !ranges[low + step - 1].ends(after: key) {
      low += step
      step *= 2
    }
    var high = Swift.min(low + step - 1, ranges.count)
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].ends(after: key) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
