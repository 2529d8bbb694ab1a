// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// FORMS
//
// The catalog does not have every part of every value (`DeclaredFields.swift`). What it does not have, stored objects
// show: a value is accepted if a program has stored one of the same form at the same place, and each part of it is one
// that a program decodes there:
//
//   form       the kinds of the parts and the names of the fields
//   known      a part whose kind the catalog has is a value of that kind
//   text       a text that a program has stored at the same place: it may be a case of an enumeration
//   integer    by itself, one that a program has stored there. Inside of a value, one between zero and the least and
//              greatest stored there: every type of integers has these. Of an enumeration, one that is stored there
//   number     one in the range of `Float`, or of what is stored there
//   others     a date, a UUID, a URL and a decimal that can be decoded, every Boolean, all bytes

/// The forms of the values of a type's objects, as programs stored them.
final class StoredForms {
  private let objects: DynamicObjects
  private let type: ObjectTypeRecord
  private var found: [[String]: Place] = [:]
  private var nulls: [[String]: Bool] = [:]

  init(_ objects: DynamicObjects, _ type: ObjectTypeRecord) {
    (self.objects, self.type) = (objects, type)
  }

  /// Returns whether a stored object has a value of the same form at a place, of which the value has all parts that
  /// only a program knows. The first question about a place reads all objects.
  ///
  /// - Parameters:
  ///   - value: The value, as a program would store it.
  ///   - shape: What the catalog knows of it.
  ///   - path: The place.
  /// - Throws: `StoreError` and ``DynamicObjectError``.
  func has(_ value: CBORValue, _ shape: ValueShape, at path: [String]) throws -> Bool {
    if found[path] == nil { found[path] = try place(at: path) }
    let place = found[path]!
    return place.forms.contains(Self.form(value)) && place.decodes(value, shape, at: [])
  }

  /// Returns whether a stored object has null at a place. The first question about a place reads objects up to the
  /// first one that has.
  ///
  /// - Throws: `StoreError` and ``DynamicObjectError``.
  func hasNull(at path: [String]) throws -> Bool {
    if let known = nulls[path] { return known }
    var isFound = false
    try visitAll(path, restart: { isFound = false }) { value in
      if value == .null { isFound = true }
      return !isFound
    }
    nulls[path] = isFound
    return isFound
  }

  private func place(at path: [String]) throws -> Place {
    var place = Place()
    try visitAll(path, restart: { place = Place() }) { value in
      place.add(value)
      return true
    }
    return place
  }

  /// Calls a closure with the value at a place of each stored object, until it returns `false`. An object that cannot
  /// be parsed has none.
  private func visitAll(
    _ path: [String], restart: () -> Void, _ body: (CBORValue) -> Bool
  ) throws {
    try objects.reading("import", hasAnswered: { false }) { snapshot in
      restart()
      try ObjectReading.scan(type: type.number, in: snapshot) { found in
        guard case .success(let stored) = found,
          CodecIdentifier(rawValue: stored.codec) == .cbor,
          let value = try? CBORValue(parsing: stored.bytes)
        else { return true }
        var goesOn = true
        Self.visit(value, path[...]) { if goesOn { goesOn = body($0) } }
        return goesOn
      }
    }
  }

  private static func visit(
    _ value: CBORValue, _ path: ArraySlice<String>, _ body: (CBORValue) -> Void
  ) {
    guard let step = path.first else { return body(value) }
    switch value.untagged {
    case .array(let values) where step == CBORFieldLog.elementStep:
      for value in values { visit(value, path.dropFirst(), body) }
    case .map(let pairs):
      for pair in pairs where step == CBORFieldLog.valueStep || pair.key == .text(step) {
        visit(pair.value, path.dropFirst(), body)
      }
    default: break
    }
  }

  fileprivate static func form(_ value: CBORValue) -> String {
    switch value {
    case .unsigned, .negative: "integer"
    case .text: "text"
    case .boolean: "boolean"
    case .float: "number"
    case .bytes: "bytes"
    case .null, .undefined: "null"
    case .simple: "simple"
    case .tagged(let tag, let content): "\(tag)(\(form(content)))"
    case .array(let values): "[\(Set(values.map { form($0) }).sorted().joined(separator: ","))]"
    case .map(let pairs):
      "{" + pairs.map { "\(step($0.key)):\(form($0.value))" }.sorted().joined(separator: ",") + "}"
    }
  }

