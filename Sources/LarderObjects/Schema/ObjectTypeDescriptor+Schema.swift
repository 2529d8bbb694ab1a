// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import Synchronization

// PERMITTED CHANGES OF A TYPE
//
// The catalog contains the version of each type and the fields that were written so far
// (`ObservedSchema.swift`). A program whose type differs
//
//   in the same version   reads and writes, as long as nothing is lost: undeclared fields survive
//                         its saves (`SurvivingFields.swift`). It gets an error if a field has
//                         another kind, or if it does not write a field that the other programs
//                         require.
//   in a newer version    raises the version with its first write, if a sample decodes; otherwise
//                         the error requires a migration.
//   in an older version   gets an error; or reads, if the newer version declares it as its
//                         `minimumReaderVersion`.

extension ObjectTypeDescriptor {
  static var minimumReaderVersion: UInt32? {
    Object.minimumReaderVersion < Object.schemaVersion
      ? UInt32(clamping: Object.minimumReaderVersion) : nil
  }

  var version: UInt32 { UInt32(clamping: Object.schemaVersion) }

  // MARK: Versions

  /// Returns the record of a type for reading, or `nil` if there is none: nothing of the type is stored,
  /// or this program itself declares the migration that moved its objects to another type.
  func readable(_ record: ObjectTypeRecord?) throws -> ObjectTypeRecord? {
    try requireOwnName()
    guard let record else { return nil }
    if record.movedTo != nil, store?.migratesAway(name) == true { return nil }
    try requireReadable(record)
    return record
  }

  func requireReadable(_ record: ObjectTypeRecord) throws {
    if let from = record.minimumReaderVersion, from <= version, record.movedTo == nil { return }
    try requireWritable(record)
  }

  func requireWritable(_ record: ObjectTypeRecord) throws {
    try requireOwnName()
    if record.version > version {
      throw ObjectError(
        .newerSchema, type: name,
        record.movedTo.map { "Its objects were migrated to \"\($0)\". Update the program." }
          ?? "The stored schema version is \(record.version); this program declares version "
          + "\(Object.schemaVersion). Update the program.")
    }
    if let migration = record.migration, record.version < version {
      throw ObjectError(
        .migrationInProgress, type: name,
        "The migration \"\(migration)\" is in progress. Call migrate(_:) with it to take part and "
          + "to wait until it is complete.")
    }
  }

  /// Raises the stored version without a migration.
  func raise(
    _ record: inout ObjectTypeRecord, isEmpty: Bool, _ transaction: inout StoreTransaction
  ) throws {
    if isEmpty {
      record.born = version
      record.raised = nil
    } else {
      try transaction.withSnapshot { snapshot in
        try requireDecodableAsNewer(record, snapshot)
      }
      record.raised = version
    }
    record.version = version
    record.schema = nil
    record.fingerprint = 0
    record.movedTo = nil
    record.minimumReaderVersion = Self.minimumReaderVersion
  }

  // MARK: Fields

  /// Records the fields with which an object of the program is written.
  func observeWriting(_ object: Object) throws -> CBORFieldLog {
    let log = CBORFieldLog(declaration: StorableValueField.all(of:))
    _ = try encode(object, with: ReferenceEncoder(), log: log)
    schema.withLock { $0.learn(log) }
    return log
  }

  /// Verifies before a write that the recorded fields match those of the object, and records new
  /// ones.
  ///
  /// - Parameter bytes: The encoded object.
  func requireSameSchema(
    _ object: Object, _ bytes: [UInt8], _ record: ObjectTypeRecord,
    _ transaction: inout StoreTransaction
  ) throws {
    let isAgreed = schema.withLock { schema in
      schema.agreed.map { $0.isAbout(record) && $0.covers(bytes) } ?? false
    }
    if isAgreed { return }
    let log = try observeWriting(object)
    var fields = RecordedFields(log)
    for name in Object.fieldsWithDefault { fields.fields[name]?.isOptional = true }
    if let known = record.schema, try transaction.objectBooks(record.number).count > 0 {
      if known.isEmpty { return schema.withLock { $0.agreed = .init(record) } }
      fields = try reconciled(RecordedFields(known), log, record, transaction)
    }
    let lines = fields.lines
    guard record.schema == lines else {
      var record = record
      record.schema = lines
      record.fingerprint = ObjectTypeRecord.fingerprint(ofSchema: lines)
      // A failing transaction reverts the record, so do not cache it here.
      return try transaction.putObjectType(record)
    }
    schema.withLock { $0.agreed = .init(record) }
  }

