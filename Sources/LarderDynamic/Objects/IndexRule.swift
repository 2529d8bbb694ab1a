// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
package import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

// INDEX KEYS WITHOUT THE PROGRAM
//
// A program declares an index by key paths. The catalog contains their descriptions
// ("\.address.city") and the names of the properties' types ("Optional<String>"). The keys of a
// stored object follow from them if
//
//   - the index has no condition, which only the program can evaluate,
//   - every part of the path is a stored property (the description of a computed one contains
//     "<computed …>"),
//   - the type belongs to the standard library or Foundation; another type can encode its key in
//     any way, even if it is stored as a string.
//
// The field of a property may still differ from the property's name: a coding key may even be the
// name of another property. So a rule is used only after stored objects confirm it: each object
// contains the keys that a program computed for it, and these keys must follow from the fields of
// the rule, and from no other fields (`IndexRuleEvidence.swift`).

/// The rule by which the keys of an index follow from stored fields.
package struct IndexRule: Sendable {
  let number: UInt32
  let name: String
  let isUnique: Bool
  /// Whether the index has one key per element of a collection.
  let isMultiple: Bool
  package private(set) var fields: [Field]

  package struct Field: Sendable {
    fileprivate(set) var path: FieldPath
    let kind: IndexedKind
    let mayBeMissing: Bool
    var form = IndexKeyForm()

    /// Returns the key of a constant, or `nil` if no value of the type equals the constant.
    func key(of constant: ComparableValue) -> [UInt8]? {
      constant == .nothing ? [0] : kind.literalKey(constant)
    }

    /// Returns whether another field is the same property with the same keys.
    func hasKeys(of other: Field) -> Bool {
      path == other.path && kind.name == other.kind.name && form == other.form
    }
  }

  /// The reason why an index has no rule.
  package struct Foreign: Error { package let reason: String }

  /// Derives the rule from the declaration of an index.
  ///
  /// - Throws: ``Foreign`` if the keys do not follow from the declaration.
  package init(_ index: ObjectTypeRecord.Index) throws(Foreign) {
    number = index.number
    name = index.name
    isUnique = index.isUnique
    guard index.hasKeysOfToday else {
      throw Foreign(reason: "its keys have an older encoding; the program rebuilds it")
    }
    if index.isText { throw Foreign(reason: "only the program can find the words of a full text") }
    var definition = Substring(index.definition)
    if definition.contains(" where ") {
      throw Foreign(
        reason: "it is a partial index, and only the program can evaluate its condition")
    }
    isMultiple = definition.hasPrefix("each ")
    if isMultiple { definition = definition.dropFirst(5) }
    let types = Self.split(definition)
    guard types.count == index.fields.count, !types.isEmpty else {
      throw Foreign(reason: "its declaration (\(index.definition)) cannot be parsed")
    }
    var fields: [Field] = []
    for (type, path) in zip(types, index.fields) {
      guard let names = Self.names(path) else {
        throw Foreign(reason: "\(path) is not a stored property")
      }
      var type = type
      let form = IndexKeyForm(removingFrom: &type)
      let isOptional = type.hasPrefix("Optional<") && type.hasSuffix(">")
      let inner = isOptional ? String(type.dropFirst(9).dropLast()) : type
      guard let kind = IndexedKind.named(inner) else {
        throw Foreign(reason: "only the program can encode the keys of its type \(inner)")
      }
      // A program reads its default where the field is missing.
      let mayBeMissing = isOptional && index.defaults?[path] == nil
      fields.append(
        Field(path: FieldPath(names), kind: kind, mayBeMissing: mayBeMissing, form: form))
    }
    self.fields = fields
  }

  /// Returns the names of types, separated by the commas outside of brackets.
  private static func split(_ definition: Substring) -> [String] {
    var result: [String] = []
    var depth = 0
    var name = ""
    for character in definition {
      if character == "<" || character == "(" || character == "[" { depth += 1 }
      if character == ">" || character == ")" || character == "]" { depth -= 1 }
      if character == ",", depth == 0 {
        result.append(name)
        name = ""
      } else if !(character == " " && name.isEmpty) {
        name.append(character)
      }
    }
    return name.isEmpty ? result : result + [name]
  }

  /// Returns the properties in the description of a key path: `\.address?.city`.
  static func names(_ path: String) -> [String]? {
    guard path.hasPrefix("\\.") else { return nil }
    var names: [String] = []
    for part in path.dropFirst(2).split(separator: ".", omittingEmptySubsequences: false) {
      let name = part.hasSuffix("?") ? part.dropLast() : part
      guard let first = name.first, first == "_" || first.isLetter,
        name.allSatisfy({ $0 == "_" || $0.isLetter || $0.isNumber })
      else { return nil }
      names.append(String(name))
    }
    return names
  }

  // MARK: Other fields

  /// Returns whether an object's keys prove a field of the rule: no other field of the object gives
  /// the same keys.
  func isProven(_ position: Int, by keys: Set<ObjectIndexKey>, of object: CBORValue) -> Bool {
    let path = fields[position].path
    switch path.value(in: object) {
    case nil, .null, .undefined: return false
    default: break
    }
    return !alternatives(to: path, in: object).contains { other in
      var rule = self
      rule.fields[position].path = other
      return (try? rule.keys(of: object)).map { Set($0) == keys } ?? false
    }
  }

  /// Returns the paths that differ from a path in the name at one level.
  private func alternatives(to path: FieldPath, in object: CBORValue) -> [FieldPath] {
    var result: [FieldPath] = []
    for level in path.names.indices {
      let parent = FieldPath(Array(path.names[..<level])).value(in: object)?.untagged
      guard case .map(let pairs)? = parent else { continue }
      for case .text(let name) in pairs.map(\.key) where name != path.names[level] {
        var names = path.names
        names[level] = name
        result.append(FieldPath(names))
      }
    }
    return result
  }

  // MARK: Keys

  /// The reason why a value has no key.
  struct NoKey: Error { let reason: String }

  /// Returns the keys of an object.
  ///
  /// - Throws: `NoKey` if a field has another type than the rule.
  package func keys(of object: CBORValue) throws -> [ObjectIndexKey] {
    if isMultiple {
      let value = fields[0].path.value(in: object)
      guard case .array(let elements)? = value?.untagged else {
        throw NoKey(
          reason: "\(fields[0].path) is not an array, and the index \"\(name)\" needs one")
      }
      var seen: Set<[UInt8]> = []
      return try elements.map { try element($0, fields[0]) }
        .filter { seen.insert($0).inserted }
        .map { ObjectIndexKey(index: number, bytes: $0) }
    }
    var bytes: [UInt8] = []
    for field in fields { bytes += try element(field.path.value(in: object), field) }
    return [ObjectIndexKey(index: number, bytes: bytes)]
  }

  private func element(_ value: CBORValue?, _ field: Field) throws -> [UInt8] {
    let element = try ascending(value, field)
    return field.form.isDescending ? IndexKeyForm.complement(element) : element
  }

  private func ascending(_ value: CBORValue?, _ field: Field) throws -> [UInt8] {
    switch value {
    case .text(let text) where field.form.ignoresCase: return text.lowercased().indexKey
    case nil, .null, .undefined:
      if field.mayBeMissing { return [0] }
      throw NoKey(reason: "\(field.path) is missing, and the index \"\(name)\" needs it")
    case let value?:
      do { return try field.kind.key(value) } catch {
        throw NoKey(
          reason:
            "\(field.path) is not a value of \(field.kind.name), which the index \"\(name)\" needs")
      }
    }
  }
}

