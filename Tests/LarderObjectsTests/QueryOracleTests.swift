// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// Queries against a plain array.
@Suite struct QueryOracleTests {
  static func car(_ id: Int, _ random: inout SeededRandom) -> Car {
    let words = ["", "a", "ab", "b", "Ärger", "zebra", "\u{0}", "a\u{0}b"]
    return Car(
      id: "\(id)", model: words.randomElement(using: &random)!,
      year: Int.random(in: -3...12, using: &random),
      owner: random.chance(30) ? nil : words.randomElement(using: &random)!,
      tags: (0..<Int.random(in: 0...3, using: &random)).map { _ in
        words.randomElement(using: &random)!
      },
      price: Double(Int.random(in: 0...200, using: &random)))
  }

  static func predicate(
    _ depth: Int, _ random: inout SeededRandom
  ) -> (ObjectPredicate<Car>, @Sendable (Car) -> Bool) {
    let words = ["", "a", "ab", "b", "Ärger", "zebra"]
    let word = words.randomElement(using: &random)!
    let number = Int.random(in: -4...13, using: &random)
    if depth > 0, random.chance(60) {
      let (left, leftHolds) = predicate(depth - 1, &random)
      let (right, rightHolds) = predicate(depth - 1, &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: return (left || right, { leftHolds($0) || rightHolds($0) })
      case 1: return (!left, { !leftHolds($0) })
      default: return (left && right, { leftHolds($0) && rightHolds($0) })
      }
    }
    let model = PredicateProperty<Car, String>(\.model)
    let tags = PredicateProperty<Car, [String]>(\.tags)
    let owner = PredicateProperty<Car, String?>(\.owner)
    let year = PredicateProperty<Car, Int>(\.year)
    switch Int.random(in: 0..<16, using: &random) {
    case 0: return (\.model == word, { $0.model == word })
    case 1: return (\.model != word, { $0.model != word })
    case 2: return (\.year == number, { $0.year == number })
    case 3: return (\.year < number, { $0.year < number })
    case 4: return (\.year <= number, { $0.year <= number })
    case 5: return (\.year > number, { $0.year > number })
    case 6: return (\.year >= number, { $0.year >= number })
    case 7: return (model.hasPrefix(word), { $0.model.hasPrefix(word) })
    case 8: return (\.owner == word, { $0.owner == word })
    case 9: return (owner.isNil(), { $0.owner == nil })
    case 10: return (owner > word, { $0.owner.map { $0 > word } ?? false })
    case 11: return (tags.contains(word), { $0.tags.contains(word) })
    case 12:
      return (
        tags.contains(any: ["a", word]), { $0.tags.contains("a") || $0.tags.contains(word) }
      )
    case 13: return (year.isIn([1, number, 3]), { [1, number, 3].contains($0.year) })
    case 14: return (\.price < 100, { $0.price < 100 })
    default:
      return (year.isIn(0...number.magnitudeInt), { (0...number.magnitudeInt).contains($0.year) })
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `Any query gives what filtering and sorting an array gives`() throws {
    let seed = Seed.announce()
    var random = seed.generator()
    let ground = try StoreFixture(StoreOptions())
    var model: [Car] = []
    for id in 0..<300 {
      let car = Self.car(id, &random)
      model.append(car)
      try ground.store.save(car)
    }
    for round in 0..<600 {
      // Some rounds change something: an object is replaced in place, or deleted.
      let position = Int.random(in: 0..<model.count, using: &random)
      if random.chance(30), round < 400 {
        let car = Self.car(Int(model[position].id)!, &random)
        model[position] = car
        try ground.store.save(car)
      } else if random.chance(10) {
        try ground.store.delete(model.remove(at: position))
      }
      let (predicate, holds) = Self.predicate(2, &random)
      var query = ground.store.objects(Car.self).where(predicate)
      var expected = model.filter(holds)
      let direction: SortDirection = random.chance(50) ? .ascending : .descending
      func sort(_ precedes: (Car, Car) -> Bool?) {
        let indexed = expected.enumerated().sorted { left, right in
          if let order = precedes(left.element, right.element) {
            return direction == .ascending ? order : !order
          }
          return direction == .ascending ? left.offset < right.offset : left.offset > right.offset
        }
        expected = indexed.map(\.element)
      }
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        query = query.sorted(by: \.year, direction)
        sort { $0.year == $1.year ? nil : $0.year < $1.year }
      case 1:
        query = query.sorted(by: \.model, direction).then(by: \.year, direction)
        sort {
          $0.model != $1.model
            ? $0.model < $1.model : $0.year == $1.year ? nil : $0.year < $1.year
        }
      case 2:
        query = query.sorted(by: \.owner, direction).then(by: \.year, direction)
        sort { left, right in
          if left.owner == right.owner {
            return left.year == right.year ? nil : left.year < right.year
          }
          guard let mine = left.owner else { return true }
          guard let theirs = right.owner else { return false }
          return mine < theirs
        }
      default: break
      }
      if random.chance(50) {
        let offset = Int.random(in: 0...3, using: &random)
        let limit = Int.random(in: 0...20, using: &random)
        query = query.offset(offset).limit(limit)
        expected = Array(expected.dropFirst(offset).prefix(limit))
      }
      let explained = try query.explain()
      #expect(
        try query.count() == expected.count, "\(seed) round \(round): \(predicate)\n\(explained)")
      #expect(
        try query.fetch() == expected, "\(seed) round \(round): \(predicate)\n\(explained)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `The planner uses the most selective index`() throws {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Car(id: "1", model: "m", year: 1))
    func plan(_ query: Query<Car>) throws -> String { try query.explain() }
    let cars = ground.store.objects(Car.self)
    #expect(try plan(cars.where(\.model == "m")).hasPrefix("scan index \"model\""))
    #expect(
      try plan(cars.where(\.owner == "o" && \.year > 3)).hasPrefix(
        "scan index \"owner and year\" in one range, 1 of 2 properties fixed"))
    #expect(try plan(cars.where { $0.tags.contains("t") }).hasPrefix("scan index \"tag\""))
    #expect(
      try plan(cars.sorted(by: \.year, .descending).limit(3)).hasPrefix(
        "scan index \"year\" completely, backwards"))
    #expect(try plan(cars.where(\.price > 3)).hasPrefix("scan all objects"))
    #expect(
      try plan(cars.where(\.price < 100 && \.year == 3)).contains("filter decoded objects"))
    #expect(try plan(cars.where(!(\.model == "m"))).hasPrefix("scan all objects"))
  }
}

extension Int {
  fileprivate var magnitudeInt: Int { Swift.abs(self) }
}