  /// Returns the recorded fields merged with those of an object.
  ///
  /// - Throws: ``ObjectError/Code/schemaMismatch`` if a conflicting declaration of the type
  ///   recorded them.
  private func reconciled(
    _ recorded: RecordedFields, _ log: CBORFieldLog, _ record: ObjectTypeRecord,
    _ transaction: borrowing StoreTransaction
  ) throws -> RecordedFields {
    var fields = recorded
    let written = log.topFields
    var mustDecode = false
    for (name, field) in written {
      var new = RecordedFields.Field(field)
      guard let old = recorded.fields[name] else {
        // Stored objects lack the field.
        mustDecode = mustDecode || !new.isOptional
        new.isOptional = new.kind != "reference"
        fields.fields[name] = new
        continue
      }
      let isWider = field.isOptional && !old.isOptional && old.kind != "reference"
      if isWider || ObservedSchema.contradicts(field, old) {
        throw mismatch(["stored \(name): \(old.text), declared \(name): \(new.text)"], record)
      }
      if field.isNull { fields.fields[name]?.isOptional = old.kind != "reference" }
      if let kind = field.kind, kind != old.kind, old.kind != "value" {
        let merged = RecordedFields.Field.merged(kind, old.kind)
        mustDecode = mustDecode || merged == "value"
        fields.fields[name]?.kind = merged
      }
    }
    fields.merge(nested: log.nestedFields.mapValues { RecordedFields.Field($0) })
    let missing = recorded.fields.filter { !$0.value.isOptional && written[$0.key] == nil }
    var sample = Sample()
    let unknown = schema.withLock { schema in missing.filter { !schema.knows([$0.key]) } }
    if mustDecode || !unknown.isEmpty {
      sample = try transaction.withSnapshot { snapshot in
        try self.sample(record, snapshot)
      }
      if sample.isForeign { throw mismatch(record, sample) }
    }
    for (name, old) in missing where old.kind != "reference" {
      fields.fields[name]?.isOptional = true
    }
    let lost = schema.withLock { schema in unknown.filter { !schema.knows([$0.key]) } }
    if !lost.isEmpty, !sample.lacksReferences {
      throw mismatch(
        lost.sorted { $0.key < $1.key }.map { "stored \($0.key): \($0.value.text)" }, record)
    }
    return fields
  }

  /// Verifies before a change of indexes that the kinds of the recorded fields match, and, if the
  /// change concerns another program, that this one uses all recorded fields. Otherwise two programs
  /// could each declare a unique index that the other cannot check, and neither could write; or
  /// replace each other's index.
  func requireSameFields(
    _ record: ObjectTypeRecord, adding indexes: [Index<Object>],
    _ transaction: borrowing StoreTransaction
  ) throws {
    let concernsOthers = indexes.contains { index in
      index.isUnique || record.indexes.contains { $0.name == index.name }
    }
    guard let lines = record.schema, !lines.isEmpty else { return }
    let sample = try transaction.withSnapshot { snapshot in
      try self.sample(record, writes: true, snapshot)
    }
    if sample.isForeign { throw mismatch(record, sample) }
    let recorded = RecordedFields(lines)
    let differs = schema.withLock { schema in
      !schema.difference(from: recorded).isEmpty
        || (concernsOthers && recorded.fields.keys.contains { !schema.knows([$0]) })
    }
    if differs, !sample.lacksReferences { throw mismatch(record, sample) }
  }

