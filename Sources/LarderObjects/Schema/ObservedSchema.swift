// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

// THE FIELDS OF A TYPE
//
// A library cannot read the declaration of a type, and must not call its `init(from:)` with
// invented values. So the fields are observed: those that `encode(to:)` writes for an object that
// the program saves, including optional ones that are `nil`, and those that `init(from:)` requests
// of a stored object.
//
// The type's record in the catalog contains the union of the fields written so far: "name: kind",
// with "?" if the field may be missing. The kind is the form of the value in CBOR; if the Swift
// type alone determines it (an `Int`, a `Date`), the kind is firm, and another firm kind under the
// same name is a conflicting declaration, unless both are of one family (`RecordedFields.swift`).
// Fields inside of others are recorded for programs without the type, and conflict with nothing. A
// record of more than 256 fields belongs to a type whose
// field names are data and becomes empty, which disables the comparison.

extension RecordedFields {
  /// Creates the fields from the log of one written object.
  init(_ log: CBORFieldLog) {
    self.init(
      fields: log.topFields.mapValues { Field($0) },
      nested: log.nestedFields.mapValues { Field($0) })
  }
}

extension RecordedFields.Field {
  init(_ field: CBORFieldLog.Field) {
    // A reference is always written.
    self.init(
      kind: field.kind ?? "value",
      isOptional: (field.isOptional || field.isNull) && field.kind != "reference")
  }
}

/// The fields of a type that this process has observed.
struct ObservedSchema: Sendable {
  /// A state of the type's record that agrees with this program.
  struct Agreement: Sendable {
    let number: UInt32
    let fingerprint: UInt64
    /// The encoded names in byte order, and whether each is required; `nil` if the names are data.
    let names: [(key: [UInt8], isRequired: Bool)]?

    init(_ record: ObjectTypeRecord) {
      number = record.number
      fingerprint = record.fingerprint
      let fields = record.schema.map { RecordedFields($0).fields } ?? [:]
      let names = fields.map {
        (key: CBORValue.text($0.key).encoded, isRequired: !$0.value.isOptional)
      }
      .sorted { $0.key.lexicographicallyPrecedes($1.key) }
      self.names = record.schema?.isEmpty == true ? nil : names
    }

    func isAbout(_ record: ObjectTypeRecord) -> Bool {
      number == record.number && fingerprint == record.fingerprint
    }

    /// Returns whether an object has only recorded fields, and all required ones.
    func covers(_ object: [UInt8]) -> Bool {
      guard let names else { return true }
      return object.withRawSpan { StoredField.hasKeys(names, in: $0) }
    }
  }

  /// The paths of fields at any depth that the program has written or requested.
  private var known: Set<[String]> = []
  /// The paths of maps whose keys are data.
  private var open: Set<[String]> = []
  /// The fields of the object itself.
  private(set) var fields: [String: CBORFieldLog.Field] = [:]
  /// The record for writing that agrees.
  var agreed: Agreement?
  /// The record that was last compared for reading: its type identifier and fingerprint.
  var readable: (number: UInt32, fingerprint: UInt64)?

  /// The maximum number of stored paths; further paths are observed again when they are needed.
  private static let limit = 4096

  mutating func learn(_ log: CBORFieldLog) {
    for (path, field) in log.fields {
      if path.count == 1, fields.count <= Self.limit {
        fields[path[0], default: field].merge(field)
      }
      if known.count < Self.limit { known.insert(path) }
    }
    for path in log.open where open.count < Self.limit { open.insert(path) }
  }

  /// Returns whether the program has written or requested a field.
  func knows(_ path: [String]) -> Bool {
    known.contains(path) || open.contains(Array(path.dropLast()))
  }

  /// Returns the fields whose kinds in a record conflict with the program's types and, on request,
  /// those that only one of the two contains.
  func difference(from recorded: RecordedFields, withMissing: Bool = false) -> [String] {
    var texts: [String] = []
    for (name, field) in fields.sorted(by: { $0.key < $1.key }) {
      guard let stored = recorded.fields[name] else {
        if withMissing { texts.append("declared \(name): \(RecordedFields.Field(field).text)") }
        continue
      }
      if Self.contradicts(field, stored) {
        texts.append(
          "stored \(name): \(stored.text), declared \(name): \(RecordedFields.Field(field).text)")
      }
    }
    guard withMissing else { return texts }
    for (name, stored) in recorded.fields.sorted(by: { $0.key < $1.key }) where !knows([name]) {
      texts.append("stored \(name): \(stored.text)")
    }
    return texts
  }

  /// Returns whether a program of the same declaration cannot have recorded the field.
  static func contradicts(_ field: CBORFieldLog.Field, _ stored: RecordedFields.Field) -> Bool {
    guard let kind = field.kind, field.isFirm, stored.kind != "value" else { return false }
    return RecordedFields.Field.family(kind) != stored.family
  }
}

extension StoredField {
  /// Returns whether a map has only these keys, and all required ones. Both lists are in byte
  /// order.
  static func hasKeys(
    _ names: [(key: [UInt8], isRequired: Bool)], in object: RawSpan
  ) -> Bool {
    guard let map = head(object, 0), map.major == 5 else { return false }
    var offset = map.end
    var position = 0
    for _ in 0..<map.argument {
      guard let value = skip(object, offset), let end = skip(object, value) else { return false }
      let key = object.slice(offset..<value)!
      while position < names.count, !key.equals(names[position].key) {
        if names[position].isRequired { return false }
        position += 1
      }
      guard position < names.count else { return false }
      position += 1
      offset = end
    }
    return names[position...].allSatisfy { !$0.isRequired }
  }
}
