// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

// FIELDS AS THEY WERE DECLARED
//
// The catalog knows the fields of most types and what they are ("year: integer", "owner: text?"), as
// programs wrote them (`ObservedSchema.swift` of LarderObjects); the list is empty if the names of the
// fields are data. JSON knows fewer
// kinds, so what a line says is read by the field it stands in: a whole number becomes a floating-point
// number, a text a date, a UUID or bytes. What does not fit is refused, and so is a field that is not
// declared: the program would drop it.

/// The declared fields of a type.
struct DeclaredFields: Sendable {
  private let fields: [String: RecordedFields.Field]

  /// Creates the fields of a record, or `nil` if the record does not contain them.
  init?(_ schema: [String]?) {
    guard let schema, !schema.isEmpty else { return nil }
    fields = RecordedFields(schema).fields
  }

  /// What a field is: "text", "integer", …; `nil`: there is none.
  func kind(of name: String) -> String? { fields[name]?.kind }

  /// Whether an indexed property can be stored in no other field than the one of its name, because there
  /// is no other of its kind.
  func isOnly(_ field: IndexRule.Field, of rule: IndexRule) -> Bool {
    let kind = rule.isMultiple ? "array" : field.kind.fieldKind
    let candidates = fields.filter { $0.value.kind == kind || $0.value.kind == "value" }.map(\.key)
    return candidates == field.path.names
  }

  var hasReferences: Bool { fields.values.contains { $0.kind == "reference" } }

  struct Flaw: Error { let message: String }

  /// An object with its values as the fields want them.
  func fitted(_ pairs: [CBORValue.Pair]) throws(Flaw) -> CBORValue {
    var result: [CBORValue.Pair] = []
    var missing = fields
    for pair in pairs {
      guard case .text(let name) = pair.key, let field = fields[name] else {
        throw Flaw(
          message: "the program declares no field \(pair.key.jsonText()); it has "
            + fields.keys.sorted().joined(separator: ", "))
      }
      missing[name] = nil
      if pair.value == .null, !field.isOptional, field.kind != "reference", field.kind != "value" {
        throw Flaw(message: "\(name) is null, and the program wants it (\(field.kind))")
      }
      guard let value = Self.fitted(pair.value, field.kind) else {
        throw Flaw(message: "\(name) is not what the program wants there (\(field.kind))")
      }
      result.append(CBORValue.Pair(pair.key, value))
    }
    for (name, field) in missing.sorted(by: { $0.key < $1.key })
    where !field.isOptional && field.kind != "reference" {
      throw Flaw(message: "\(name) is missing, and the program wants it (\(field.kind))")
    }
    return .map(result)
  }

  private static func fitted(_ value: CBORValue, _ kind: String) -> CBORValue? {
    if value == .null { return value }
    let plain = value.untagged
    switch (kind, plain) {
    case ("integer", .unsigned), ("integer", .negative), ("integer", .bytes): return value
    case ("number", .unsigned(let number)): return .float(Double(number))
    case ("number", .negative(let number)): return .float(-1 - Double(number))
    case ("number", .float), ("boolean", .boolean), ("text", .text): return value
    case ("date", .text(let text)):
      return CalendarDate.seconds(text).flatMap { ExactDate.stored($0) }
    case ("date", .unsigned(let number)): return ExactDate.stored(seconds: Double(number))
    case ("date", .negative(let number)): return ExactDate.stored(seconds: -1 - Double(number))
    case ("date", .float(let number)) where value == plain: return ExactDate.stored(seconds: number)
    case ("date", .float), ("date", .map): return value
    case ("uuid", .text(let text)):
      return ComparableValue.uuid(text).map { .tagged(37, .bytes($0)) }
    case ("uuid", .bytes(let bytes)): return bytes.count == 16 ? value : nil
    case ("bytes", .text(let text)): return Base64.bytes(text).map { .bytes($0) }
    case ("bytes", .bytes), ("bytes", .array): return value
    case ("map", .map), ("array", .array), ("url", .text), ("url", .map): return value
    // A dictionary whose keys are not texts is stored as an array, a plain enumeration as a map.
    case ("map", .array), ("decimal", _), ("reference", _), ("value", _): return value
    default: return nil
    }
  }

  /// The first reference to another object, which only the program can note.
  func reference(in pairs: [CBORValue.Pair]) -> String? {
    for pair in pairs {
      guard case .text(let name) = pair.key, fields[name]?.kind == "reference" else { continue }
      if pair.value == .null || pair.value == .array([]) { continue }
      return name
    }
    return nil
  }
}
