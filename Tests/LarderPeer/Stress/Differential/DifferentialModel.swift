// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import Foundation
import LarderObjects
import LarderTesting

// THE DIFFERENTIAL OBJECT FUZZER
//
// Random objects are saved, replaced and deleted in a store, and the same changes are made to a
// plain Swift array. Random queries are then answered by the store and by `filter` and `sorted`
// over the array; every difference is a defect of one of the two. The models are types that proofs
// about a type get wrong: decoders that change what they read, computed properties with indexes,
// decimals, texts in two Unicode forms, identifiers that are equal with different bytes,
// enumerations with an order that differs from the order of their raw values, and classes that are
// equal when their identifiers are.
//
// DifferentialTypes.swift declares the models, DifferentialSchema.swift one with a declared schema, DifferentialRun.swift changes, queries and compares.

/// A type that the fuzzer stores.
protocol DifferentialModel: Storable where ID: Hashable {
  /// A new object with a random identifier of a small set, so that objects are replaced.
  static func random(_ random: inout SeededRandom) -> Self

  /// The same object as decoding its stored form gives it.
  var decoded: Self { get }

  /// Every stored byte of the object that a caller can see; `==` may compare less.
  var facts: String { get }

  static var conditions: [Condition<Self>] { get }
  static var sorts: [Sort<Self>] { get }
  static var aggregates: [Aggregate<Self>] { get }
  static var filters: [Filter<Self>] { get }
  static var updates: [Update<Self>] { get }

  /// Whether both have the same value of a unique index.
  func conflicts(with other: Self) -> Bool
}

extension DifferentialModel {
  var decoded: Self { self }
  static var aggregates: [Aggregate<Self>] { [] }
  static var filters: [Filter<Self>] { [] }
  static var updates: [Update<Self>] { [] }
  func conflicts(with other: Self) -> Bool { false }
}

/// A value with the order of queries: the order of Swift, except that strings have the order of
/// their canonical bytes.
protocol DifferentialValue: Comparable, Sendable {
  static func isBelow(_ left: Self, _ right: Self) -> Bool
}

extension DifferentialValue {
  static func isBelow(_ left: Self, _ right: Self) -> Bool { left < right }
  static func isAtMost(_ left: Self, _ right: Self) -> Bool {
    left == right || isBelow(left, right)
  }
}

/// A random predicate, as the store and as an array evaluate it.
struct Condition<Object: Storable>: Sendable {
  typealias Pair = (ObjectPredicate<Object>, @Sendable (Object) -> Bool)
  let make: @Sendable (inout SeededRandom) -> Pair

  init(_ make: @escaping @Sendable (inout SeededRandom) -> Pair) { self.make = make }

  /// The six comparisons of a property with a constant.
  static func compared<Value: DifferentialValue>(
    _ path: Path<Object, Value>, _ value: @escaping @Sendable (inout SeededRandom) -> Value
  ) -> Condition {
    let property = PredicateProperty<Object, Value>(path)
    return Condition { random in
      let constant = value(&random)
      let other = value(&random)
      switch Int.random(in: 0..<8, using: &random) {
      case 0: return (path == constant, { $0[keyPath: path] == constant })
      case 1: return (path != constant, { $0[keyPath: path] != constant })
      case 2: return (path < constant, { Value.isBelow($0[keyPath: path], constant) })
      case 3: return (path <= constant, { Value.isAtMost($0[keyPath: path], constant) })
      case 4: return (path > constant, { Value.isBelow(constant, $0[keyPath: path]) })
      case 5: return (path >= constant, { Value.isAtMost(constant, $0[keyPath: path]) })
      case 6 where constant <= other && Value.isAtMost(constant, other):
        return (
          property.isIn(constant...other),
          {
            Value.isAtMost(constant, $0[keyPath: path]) && Value.isAtMost($0[keyPath: path], other)
          }
        )
      default:
        return (
          property.isIn([constant, other]), { [constant, other].contains($0[keyPath: path]) }
        )
      }
    }
  }

  /// The comparisons of an optional property, in which a missing value is neither below nor above.
  static func compared<Value: DifferentialValue>(
    optional path: Path<Object, Value?>, _ value: @escaping @Sendable (inout SeededRandom) -> Value
  ) -> Condition {
    let property = PredicateProperty<Object, Value?>(path)
    return Condition { random in
      let constant = value(&random)
      switch Int.random(in: 0..<6, using: &random) {
      case 0: return (path == constant, { $0[keyPath: path] == constant })
      case 1: return (path != constant, { $0[keyPath: path] != constant })
      case 2:
        return (path < constant, { $0[keyPath: path].map { Value.isBelow($0, constant) } ?? false })
      case 3:
        return (
          path >= constant, { $0[keyPath: path].map { Value.isAtMost(constant, $0) } ?? false }
        )
      case 4: return (property.isNil(), { $0[keyPath: path] == nil })
      default: return (property.isNotNil(), { $0[keyPath: path] != nil })
      }
    }
  }

