// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderLMDB
internal import Synchronization

// WHAT A CHANGE OF A TYPE MAY DO
//
// The catalog holds the fields of each type as the program declared them that wrote last
// (`SchemaProbe.swift`), and the version. A program whose declaration differs
//
//   in the same version   does not write: it would lose fields, or leave some out. It reads, if a
//                         sample of what is stored decodes.
//   in a newer version    raises the version with its first write, if a sample decodes; if not, the
//                         error asks for a migration.
//   in an older version   is refused; or reads, if the newer declared itself `readableFrom` there.
//
// A type whose declaration cannot be found out (it decodes itself in a way of its own) is judged by
// the sample alone.

/// What the program declares, as far as it was found out.
struct DeclaredSchema: Sendable {
  var fields: [String]?
  /// Whether nothing more can be found out without an object.
  var isProbed = false
  var isHopeless = false
  /// The stored state that was judged last, and found to be the same.
  var agreed: (number: UInt32, fingerprint: UInt64)?
}

extension Kind {
  static var readableFrom: UInt32? {
    Object.readableFrom < Object.schemaVersion ? UInt32(clamping: Object.readableFrom) : nil
  }

  var version: UInt32 { UInt32(clamping: Object.schemaVersion) }

  // MARK: Versions

  func requireReadable(_ record: ObjectTypeRecord) throws {
    if let from = record.readableFrom, from <= version, record.movedTo == nil { return }
    try requireWritable(record)
  }

  func requireWritable(_ record: ObjectTypeRecord) throws {
    if record.version > version {
      throw ObjectError(
        .newerSchema, type: name,
        record.movedTo.map { "Its objects were migrated to \"\($0)\". Update the program." }
          ?? "It is stored in version \(record.version); this program declares version "
          + "\(Object.schemaVersion). Update the program.")
    }
    if let migration = record.migration, record.version < version {
      throw ObjectError(
        .migrating, type: name,
        "The migration \"\(migration)\" is under way. Call migrate(_:) with it: that takes part, and "
          + "returns when it is done.")
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
      try transaction.withReading { reading in
        guard let error = try undecodable(record, transaction.generation, reading) else { return }
        throw ObjectError(
          .schemaMismatch, type: name,
          "What is stored in version \(record.version) does not decode as version \(version). Give "
            + "the store a migration to it: \(error.message)", ids: error.ids)
      }
      record.raised = version
    }
    record.version = version
    record.schema = nil
    record.fingerprint = 0
    record.movedTo = nil
    record.readableFrom = Self.readableFrom
  }

  // MARK: Fields

  /// The declared fields; `nil`: they cannot be found out (yet).
  private func declaredFields(_ object: [UInt8]?) -> [String]? {
    let known = schema.withLock { $0 }
    if known.fields != nil || known.isHopeless || (known.isProbed && object == nil) {
      return known.fields
    }
    let fields = SchemaProbe.fields(of: Object.self, from: object)
    schema.withLock {
      $0.fields = fields
      $0.isProbed = true
      $0.isHopeless = fields == nil && object != nil
    }
    return fields
  }

  /// Before a write: the stored fields are the declared ones, or become them.
  ///
  /// - Parameter object: An object, encoded; it helps to find out.
  func requireSameSchema(
    _ object: [UInt8], _ record: ObjectTypeRecord, _ transaction: inout StoreTransaction
  ) throws {
    let isAgreed = schema.withLock {
      $0.agreed.map { $0 == (record.number, record.fingerprint) } ?? false
    }
    if isAgreed { return }
    guard let fields = declaredFields(object) else { return }
    let fingerprint = SchemaProbe.fingerprint(fields)
    if try transaction.objectBooks(record.number).count > 0 { try requireSame(fields, record) }
    if record.schema != fields {
      var record = record
      record.schema = fields
      record.fingerprint = fingerprint
      // A transaction that fails takes it back; so it is not remembered here.
      try transaction.putObjectType(record)
      return
    }
    schema.withLock { $0.agreed = (record.number, fingerprint) }
  }

  /// Before indexes are changed: the stored fields are the declared ones, as far as they are known.
  /// Else two programs could each declare what the other cannot keep, and neither could write.
  func requireSameFields(
    _ record: ObjectTypeRecord, _ transaction: borrowing StoreTransaction
  ) throws {
    let object = try transaction.withReading { reading in
      try sample(record, transaction.generation, reading)
    }
    if let fields = declaredFields(object) { try requireSame(fields, record) }
  }

  private func requireSame(_ fields: [String], _ record: ObjectTypeRecord) throws {
    guard let stored = record.schema, stored != fields else { return }
    throw ObjectError(
      .schemaMismatch, type: name,
      "The declaration differs from what is stored in the same version "
        + "(\(SchemaProbe.difference(from: stored, to: fields))). Raise schemaVersion, and give a "
        + "migration if what is stored does not decode any more.")
  }

  /// Before reads: either the fields are the same, or a sample decodes.
  func requireDecodable(
    _ record: ObjectTypeRecord, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws {
    let stored = record.schema
    let declared = declaredFields(nil)
    if record.version == version {
      guard let stored, let declared, stored != declared else { return }
    } else if record.version > version || (stored != nil && stored == declared) {
      return
    }
    guard let error = try undecodable(record, generation, transaction) else { return }
    let difference =
      stored.flatMap { stored in
        declared.map { " (\(SchemaProbe.difference(from: stored, to: $0)))" }
      } ?? ""
    throw ObjectError(
      .schemaMismatch, type: name,
      "The declaration differs from what is stored\(difference), and that does not decode. Raise "
        + "schemaVersion and give the store a migration: \(error.message)", ids: error.ids)
  }

  /// The first error in a sample of what is stored: the oldest objects and the newest.
  ///
  /// An object may come with others that it cannot be without; their types are judged as well, but
  /// none inside of its own judgement, so that the depth is bounded by the types.
  private func undecodable(
    _ record: ObjectTypeRecord, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> ObjectError? {
    let judged = LinkPath.judgedTypes
    if judged.contains(name) { return nil }
    return try LinkPath.$judgedTypes.withValue(judged.union([name])) {
      try firstUndecodable(record, generation, transaction)
    }
  }

  private func firstUndecodable(
    _ record: ObjectTypeRecord, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> ObjectError? {
    var error: ObjectError?
    for backwards in [false, true] where error == nil {
      var count = 0
      try ObjectReading.scan(
        type: record.number, backwards: backwards, in: generation, transaction
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
