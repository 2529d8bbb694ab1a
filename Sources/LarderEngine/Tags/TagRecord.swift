// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderLMDB
internal import LarderSystem

// REMOVAL BY TAG
//
// An entry contains the hashes of its tags. A removal by tag touches no entry: it writes one record
// in the table `tags`, under the hash of the tag. A record is a sequence of removals, then the XXH64
// of the removals u64, whose seed is the hash of the tag. A removal:
//
//      0  label       u64   commit version of the transaction that removed
//      8  order       u32   the number of removals by tag in that transaction, this one included
//     12  namespace   u32   whose entries it removed; 0: those of all namespaces
//
// An entry is removed if a record of one of its tags has a removal of its namespace that is later:
//
//   (label, order) of the removal > (commit version, order) of the entry
//
// where the order of an entry is the number of removals that its transaction had made before. The
// read that finds the entry compares them in the same snapshot. A value in memory, and a cached
// location, are validated by the stamp slots of the tags as well as the slot of the key: the removal
// stamps the slot of its tag in W3 like the slot of a key that it writes. So the argument of the
// coherence protocol applies to each slot that the visibility of an entry depends on.
//
// The entries are deleted later (`TagSweep.swift`), and then the records.

/// The removals of one tag.
package struct TagRecord: Sendable, Hashable {
  /// One removal; the text above describes its fields.
  package struct Removal: Sendable, Hashable {
    package var label: UInt64
    package var order: UInt32
    package var namespace: UInt32

    package init(label: UInt64, order: UInt32, namespace: UInt32) {
      self.label = label
      self.order = order
      self.namespace = namespace
    }
  }

  private static let size = 16

  package private(set) var removals: [Removal] = []

  package init() {}

  /// Decodes the record of the tag with a hash.
  ///
  /// - Returns: `nil` if the record is damaged.
  package init?(_ record: RawSpan, tag: UInt64) {
    let length = record.byteCount - 8
    guard length >= Self.size, length % Self.size == 0,
      record.integer(at: length) == XXH64.hash(record.slice(0..<length)!, seed: tag)
    else { return nil }
    removals = (0..<(length / Self.size)).map { index in
      Removal(
        label: record.integer(at: index * Self.size)!,
        order: record.integer(at: index * Self.size + 8)!,
        namespace: record.integer(at: index * Self.size + 12)!)
    }
  }

  /// Returns the stored form of the record.
  package func bytes(tag: UInt64) -> [UInt8] {
    var bytes: [UInt8] = []
    for removal in removals {
      bytes.append(littleEndian: removal.label)
      bytes.append(littleEndian: removal.order)
      bytes.append(littleEndian: removal.namespace)
    }
    bytes.append(littleEndian: XXH64.hash(bytes, seed: tag))
    return bytes
  }

  /// The hash under which the removals of namespaces are recorded, which no tag has.
  static var cleared: UInt64 { 0 }

  /// Adds a removal, which replaces the earlier ones that it includes.
  mutating func add(_ removal: Removal) {
    removals.removeAll { removal.namespace == 0 || $0.namespace == removal.namespace }
    removals.append(removal)
  }

  /// The commit version of the newest removal of a namespace.
  func newest(of namespace: UInt32) -> UInt64 {
    removals.reduce(0) { newest, removal in
      removal.namespace == 0 || removal.namespace == namespace
        ? max(newest, removal.label) : newest
    }
  }

  /// The commit version of the newest removal.
  package var newest: UInt64 { removals.reduce(0) { max($0, $1.label) } }

  /// Returns whether an entry with this tag was removed.
  package func removes(_ header: EntryHeader) -> Bool {
    removals.contains { removal in
      (removal.namespace == 0 || removal.namespace == header.namespace)
        && (removal.label, removal.order) > (header.commitVersion, header.tagOrder)
    }
  }
}

