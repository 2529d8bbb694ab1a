// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderEngine
import LarderObjects
import LarderTesting

/// The run of one model: a store and an array get the same changes and the same queries.
struct DifferentialRun<Object: DifferentialModel> {
  private let path: String
  private let seed: Seed
  private var random: SeededRandom
  private var store: ObjectStore
  /// The objects in the order of their first save, as decoding gives them.
  private var objects: [Object] = []
  /// Queries that are repeated after changes: their cached results must not outlive the changes.
  private var kept: [Question] = []
  private(set) var queries = 0

  /// A query, and its answer by an array.
  private struct Question {
    let query: Query<Object>
    let text: String
    let answer: ([Object]) -> [Object]
    /// Whether the query has pages: a cursor does not identify all predicates of Foundation.
    let hasPages: Bool
  }

  init(at path: String, seed: Seed) throws {
    self.path = path
    self.seed = seed
    random = seed.generator()
    store = try ObjectStore(at: path)
  }

  /// Runs random changes and queries for a number of rounds.
  ///
  /// - Throws: `Violation` with the seed, the query and both answers at the first difference.
  mutating func run(rounds: Int) throws {
    defer { store.close() }
    for round in 0..<rounds {
      do {
        try change()
        try ask()
      } catch let violation as Violation {
        throw Violation(description: "\(Object.storedName), \(seed), round \(round): \(violation)")
      } catch {
        throw Violation(
          description: "\(Object.storedName), \(seed), round \(round) failed: \(error)")
      }
    }
    let findings = try store.storage.verify()
    if !findings.isEmpty {
      throw Violation(description: "\(Object.storedName), \(seed): \(findings)")
    }
  }

  // MARK: Changes

  private mutating func change() throws {
    for _ in 0..<Int.random(in: 0...4, using: &random) {
      switch Int.random(in: 0..<22, using: &random) {
      case 0..<10: try save([Object.random(&random)])
      case 10..<13:
        try save((0..<Int.random(in: 0...6, using: &random)).map { _ in Object.random(&random) })
      case 13..<15: try delete()
      case 15: try deleteByQuery()
      case 16: try rollBack()
      case 17: try saveInTransaction()
      case 18: try look()
      case 19, 20: try updateByQuery()
      default: try reopen()
      }
    }
  }

  /// An array after a save, or `nil` where a unique index refuses it: two objects have one key at
  /// the end.
  private static func saved(_ new: [Object], into objects: [Object]) -> [Object]? {
    var result = objects
    for object in new {
      if let place = result.firstIndex(where: { $0.id == object.id }) {
        result[place] = object.decoded
      } else {
        result.append(object.decoded)
      }
    }
    let isRefused = new.contains { object in
      result.contains { $0.id == object.id && result.contains(where: $0.conflicts) }
    }
    return isRefused ? nil : result
  }

  private mutating func save(_ new: [Object]) throws {
    let expected = Self.saved(new, into: objects)
    do {
      try store.save(new)
    } catch let error as ObjectError where error.code == .uniqueViolation && expected == nil {
      return
    }
    guard let expected else {
      throw Violation(description: "a save against a unique index succeeded")
    }
    objects = expected
  }

  /// Several batches in a transaction, which a unique index refuses at its end or not at all.
  private mutating func saveInTransaction() throws {
    let batches = (0..<3).map { _ in
      (0..<Int.random(in: 1...4, using: &random)).map { _ in Object.random(&random) }
    }
    let expected = Self.saved(Array(batches.joined()), into: objects)
    do {
      try store.write { transaction in
        for batch in batches { try transaction.save(batch) }
      }
    } catch let error as ObjectError where error.code == .uniqueViolation && expected == nil {
      return
    }
    guard let expected else {
      throw Violation(description: "a transaction against a unique index succeeded")
    }
    objects = expected
  }

  private mutating func delete() throws {
    let id = random.chance(50) ? objects.randomElement(using: &random)?.id : nil
    let target = id ?? Object.random(&random).id
    let wasThere = objects.contains { $0.id == target }
    guard try store.delete(Object.self, id: target) == wasThere else {
      throw Violation(description: "delete of \(target) did not say \(wasThere)")
    }
    objects.removeAll { $0.id == target }
  }

  private mutating func deleteByQuery() throws {
    let (predicate, holds) = Condition.combined(Object.conditions, depth: 2, &random)
    let limit = Int.random(in: 0...5, using: &random)
    let doomed = Set(objects.filter(holds).prefix(limit).map(\.id))
    let count = try store.objects(Object.self).where(predicate).limit(limit).delete()
    guard count == doomed.count else {
      throw Violation(
        description: "\(predicate) deleted \(count) objects instead of \(doomed.count)")
    }
    objects.removeAll { doomed.contains($0.id) }
  }

  private mutating func updateByQuery() throws {
    guard let update = Object.updates.randomElement(using: &random) else { return }
    let (predicate, holds) = Condition.combined(Object.conditions, depth: 2, &random)
    let count = try update.apply(store.objects(Object.self).where(predicate))
    let places = objects.indices.filter { holds(objects[$0]) }
    guard count == places.count else {
      throw Violation(
        description: "\(predicate) changed \(count) objects instead of \(places.count)")
    }
    for place in places { update.change(&objects[place]) }
  }

