// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
package import LarderObjectEngine

// THE FIELDS OF A QUERY
//
// A program whose query names a field that its type does not have is not compiled, and neither is one
// that compares a text with a number. So a path is followed through the shapes of the catalog
// (`ValueShape.swift`), through references into the type referred to, and a path that leads nowhere is
// an error. Where the catalog does not know the fields, the stored objects show them.

/// A field of a query text that does not exist, or that has no values like those it is compared with.
package struct QueryFieldError: Error, Sendable {
  /// The category: "unknownField" or "otherKind".
  package let code: String
  /// A sentence, without advice.
  package let message: String
  /// One remedy.
  package let advice: String
  /// The field.
  package let field: String
  /// The fields with the most similar names.
  package let near: [String]
  /// Whether stored objects may have the field, although none of those stored now has it.
  package let isUncertain: Bool

  init(
    _ code: String, _ field: FieldPath, _ message: String, _ advice: String, near: [String] = [],
    isUncertain: Bool = false
  ) {
    (self.code, self.field) = (code, field.description)
    (self.message, self.advice, self.near) = (message, advice, near)
    self.isUncertain = isUncertain
  }
}

extension DynamicObjects {
  /// Returns the first error of a query's fields.
  ///
  /// - Parameters:
  ///   - query: The query.
  ///   - type: The record of the object type.
  /// - Returns: The error, or `nil` if every path of the query leads to values that can be like those
  ///   it is compared with.
  /// - Throws: ``DynamicObjectError`` and `StoreError`.
  /// - Complexity: O(1) if all fields are declared; otherwise the method reads objects until it finds
  ///   all fields.
  package func fieldError(
    in query: DynamicQuery, of type: ObjectTypeRecord
  ) throws -> QueryFieldError? {
    try reading("query", hasAnswered: { false }) { snapshot in
      do {
        let fields = try QueryFields(query, of: type, snapshot)
        for path in query.paths { try fields.requireKnown(path, self, snapshot) }
        try fields.requireComparable(query.condition)
        return nil
      } catch let error as QueryFieldError {
        return error
      }
    }
  }
}

extension DynamicQuery {
  var paths: [FieldPath] { condition.paths + sort.map(\.path) }
}

/// The places that the paths of a query lead to.
struct QueryFields: Sendable {
  private struct Place: Sendable {
    /// The shape of the values at the end, or `nil` if it is unknown.
    var shape: ValueShape?
    /// The names before the part that the catalog does not know, and the type that has it.
    var unknown: (type: ObjectTypeRecord, path: [String])?
    var targets: [Int: ObjectTypeRecord] = [:]
    var countsDictionary = false
    var error: QueryFieldError?
  }

  private var places: [FieldPath: Place] = [:]
  /// The references that the paths follow.
  private(set) var references = ReferencePaths()