  /// Verifies before reads that a sample of the stored objects decodes. In the same version, only a
  /// field of another kind or a missing field is an error of the type.
  func requireDecodable(
    _ record: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws {
    if record.version > version { return }
    if record.version < version {
      return try requireDecodableAsNewer(record, snapshot)
    }
    guard let lines = record.schema, !lines.isEmpty else { return }
    let isKnown = schema.withLock { schema in
      schema.agreed?.isAbout(record) == true
        || schema.readable.map { $0 == (record.number, record.fingerprint) } ?? false
    }
    if isKnown { return }
    let sample = try sample(record, limit: 1, snapshot)
    let recorded = RecordedFields(lines)
    if sample.isForeign {
      let isOther = schema.withLock { schema in
        !schema.difference(from: recorded).isEmpty
          || schema.fields.contains {
            !$0.value.isOptional && !$0.value.isNull && recorded.fields[$0.key] == nil
          }
      }
      if isOther { throw mismatch(record, sample) }
    }
    schema.withLock { $0.readable = (record.number, record.fingerprint) }
  }

  /// Verifies that objects of an older version decode.
  private func requireDecodableAsNewer(
    _ record: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws {
    guard let error = try undecodable(record, snapshot) else { return }
    // Records the fields that the type requests, up to the one that fails.
    _ = try sample(record, limit: 1, snapshot)
    let texts = schema.withLock { schema in
      schema.difference(from: RecordedFields(record.schema ?? []), withMissing: true)
    }.filter { $0.contains("declared ") }
    let difference = texts.isEmpty ? "" : " (\(texts.joined(separator: ", ")))"
    throw ObjectError(
      .schemaMismatch, type: name,
      "Objects stored in version \(record.version) cannot be decoded as version "
        + "\(version)\(difference). Pass a migration to this version to the store: "
        + error.message + sketch(record), ids: error.ids)
  }

  private func sketch(_ record: ObjectTypeRecord) -> String {
    MigrationSketch(type: "\(Object.self)", record: record, version: version).text
  }

  private func mismatch(
    _ texts: [String], _ record: ObjectTypeRecord, cause: String = ""
  ) -> ObjectError {
    ObjectError(
      .schemaMismatch, type: name,
      "The declaration differs from the stored schema of the same version "
        + "(\(texts.joined(separator: ", "))). Raise schemaVersion, and pass a migration if stored "
        + "objects cannot be decoded any more.\(cause)\(sketch(record))")
  }

  private func mismatch(_ record: ObjectTypeRecord, _ sample: Sample) -> ObjectError {
    let recorded = RecordedFields(record.schema ?? [])
    var texts = schema.withLock { $0.difference(from: recorded) }
    if texts.isEmpty {
      texts = schema.withLock { $0.difference(from: recorded, withMissing: true) }
    }
    let cause = sample.error.map { " \($0.message)" } ?? ""
    return ObjectError(
      .schemaMismatch, type: name, mismatch(texts, record, cause: cause).message,
      ids: sample.error?.ids ?? [])
  }

  // MARK: Samples

  /// The result of decoding a sample of stored objects.
  struct Sample {
    fileprivate(set) var decoded = 0
    /// The first error that the type itself caused.
    fileprivate(set) var error: ObjectError?
    /// Whether objects could not be decoded because of objects they refer to.
    fileprivate(set) var lacksReferences = false

    /// Whether no object can be decoded and the type is the cause.
    var isForeign: Bool { decoded == 0 && error != nil && !lacksReferences }
  }

  /// Decodes the oldest and the newest objects, and records the fields that the type requests.
  ///
  /// - Parameters:
  ///   - limit: The number of the oldest, and of the newest objects.
  ///   - writes: Whether to record the fields with which these objects are written as well.
  private func sample(
    _ record: ObjectTypeRecord, limit: Int = 16, writes: Bool = false,
    _ snapshot: borrowing Snapshot
  ) throws -> Sample {
    var sample = Sample()
    // An object may require others; their types are sampled as well, but none inside its own
    // sample, so that the number of types bounds the depth.
    let sampled = ReferenceCodingPath.sampledTypes
    if sampled.contains(name) { return sample }
    let log = CBORFieldLog()
    try ReferenceCodingPath.$sampledTypes.withValue(sampled.union([name])) {
      for backwards in [false, true] {
        var count = 0
        try ObjectReading.scan(
          type: record.number, backwards: backwards, in: snapshot
        ) { found in
          if case .success(let stored) = found {
            do {
              let decoder = newDecoder()
              let object = try decode(stored.bytes, id: stored.id, decoder, log: log).object
              if writes { _ = try observeWriting(object) }
              sample.decoded += 1
            } catch let failure as ObjectError {
              if failure.ids.count > 1 || failure.code != .unreadable {
                sample.lacksReferences = true
              } else {
                sample.error = sample.error ?? failure
              }
            }
          }
          count += 1
          return count < limit
        }
      }
    }
    schema.withLock { $0.learn(log) }
    return sample
  }

  /// Returns the first error in a sample of the oldest and the newest stored objects.
  private func undecodable(
    _ record: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> ObjectError? {
    let sampled = ReferenceCodingPath.sampledTypes
    if sampled.contains(name) { return nil }
    return try ReferenceCodingPath.$sampledTypes.withValue(sampled.union([name])) {
      try firstUndecodable(record, snapshot)
    }
  }

  private func firstUndecodable(
    _ record: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> ObjectError? {
    var error: ObjectError?
    for backwards in [false, true] where error == nil {
      var count = 0
      try ObjectReading.scan(
        type: record.number, backwards: backwards, in: snapshot
      ) { found in
        if case .success(let stored) = found {
          do { _ = try decode(stored) } catch let failure as ObjectError { error = failure }
        }
        count += 1
        return count < 16 && error == nil
      }
    }
    return error
  }
}
