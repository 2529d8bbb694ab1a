// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The rules of the documentation, over plain values.
//
// A stored object has the fields that programs have written. A program reads its own declaration of it: a
// field that is missing has the declared default, or is nil. What a program saves replaces the fields that it
// declares, and keeps all others, inside of values too. Where a rule permits several outcomes (the build of an
// index stores a computed default; a killed process has saved or not), the model keeps all of them, and each
// observation excludes some.

typealias Stored = [String: Value]

/// The permitted results of reading a field: several values, or an object that cannot be decoded.
struct Reading {
  var values: [Value]
  var mayFail: Bool

  static let failed = Reading(values: [], mayFail: true)
  static let unknown = Reading(values: [.any], mayFail: true)

  func accepts(_ value: Value) -> Bool { values.contains { $0.accepts(value) } }
}

extension Value: CustomStringConvertible {
  var description: String {
    switch self {
    case .null: "nil"
    case .any: "?"
    case .int(let number): "\(number)"
    case .double(let number): "\(number)d"
    case .bool(let flag): "\(flag)"
    case .text(let text): "\"\(text)\""
    case .date(let seconds): "date \(seconds)"
    case .uuid(let text): text
    case .decimal(let text): "\(text)m"
    case .data(let bytes): "data \(bytes)"
    case .list(let values): "\(values)"
    case .map(let values): "\(values)"
    }
  }
}

extension Value {
  /// Returns whether a value that is seen may be this one.
  func accepts(_ seen: Value) -> Bool {
    switch (self, seen) {
    case (.any, _): true
    case (.map(let own), .map(let other)):
      own.count == other.count
        && own.allSatisfy { key, value in
          other[key].map(value.accepts) ?? false
        }
    case (.list(let own), .list(let other)):
      own.count == other.count && zip(own, other).allSatisfy { $0.accepts($1) }
    default: self == seen
    }
  }
}

struct Model {
  let pair: Pair

  // MARK: Reading

  /// Returns what a program may see of a stored object, or `nil` for each field that makes it unreadable.
  func reading(_ stored: Stored, by program: Int) -> [String: Reading] {
    let type = pair.programs[program]
    return Dictionary(
      uniqueKeysWithValues: type.fields.map { field in
        (field.stored, reading(stored[field.stored], field, type))
      })
  }

  private func reading(_ value: Value?, _ field: Field, _ type: Declaration) -> Reading {
    if let value { return decoding(value, field.shape) }
    var readings = [missing(field, type)]
    for other in pair.programs where other.completesObjects {
      guard let own = other.field(field.stored) else { continue }
      for value in missing(own, other).values { readings.append(decoding(value, field.shape)) }
    }
    return Reading(values: readings.flatMap(\.values), mayFail: readings.contains(where: \.mayFail))
  }

  private func missing(_ field: Field, _ type: Declaration) -> Reading {
    if let fallback = type.fallback(field) {
      return Reading(values: [fallback.isVolatile ? .any : fallback.value], mayFail: false)
    }
    return field.shape.isOptional ? Reading(values: [.null], mayFail: false) : .failed
  }

  private func decoding(_ value: Value, _ shape: Shape) -> Reading {
    let found = Reading(values: [value], mayFail: false)
    switch (value, shape) {
    case (.any, _): return .unknown
    case (.null, _): return shape.isOptional ? found : .failed
    case (_, .optional(let shape)): return decoding(value, shape)
    case (.int, .int), (.double, .double), (.bool, .bool), (.text, .string), (.date, .date),
      (.uuid, .uuid), (.decimal, .decimal), (.data, .data), (.map, .dictionary):
      return found
    // The id of the object.
    case (.text(let id), .reference):
      return Int(id).map { Reading(values: [.int($0)], mayFail: false) } ?? .unknown
    case (.int(let number), .int16): return Int16(exactly: number) == nil ? .failed : found
    case (.text, .choice(_, true, let cases)):
      return (0..<cases).contains { value == .text("c\($0)") } ? found : .failed
    case (.int(let number), .choice(_, false, let cases)):
      return number < cases && number >= 0 ? found : .failed
    case (.map(let values), .nested(_, let fields)):
      var result = Reading(values: [], mayFail: false)
      var map: [String: Value] = [:]
      for field in fields {
        let inner = decodingMember(values[field.stored], field)
        if inner.values.isEmpty { return .failed }
        result.mayFail = result.mayFail || inner.mayFail
        map[field.stored] = inner.values.count == 1 ? inner.values[0] : .any
      }
      result.values = [.map(map)]
      return result
    case (.list(let values), .list(let shape)):
      let readings = values.map { decoding($0, shape) }
      if readings.contains(where: { $0.values.isEmpty }) { return .failed }
      return Reading(
        values: [.list(readings.map { $0.values.count == 1 ? $0.values[0] : .any })],
        mayFail: readings.contains(where: \.mayFail))
    case (.text, .int), (.text, .int16), (.text, .bool), (.text, .double), (.int, .string),
      (.double, .string), (.bool, .string), (.bool, .int), (.int, .bool), (.list, .int),
      (.int, .list), (.text, .list), (.list, .string), (.map, .int), (.int, .nested):
      return .failed
    default: return .unknown
    }
  }

