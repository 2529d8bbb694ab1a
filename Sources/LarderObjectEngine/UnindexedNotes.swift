// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderEngine
internal import LarderLMDB
internal import LarderSystem

// OBJECTS WITHOUT KEYS IN AN INDEX
//
// A program that does not declare an index of a type cannot compute its keys. It saves an object
// without them and notes the object: the record owns a key in the index "larder.unindexed" of its
// type, and the bytes of this key are the name of the other index. So every program that replaces,
// deletes, evicts, migrates or repairs the object treats the note like the other keys.
//
// The first note marks the index in the catalog (`isBehind`), in the transaction of the save. No
// query uses the index until a program that declares it has given all noted objects their keys
// (`IndexBuild.swift` of LarderObjects); the last step removes the mark.
//
// A program that builds an index may be unable to decode some objects, which a newer one has stored. It
// notes them as well, with another note: the name of the index and a zero byte. This note does not make the
// program try again; it marks the index with `lacksObjects`. No query uses the index until a program that
// can decode the objects has given them their keys, because the index would hide them.

/// The index that contains the notes of a type.
package enum UnindexedNotes {
  package static let name = "larder.unindexed"

  /// Returns the note of an object that could not be decoded, for an index of a name.
  package static func undecoded(for index: String, in notes: UInt32) -> ObjectIndexKey {
    ObjectIndexKey(index: notes, bytes: Array(index.utf8) + [0])
  }

  /// Returns the note for an index of a name, in the index of notes with an identifier.
  package static func note(for index: String, in notes: UInt32) -> ObjectIndexKey {
    ObjectIndexKey(index: notes, bytes: Array(index.utf8))
  }
}

extension ObjectTypeRecord {
  /// The index that contains the notes, or `nil` if no object was ever noted.
  package var notes: Index? { indexes.first { $0.name == UnindexedNotes.name } }

  /// Returns the notes for indexes of this record.
  package func notes(for indexes: [Index]) -> [ObjectIndexKey] {
    guard let number = notes?.number else { return [] }
    return indexes.map { UnindexedNotes.note(for: $0.name, in: number) }
  }

  /// Returns the notes of objects that could not be decoded, for indexes of this record.
  package func undecodedNotes(for indexes: [Index]) -> [ObjectIndexKey] {
    guard let number = notes?.number else { return [] }
    return indexes.map { UnindexedNotes.undecoded(for: $0.name, in: number) }
  }

  /// Returns all notes for indexes of this record.
  package func allNotes(for indexes: [Index]) -> [ObjectIndexKey] {
    notes(for: indexes) + undecodedNotes(for: indexes)
  }
}

extension ObjectReading {
  /// Returns the sequences of the first objects with one of some notes, in order.
  ///
  /// - Parameter start: The lowest sequence.
  package static func noted(
    _ notes: [ObjectIndexKey], from start: UInt64 = 0, limit: Int, in snapshot: borrowing Snapshot
  ) throws -> [UInt64] {
    var sequences: Set<UInt64> = []
    for note in notes {
      var count = 0
      try scanIndex(
        note.index, from: note.bytes, below: note.bytes + [0], in: snapshot
      ) { found, sequence in
        guard found.equals(note.bytes), sequence >= start else { return true }
        sequences.insert(sequence)
        count += 1
        return count < limit
      }
    }
    // Of each note the first: behind the limit one may have others in between.
    return Array(sequences.sorted().prefix(limit))
  }
}

extension StoreTransaction {
  /// Creates the index of notes of a type if the type has none.
  package mutating func declareNotes(_ record: inout ObjectTypeRecord) throws {
    guard record.notes == nil else { return }
    record.indexes.append(
      ObjectTypeRecord.Index(
        number: try newObjectNumber(), name: UnindexedNotes.name, fields: [], isUnique: false,
        definition: "", builtTo: nil))
    try putObjectType(record)
  }

  /// Marks the indexes whose keys a stored object lacks according to its notes.
  ///
  /// - Parameters:
  ///   - keys: The keys with which the object was stored.
  ///   - record: The record of the type before the save.
  package mutating func markBehind(_ keys: [ObjectIndexKey], _ record: ObjectTypeRecord) throws {
    func lacks(_ index: ObjectTypeRecord.Index) -> Bool {
      index.isBehind != true && record.notes(for: [index]).contains { keys.contains($0) }
    }
    let numbers = record.indexes.filter(lacks).map(\.number)
    guard !numbers.isEmpty, var now = try objectType(named: record.name) else { return }
    for position in now.indexes.indices where numbers.contains(now.indexes[position].number) {
      now.indexes[position].isBehind = true
    }
    try putObjectType(now)
  }

  /// Removes notes of an object whose record is damaged and so does not name them.
  package mutating func removeNotes(_ notes: [ObjectIndexKey], of sequence: UInt64) throws {
    for note in notes {
      try transaction.remove(
        key: ObjectFormat.indexEntry(note, sequence: sequence), in: generation.indexes)
    }
  }

  /// Marks indexes as complete if no object has a note for them.
  package mutating func settleNotes(
    for numbers: Set<UInt32>, of record: inout ObjectTypeRecord
  ) throws {
    for position in record.indexes.indices
    where numbers.contains(record.indexes[position].number) {
      let index = record.indexes[position]
      if index.isBehind == true, try !isNoted(record.notes(for: [index])) {
        record.indexes[position].isBehind = nil
      }
      if index.lacksObjects == true, try !isNoted(record.undecodedNotes(for: [index])) {
        record.indexes[position].lacksObjects = nil
      }
    }
  }

  private func isNoted(_ notes: [ObjectIndexKey]) throws -> Bool {
    try withSnapshot { try !ObjectReading.noted(notes, limit: 1, in: $0).isEmpty }
  }
}