  init(
    _ query: DynamicQuery, of type: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws {
    for path in query.paths where places[path] == nil {
      let place = try Self.place(of: path, type, snapshot)
      references.add(path.names[...], place.targets)
      places[path] = place
    }
  }

  func shape(at path: FieldPath) -> ValueShape? { places[path]?.shape }

  /// Returns a path that counts a dictionary as a program does, whatever its keys are.
  func counting(_ path: FieldPath) -> FieldPath {
    var path = path
    path.countsDictionary = places[path]?.countsDictionary ?? false
    return path
  }

  // MARK: Following a path

  private static func place(
    of path: FieldPath, _ type: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> Place {
    var place = Place(shape: ValueShape(schema: type.schema))
    var (owner, names) = (type, [String]())
    if place.shape == nil { place.unknown = (owner, path.names) }
    for (level, name) in path.names.enumerated() {
      guard var shape = place.shape else { return place }
      let here = FieldPath(Array(path.names[..<level]))
      let isCount = name == "count" || name == "isEmpty"
      if shape.kind == "reference" {
        guard let (target, isMany) = try target(of: names, owner, snapshot) else {
          // No object refers to another one there.
          place.shape = nil
          return place
        }
        if isMany, isCount {
          place.shape = .count(name)
          continue
        }
        if isMany {
          place.error = leaf(here, shape, name)
          return place
        }
        place.targets[level] = target
        (owner, names) = (target, [])
        guard let fields = ValueShape(schema: target.schema) else {
          (place.shape, place.unknown) = (nil, (owner, Array(path.names[level...])))
          return place
        }
        shape = fields
      }
      names.append(name)
      place.countsDictionary = isCount && shape.kind == "map"
      if let member = shape.members[name] {
        place.shape = member
      } else if shape.family == "map", !shape.isEnumeration, !shape.members.isEmpty {
        // Objects of an earlier version may have it.
        place.unknown = (owner, names + path.names[(level + 1)...])
        place.error = missing(
          FieldPath(Array(path.names[...level])), shape.members.keys.sorted(), owner)
        place.shape = nil
        return place
      } else if let element = shape.elements.first, shape.family == "map", !isCount {
        place.shape = element
        place.shape?.isOptional = true
      } else if shape.family == "map" && !shape.elements.isEmpty
        || ["array", "text", "bytes", "url"].contains(shape.family), isCount
      {
        place.shape = .count(name)
      } else if shape.family == "map" || shape.kind == "value" {
        (place.shape, place.unknown) = (nil, (owner, names + path.names[(level + 1)...]))
        return place
      } else {
        place.error = leaf(here, shape, name)
        return place
      }
    }
    return place
  }

  private static func missing(
    _ field: FieldPath, _ known: [String], _ type: ObjectTypeRecord, isUncertain: Bool = false
  ) -> QueryFieldError {
    let near = NearNames.of(field.names.last!, among: known)
    return QueryFieldError(
      "unknownField", field, "No object of \(type.name) has a field \"\(field)\".",
      near.isEmpty
        ? "There are \(known.joined(separator: ", "))." : "Did you mean \(NearNames.list(near))?",
      near: near, isUncertain: isUncertain && near.isEmpty)
  }

  private static func leaf(_ field: FieldPath, _ shape: ValueShape, _ name: String)
    -> QueryFieldError
  {
    let advice: String
    switch shape.family {
    case "reference":
      advice = "It refers to several objects; only a program has conditions of them."
    case "array": advice = "It has count and isEmpty, and contains(…) finds an element."
    case "text", "bytes", "url": advice = "It has count and isEmpty."
    default: advice = "Compare it as a whole."
    }
    return QueryFieldError(
      "unknownField", FieldPath(field.names + [name]),
      "\"\(field)\" is \(shape.noun) and has no field \"\(name)\".", advice)
  }

  /// Returns the type that a reference leads to, and whether it leads to several objects; or `nil` if no
  /// object refers to another one there.
  private static func target(
    of path: [String], _ type: ObjectTypeRecord, _ snapshot: borrowing Snapshot
  ) throws -> (type: ObjectTypeRecord, isMany: Bool)? {
    guard let index = type.indexes.first(where: { $0.name == "larder.references" }) else {
      return nil
    }
    let wanted = Array(path.joined(separator: "/").utf8)
    var found: (name: String, value: CBORValue?)?
    try ObjectReading.scanIndex(index.number, in: snapshot) { _, sequence in
      let moving: MigratingObject?
      do {
        moving = try ObjectReading.moving(type: type.number, sequence: sequence, in: snapshot)
      } catch is DamagedObject {
        return true
      }
      guard let object = moving else { return true }
      for key in object.keys where key.index == index.number {
        guard let elements = IndexKeyElement.elements(of: key.bytes), elements.count == 3,
          case .bytes(let target) = elements[0], elements[2] == .bytes(wanted)
        else { continue }
        found = (
          String(decoding: target, as: UTF8.self), try? CBORValue(parsing: object.stored.bytes)
        )
        return false
      }
      return true
    }
    guard let found, var record = try ObjectReading.type(named: found.name, snapshot) else {
      return nil
    }
    // A migration moved the objects; the ids are the same.
    var names: Set<String> = [record.name]
    while let moved = record.movedTo {
      guard names.insert(moved).inserted, let next = try ObjectReading.type(named: moved, snapshot)
      else { return nil }
      record = next
    }
    let reference = found.value.flatMap { FieldPath(path).value(in: $0) }
    if case .array? = reference?.untagged { return (record, true) }
    return (record, false)
  }

  // MARK: Errors

  /// Verifies that a path leads to a field.
  ///
  /// - Throws: ``QueryFieldError`` if no object has it.
  func requireKnown(
    _ path: FieldPath, _ objects: DynamicObjects, _ snapshot: borrowing Snapshot
  ) throws {
    guard let place = places[path] else { return }
    guard let unknown = place.unknown else {
      if let error = place.error { throw error }
      return
    }
    var reached = 0
    var count = 0
    var known: Set<String> = []
    try ObjectReading.scan(type: unknown.type.number, in: snapshot) { found in
      guard case .success(let stored) = found, let object = objects.object(stored) else {
        return true
      }
      count += 1
      for length in (reached + 1)..<(unknown.path.count + 1) {
        let part = FieldPath(Array(unknown.path[..<length]))
        guard part.value(in: object.value) != nil else { break }
        (reached, known) = (length, [])
      }
      let parent = FieldPath(Array(unknown.path[..<reached])).value(in: object.value)?.untagged
      if case .map(let pairs)? = parent {
        for case .text(let name) in pairs.map(\.key) { known.insert(name) }
      }
      return reached < unknown.path.count
    }
    if reached == unknown.path.count { return }
    if let error = place.error { throw error }
    // What no object has around the field shows nothing about it.
    guard reached < unknown.path.count, count > 0, !known.isEmpty else { return }
    let start = path.names.count - unknown.path.count
    let field = FieldPath(Array(path.names[..<(start + reached + 1)]))
    throw Self.missing(field, known.sorted(), unknown.type, isUncertain: true)
  }

  /// Verifies that the fields of a condition can have values like the constants.
  ///
  /// - Throws: ``QueryFieldError`` for a field that never has such a value.
  func requireComparable(_ condition: QueryCondition) throws {
    switch condition {
    case .all: return
    case .compare(.path(let path), let sign, .literal(let literal)),
      .compare(.literal(let literal), let sign, .path(let path)):
      try require(path, likes: literal, isOrdered: sign != .equal && sign != .different)
    case .compare(.path(let left), _, .path(let right)):
      guard let one = shape(at: left), let other = shape(at: right), !one.isLike(other) else {
        return
      }
      throw mismatch(
        left, "is \(one.noun), and \"\(right)\" is \(other.noun)", "Compare fields of one kind.")
    case .compare: return
    case .isIn(let path, let literals):
      for literal in literals { try require(path, likes: literal) }
    case .text(let path, let test): try requireText(path, "\(test.method.rawValue)(…)")
    case .matches(let path, _): try requireText(path, "matches(…)")
    case .contains(let path, let literal):
      if let shape = shape(at: path), ["text", "url", "character"].contains(shape.kind) {
        return try require(path, likes: literal)
      }
      try requireElements(of: path, [literal])
    case .containsAll(let path, let literals), .containsAny(let path, let literals):
      try requireElements(of: path, literals)
    case .and(let parts), .or(let parts): for part in parts { try requireComparable(part) }
    case .not(let part): try requireComparable(part)
    }
  }

  private func mismatch(_ path: FieldPath, _ what: String, _ advice: String) -> QueryFieldError {
    QueryFieldError("otherKind", path, "\"\(path)\" \(what).", advice)
  }

  private func require(
    _ path: FieldPath, likes literal: QueryLiteral, isOrdered: Bool = false
  ) throws {
    guard let shape = shape(at: path) else { return }
    try require(path, shape, likes: literal, isOrdered: isOrdered)
  }

  private func require(
    _ path: FieldPath, _ shape: ValueShape, likes literal: QueryLiteral, isOrdered: Bool
  ) throws {
    if literal.plain == .nothing { return }
    guard shape.isLike(literal.plain) else {
      throw mismatch(
        path, "is \(shape.noun), and \(literal.source) is \(literal.plain.noun)",
        "Write a constant of its kind.")
    }
    if isOrdered, !shape.isOrdered {
      throw mismatch(path, "is \(shape.noun), and has no order", "Compare it by == or !=.")
    }
  }

  private func requireText(_ path: FieldPath, _ method: String) throws {
    guard let shape = shape(at: path), shape.kind != "value", shape.family != "text",
      shape.family != "url"
    else { return }
    throw mismatch(path, "is \(shape.noun), and \(method) is of a text", "Compare it by its kind.")
  }

  private func requireElements(of path: FieldPath, _ literals: [QueryLiteral]) throws {
    guard let shape = shape(at: path), !["value", "reference"].contains(shape.kind) else { return }
    guard shape.family == "array" else {
      throw mismatch(
        path, "is \(shape.noun), and contains(…) is of a list or a text", "Compare it by ==.")
    }
    guard let element = shape.elements.first else { return }
    for literal in literals { try require(path, element, likes: literal, isOrdered: false) }
  }
}

extension QueryCondition {
  /// The properties in the condition.
  var paths: [FieldPath] {
    switch self {
    case .all: []
    case .compare(let left, _, let right): [left, right].compactMap(\.path)
    case .isIn(let path, _), .text(let path, _), .contains(let path, _), .containsAll(let path, _),
      .containsAny(let path, _), .matches(let path, _):
      [path]
    case .and(let parts), .or(let parts): parts.flatMap(\.paths)
    case .not(let part): part.paths
    }
  }
}

extension QueryCondition.Operand {
  fileprivate var path: FieldPath? {
    if case .path(let path) = self { path } else { nil }
  }
}