  fileprivate static func step(_ key: CBORValue) -> String { key.jsonText() }
}

/// The values at a place of all stored objects.
private struct Place {
  /// The plain values at one place inside of the values.
  private struct Parts {
    /// Texts, and values whose form says too little.
    var exact: Set<String> = []
    var integers: Set<Int128> = []
    var least: Int128 = 0
    var greatest: Int128 = 0
    /// The greatest absolute value of a number.
    var magnitude = 0.0
  }

  private(set) var forms: Set<String> = []
  private var parts: [[String]: Parts] = [:]
  /// The bytes of texts and forms that are kept. What is not kept is not known, and so not accepted.
  private var bytes = 0

  private static let byteLimit = 32 << 20

  mutating func add(_ value: CBORValue) {
    let form = StoredForms.form(value)
    if !forms.contains(form), hasRoom(for: form) { forms.insert(form) }
    add(value, at: [])
  }

  private mutating func hasRoom(for text: String) -> Bool {
    let size = text.utf8.count + 64
    if bytes + size > Self.byteLimit { return false }
    bytes += size
    return true
  }

  private mutating func add(_ value: CBORValue, at path: [String]) {
    switch value {
    case .array(let values):
      for value in values { add(value, at: path + [CBORFieldLog.elementStep]) }
    case .map(let pairs):
      for pair in pairs { add(pair.value, at: path + [StoredForms.step(pair.key)]) }
    case .unsigned, .negative: add(Self.integer(value)!, at: path)
    case .float(let number) where number.isFinite && hasRoom(at: path):
      parts[path]!.magnitude = max(parts[path]!.magnitude, number.magnitude)
    case .text, .tagged: addExactly(value.jsonText(), at: path)
    default: break
    }
  }

  private mutating func add(_ number: Int128, at path: [String]) {
    guard hasRoom(at: path) else { return }
    var part = parts.removeValue(forKey: path)!
    if !part.integers.contains(number), hasRoom(for: "") { part.integers.insert(number) }
    part.least = min(part.least, number)
    part.greatest = max(part.greatest, number)
    parts[path] = part
  }

  private mutating func addExactly(_ text: String, at path: [String]) {
    guard hasRoom(at: path), !parts[path]!.exact.contains(text), hasRoom(for: text) else { return }
    parts[path]!.exact.insert(text)
  }

  /// Returns whether the parts at a path are kept, which begin with the first one.
  private mutating func hasRoom(at path: [String]) -> Bool {
    if parts[path] != nil { return true }
    guard hasRoom(for: path.joined()) else { return false }
    parts[path] = Parts()
    return true
  }

  private static func integer(_ value: CBORValue) -> Int128? {
    switch value {
    case .unsigned(let number): Int128(number)
    case .negative(let number): -1 - Int128(number)
    default: nil
    }
  }

  /// Returns whether a program decodes each part of a value that has the form of a stored one.
  func decodes(_ value: CBORValue, _ shape: ValueShape, at path: [String]) -> Bool {
    if shape.isPlain { return shape.decodes(value) }
    let part = parts[path] ?? Parts()
    switch value {
    case .array(let values):
      let below = shape.elements.first ?? ValueShape()
      return values.allSatisfy { decodes($0, below, at: path + [CBORFieldLog.elementStep]) }
    case .map(let pairs):
      return pairs.allSatisfy { pair in
        var below = shape.elements.first ?? ValueShape()
        if case .text(let name) = pair.key, let member = shape.members[name] { below = member }
        return decodes(pair.value, below, at: path + [StoredForms.step(pair.key)])
      }
    case .unsigned, .negative:
      let number = Self.integer(value)!
      if path.isEmpty || shape.isEnumeration { return part.integers.contains(number) }
      return (part.least...part.greatest).contains(number)
    case .float(let number):
      return !number.isFinite
        || number.magnitude <= max(Double(Float.greatestFiniteMagnitude), part.magnitude)
    case .text: return part.exact.contains(value.jsonText())
    case .tagged:
      return part.exact.contains(value.jsonText())
        || ["date", "uuid", "url", "decimal", "int128", "uint128"].contains {
          ValueShape(kind: $0).decodes(value)
        }
    default: return true
    }
  }
}
