// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding
package import LarderEngine
internal import LarderLMDB

// IMPORTING
//
// An object that is written here has to be what the program would have written: its fields as they are
// declared, under the id that the program's type describes itself with, and with the keys of every
// index. Whatever cannot be made without the program is refused before anything is written: an index
// without a rule, or whose rule a stored object contradicts (`IndexRule.swift`), an id that is not the
// stored field "id", a reference to another object.
//
// Lines after a schema (`ObjectSchemaHeader.swift`) are objects as a program stored them, so nothing is
// refused there for want of the program: their references and identifiers are taken as they are, and the
// keys of an index without a proven rule are left to the program's build.
//
// A rule that nothing contradicts and nothing proves is a guess: no object is stored, or in all of them
// another field has the same values. Its index is marked as not built, so no query uses it until a
// program has built it from the objects themselves.
//
// Lines are written in transactions of at most a thousand. A line that is refused ends the import;
// what stood before it is stored.

/// Writes objects of one type from lines of JSON.
package struct ObjectImport {
  /// What came of the lines.
  package struct Tally: Sendable, Hashable {
    package var inserted = 0
    package var replaced = 0
    /// Stored already, exactly so.
    package var unchanged = 0
    /// There was another of the id, which was to be kept.
    package var kept = 0

    package var total: Int { inserted + replaced + unchanged + kept }
  }

  private let store: SharedStore
  private let type: ObjectTypeRecord
  private let rules: [IndexRule]
  /// The numbers of the indexes whose keys the program makes: no rule for them is proven.
  private let deferred: Set<UInt32>
  /// Whether the lines are what a program stored.
  private let isExport: Bool
  private let fields: DeclaredFields?
  private let keepsExisting: Bool
  private var batch: [(line: Int, write: ObjectWrite)] = []
  private var batchBytes = 0
  package private(set) var tally = Tally()

  static let batchLimit = 1000
  static let batchByteLimit = 4 << 20

  /// - Parameter isExport: Whether the lines stood after a schema, which `type` agrees with.
  /// - Throws: ``DynamicObjectError`` when only the program can write objects of the type.
  package init(
    _ objects: DynamicObjects, _ type: ObjectTypeRecord, isExport: Bool = false,
    keepsExisting: Bool = false
  ) throws {
    store = objects.store
    self.type = type
    self.isExport = isExport
    self.keepsExisting = keepsExisting
    let evidence = try objects.reading("import", hasAnswered: { false }) { snapshot in
      try IndexRuleEvidence(type, sample: 500, snapshot)
    }
    let fields = DeclaredFields(type.schema)
    self.fields = fields
    if isExport {
      let all = evidence.rules.values.filter { Self.doubted($0, evidence, fields).isEmpty }
      let proven = Set(all.map(\.number))
      rules = type.indexes.compactMap {
        proven.contains($0.number) ? evidence.rules[$0.number] : nil
      }
      deferred = Set(type.indexes.map(\.number)).subtracting(proven)
      return
    }
    let rules = try Self.rules(type, evidence, fields)
    self.rules = rules
    deferred = Set(
      rules.filter { !Self.doubted($0, evidence, fields).isEmpty }.map(\.number))
    try Self.requireID(type, evidence, fields)
    let refers = type.indexes.contains { $0.fields.isEmpty }
    if refers, fields?.hasReferences != true {
      throw DynamicObjectError(
        .foreignType,
        "Objects of \(type.name) refer to others by properties that only the program can find. Import "
          + "with the program.")
    }
  }

  private static func rules(
    _ type: ObjectTypeRecord, _ evidence: IndexRuleEvidence, _ fields: DeclaredFields?
  ) throws -> [IndexRule] {
    try type.indexes.filter { !$0.fields.isEmpty }.map { index in
      func foreign(_ reason: String) -> DynamicObjectError {
        DynamicObjectError(
          .foreignIndex,
          "The keys of the index \"\(index.name)\" of \(type.name) can only be made by the program: "
            + "\(reason). Import with a program that declares the type.")
      }
      guard let rule = evidence.rules[index.number] else {
        throw foreign(evidence.foreign[index.number] ?? "it is not understood")
      }
      for field in doubted(rule, evidence, fields)
      where field.path.names.count != 1 || fields?.kind(of: field.path.names[0]) == nil {
        throw foreign("no stored object shows how \(field.path) is stored")
      }
      return rule
    }
  }

  /// The fields of a rule that neither a stored object nor the declaration tells from all others.
  private static func doubted(
    _ rule: IndexRule, _ evidence: IndexRuleEvidence, _ fields: DeclaredFields?
  ) -> [IndexRule.Field] {
    rule.fields.enumerated().filter { position, field in
      !evidence.isTold(position, of: rule) && fields?.isOnly(field, of: rule) != true
    }.map(\.element)
  }

  /// The kinds of fields that can be an id.
  private static let idKinds: Set<String?> = [
    "text", "integer", "uuid", "bytes", "number", "date", "boolean", "url",
  ]

  private static func requireID(
    _ type: ObjectTypeRecord, _ evidence: IndexRuleEvidence, _ fields: DeclaredFields?
  ) throws {
    switch evidence.idField {
    case .stored: return
    case .unknown where Self.idKinds.contains(fields?.kind(of: "id")): return
    case .unknown:
      throw DynamicObjectError(
        .foreignType,
        "Nothing tells how \(type.name) is stored: no object of it is, and its fields are not known. "
          + "Save one with the program, or import with it.")
    case .none:
      throw DynamicObjectError(
        .foreignType,
        "The ids of \(type.name) are not what stands in the field \"id\", so only the program knows "
          + "them. Import with the program.")
    }
  }

  // MARK: Lines

  /// Takes a line; it is stored with the next ``flush()`` at the latest. Empty lines say nothing.
  ///
  /// - Throws: ``DynamicObjectError`` with the line's number; everything before it is stored then.
  package mutating func add(_ text: ArraySlice<UInt8>, line: Int) throws {
    var text = text
    if line == 1, text.starts(with: [0xEF, 0xBB, 0xBF]) { text = text.dropFirst(3) }
    if text.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { return }
    let write: ObjectWrite
    do {
      write = try self.write(Array(text), line)
    } catch {
      try flush()
      throw error
    }
    batch.append((line, write))
    batchBytes += write.bytes.count
    if batch.count >= Self.batchLimit || batchBytes >= Self.batchByteLimit { try flush() }
  }

  private func write(_ text: [UInt8], _ line: Int) throws(DynamicObjectError) -> ObjectWrite {
    func invalid(_ reason: String) -> DynamicObjectError {
      DynamicObjectError(.invalidLine, reason, line: line)
    }
    var value: CBORValue
    do throws(JSONParseError) {
      value = try JSONReader.value(text)
    } catch {
      throw invalid("\(error.message) (column \(error.column))")
    }
    var exported: String?
    if isExport, case .array(let parts) = value, parts.count == 2, case .text(let id) = parts[0] {
      exported = id
      value = parts[1]
    }
    guard case .map(let pairs) = value else {
      throw invalid("The line is JSON, but not an object with fields.")
    }
    if let fields {
      if !isExport, let name = fields.reference(in: pairs) {
        throw DynamicObjectError(
          .foreignType,
          "\(name) refers to another object, which only the program can note. Import with the "
            + "program, or leave the field out.", line: line)
      }
      do throws(DeclaredFields.Flaw) { value = try fields.fitted(pairs) } catch {
        throw invalid("The object does not fit the type: \(error.message).")
      }
    }
    guard let id = exported ?? IndexRuleEvidence.id(of: value) else {
      throw invalid(
        "The object has no field \"id\" that is an id: a text, a number, a date, a UUID, bytes or a truth value."
      )
    }
    var keys: [ObjectIndexKey] = []
    var unique: [UInt32] = []
    for rule in rules {
      let made: [ObjectIndexKey]
      do { made = try rule.keys(of: value) } catch let error as IndexRule.NoKey {
        throw invalid("The object does not fit the type: \(error.reason).")
      } catch {
        throw invalid("The object does not fit the type: \(error).")
      }
      keys += made
      if rule.isUnique, made.contains(where: { !$0.isEmpty }) {
        unique.append(rule.number)
      }
    }
    return ObjectWrite(
      id: Array(id.utf8), bytes: value.encoded, codec: CodecIdentifier.cbor.rawValue,
      version: type.version, keys: keys, uniqueIndexes: unique)
  }

  /// Stores what was taken.
  ///
  /// - Throws: ``DynamicObjectError``; what stood before the line it names is stored.
  package mutating func flush() throws {
    let taken = batch
    batch = []
    batchBytes = 0
    if taken.isEmpty { return }
    let outcome = try commit(taken[...])
    guard let failure = outcome else { return }
    // Nothing of the transaction was kept; what stands before the culprit is written again.
    if try commit(taken[..<failure.position]) != nil {
      throw changed
    }
    throw takenError(failure.error, line: taken[failure.position].line)
  }

  private struct Failure: Error {
    let position: Int
    let error: UniqueKeyConflict
  }

  /// Writes a transaction; answers which line cannot be written.
  private mutating func commit(
    _ writes: ArraySlice<(line: Int, write: ObjectWrite)>
  ) throws -> Failure? {
    let (type, keepsExisting, changed) = (self.type, self.keepsExisting, self.changed)
    let isExport = self.isExport
    let deferred = self.deferred
    let writes = writes.map(\.write)
    do {
      let saved = try store.write { transaction in
        guard let now = try transaction.objectType(named: type.name),
          Self.isSame(now, type, isExport: isExport)
        else {
          throw changed
        }
        // All objects up to this one keep the keys they have.
        var indexed = try transaction.objectBooks(type.number).nextSequence - 1
        var tally = Tally()
        for (position, write) in writes.enumerated() {
          do {
            switch try transaction.save(
              write, deferring: deferred, type: type.number, keepsExisting: keepsExisting)
            {
            case .inserted: tally.inserted += 1
            case .replaced(let sequence):
              tally.replaced += 1
              indexed = min(indexed, sequence - 1)
            case .unchanged: tally.unchanged += 1
            case .kept: tally.kept += 1
            }
          } catch let error as UniqueKeyConflict {
            throw Failure(position: position, error: error)
          }
        }
        if tally.inserted + tally.replaced > 0 {
          try transaction.markIncomplete(deferred, of: now, after: indexed)
        }
        return tally
      }
      tally.inserted += saved.inserted
      tally.replaced += saved.replaced
      tally.unchanged += saved.unchanged
      tally.kept += saved.kept
      return nil
    } catch let failure as Failure {
      return failure
    }
  }

  /// Whether the type is still what the rules were made for.
  private static func isSame(
    _ now: ObjectTypeRecord, _ then: ObjectTypeRecord, isExport: Bool
  ) -> Bool {
    func indexes(_ record: ObjectTypeRecord) -> [[String]] {
      record.indexes.filter { isExport || !$0.fields.isEmpty }.map {
        ["\($0.number)", $0.name, $0.definition]
      }
    }
    return now.number == then.number && now.version == then.version && now.schema == then.schema
      && now.movedTo == nil && indexes(now) == indexes(then)
  }

  private var changed: DynamicObjectError {
    DynamicObjectError(
      .schemaChanged,
      "A program declared \(type.name) anew meanwhile. What was read so far is stored; start again "
        + "for the rest.")
  }

  private func takenError(_ error: UniqueKeyConflict, line: Int) -> DynamicObjectError {
    let index = type.indexes.first { $0.number == error.index }?.name ?? "?"
    let key =
      IndexKeyElement.elements(of: error.key)?.map(\.description).joined(separator: ", ")
      ?? "a long one"
    return DynamicObjectError(
      .uniqueViolation,
      "\"\(String(decoding: error.id, as: UTF8.self))\" has the same key of the unique index "
        + "\"\(index)\" (\(key)) as \"\(String(decoding: error.holder, as: UTF8.self))\".",
      line: line)
  }
}