  private struct Undo: Error {}

  private mutating func rollBack() throws {
    let new = Object.random(&random)
    let victim = objects.first?.id
    do {
      try store.write { transaction in
        try transaction.save(new)
        if let victim { try transaction.delete(Object.self, id: victim) }
        throw Undo()
      }
    } catch is Undo {
    } catch let error as ObjectError
      where error.code == .uniqueViolation && Self.saved([new], into: objects) == nil
    {}
  }

  private mutating func look() throws {
    let id = Object.random(&random).id
    let found = try store.object(Object.self, id: id)
    let expected = objects.first { $0.id == id }
    guard found?.facts == expected?.facts else {
      throw Violation(
        description:
          "object \(id) is \(found?.facts ?? "missing"), not \(expected?.facts ?? "missing")")
    }
  }

  private mutating func reopen() throws {
    store.close()
    kept = []
    store = try ObjectStore(at: path)
  }

  // MARK: Questions

  private mutating func ask() throws {
    if !kept.isEmpty, random.chance(40) { try check(kept.randomElement(using: &random)!) }
    let question = question()
    try check(question)
    if random.chance(10) { kept = Array(([question] + kept).prefix(5)) }
  }

  private mutating func question() -> Question {
    var query = store.objects(Object.self)
    var holds: @Sendable (Object) -> Bool = { _ in true }
    if random.chance(85) {
      let (predicate, test) = Condition.combined(Object.conditions, depth: 3, &random)
      query = query.where(predicate)
      holds = test
    }
    var isFiltered = false
    if random.chance(25), let filter = Object.filters.randomElement(using: &random) {
      let predicate = filter.make(&random)
      query = query.filter(predicate)
      isFiltered = true
      // An object for which the evaluation throws does not match.
      holds = { [holds] in holds($0) && (try? predicate.evaluate($0)) ?? false }
    }
    var keys: [(@Sendable (Object, Object) -> Int, SortDirection)] = []
    for isFirst in [true, false] where random.chance(60) && (isFirst || !keys.isEmpty) {
      let sort = Object.sorts.randomElement(using: &random)!
      let direction: SortDirection = random.chance(50) ? .ascending : .descending
      query = sort.apply(query, direction, isFirst)
      keys.append((sort.order, direction))
    }
    let text = "\((try? query.explain()) ?? "no plan")"
    let isLimited = random.chance(40)
    let offset = isLimited ? Int.random(in: 0...4, using: &random) : 0
    let limit = isLimited ? Int.random(in: 0...20, using: &random) : Int.max
    if isLimited { query = query.offset(offset).limit(limit) }
    return Question(
      query: query, text: text,
      answer: { [holds, keys] objects in
        let sorted = Self.sorted(objects.filter(holds), by: keys)
        return Array(sorted.dropFirst(offset).prefix(limit))
      }, hasPages: !isLimited && !isFiltered)
  }

  /// Ties keep the order of their first save, or the opposite one if the first key is descending.
  private static func sorted(
    _ objects: [Object], by keys: [(@Sendable (Object, Object) -> Int, SortDirection)]
  ) -> [Object] {
    objects.enumerated().sorted { left, right in
      for (order, direction) in keys {
        let result = order(left.element, right.element)
        if result != 0 { return (result < 0) == (direction == .ascending) }
      }
      return (left.offset < right.offset) == (keys.first?.1 != .descending)
    }.map(\.element)
  }

  private mutating func check(_ question: Question) throws {
    queries += 1
    let expected = question.answer(objects)
    let facts = expected.map(\.facts)
    func same(_ what: String, _ found: [String]) throws {
      guard found != facts else { return }
      throw Violation(
        description:
          "\(what) gives \(found.count) objects instead of \(facts.count)\n\(question.text)\n"
          + "found \(found.prefix(20))\nexpected \(facts.prefix(20))")
    }
    switch Int.random(in: 0..<6, using: &random) {
    case 0:
      let count = try question.query.count()
      guard count == facts.count else {
        throw Violation(
          description: "count is \(count) instead of \(facts.count)\n\(question.text)")
      }
    case 1 where question.hasPages: try same("paging", pages(question.query))
    case 2:
      guard let aggregate = Object.aggregates.randomElement(using: &random) else { break }
      let found = try aggregate.stored(question.query)
      let wanted = aggregate.expected(expected)
      guard found == wanted else {
        throw Violation(
          description: "\(aggregate.name) is \(found) instead of \(wanted)\n\(question.text)")
      }
    case 3:
      let first = try question.query.first()
      guard first?.facts == facts.first else {
        throw Violation(
          description:
            "first is \(first?.facts ?? "nil") instead of \(facts.first ?? "nil")\n\(question.text)"
        )
      }
    default: break
    }
    try same("fetch", question.query.fetch().map(\.facts))
  }

  private mutating func pages(_ query: Query<Object>) throws -> [String] {
    let size = Int.random(in: 1...7, using: &random)
    var page = try query.page(size: size)
    var found = page.objects.map(\.facts)
    while let next = page.next {
      guard found.count <= objects.count else { break }
      page = try query.page(after: next, size: size)
      found += page.objects.map(\.facts)
    }
    return found
  }
}
#endif
