// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

// One stored type, its model, and what both programs did with it.

struct Difference: Error { let text: String }

final class Subject {
  let number: Int
  let pair: Pair
  let permissions: [Permissions]
  private let model: Model
  private var random: Random
  /// The possible stored objects; `nil` if there is none. Other objects do not exist.
  private var objects: [Int: Set<Stored?>] = [:]
  /// Objects with more possible states than are worth following.
  private var forgotten: Set<Int> = []
  private(set) var history: [String] = []
  private var isMigrated = false
  private var mayBeMigrated = false

  private static let ids = 14
  private static let mostStates = 48

  init(_ pair: Pair, number: Int, random: Random) {
    self.pair = pair
    self.number = number
    self.random = random
    model = Model(pair: pair)
    permissions = (0..<2).map { Permissions(of: $0, in: pair) }
  }

  // MARK: Requests

  /// Returns the next request of a program.
  func request(by program: Int) -> Request {
    let type = pair.programs[program]
    var request = Request(operation: .all, type: number, id: random.below(Self.ids))
    if program == 1, type.step != nil, !isMigrated {
      request.operation = .migrate
      return request
    }
    request.operation = random.pick([
      .save, .save, .save, .save, .save, .edit, .edit, .remove, .object, .all, .all, .probe, .probe,
      .probe, .probe, .order, .update, .update, .set, .set, .set, .removeWhere, .prepare,
    ])
    let field = random.pick(type.fields)
    request.field = field.stored
    request.new = Generator.value(field.shape, isWide: type.isUnique(field), &random)
    switch request.operation {
    case .save:
      request.values = Dictionary(
        uniqueKeysWithValues: type.fields.map {
          ($0.stored, Generator.value($0.shape, isWide: type.isUnique($0), &random))
        })
    case .set where field.shape == .reference: request.operation = .update
    case .order:
      guard let field = type.fields.first(where: { $0.shape.required.isScalar }) else {
        request.operation = .all
        break
      }
      request.field = field.stored
      request.descending = random.chance(50)
      request.limit = 1 + random.below(4)
    default: break
    }
    if [.probe, .update, .set, .removeWhere].contains(request.operation) {
      condition(&request, type)
    }
    return request
  }

  private func condition(_ request: inout Request, _ type: Declaration) {
    let texts = type.indexes.filter { $0.kind == .text }
    if let index = texts.first, random.chance(20) {
      request.probe = "\(index.name) matching"
      request.value = .text(random.pick(["a", "b", "none", "é", "x"]))
      return
    }
    let field = random.pick(type.fields)
    var signs = ["=="]
    var shape = field.shape
    var name = field.stored
    if case .nested(_, let members) = shape.required, random.chance(70),
      let member = members.shuffled(using: &random).first(where: { $0.shape.required.isScalar })
    {
      name += ".\(member.stored)"
      let isOptional = shape.isOptional || member.shape.isOptional
      shape = isOptional ? .optional(member.shape.required) : member.shape
    }
    switch shape {
    case .list(.int), .list(.string): signs = ["==", "contains", "count"]
    case .reference: signs = ["refers"]
    case .string where name == field.stored: signs = ["==", "!=", "<", ">=", "hasPrefix"]
    default: if shape.required.isScalar { signs = ["==", "==", "!=", "<", ">="] }
    }
    let sign = random.pick(signs)
    request.probe = "\(name) \(sign)"
    request.value = value(for: field, shape)
    if sign == "contains", request.value == .list([]) {
      request.value = .list([shape == .list(.int) ? .int(1) : .text("a")])
    }
  }

  /// Returns a value for a condition: often one that an object has by default.
  private func value(for field: Field, _ shape: Shape) -> Value {
    let defaults = pair.programs.compactMap { $0.field(field.stored) }
      .filter { $0.shape == shape && $0.fallback?.isVolatile == false }.compactMap(
        \.fallback?.value)
    if let value = defaults.randomElement(using: &random), random.chance(50) { return value }
    return Generator.value(shape, &random)
  }

  /// Whether the outcome of a request cannot be known, because a default is another each time.
  func isVolatile(_ request: Request, by program: Int) -> Bool {
    if request.operation == .order {
      return isVolatile(request.field)
    }
    guard !request.probe.isEmpty else { return false }
    let type = pair.programs[program]
    let start = request.probe.split(separator: " ").dropLast().joined(separator: " ")
    return type.fields.contains { field in
      (start == field.stored || start.hasPrefix(field.stored + ".")) && isVolatile(field.stored)
    }
  }

  private func isVolatile(_ stored: String) -> Bool {
    pair.programs.contains { type in
      type.field(stored).map { field in
        var all = [field]
        var shape = field.shape.required
        if case .list(let inner) = shape { shape = inner }
        if case .nested(_, let members) = shape { all += members }
        return all.contains { $0.fallback?.isVolatile == true }
      } ?? false
    }
  }

