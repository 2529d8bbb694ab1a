// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderCoding
import LarderEngine
import LarderObjects
import LarderTesting
import Testing

// Random objects, random writes and random queries against a plain array. `scripts/fuzz objects` runs
// it for as long as wanted (LARDER_FUZZ_SECONDS); a failure prints the seed that repeats it.

/// Which indexes the objects have.
protocol IndexSet: Sendable {
  static var isIndexed: Bool { get }
}

enum WithIndexes: IndexSet { static let isIndexed = true }
enum WithoutIndexes: IndexSet { static let isIndexed = false }

/// An object with fields of many types.
struct Mixed<Kept: IndexSet>: Storable, Equatable {
  var id: KeyPair<String, Int>
  var text: String
  var nick: String?
  var number: Int
  var real: Double
  var date: Date
  var data: Data
  var isSet: Bool
  var plate: String?
  var tags: [String]

  var initial: String { String(text.prefix(1)) }
  var parity: Int { number & 1 }

  static var storedName: String { Kept.isIndexed ? "mixed with indexes" : "mixed" }
  static var computedProperties: [ComputedProperty<Mixed>] {
    [ComputedProperty("initial", \Mixed.initial), ComputedProperty("parity", \Mixed.parity)]
  }
  static var indexes: [Index<Mixed>] {
    let plate = Index("plate", \Mixed.plate, unique: true)
    guard Kept.isIndexed else { return [plate] }
    return [
      plate, Index("text", \Mixed.text), Index("nick and number", \Mixed.nick, \Mixed.number),
      Index("real", \Mixed.real), Index("date", \Mixed.date), Index("tag", each: \Mixed.tags),
      Index("initial", \Mixed.initial), Index("parity and text", \Mixed.parity, \Mixed.text),
      Index("set", \Mixed.number, where: \Mixed.isSet == true),
      Index("one", \Mixed.text, where: \Mixed.data == Data([1, 2])),
    ]
  }
}

/// The canonical bytes of a text.
private func bytes(_ text: String) -> [UInt8] {
  Array(text.precomposedStringWithCanonicalMapping.utf8)
}

private func order(_ left: String, _ right: String) -> Int {
  bytes(left).lexicographicallyPrecedes(bytes(right))
    ? -1 : bytes(right).lexicographicallyPrecedes(bytes(left)) ? 1 : 0
}

private func order(_ left: String?, _ right: String?) -> Int {
  guard let left else { return right == nil ? 0 : -1 }
  return right.map { order(left, $0) } ?? 1
}

private func order<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
  left < right ? -1 : right < left ? 1 : 0
}

/// One run: a store, and the array that it should equal.
private struct Differential<Kept: IndexSet> {
  typealias Object = Mixed<Kept>
  typealias Condition = LarderObjects.Predicate<Object>
  typealias Holds = @Sendable (Object) -> Bool
  typealias Order = (Object, Object) -> Int

  let ground: Ground
  var store: ObjectStore
  var array: [Object] = []
  var random: SeededRandom
  let seed: Seed

  static var words: [String] {
    [
      "", "a", "ab", "e", "é", "e\u{301}", "éa", "e\u{301}a", "한", "\u{1112}\u{1161}\u{11ab}", "한글",
      "z", "a\u{0}b", "\u{212b}", "A\u{30a}", "A", String(repeating: "é", count: 300),
      String(repeating: "é", count: 299) + "e\u{301}",
      String(repeating: "é", count: 300) + "x",
    ]
  }

  init(_ seed: Seed) throws {
    self.seed = seed
    random = seed.generator()
    ground = try Ground(StoreOptions())
    store = ground.store
  }

  // MARK: Values

  mutating func word() -> String { Self.words.randomElement(using: &random)! }
  mutating func real() -> Double {
    [0, -0.0, 1, 1.5, -3, 0.1, .infinity, -.infinity].randomElement(using: &random)!
  }
  mutating func date() -> Date {
    Date(
      timeIntervalSinceReferenceDate: [0, -0.0, 0.25, 1e9, 1e9 + 0.1, -1e9]
        .randomElement(using: &random)!)
  }
  mutating func data() -> Data {
    [Data(), Data([1]), Data([2]), Data([1, 2]), Data([2, 1])].randomElement(using: &random)!
  }

  mutating func object() -> Object {
    Object(
      id: KeyPair(word(), Int.random(in: 0..<3, using: &random)), text: word(),
      nick: random.chance(30) ? nil : word(), number: Int.random(in: -3...6, using: &random),
      real: real(), date: date(), data: data(), isSet: random.chance(50),
      plate: random.chance(60) ? nil : word() + "\(Int.random(in: 0..<9, using: &random))",
      tags: (0..<Int.random(in: 0...3, using: &random)).map { _ in word() })
  }

