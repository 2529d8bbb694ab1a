// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import Foundation
package import LarderCoding
package import LarderEngine

// INDEX KEYS WITHOUT THE PROGRAM
//
// An index is declared by key paths, and the catalog keeps how they read ("\.address.city") and the
// names of the properties' types ("Optional<String>"). From these the keys of a stored object can be
// made if
//
//   - the index has no condition, which only the program can judge,
//   - every part of the path is a stored property (a computed one reads "<computed …>"),
//   - the type is one of the standard library's or Foundation's; another may encode its key as it
//     likes, even if it is stored as a text.
//
// What a property is stored under may still differ from its name: a coding key may even be the name of
// another property. So no rule is used before objects that a program has stored agree with it and with
// no other field in the place of one of its own: each contains the keys it was given
// (`IndexRuleEvidence.swift`).

/// How the keys of an index are made from stored values.
package struct IndexRule: Sendable {
  let number: UInt32
  let name: String
  let isUnique: Bool
  /// One key an element of a collection.
  let isMultiple: Bool
  package private(set) var fields: [Field]

  package struct Field: Sendable {
    fileprivate(set) var path: FieldPath
    let kind: IndexedKind
    let mayBeMissing: Bool

    /// Returns the key of a constant, or `nil` if no value of the type equals the constant.
    func key(of constant: ComparableValue) -> [UInt8]? {
      constant == .nothing ? [0] : kind.literalKey(constant)
    }

    /// Returns whether another field is the same property with the same keys.
    func hasKeys(of other: Field) -> Bool { path == other.path && kind.name == other.kind.name }
  }

  /// Why there is no rule.
  package struct Foreign: Error { package let reason: String }

  package init(_ index: ObjectTypeRecord.Index) throws(Foreign) {
    number = index.number
    name = index.name
    isUnique = index.isUnique
    guard index.hasKeysOfToday else {
      throw Foreign(reason: "its keys are of an older version; the program builds it anew")
    }
    var definition = Substring(index.definition)
    if definition.contains(" where ") {
      throw Foreign(reason: "only the program knows which objects are in it (it is partial)")
    }
    isMultiple = definition.hasPrefix("each ")
    if isMultiple { definition = definition.dropFirst(5) }
    let types = Self.split(definition)
    guard types.count == index.fields.count, !types.isEmpty else {
      throw Foreign(reason: "its declaration (\(index.definition)) is not understood")
    }
    var fields: [Field] = []
    for (type, path) in zip(types, index.fields) {
      guard let names = Self.names(path) else {
        throw Foreign(reason: "\(path) is not a stored property")
      }
      let isOptional = type.hasPrefix("Optional<") && type.hasSuffix(">")
      let inner = isOptional ? String(type.dropFirst(9).dropLast()) : type
      guard let kind = IndexedKind.named(inner) else {
        throw Foreign(reason: "only the program knows the keys of its type \(inner)")
      }
      fields.append(Field(path: FieldPath(names), kind: kind, mayBeMissing: isOptional))
    }
    self.fields = fields
  }

  /// Names of types at the commas that stand in no brackets.
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

  /// The properties of a key path as it reads: `\.address?.city`.
  private static func names(_ path: String) -> [String]? {
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

  /// Whether a field has a value in an object that no field beside it has, so that the keys of the
  /// object tell it from all others.
  func isTold(_ position: Int, by keys: Set<ObjectIndexKey>, of object: CBORValue) -> Bool {
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

  /// The paths that differ from one in the name at one level.
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

  /// A value that does not give a key.
  struct NoKey: Error { let reason: String }

  /// The keys of an object.
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
    switch value {
    case nil, .null, .undefined:
      if field.mayBeMissing { return [0] }
      throw NoKey(reason: "\(field.path) is missing, and the index \"\(name)\" needs it")
    case let value?:
      do { return try field.kind.key(value) } catch {
        throw NoKey(
          reason: "\(field.path) is no \(field.kind.name), as the index \"\(name)\" needs it")
      }
    }
  }
}

/// A type that an index may be over, and how its values become keys.
struct IndexedKind: Sendable {
  let name: String
  /// The key of a stored value, as a program that decodes it makes it.
  let key: @Sendable (CBORValue) throws -> [UInt8]
  /// The key of a constant; `nil`: the index does not help.
  let literalKey: @Sendable (ComparableValue) -> [UInt8]?

  /// What the catalog calls a field of the type.
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
    // The width does not show in a key, so that constants beyond the type's range work as well.
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

  /// Seconds since 1970; `nil`: no such number is the date.
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
