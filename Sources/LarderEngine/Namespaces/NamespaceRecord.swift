// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// The format is with those of the other records of the main table (`StoreRecords.swift`).

/// The record of one namespace.
package struct NamespaceRecord: Sendable, Hashable {
  package var epoch: UInt32 = 1
  /// The commit version of the transaction that last cleared the namespace, or zero.
  package var clearedLabel: UInt64 = 0
  package var bytes: UInt64 = 0
  package var entries: UInt64 = 0
  /// The limits in bytes and entries; zero means no limit.
  package var minimum: UInt64 = 0
  package var maximum: UInt64 = 0
  package var maximumEntries: UInt64 = 0
  /// The number of the index of its entries (`NamespaceIndex.swift`), or zero without one.
  package var index: UInt32 = 0
  /// The greatest number that an index of the namespace has had.
  package var lastIndex: UInt32 = 0
  package var name: [UInt8]

  package static let maximumNameLength = 400

  package init(name: [UInt8]) { self.name = name }

  package var hasMaximum: Bool { maximum > 0 || maximumEntries > 0 }

  /// Returns whether more entries of a cost together exceed a maximum.
  func isOver(adding cost: Int, entries count: UInt64) -> Bool {
    maximum > 0 && bytes + UInt64(cost) > maximum
      || maximumEntries > 0 && entries + count > maximumEntries
  }

  /// Returns whether the namespace would have less than its minimum without an entry. As a last resort
  /// only a namespace that has no more than its minimum keeps all its entries.
  func isGuaranteed(_ header: EntryHeader, isLastResort: Bool) -> Bool {
    minimum > 0 && epoch == header.epoch
      && (isLastResort ? bytes <= minimum : bytes < minimum + UInt64(header.cost))
  }

  /// Begins a new, empty index.
  package mutating func beginIndex() {
    lastIndex += 1
    index = lastIndex
  }

  /// Takes over the limits of another record of the namespace.
  package mutating func inheritLimits(from other: NamespaceRecord) {
    minimum = other.minimum
    maximum = other.maximum
    maximumEntries = other.maximumEntries
    if other.index != 0 { beginIndex() }
  }

  /// Returns the key of a namespace's name record.
  package static func nameKey(_ name: [UInt8]) -> [UInt8] { Array("n:".utf8) + name }

  /// Returns the record that is stored under a namespace's name.
  package static func nameRecord(_ number: UInt32, name: [UInt8]) -> [UInt8] {
    var record: [UInt8] = []
    record.append(littleEndian: number)
    record.append(littleEndian: nameCheck(number, name))
    return record
  }

  /// Returns the namespace identifier in a name record, or `nil` if the record is damaged.
  package static func number(in record: RawSpan, name: [UInt8]) -> UInt32? {
    guard
      let number: UInt32 = record.integer(at: 0), number != 0,
      let check: UInt32 = record.integer(at: 4), check == nameCheck(number, name)
    else { return nil }
    return number
  }

  private static func nameCheck(_ number: UInt32, _ name: [UInt8]) -> UInt32 {
    UInt32(truncatingIfNeeded: XXH64.hash(name, seed: UInt64(number)))
  }

  /// Returns the key of a namespace's record.
  package static func key(_ number: UInt32) -> [UInt8] {
    withByteScratch(keySize) { key in
      writeKey(number, to: &key)
      return key.span.copied()
    }
  }

  static let keySize = 6

  static func writeKey(_ number: UInt32, to key: inout ScratchBuffer) {
    key.store(UInt8(ascii: "i"), at: 0)
    key.store(UInt8(ascii: ":"), at: 1)
    key.store(number.byteSwapped, at: 2)
  }

  /// Returns the namespace identifier in a key made by ``key(_:)``, or `nil` for any other key.
  package static func number(ofKey key: RawSpan) -> UInt32? {
    guard
      key.byteCount == 6, key.slice(0..<2)!.equals(Array("i:".utf8)),
      let number: UInt32 = key.integer(at: 2)
    else { return nil }
    return number.byteSwapped
  }

  /// Returns the epoch in a record without decoding the rest, or `nil` if the record is damaged.
  package static func epoch(in record: RawSpan) -> UInt32? {
    isIntact(record) ? record.integer(at: 0) : nil
  }

  private static func isIntact(_ record: RawSpan) -> Bool {
    guard
      record.byteCount >= fixedSize, record.byteCount <= fixedSize + maximumNameLength,
      let check: UInt32 = record.integer(at: 4)
    else { return false }
    return UInt32(truncatingIfNeeded: XXH64.hash(record, zeroing: 4..<8)) == check
  }

  /// Decodes a namespace record.
  ///
  /// - Returns: `nil` if the record is damaged.
  package init?(_ record: RawSpan) {
    guard NamespaceRecord.isIntact(record),
      let name = record.slice(NamespaceRecord.fixedSize..<record.byteCount)
    else {
      return nil
    }
    epoch = record.integer(at: 0)!
    clearedLabel = record.integer(at: 8)!
    bytes = record.integer(at: 16)!
    entries = record.integer(at: 24)!
    minimum = record.integer(at: 32)!
    maximum = record.integer(at: 40)!
    maximumEntries = record.integer(at: 48)!
    index = record.integer(at: 56)!
    lastIndex = record.integer(at: 60)!
    self.name = name.copied()
  }

  private static let fixedSize = 64
  var encodedSize: Int { Self.fixedSize + name.count }

  func write(to record: inout ScratchBuffer) {
    record.store(epoch, at: 0)
    record.store(UInt32(0), at: 4)
    record.store(clearedLabel, at: 8)
    record.store(bytes, at: 16)
    record.store(entries, at: 24)
    record.store(minimum, at: 32)
    record.store(maximum, at: 40)
    record.store(maximumEntries, at: 48)
    record.store(index, at: 56)
    record.store(lastIndex, at: 60)
    record.store(name, at: Self.fixedSize)
    record.store(UInt32(truncatingIfNeeded: XXH64.hash(record.prefix(encodedSize))), at: 4)
  }

  /// Returns the encoded record with its checksum.
  package func encoded() -> [UInt8] {
    withByteScratch(encodedSize) { record in
      write(to: &record)
      return record.span.copied()
    }
  }
}