  // MARK: Writes

  /// Saves in an array; `false`: another has the unique key.
  static func save(_ object: Object, in array: inout [Object]) -> Bool {
    if let plate = object.plate, array.contains(where: { $0.plate == plate && $0.id != object.id })
    {
      return false
    }
    if let position = array.firstIndex(where: { $0.id == object.id }) {
      array[position] = object
    } else {
      array.append(object)
    }
    return true
  }

  mutating func write() throws {
    switch Int.random(in: 0..<20, using: &random) {
    case 0..<10:
      let object = object()
      let fits = Self.save(object, in: &array)
      try expectTaken(unless: fits) { try store.save(object) }
    case 10..<14:
      let objects = (0..<Int.random(in: 1...8, using: &random)).map { _ in object() }
      var copy = array
      let fits = objects.allSatisfy { Self.save($0, in: &copy) }
      if fits { array = copy }
      if random.chance(50) {
        try expectTaken(unless: fits) { try store.save(objects) }
      } else {
        // Caught in a transaction, it is none of it or all of it as well.
        try? store.write { transaction in try? transaction.save(objects) }
      }
    case 14, 15:
      let objects = (0..<4).map { _ in object() }
      for object in objects { _ = Self.save(object, in: &array) }
      try store.write { transaction in
        for object in objects {
          do { try transaction.save(object) } catch let error as ObjectError {
            if error.code != .keyTaken { throw error }
          }
        }
      }
    case 16, 17:
      let id = object().id
      let isThere = array.contains { $0.id == id }
      array.removeAll { $0.id == id }
      #expect(try store.delete(Object.self, id: id) == isThere, "\(seed)")
    case 18:
      let (predicate, holds) = condition(0)
      let count = array.count(where: holds)
      array.removeAll(where: holds)
      #expect(try store.objects(Object.self).where(predicate).delete() == count, "\(seed)")
    default:
      store = random.chance(50) ? ground.store : try ObjectStore(at: ground.path, StoreOptions())
    }
  }

  private func expectTaken(unless fits: Bool, _ body: () throws -> Void) throws {
    do {
      try body()
      #expect(fits, "\(seed)")
    } catch let error as ObjectError where error.code == .keyTaken {
      #expect(!fits, "\(error) \(seed)")
    }
  }

  // MARK: Queries

