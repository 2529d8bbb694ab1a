// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

// THE IMPORT OF OBJECTS
//
// An imported object must equal the object that the program would have written: its declared
// fields, the id of the program's type, and the keys of every index. The import rejects the type
// before it writes anything if one of them cannot be computed without the program: an index without
// a rule, or with a rule that a stored object contradicts (`IndexRule.swift`), an id that differs
// from the stored field "id", a reference to another object.
//
// Lines after a schema (`ObjectSchemaHeader.swift`) are objects that a program stored, so the
// import rejects none of them for a lack of the program: it stores their references and identifiers
// unchanged, and leaves the keys of an index without a proven rule to the program's build. Only a
// unique index needs its keys before: two objects with the same key by the index's declaration are
// rejected, even if no object proves that the keys are those of the program.
//
// A rule that objects neither contradict nor prove is a guess: no object is stored, or in all of
// them another field has the same values. The import marks its index as not built, so no query uses
// it until a program has built it from the objects.
//
// The import writes lines in transactions of at most a thousand. A rejected line ends the import;
// the lines before it are stored.

/// An import of objects of one type from lines of JSON.
package struct ObjectImport {
  /// The numbers of lines by outcome.
  package struct Tally: Sendable, Hashable {
    package var inserted = 0
    package var replaced = 0
    /// Lines of objects that are stored with the same content.
    package var unchanged = 0
    /// Lines of objects whose id is stored, for an import that keeps existing objects.
    package var kept = 0

    package var total: Int { inserted + replaced + unchanged + kept }
  }

  private let store: SharedStore
  private let type: ObjectTypeRecord
  private let rules: [IndexRule]
  /// The identifiers of the indexes without a proven rule, whose keys the program computes.
  private let deferred: Set<UInt32>
  /// Whether the lines are objects that a program stored.
  private let isExport: Bool
  private let fields: DeclaredFields?
  /// The forms of stored values, or `nil` if a program stored the lines.
  private let forms: StoredForms?
  /// The unique indexes whose keys the program computes.
  private let assumed: AssumedKeys?
  private let keepsExisting: Bool
  private var batch: [(line: Int, write: ObjectWrite)] = []
  private var batchBytes = 0
  package private(set) var tally = Tally()

  static let batchLimit = 1000
  static let batchByteLimit = 4 << 20

  /// Creates an import.
  ///
  /// - Parameters:
  ///   - objects: The dynamic access to the store.
  ///   - type: The record of the type.
  ///   - isExport: Whether the lines follow a schema, which agrees with `type`.
  ///   - keepsExisting: Whether stored objects are kept instead of replaced.
  /// - Throws: ``DynamicObjectError`` if only the program can write objects of the type.
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
    forms = isExport ? nil : StoredForms(objects, type)
    if isExport {
      let all = evidence.rules.values.filter { Self.unproven($0, evidence, fields).isEmpty }
      let proven = Set(all.map(\.number))
      rules = type.indexes.compactMap {
        proven.contains($0.number) ? evidence.rules[$0.number] : nil
      }
      let notes = type.notes.map { Set([$0.number]) } ?? []
      deferred = Set(type.indexes.map(\.number)).subtracting(proven).subtracting(notes)
      let unique = evidence.rules.values.filter { $0.isUnique && !proven.contains($0.number) }
      let foreign = type.indexes.filter { $0.isUnique && evidence.rules[$0.number] == nil }
      assumed = try AssumedKeys(Array(unique), foreign, of: type, in: objects)
      return
    }
    assumed = nil
    let rules = try Self.rules(type, evidence, fields)
    self.rules = rules
    deferred = Set(
      rules.filter { !Self.unproven($0, evidence, fields).isEmpty }.map(\.number))
    try Self.requireID(type, evidence, fields)
    let refers = type.indexes.contains {
      $0.fields.isEmpty && $0.name != UnindexedNotes.name
    }
    if refers, fields?.hasReferences != true {
      throw DynamicObjectError(
        .foreignType,
        "Objects of \(type.name) have references that only the program can find. Import them "
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
          "Only the program can compute the keys of the index \"\(index.name)\" of \(type.name): "
            + "\(reason). Import with a program that declares the type.")
      }
      guard let rule = evidence.rules[index.number] else {
        throw foreign(evidence.foreign[index.number] ?? "its declaration cannot be parsed")
      }
      for field in unproven(rule, evidence, fields)
      where field.path.names.count != 1 || fields?.kind(of: field.path.names[0]) == nil {
        throw foreign("no stored object shows how \(field.path) is stored")
      }
      return rule
    }
  }

  /// Returns the fields of a rule that neither a stored object nor the declaration proves.
  private static func unproven(
    _ rule: IndexRule, _ evidence: IndexRuleEvidence, _ fields: DeclaredFields?
  ) -> [IndexRule.Field] {
    rule.fields.enumerated().filter { position, field in
      !evidence.isProven(position, of: rule) && fields?.isOnly(field, of: rule) != true
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
    case .unknown where Self.idKinds.contains(fields?.shape.members["id"]?.family): return
    case .unknown:
      throw DynamicObjectError(
        .foreignType,
        "The fields of \(type.name) are unknown, and the store has no object of the type. Save one "
          + "with the program, or import with it.")
    case .none:
      throw DynamicObjectError(
        .foreignType,
        "The ids of \(type.name) do not follow from the field \"id\", so only the program can "
          + "compute them. Import with the program.")
    }
  }

  // MARK: Lines

  /// Adds a line, which the next ``flush()`` stores at the latest. Empty lines are ignored.
  ///
  /// - Parameters:
  ///   - text: The line without its end.
  ///   - line: Its number, from 1.
  /// - Throws: ``DynamicObjectError`` with the line's number. All lines before it are stored.
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
      value = try JSONReader.value(text, keepsDigits: true)
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
          "\(name) refers to another object, and only the program can create the index key of a "
            + "reference. Import with the program, or omit the field.", line: line)
      }
      value = try fitted(pairs, fields, line)
    } else if let resolved = ExactNumber.resolved(value) {
      value = resolved
    } else {
      throw invalid("A number is too large.")
    }
    guard let id = exported ?? IndexRuleEvidence.id(of: value) else {
      throw invalid(
        "The object has no valid field \"id\": a string, a number, a date, a UUID, bytes or a "
          + "Boolean."
      )
    }
    if let conflict = assumed?.add(value, id: id, keepsExisting: keepsExisting) {
      throw takenError(
        conflict.index, conflict.text, id: id, holder: conflict.holder, line: line)
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

  private func fitted(
    _ pairs: [CBORValue.Pair], _ fields: DeclaredFields, _ line: Int
  ) throws(DynamicObjectError) -> CBORValue {
    do {
      return try fields.fitted(pairs, forms)
    } catch let flaw as DeclaredFields.Flaw {
      throw DynamicObjectError(
        .invalidLine, "The object does not fit the type: \(flaw.message).", line: line)
    } catch {
      throw DynamicObjectError(
        .invalidLine, "The stored objects cannot be read: \(error)", line: line)
    }
  }

  /// Stores the added lines.
  ///
  /// - Throws: ``DynamicObjectError`` with a line's number. All lines before it are stored.
  package mutating func flush() throws {
    let taken = batch
    batch = []
    batchBytes = 0
    if taken.isEmpty { return }
    let outcome = try commit(taken[...])
    guard let failure = outcome else { return }
    // The failed transaction stored nothing, so the lines before the rejected one are written
    // again.
    if try commit(taken[..<failure.position]) != nil {
      throw changed
    }
    let error = failure.error
    let elements = IndexKeyElement.elements(of: error.key)?.map(\.description)
    throw takenError(
      error.index, elements?.joined(separator: ", ") ?? "truncated",
      id: String(decoding: error.id, as: UTF8.self),
      holder: String(decoding: error.holder, as: UTF8.self), line: taken[failure.position].line)
  }

  private struct Failure: Error {
    let position: Int
    let error: UniqueKeyConflict
  }

  /// Writes lines in one transaction.
  ///
  /// - Returns: The line that cannot be written, or `nil` if all are stored.
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
        // All objects up to this sequence number keep their keys.
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

  /// Returns whether the type still has the declaration that the rules follow from.
  private static func isSame(
    _ now: ObjectTypeRecord, _ then: ObjectTypeRecord, isExport: Bool
  ) -> Bool {
    func indexes(_ record: ObjectTypeRecord) -> [[String]] {
      record.indexes.filter {
        $0.name != UnindexedNotes.name && (isExport || !$0.fields.isEmpty)
      }.map {
        ["\($0.number)", $0.name, $0.definition]
      }
    }
    return now.number == then.number && now.version == then.version && now.schema == then.schema
      && now.movedTo == nil && indexes(now) == indexes(then)
  }

  private var changed: DynamicObjectError {
    DynamicObjectError(
      .schemaChanged,
      "A program changed the declaration of \(type.name) during the import. The lines before the "
        + "change are stored. Run the import again for the others.")
  }

  private func takenError(
    _ taken: UInt32, _ key: String, id: String, holder: String, line: Int
  ) -> DynamicObjectError {
    let index = type.indexes.first { $0.number == taken }?.name ?? "?"
    return DynamicObjectError(
      .uniqueViolation,
      "\"\(id)\" has the same key in the unique index \"\(index)\" (\(key)) as \"\(holder)\". "
        + "Change one of them.",
      line: line)
  }
}