  var hasVolatileFields: Bool {
    pair.programs.contains { $0.fields.contains { isVolatile($0.stored) } }
  }

  // MARK: Answers

  func note(_ request: Request, by program: Int, _ outcome: String) {
    var text = "\("AB".map(String.init)[program]) \(request.operation)"
    switch request.operation {
    case .save: text += " \(request.id) \(request.values)"
    case .edit: text += " \(request.id) \(request.field) = \(request.new)"
    case .remove, .object: text += " \(request.id)"
    case .probe, .removeWhere: text += " where \(request.probe) \(request.value)"
    case .update, .set:
      text += " \(request.field) = \(request.new) where \(request.probe) \(request.value)"
    case .order: text += " by \(request.field)\(request.descending ? " descending" : "")"
    default: break
    }
    history.append("\(text) → \(outcome)")
  }

  /// The program was killed: the request may have been performed.
  func kill(_ request: Request, by program: Int) {
    switch request.operation {
    case .save: extend(request.id) { [self.model.saved(request.values, over: $0, by: program)] }
    case .remove: extend(request.id) { _ in [nil] }
    case .removeWhere: for id in objects.keys { extend(id) { _ in [nil] } }
    case .edit: extend(request.id) { self.changed($0, request, program) }
    case .update, .set: for id in objects.keys { extend(id) { self.changed($0, request, program) } }
    case .migrate:
      mayBeMigrated = true
      for id in objects.keys { extend(id) { [$0.map(self.model.migrated)] } }
    case .prepare, .object, .all, .probe, .order, .verify: break
    }
  }

  private func changed(_ old: Stored?, _ request: Request, _ program: Int) -> [Stored?] {
    guard let old else { return [] }
    var view = model.reading(old, by: program).mapValues { reading in
      reading.values.count == 1 ? reading.values[0] : Value.any
    }
    view[request.field] = request.new
    return model.set(request.field, request.new, in: old, by: program)
      + [model.saved(view, over: old, by: program)]
  }

  private func extend(_ id: Int, _ new: (Stored?) -> [Stored?]) {
    let states = objects[id] ?? [nil]
    replace(id, states.union(states.flatMap(new)))
  }

  private func replace(_ id: Int, _ states: Set<Stored?>) {
    objects[id] = states
    if states.count > Self.mostStates { forgotten.insert(id) }
  }

  /// Compares an answer with the model, and adds to it what was written.
  func take(_ answer: Answer, to request: Request, by program: Int) throws {
    // Two reads of a default such as UUID() differ.
    let isComparable = request.operation != .all || !hasVolatileFields
    if isComparable, let fault = answer.faults.first { throw Difference(text: fault) }
    if let failure = answer.failure {
      if let objection = permissions[program].objection(to: failure, request.operation) {
        throw Difference(text: "\(failure.code): \(objection): \(failure.message)")
      }
      if failure.code == "uniqueViolation", request.operation == .save {
        try requireConflict(request, program, failure)
      }
      return
    }
    switch request.operation {
    case .save:
      try requireUnique(request.values, request.id, program)
      let states = objects[request.id] ?? [nil]
      forgotten.remove(request.id)
      replace(request.id, Set(states.map { model.saved(request.values, over: $0, by: program) }))
    case .edit:
      guard let view = answer.views[request.id] else { return try see(nil, request.id, program) }
      try change(request.id, view, request, program)
    case .remove:
      try exclude(request.id, "remove says \(answer.count)") { ($0 != nil) == (answer.count == 1) }
      objects[request.id] = [nil]
      forgotten.remove(request.id)
    case .object: try see(answer.views[request.id], request.id, program)
    case .all: try seeAll(answer, program)
    case .update, .set:
      for id in answer.ids {
        if let view = answer.views[id] { try change(id, view, request, program) }
      }
      for id in answer.unreadable { extend(id) { self.changed($0, request, program) } }
    case .removeWhere:
      for id in answer.ids {
        try exclude(id, "removed by a query") { $0 != nil }
        objects[id] = [nil]
        forgotten.remove(id)
      }
      for id in answer.unreadable { extend(id) { _ in [nil] } }
    case .migrate:
      isMigrated = true
      if mayBeMigrated {
        for id in objects.keys { extend(id) { [$0.map(self.model.migrated)] } }
      } else {
        for (id, states) in objects { replace(id, Set(states.map { $0.map(model.migrated) })) }
      }
    case .prepare, .probe, .order, .verify: break
    }
  }