extension Snapshot {
  /// Returns whether an entry was removed by one of its tags. The header was read from `record` at
  /// `offset`.
  ///
  /// - Complexity: O(*t* log *n*) for *t* tags and *n* removed tags; usually no look-up, because no
  ///   key of the tags' slots was written since the entry.
  func isRemovedByTag(
    _ header: EntryHeader, in record: RawSpan, at offset: Int
  ) throws -> Bool {
    guard header.isTagged else { return false }
    guard let tags = header.tags(in: record, at: offset) else {
      throw DamagedEntry.wrongChecksum(header)
    }
    for tag in tags {
      // A removal that a snapshot contains was stamped. A transaction has not stamped its own.
      if !showsUncommitted,
        header.commitVersion
          > generation.table.minimumValidReadVersion(slot: StampSlot(hash: tag))
      {
        continue
      }
      if try tagRecord(tag)?.removes(header) == true { return true }
    }
    return false
  }

  /// Returns the removals of the tag with a hash, if there are any.
  func tagRecord(_ tag: UInt64) throws -> TagRecord? {
    guard let bytes = try transaction.value(forKey: tag, in: generation.tags) else { return nil }
    guard let record = TagRecord(bytes, tag: tag) else {
      throw LMDBError(.corrupted, during: "the record of a tag")
    }
    return record
  }
}

extension StoreTransaction {
  /// Removes the entries with a tag, of one namespace or of all: they are invisible at once, and are
  /// deleted later.
  mutating func removeAll(tagged tag: [UInt8], in space: NamespaceHandle?) throws {
    let hash = Tag.hash(tag, secret: generation.meta.secret)
    var namespace: UInt32 = 0
    if let space { namespace = try number(of: space) }
    try noteRemoval(of: hash, in: namespace)
    changes?.append(.untagged, tag: 0, key: tag, namespace)
    if !Mutant.tagUnstamped.isActive { touch(hash: hash) }
    hasWrittenEntries = true
  }

  /// Records a removal of the entries with a tag, so that they are deleted later.
  mutating func noteRemoval(of hash: UInt64, in namespace: UInt32) throws {
    tagRemovals += 1
    var record = try withSnapshot { try $0.tagRecord(hash) } ?? TagRecord()
    record.add(.init(label: commitVersion, order: tagRemovals, namespace: namespace))
    try record.bytes(tag: hash).withRawSpan { bytes throws(LMDBError) in
      try transaction.put(bytes, forKey: hash, in: generation.tags)
    }
  }

  /// Deletes the record of cleared namespaces, if their entries were deleted and none was cleared after
  /// `label`.
  mutating func forgetClears(upTo label: UInt64) throws {
    guard let record = try withSnapshot({ try $0.tagRecord(TagRecord.cleared) }),
      record.newest <= label
    else { return }
    try transaction.remove(key: TagRecord.cleared, in: generation.tags)
    force()
  }

  /// Returns whether a computation that began with a snapshot may store an entry with these tags: none
  /// of them was removed since.
  mutating func allowsFill(
    _ content: EntryContent, in space: NamespaceHandle, since begun: UInt64
  ) throws -> Bool {
    if content.tagCount == 0 || Mutant.fillIgnoresTags.isActive { return true }
    let namespace = try number(of: space)
    for hash in content.tagHashes(in: generation) {
      let slot = StampSlot(hash: hash)
      let mayBeRemoved =
        tagRemovals > 0 || generation.table.minimumValidReadVersion(slot: slot) > begun
      guard mayBeRemoved else { continue }
      // An earlier record may have been deleted since, whether or not there is another one now.
      if totals.forgottenTags > begun { return false }
      if let record = try withSnapshot({ try $0.tagRecord(hash) }),
        record.newest(of: namespace) > begun
      {
        return false
      }
    }
    return true
  }

  /// Returns whether an entry of a record is visible in this transaction.
  func isVisible(_ header: EntryHeader, at offset: Int, hash: UInt64) throws -> Bool {
    if generation.table.isExpired(header, hash: hash, at: now) { return false }
    return try !isRemoved(header, at: offset, hash: hash)
  }

  /// Returns whether an entry was removed together with others: with its namespace, or by a tag.
  func isRemoved(_ header: EntryHeader, at offset: Int, hash: UInt64) throws -> Bool {
    guard try currentEpoch(header.namespace) == header.epoch else { return true }
    guard header.isTagged,
      let record = try transaction.value(forKey: hash, in: generation.entries)
    else { return false }
    return try withSnapshot { try $0.isRemovedByTag(header, in: record, at: offset) }
  }
}