  mutating func condition(_ depth: Int) -> (Condition, Holds) {
    if depth > 0, random.chance(65) {
      let (left, leftHolds) = condition(depth - 1)
      let (right, rightHolds) = condition(depth - 1)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: return (left || right, { leftHolds($0) || rightHolds($0) })
      case 1: return (!left, { !leftHolds($0) })
      default: return (left && right, { leftHolds($0) && rightHolds($0) })
      }
    }
    let (word, number, real) = (word(), Int.random(in: -4...7, using: &random), real())
    let (date, data) = (date(), data())
    switch Int.random(in: 0..<22, using: &random) {
    case 0: return (\Object.text == word, { $0.text == word })
    case 1: return (\Object.text < word, { order($0.text, word) < 0 })
    case 2: return (\Object.text >= word, { order($0.text, word) >= 0 })
    case 3: return (\Object.nick == word, { $0.nick == word })
    case 4: return (\Object.nick > word, { $0.nick.map { order($0, word) > 0 } ?? false })
    case 5: return (\Object.nick <= word, { $0.nick.map { order($0, word) <= 0 } ?? false })
    case 6: return (PropertyOf<Object, String?>(\.nick).isNil(), { $0.nick == nil })
    case 7: return (\Object.number == number, { $0.number == number })
    case 8: return (\Object.number > number, { $0.number > number })
    case 9: return (\Object.real == real, { $0.real == real })
    case 10: return (\Object.real <= real, { $0.real <= real })
    case 11: return (\Object.date == date, { $0.date == date })
    case 12: return (\Object.date > date, { $0.date > date })
    case 13: return (\Object.data == data, { $0.data == data })
    case 14: return (\Object.isSet == true, { $0.isSet })
    case 15: return (\Object.plate == word + "1", { $0.plate == word + "1" })
    case 16:
      return (PropertyOf<Object, [String]>(\.tags).contains(word), { $0.tags.contains(word) })
    case 17: return (\Object.initial == word, { $0.initial == word })
    case 18: return (\Object.parity == number & 1, { $0.parity == number & 1 })
    case 19:
      return (PropertyOf<Object, String>(\.text).hasPrefix(word), { $0.text.hasPrefix(word) })
    case 20:
      return (Condition({ order($0.text, word) < 0 }), { order($0.text, word) < 0 })
    default:
      let id = KeyPair(word, number & 1)
      return (\Object.id == id, { $0.id == id })
    }
  }

  mutating func sorted(_ query: Query<Object>, _ position: Int) -> (Query<Object>, Order, Bool) {
    let direction: SortDirection = random.chance(50) ? .ascending : .descending
    func by<Value: Comparable & Sendable>(_ path: Path<Object, Value>) -> Query<Object> {
      position == 0 ? query.sorted(by: path, direction) : query.then(by: path, direction)
    }
    let result: (Query<Object>, Order)
    switch Int.random(in: 0..<7, using: &random) {
    case 0: result = (by(\.text), { order($0.text, $1.text) })
    case 1:
      result = (
        position == 0 ? query.sorted(by: \.nick, direction) : query.then(by: \.nick, direction),
        { order($0.nick, $1.nick) }
      )
    case 2: result = (by(\.number), { order($0.number, $1.number) })
    case 3: result = (by(\.real), { order($0.real, $1.real) })
    case 4: result = (by(\.date), { order($0.date, $1.date) })
    case 5: result = (by(\.initial), { order($0.initial, $1.initial) })
    default: result = (by(\.parity), { order($0.parity, $1.parity) })
    }
    guard direction == .descending else { return (result.0, result.1, false) }
    let ascending = result.1
    return (result.0, { -ascending($0, $1) }, true)
  }

  mutating func ask() throws {
    let (predicate, holds) = condition(2)
    var query = store.objects(Object.self).where(predicate)
    var orders: [Order] = []
    var isDescending = false
    for position in 0..<Int.random(in: 0...2, using: &random) {
      let (next, order, descends) = sorted(query, position)
      query = next
      orders.append(order)
      if position == 0 { isDescending = descends }
    }
    var expected = array.enumerated().filter { holds($0.element) }
    expected.sort { left, right in
      for order in orders {
        let result = order(left.element, right.element)
        if result != 0 { return result < 0 }
      }
      return isDescending ? left.offset > right.offset : left.offset < right.offset
    }
    let all = expected.map(\.element)
    let text: () -> Comment = { [seed, query] in
      "\(seed): \(predicate) \((try? query.explain()) ?? "")"
    }
    #expect(try query.fetch() == all, text())
    #expect(try query.count() == all.count, text())
    let skipped = Int.random(in: 0...3, using: &random)
    let limit = Int.random(in: 0...5, using: &random)
    let part = query.offset(skipped).limit(limit)
    #expect(try part.fetch() == Array(all.dropFirst(skipped).prefix(limit)), text())
    #expect(try part.count() == all.dropFirst(skipped).prefix(limit).count, text())
    if let last = all.first, random.chance(30) {
      #expect(try query.after(last).fetch() == Array(all.dropFirst()), text())
    }
    guard random.chance(30) else { return }
    let size = Int.random(in: 1...5, using: &random)
    var page = try query.page(size: size)
    var paged = page.objects
    while let next = page.next {
      page = try query.page(after: next, size: size)
      paged += page.objects
      if paged.count > all.count { break }
    }
    #expect(paged == all, text())
  }

  mutating func run(_ steps: Int) throws {
    for _ in 0..<steps {
      try write()
      try ask()
      if random.chance(10), let object = array.randomElement(using: &random) {
        #expect(try store.object(Object.self, id: object.id) == object, "\(seed)")
      }
    }
    #expect(try store.objects(Object.self).fetch() == array, "\(seed)")
    #expect(try store.storage.verify() == [], "\(seed)")
  }
}

/// How long to go on; zero: one run.
private let fuzzSeconds =
  ProcessInfo.processInfo.environment["LARDER_FUZZ_SECONDS"].flatMap(Int.init) ?? 0

@Suite struct DifferentialTests {
  @Test(.timeLimit(.minutes(15 + fuzzSeconds / 60)))
  func `Random writes and queries of objects give what they give of an array`() throws {
    let end = Date().addingTimeInterval(Double(fuzzSeconds))
    var trials = 0
    for seed in Seed.announce().trials(.max) {
      var indexed = try Differential<WithIndexes>(seed)
      try indexed.run(60)
      var bare = try Differential<WithoutIndexes>(seed)
      try bare.run(30)
      trials += 1
      if Date() >= end { break }
    }
    #expect(trials > 0)
  }
}