/// A type of indexed properties, with the encoding of its index keys.
struct IndexedKind: Sendable {
  let name: String
  /// The function that returns the key of a stored value, like a program that decodes the value.
  let key: @Sendable (CBORValue) throws -> [UInt8]
  /// The function that returns the key of a constant, or `nil` if an index cannot serve it.
  let literalKey: @Sendable (ComparableValue) -> [UInt8]?

  /// The kind of a field of the type in the catalog.
  var fieldKind: String {
    switch name {
    case "Double", "Float": "number"
    case "Date": "date"
    case "String": "text"
    case "Bool": "boolean"
    case "UUID": "uuid"
    case "Data": "bytes"
    default: "integer"
    }
  }

  static func named(_ name: String) -> IndexedKind? { all[name] }

  private static let all: [String: IndexedKind] = {
    let kinds = [
      integer(Int.self), integer(Int8.self), integer(Int16.self), integer(Int32.self),
      integer(Int64.self), integer(UInt.self), integer(UInt8.self), integer(UInt16.self),
      integer(UInt32.self), integer(UInt64.self),
      kind(Double.self) { real($0) }, kind(Float.self) { real($0) },
      kind(Date.self) { date($0) },
      kind(String.self) { if case .text(let text) = $0 { text.indexKey } else { nil } },
      kind(Bool.self) { if case .boolean(let value) = $0 { value.indexKey } else { nil } },
      kind(UUID.self) { value in
        let bytes: [UInt8]? =
          switch value {
          case .uuid(let bytes): bytes
          case .text(let text): ComparableValue.uuid(text)
          default: nil
          }
        return bytes.map { [0x30] + $0 }
      },
      kind(Data.self) { if case .bytes(let bytes) = $0 { Data(bytes).indexKey } else { nil } },
    ]
    return Dictionary(uniqueKeysWithValues: kinds.map { ($0.name, $0) })
  }()