  private func seeAll(_ answer: Answer, _ program: Int) throws {
    let unreadable = Set(answer.unreadable)
    for id in Set(objects.keys).union(answer.views.keys).union(unreadable) {
      if unreadable.contains(id) {
        try exclude(id, "unreadable") { stored in
          stored.map { self.model.reading($0, by: program).values.contains(where: \.mayFail) }
            ?? false
        }
      } else {
        try see(answer.views[id], id, program)
      }
    }
  }

  /// Compares an object that a program has read, or its absence, with the model.
  private func see(_ view: [String: Value]?, _ id: Int, _ program: Int) throws {
    try exclude(id, view.map { "\($0)" } ?? "none") { stored in
      guard let stored, let view else { return stored == nil && view == nil }
      return self.agrees(stored, view, program)
    }
  }

  private func agrees(_ stored: Stored, _ view: [String: Value], _ program: Int) -> Bool {
    let readings = model.reading(stored, by: program)
    return readings.count == view.count && readings.allSatisfy { $1.accepts(view[$0] ?? .any) }
  }

  private func exclude(_ id: Int, _ seen: String, _ isPossible: (Stored?) -> Bool) throws {
    if forgotten.contains(id) { return }
    let states = objects[id] ?? [nil]
    let left = states.filter(isPossible)
    if left.isEmpty {
      let possible = states.map { $0.map { "\($0)" } ?? "none" }.sorted()
      throw Difference(
        text: "object \(id) is seen as \(seen); stored is \(possible.joined(separator: " or "))")
    }
    objects[id] = Set(left)
  }

  /// An object was changed in one field, and is seen after that.
  private func change(
    _ id: Int, _ view: [String: Value], _ request: Request, _ program: Int
  ) throws {
    if view[request.field] != request.new {
      throw Difference(text: "object \(id) has \(view), although \(request.field) was changed")
    }
    try exclude(id, "\(view) after a change") { stored in
      guard let stored else { return false }
      var readings = self.model.reading(stored, by: program)
      readings[request.field] = Reading(values: [request.new], mayFail: false)
      // A nil that the program leaves out may have a default of the other one's index by now.
      let mayComplete = self.pair.programs.contains(where: \.completesObjects)
      return readings.allSatisfy { name, reading in
        reading.accepts(view[name] ?? .any) || (mayComplete && stored[name] == .null)
      }
    }
    if forgotten.contains(id) { return }
    var states: Set<Stored?> = []
    for case let old? in objects[id] ?? [] {
      if request.operation != .edit {
        states.formUnion(model.set(request.field, request.new, in: old, by: program))
      }
      states.insert(model.saved(view, over: old, by: program))
    }
    replace(id, states)
  }

  // MARK: Unique indexes

  private func key(_ index: IndexDeclaration, _ view: [String: Value]) -> [Value]? {
    let values = index.fields.map { view[$0] ?? .null }
    return values.allSatisfy { $0 == .null } ? nil : values
  }

  /// Returns the objects that have the same key in a unique index: for certain, and perhaps.
  private func sharing(
    _ view: [String: Value], _ id: Int, _ program: Int
  ) -> (certain: [Int], possible: [Int]) {
    var result: (certain: [Int], possible: [Int]) = ([], [])
    for index in pair.programs[program].allIndexes where index.isUnique {
      guard let own = key(index, view) else { continue }
      for (other, states) in objects where other != id {
        if forgotten.contains(other) {
          result.possible.append(other)
          continue
        }
        let same = states.map { stored -> (may: Bool, must: Bool) in
          guard let stored else { return (false, false) }
          let readings = model.reading(stored, by: program)
          let fields = index.fields.map { readings[$0]! }
          let may = zip(fields, own).allSatisfy { $0.mayFail || $0.accepts($1) }
          let must = zip(fields, own).allSatisfy { !$0.mayFail && $0.values == [$1] }
          return (may, must && !readings.values.contains(where: \.mayFail))
        }
        if same.allSatisfy(\.must) { result.certain.append(other) }
        if same.contains(where: \.may) { result.possible.append(other) }
      }
    }
    return result
  }

  private func requireUnique(_ view: [String: Value], _ id: Int, _ program: Int) throws {
    let others = sharing(view, id, program).certain
    if !others.isEmpty {
      throw Difference(text: "object \(id) was saved with the unique key of \(others)")
    }
  }

  private func requireConflict(
    _ request: Request, _ program: Int, _ failure: Answer.Failure
  ) throws {
    if sharing(request.values, request.id, program).possible.isEmpty {
      throw Difference(
        text: "no other object has the key of \(request.id): \(failure.message)")
    }
  }
}

extension Declaration {
  fileprivate func isUnique(_ field: Field) -> Bool {
    allIndexes.contains { $0.isUnique && $0.fields.contains(field.stored) }
  }
}
