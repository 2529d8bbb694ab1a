// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// DECLARED FIELDS
//
// The catalog contains the fields of most types and their kinds ("year: integer", "owner: text?"),
// as programs wrote them (`ObservedSchema.swift` of LarderObjects); the list is empty if the names
// of the fields are data. JSON has fewer kinds, so the kind of the field decides how a value of a
// line is read: a whole number becomes a floating-point number, a string a date, a UUID or bytes. A
// value of another kind is rejected, and so is an undeclared field, because the program would drop
// it.

/// The declared fields of a type.
struct DeclaredFields: Sendable {
  private let fields: [String: RecordedFields.Field]

  /// Creates the fields of a record, or `nil` if the record does not contain them.
  init?(_ schema: [String]?) {
    guard let schema, !schema.isEmpty else { return nil }
    fields = RecordedFields(schema).fields
  }

  /// Returns the kind of a field ("text", "integer", …), or `nil` if the field is not declared.
  func kind(of name: String) -> String? { fields[name]?.kind }

  /// Returns whether an indexed property must be stored in the field of its name, because no other
  /// field has its kind.
  func isOnly(_ field: IndexRule.Field, of rule: IndexRule) -> Bool {
    let kind = rule.isMultiple ? "array" : field.kind.fieldKind
    let candidates = fields.filter { $0.value.kind == kind || $0.value.kind == "value" }.map(\.key)
    return candidates == field.path.names
  }

  var hasReferences: Bool { fields.values.contains { $0.kind == "reference" } }

  struct Flaw: Error { let message: String }

  /// Returns an object with its values converted to the kinds of the fields.
  ///
  /// - Throws: `Flaw` if a field is missing, undeclared or has a value of another kind.
  func fitted(_ pairs: [CBORValue.Pair]) throws(Flaw) -> CBORValue {
    var result: [CBORValue.Pair] = []
    var missing = fields
    for pair in pairs {
      guard case .text(let name) = pair.key, let field = fields[name] else {
        throw Flaw(
          message: "the program does not declare a field \(pair.key.jsonText()); it declares "
            + fields.keys.sorted().joined(separator: ", "))
      }
      missing[name] = nil
      if pair.value == .null, !field.isOptional, field.kind != "reference", field.kind != "value" {
        throw Flaw(message: "\(name) is null, and the program requires a value (\(field.kind))")
      }
      guard let value = Self.fitted(pair.value, field.kind) else {
        throw Flaw(message: "\(name) does not have the declared kind (\(field.kind))")
      }
      result.append(CBORValue.Pair(pair.key, value))
    }
    for (name, field) in missing.sorted(by: { $0.key < $1.key })
    where !field.isOptional && field.kind != "reference" {
      throw Flaw(message: "\(name) is missing, and the program requires it (\(field.kind))")
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
    // A dictionary whose keys are not strings is stored as an array, a plain enumeration as a map.
    case ("map", .array), ("decimal", _), ("reference", _), ("value", _): return value
    default: return nil
    }
  }

  /// Returns the first field with a reference to another object, for which only the program can
  /// create index keys.
  func reference(in pairs: [CBORValue.Pair]) -> String? {
    for pair in pairs {
      guard case .text(let name) = pair.key, fields[name]?.kind == "reference" else { continue }
      if pair.value == .null || pair.value == .array([]) { continue }
      return name
    }
    return nil
  }
}