  private static func kind<Value: IndexValue & Decodable>(
    _ type: Value.Type, _ literal: @escaping @Sendable (ComparableValue) -> [UInt8]?
  ) -> IndexedKind {
    IndexedKind(
      name: "\(type)",
      key: { value in
        if Value.self == String.self, case .text(let text) = value { return text.indexKey }
        return try CBORDecoder().decode(Value.self, from: value.encoded).indexKey
      }, literalKey: literal)
  }

  private static func integer<Value: IndexValue & Decodable & FixedWidthInteger>(
    _ type: Value.Type
  ) -> IndexedKind {
    // A key does not contain the width, so constants outside of the type's range work as well.
    kind(type) { value in
      let number: Int128?
      switch value {
      case .integer(let integer): number = integer
      case .real(let real): number = Int128(exactly: real)
      case .date(let date): number = epochSeconds(date).flatMap { Int128(exactly: $0) }
      default: number = nil
      }
      guard let number else { return nil }
      return Int64(exactly: number)?.indexKey ?? UInt64(exactly: number)?.indexKey
    }
  }

  private static func real(_ value: ComparableValue) -> [UInt8]? {
    switch value {
    case .integer(let integer): Double(exactly: integer)?.indexKey
    case .real(let real): real.indexKey
    case .date(let date): epochSeconds(date)?.indexKey
    default: nil
    }
  }

  /// Returns the seconds since 1970, or `nil` if no number of seconds identifies the date.
  private static func epochSeconds(_ date: Double) -> Double? {
    let (seconds, residual) = CBORDate.epochSeconds(of: date)
    return residual == 0 ? seconds : nil
  }

  private static func date(_ value: ComparableValue) -> [UInt8]? {
    let offset = Date.timeIntervalBetween1970AndReferenceDate
    let reference: Double?
    switch value {
    case .date(let date): reference = date
    case .integer(let integer):
      let (whole, overflow) = integer.subtractingReportingOverflow(Int128(offset))
      reference = overflow ? nil : Double(exactly: whole)
    case .real(let seconds):
      let date = seconds - offset
      reference = epochSeconds(date) == seconds ? date : nil
    default: reference = nil
    }
    return reference.map { Date(timeIntervalSinceReferenceDate: $0).indexKey }
  }
}