  /// The tests of texts.
  static func text(
    _ path: Path<Object, String>, _ value: @escaping @Sendable (inout SeededRandom) -> String
  ) -> Condition {
    let property = PredicateProperty<Object, String>(path)
    return Condition { random in
      let part = value(&random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0: return (property.hasPrefix(part), { $0[keyPath: path].hasPrefix(part) })
      case 1: return (property.hasSuffix(part), { $0[keyPath: path].hasSuffix(part) })
      case 2:
        return (
          property.contains(part), { part.isEmpty || $0[keyPath: path].contains(part) }
        )
      default:
        return (
          property.equalsIgnoringCase(part),
          { $0[keyPath: path].lowercased() == part.lowercased() }
        )
      }
    }
  }

  /// Membership in a collection.
  static func element<Element: Equatable & Sendable>(
    _ path: Path<Object, [Element]>, _ value: @escaping @Sendable (inout SeededRandom) -> Element
  ) -> Condition {
    let property = PredicateProperty<Object, [Element]>(path)
    return Condition { random in
      let first = value(&random)
      let second = value(&random)
      switch Int.random(in: 0..<3, using: &random) {
      case 0: return (property.contains(first), { $0[keyPath: path].contains(first) })
      case 1:
        return (
          property.contains(any: [first, second]),
          { $0[keyPath: path].contains(first) || $0[keyPath: path].contains(second) }
        )
      default:
        return (
          property.contains(all: [first, second]),
          { $0[keyPath: path].contains(first) && $0[keyPath: path].contains(second) }
        )
      }
    }
  }

  /// A predicate of several conditions.
  static func combined(
    _ conditions: [Condition], depth: Int, _ random: inout SeededRandom
  ) -> Pair {
    guard depth > 0, random.chance(60) else {
      return conditions.randomElement(using: &random)!.make(&random)
    }
    let (left, leftHolds) = combined(conditions, depth: depth - 1, &random)
    let (right, rightHolds) = combined(conditions, depth: depth - 1, &random)
    switch Int.random(in: 0..<5, using: &random) {
    case 0: return (left || right, { leftHolds($0) || rightHolds($0) })
    case 1: return (!left, { !leftHolds($0) })
    default: return (left && right, { leftHolds($0) && rightHolds($0) })
    }
  }
}

/// A random predicate of Foundation, which evaluates it on the objects of an array.
struct Filter<Object: Storable>: Sendable {
  let make: @Sendable (inout SeededRandom) -> Predicate<Object>

  init(_ make: @escaping @Sendable (inout SeededRandom) -> Predicate<Object>) { self.make = make }
}

/// A change of one property of the objects of a query, and of an object of an array.
struct Update<Object: Storable>: Sendable {
  let apply: @Sendable (Query<Object>) throws -> Int
  let change: @Sendable (inout Object) -> Void

  init<Value: Sendable>(
    _ path: any (WritableKeyPath<Object, Value> & Sendable),
    _ change: @escaping @Sendable (inout Value) -> Void
  ) {
    apply = { try $0.update(path, change) }
    self.change = { change(&$0[keyPath: path]) }
  }
}

/// One key of a sort, as a query and as an array have it.
struct Sort<Object: Storable>: Sendable {
  let apply: @Sendable (Query<Object>, SortDirection, _ isFirst: Bool) -> Query<Object>
  /// Negative: the first is before the second, ascending.
  let order: @Sendable (Object, Object) -> Int

  init<Value: DifferentialValue>(_ path: Path<Object, Value>) {
    apply = { $2 ? $0.sorted(by: path, $1) : $0.then(by: path, $1) }
    order = { Self.order($0[keyPath: path], $1[keyPath: path]) }
  }

  init<Value: DifferentialValue>(optional path: Path<Object, Value?>) {
    apply = { $2 ? $0.sorted(by: path, $1) : $0.then(by: path, $1) }
    order = { left, right in
      switch (left[keyPath: path], right[keyPath: path]) {
      case (nil, nil): 0
      case (nil, _): -1
      case (_, nil): 1
      case (let left?, let right?): Self.order(left, right)
      }
    }
  }

  init(ignoringCase path: Path<Object, some OptionalText>) {
    apply = { $2 ? $0.sorted(ignoringCase: path, $1) : $0.then(ignoringCase: path, $1) }
    order = { left, right in
      switch (left[keyPath: path].optionalText, right[keyPath: path].optionalText) {
      case (nil, nil): 0
      case (nil, _): -1
      case (_, nil): 1
      case (let left?, let right?): Self.order(left.lowercased(), right.lowercased())
      }
    }
  }

  /// The order of `<`, with values that do not equal themselves last.
  private static func order<Value: DifferentialValue>(_ left: Value, _ right: Value) -> Int {
    if Value.isBelow(left, right) { return -1 }
    if Value.isBelow(right, left) { return 1 }
    if left == right { return 0 }
    return (left == left ? 0 : 1) - (right == right ? 0 : 1)
  }
}

/// A value computed from a query's objects, by the store and by an array, as text.
struct Aggregate<Object: Storable>: Sendable {
  let name: String
  let stored: @Sendable (Query<Object>) throws -> String
  let expected: @Sendable ([Object]) -> String
}
#endif
