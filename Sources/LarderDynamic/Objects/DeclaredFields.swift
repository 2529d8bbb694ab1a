// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// DECLARED FIELDS
//
// The catalog contains the fields of most types and their kinds ("year: integer", "owner: text?"),
// as programs wrote them, and those inside of them (`ValueShape.swift`). JSON has fewer kinds, so the
// kind of the field decides how a value of a line is read: a number by its digits, a string as a
// date, a UUID or bytes. What the program could not decode is rejected at every depth: a value of
// another kind or out of range, a missing field, an undeclared field, which it would drop.
//
// The catalog does not have all cases of an enumeration, nor the fields of a value that programs have
// not written since the type was declared. There a value is accepted only if stored objects show that
// a program decodes it (`StoredForms.swift`), or if a program stored the line.

/// The declared fields of a type.
struct DeclaredFields: Sendable {
  let shape: ValueShape

  /// Creates the fields of a record, or `nil` if the record does not contain them.
  init?(_ schema: [String]?) {
    guard let shape = ValueShape(schema: schema) else { return nil }
    self.shape = shape
  }

  /// Returns the kind of a field ("text", "integer", …), or `nil` if the field is not declared.
  func kind(of name: String) -> String? { shape.members[name]?.kind }

  /// Returns whether an indexed property must be stored in the field of its name, because no other
  /// field has its kind.
  func isOnly(_ field: IndexRule.Field, of rule: IndexRule) -> Bool {
    let kind = rule.isMultiple ? "array" : field.kind.fieldKind
    let candidates = shape.members.filter { $0.value.family == kind || $0.value.kind == "value" }
    return candidates.map(\.key) == field.path.names
  }

  var hasReferences: Bool { shape.members.values.contains { $0.kind == "reference" } }

  struct Flaw: Error {
    let message: String
    /// Whether the value may still be one of a case or of fields that the catalog does not have.
    var isOfForm = false
  }

  /// Returns an object with its values converted to the kinds of the fields.
  ///
  /// - Parameters:
  ///   - pairs: The object.
  ///   - forms: The forms of the values of stored objects; without them, a program stored the object.
  /// - Throws: `Flaw` if the program could not decode the object, or would drop a part of it.
  func fitted(_ pairs: [CBORValue.Pair], _ forms: StoredForms?) throws -> CBORValue {
    try ShapeFitting(forms: forms).members(pairs, shape, [])
  }

  /// Returns the first field with a reference to another object, for which only the program can
  /// create index keys.
  func reference(in pairs: [CBORValue.Pair]) -> String? {
    for pair in pairs {
      guard case .text(let name) = pair.key, kind(of: name) == "reference" else { continue }
      if pair.value == .null || pair.value == .array([]) { continue }
      return name
    }
    return nil
  }
}

/// The conversion of values of JSON to the shapes of fields.
struct ShapeFitting {
  let forms: StoredForms?

  typealias Flaw = DeclaredFields.Flaw

  private static func shown(_ path: [String]) -> String {
    path.reduce("") { $1 == CBORFieldLog.elementStep ? $0 + $1 : $0.isEmpty ? $1 : $0 + "." + $1 }
  }

  /// - Throws: `Flaw` if one of the fields is required.
  static func requireNone(of missing: [String: ValueShape], at path: [String]) throws {
    for (name, field) in missing.sorted(by: { $0.key < $1.key })
    where !field.isOptional && field.kind != "reference" {
      throw Flaw(
        message: "\(shown(path + [name])) is missing, and the program requires it (\(field.kind))",
        isOfForm: !path.isEmpty)
    }
  }