  private func decodingMember(_ value: Value?, _ field: Field) -> Reading {
    if let value { return decoding(value, field.shape) }
    if let fallback = field.fallback, fallback.value != .null {
      // The build of an index may have stored it, or that of another program.
      let isFixed = fallback.isLiteral && !pair.programs.contains(where: \.completesObjects)
      return Reading(values: [isFixed ? fallback.value : .any], mayFail: false)
    }
    if !field.shape.isOptional { return .failed }
    return pair.programs.contains(where: \.completesObjects)
      ? .unknown : Reading(values: [.null], mayFail: false)
  }

  // MARK: Writing

  /// Returns the object that is stored when a program saves one over another.
  func saved(_ view: [String: Value], over old: Stored?, by program: Int) -> Stored {
    let type = pair.programs[program]
    var result = old ?? [:]
    for field in type.fields {
      let hasDefault = type.fallback(field) != nil
      let new = encoded(view[field.stored] ?? .any, field.shape, keepsNil: hasDefault)
      result[field.stored] = new.map { merged(old?[field.stored], $0, field.shape) }
    }
    return result
  }

  /// Returns the object after one field was set, in the forms that are possible.
  func set(_ field: String, _ value: Value, in old: Stored, by program: Int) -> [Stored] {
    let type = pair.programs[program]
    guard let declared = type.field(field) else { return [old] }
    var results: [Stored] = []
    for keepsNil in [true, false] {
      var result = old
      result[field] = encoded(value, declared.shape, keepsNil: keepsNil)
        .map { merged(old[field], $0, declared.shape) }
      results.append(result)
    }
    return results
  }

  private func encoded(_ value: Value, _ shape: Shape, keepsNil: Bool) -> Value? {
    switch (value, shape) {
    case (.null, _): return keepsNil || shape == .reference ? .null : nil
    case (_, .optional(let shape)): return encoded(value, shape, keepsNil: keepsNil)
    case (.int(let id), .reference): return .text("\(id)")
    case (.map(let values), .nested(_, let fields)):
      var map: [String: Value] = [:]
      for field in fields {
        let hasDefault = field.fallback != nil && field.fallback?.value != .null
        map[field.stored] = encoded(
          values[field.stored] ?? .any, field.shape, keepsNil: hasDefault)
      }
      return .map(map)
    case (.list(let values), .list(let shape)):
      return .list(values.map { encoded($0, shape, keepsNil: true)! })
    default: return value
    }
  }

  /// Keeps the fields inside of a value that the program does not declare.
  private func merged(_ old: Value?, _ new: Value, _ shape: Shape) -> Value {
    switch (old, new, shape.required) {
    case (.map(let before)?, .map(let after), .nested(_, let fields)):
      var result = before
      for field in fields {
        result[field.stored] = after[field.stored].map {
          merged(before[field.stored], $0, field.shape)
        }
      }
      return .map(result)
    case (.list(let before)?, .list, .list(.nested(_, let fields))):
      let known = Set(fields.map(\.stored))
      let isForeign = before.contains { value in
        if case .map(let map) = value { !known.isSuperset(of: map.keys) } else { true }
      }
      return isForeign ? .any : new
    default: return new
    }
  }

  /// Returns a stored object after the step of the newer version.
  func migrated(_ stored: Stored) -> Stored {
    var result = stored
    switch pair.programs[1].step {
    case .rename(let old, let new)?:
      result[new] = result.removeValue(forKey: old)
    case .add(let name, let fallback)?: result[name] = result[name] ?? fallback.value
    case .remove(let name)?: result[name] = nil
    case nil: break
    }
    return result
  }
}

extension Declaration {
  /// Whether the build of an index of the type stores defaults in objects.
  var completesObjects: Bool {
    allIndexes.contains { index in
      index.fields.contains { stored in
        guard let field = field(stored) else { return false }
        return fallback(field).map { !$0.isLiteral } ?? false || field.shape.hasComputedMembers
      }
    }
  }
}

extension Shape {
  fileprivate var hasComputedMembers: Bool {
    switch required {
    case .nested(_, let fields):
      fields.contains { $0.fallback.map { !$0.isLiteral } ?? false || $0.shape.hasComputedMembers }
    case .list(let shape): shape.hasComputedMembers
    default: false
    }
  }
}