  /// Returns a value as a program stores it.
  func fitted(_ value: CBORValue, _ shape: ValueShape, at path: [String]) throws -> CBORValue {
    if value == .null {
      if shape.isOptional || shape.kind == "reference" || shape.kind == "value" { return value }
      throw Flaw(
        message: "\(Self.shown(path)) is null, and the program requires a value (\(shape.kind))")
    }
    if shape.kind == "reference" {
      guard Self.isReference(value) else { throw Self.otherKind(shape, path) }
      return value
    }
    do {
      return try inside(value, shape, path)
    } catch let flaw as Flaw where flaw.isOfForm {
      // Of the innermost value around it that stored objects show.
      let value = try converted(value, shape, path)
      guard try forms?.has(value, shape, at: path) ?? true else { throw flaw }
      return value
    }
  }

  /// Whether a value is an id, or a list of ids.
  private static func isReference(_ value: CBORValue) -> Bool {
    func isID(_ value: CBORValue) -> Bool { if case .text = value { true } else { false } }
    if case .array(let values) = value { return values.allSatisfy(isID) }
    return isID(value)
  }

  private static func otherKind(_ shape: ValueShape, _ path: [String]) -> Flaw {
    Flaw(
      message:
        "\(shown(path)) does not have the declared kind (\(shape.kind)), or is out of its range")
  }

  private func inside(
    _ value: CBORValue, _ shape: ValueShape, _ path: [String]
  ) throws -> CBORValue {
    if shape.isEnumeration || shape.kind == "value" { throw unknown(shape, path) }
    switch (shape.kind, value.untagged) {
    case ("map", .map(let pairs)) where !shape.members.isEmpty:
      return try members(pairs, shape, path)
    case ("map", .map(let pairs)) where !shape.elements.isEmpty:
      return .map(
        try pairs.map { pair in
          let below = path + [CBORFieldLog.valueStep]
          return CBORValue.Pair(pair.key, try fitted(pair.value, shape.elements[0], at: below))
        })
    case ("map", .map([])), ("array", .array([])): return value
    case ("array", .array(let values)) where !shape.elements.isEmpty:
      let below = path + [CBORFieldLog.elementStep]
      return .array(try values.map { try fitted($0, shape.elements[0], at: below) })
    // A dictionary whose keys are not strings is stored as an array.
    case ("map", .map), ("map", .array), ("array", .array): throw unknown(shape, path)
    default:
      guard let plain = Self.scalar(value, shape), shape.decodes(plain) || trusts(plain, shape)
      else { throw Self.otherKind(shape, path) }
      return plain
    }
  }

  /// Whether a program stored the value, perhaps with a wider type than the kind says.
  private func trusts(_ value: CBORValue, _ shape: ValueShape) -> Bool {
    guard forms == nil, shape.kind == "integer" else { return false }
    if case .unsigned = value { return true }
    return false
  }

  private func unknown(_ shape: ValueShape, _ path: [String]) -> Flaw {
    Flaw(
      message: shape.isEnumeration
        ? "no stored object has this case of \(Self.shown(path)), so only the program knows whether "
          + "there is one; import it with the program"
        : "no stored object shows how the program stores \(Self.shown(path)); save one with the "
          + "program, or import with it", isOfForm: true)
  }

  /// Returns the fields of an object, or of a value at a path in it, as a program stores them.
  func members(
    _ pairs: [CBORValue.Pair], _ shape: ValueShape, _ path: [String]
  ) throws -> CBORValue {
    var result: [CBORValue.Pair] = []
    var missing = shape.members
    for pair in pairs {
      guard case .text(let name) = pair.key, let field = shape.members[name] else {
        throw Flaw(
          message: "the program does not declare a field \(pair.key.jsonText())"
            + (path.isEmpty ? "" : " of \(Self.shown(path))") + "; it declares "
            + shape.members.keys.sorted().joined(separator: ", "), isOfForm: !path.isEmpty)
      }
      // A missing field has the default of the property, or is nil. A property that is not optional and has
      // a default cannot be null, and the catalog does not tell them apart.
      if pair.value == .null, field.isOptional, let forms,
        try !forms.hasNull(at: path + [name])
      {
        continue
      }
      missing[name] = nil
      result.append(CBORValue.Pair(pair.key, try fitted(pair.value, field, at: path + [name])))
    }
    try Self.requireNone(of: missing, at: path)
    return .map(result)
  }

  /// Returns a value of which the catalog does not have all parts, with those converted that it has.
  private func converted(
    _ value: CBORValue, _ shape: ValueShape, _ path: [String]
  ) throws -> CBORValue {
    if value == .null { return value }
    if shape.isPlain, let plain = Self.scalar(value, shape) { return plain }
    switch value {
    case .array(let values):
      let below = shape.elements.first ?? ValueShape()
      return .array(
        try values.map { try converted($0, below, path + [CBORFieldLog.elementStep]) })
    case .map(let pairs):
      return .map(
        try pairs.map { pair in
          guard case .text(let name) = pair.key else { return pair }
          let below = shape.members[name] ?? shape.elements.first ?? ValueShape()
          return CBORValue.Pair(pair.key, try converted(pair.value, below, path + [name]))
        })
    default: return try resolved(value, path)
    }
  }

  /// Returns a value without a known field, in which numbers are floating-point numbers.
  private func resolved(_ value: CBORValue, _ path: [String]) throws -> CBORValue {
    guard let value = ExactNumber.resolved(value) else {
      throw Flaw(message: "a number of \(Self.shown(path)) is too large")
    }
    return value
  }

  /// Returns the stored form of a value of a kind without parts, or `nil` if it has another kind.
  private static func scalar(_ value: CBORValue, _ shape: ValueShape) -> CBORValue? {
    if let digits = ExactNumber.digits(value) { return number(digits, shape) }
    switch (shape.family, value.untagged) {
    case ("integer", .unsigned), ("integer", .negative), ("integer", .bytes): return value
    case ("number", .unsigned(let number)): return real(String(number), shape)
    case ("number", .negative(let number)): return real(String(-1 - Int128(number)), shape)
    case ("number", .float), ("boolean", .boolean), ("text", .text): return value
    case ("date", .text(let text)):
      return CalendarDate.seconds(text).flatMap { ExactDate.stored($0) }
    case ("date", .unsigned(let number)): return ExactDate.stored(seconds: Double(number))
    case ("date", .negative(let number)): return ExactDate.stored(seconds: -1 - Double(number))
    case ("date", .float(let number)) where value == value.untagged:
      return ExactDate.stored(seconds: number)
    case ("date", .float), ("date", .map): return value
    case ("uuid", .text(let text)):
      return ComparableValue.uuid(text).map { .tagged(37, .bytes($0)) }
    case ("uuid", .bytes(let bytes)): return bytes.count == 16 ? value : nil
    case ("bytes", .text(let text)): return Base64.bytes(text).map { .bytes($0) }
    case ("bytes", .array):
      return (try? CBORDecoder().decode([UInt8].self, from: value.encoded)).map { .bytes($0) }
    case ("url", .text(let text)): return .tagged(32, .text(text))
    case ("bytes", .bytes), ("url", .map): return value
    case ("decimal", .unsigned), ("decimal", .negative), ("decimal", .bytes), ("decimal", .float),
      ("decimal", .array):
      return value
    default: return nil
    }
  }

  private static func number(_ digits: String, _ shape: ValueShape) -> CBORValue? {
    switch shape.family {
    case "integer": ExactNumber.integer(digits)
    case "number": real(digits, shape)
    case "decimal": ExactNumber.decimal(digits)
    case "date": Double(digits).flatMap { ExactDate.stored(seconds: $0) }
    default: nil
    }
  }

  private static func real(_ digits: String, _ shape: ValueShape) -> CBORValue? {
    let number = shape.kind == "float" ? Float(digits).map { Double($0) } : Double(digits)
    return number.flatMap { $0.isFinite ? .float($0) : nil }
  }
}
