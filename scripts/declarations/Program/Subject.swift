// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderSchema

/// The target of all references.
@Storable struct Peer {
  let id: Int
  var name = "peer"
}

/// A generated type.
protocol Subject: Storable where ID == Int {
  init(_ id: Int, _ values: [String: Value])
  /// The values of the properties, by their stored names.
  var view: [String: Value] { get }
  static var properties: [Property<Self>] { get }
  static var migrations: [ObjectMigration] { get }
}

extension Subject {
  static var migrations: [ObjectMigration] { [] }
}

/// A condition as a query has it, and as Swift evaluates it.
struct Probe<Object: Subject>: Sendable {
  let name: String
  let narrowed: @Sendable (Query<Object>, Value) -> Query<Object>
  let holds: @Sendable (Object, Value) -> Bool
}

struct Property<Object: Subject>: Sendable {
  let name: String
  var probes: [Probe<Object>] = []
  var sorted: (@Sendable (Query<Object>, Bool) -> Query<Object>)?
  var compare: (@Sendable (Object, Object) -> Int)?
  var set: (@Sendable (Query<Object>, Value) throws -> Int)?
  var change: (@Sendable (inout Object, Value) -> Void)?
  /// Compares results that are computed of the property with the objects.
  var results: (@Sendable (Query<Object>, [Object]) throws -> [String])?

  fileprivate mutating func probe(
    _ sign: String, _ narrowed: @escaping @Sendable (Query<Object>, Value) -> Query<Object>,
    _ holds: @escaping @Sendable (Object, Value) -> Bool
  ) {
    probes.append(Probe(name: "\(name) \(sign)", narrowed: narrowed, holds: holds))
  }
}

typealias Writable<Root, Value> = any (WritableKeyPath<Root, Value> & Sendable)

private func order<Element: Comparable>(_ left: Element, _ right: Element) -> Int {
  if let left = left as? String, let right = right as? String {
    return left.utf8.elementsEqual(right.utf8)
      ? 0 : left.utf8.lexicographicallyPrecedes(right.utf8) ? -1 : 1
  }
  return left < right ? -1 : left == right ? 0 : 1
}

private func order<Element: Comparable>(_ left: Element?, _ right: Element?) -> Int {
  switch (left, right) {
  case (nil, nil): 0
  case (nil, _): -1
  case (_, nil): 1
  case (let left?, let right?): order(left, right)
  }
}

private func different<Element: Equatable>(
  _ what: String, _ got: Element, _ expected: Element
) -> [String] {
  got == expected ? [] : ["\(what) is \(got), the objects have \(expected)"]
}

extension Property {
  typealias Scalar = Wire & Comparable & Hashable & Sendable & Codable

  static func scalar<Element: Scalar>(
    _ name: String, _ path: Path<Object, Element>
  ) -> Property {
    var property = Property(name: name)
    property.probe("==") {
      $0.where(path == Element($1))
    } _: {
      $0[keyPath: path] == Element($1)
    }
    property.probe("!=") {
      $0.where(path != Element($1))
    } _: {
      $0[keyPath: path] != Element($1)
    }
    property.probe("<") {
      $0.where(path < Element($1))
    } _: {
      $0[keyPath: path] < Element($1)
    }
    property.probe(">=") {
      $0.where(path >= Element($1))
    } _: {
      $0[keyPath: path] >= Element($1)
    }
    property.sorted = { $0.sorted(by: path, $1 ? .descending : .ascending) }
    property.compare = { order($0[keyPath: path], $1[keyPath: path]) }
    property.results = { query, objects in
      let values = objects.map { $0[keyPath: path] }
      return try different("values(of: \(name))", query.values(of: path), values)
        + different("distinct(\(name))", Set(query.distinct(path)), Set(values))
        + different("min(\(name))", query.min(path), values.min { order($0, $1) < 0 })
        + different("max(\(name))", query.max(path), values.max { order($0, $1) < 0 })
        + different(
          "grouped(by: \(name))", query.grouped(by: path).count(),
          Dictionary(values.map { ($0, 1) }, uniquingKeysWith: +))
    }
    return property
  }

  static func optional<Element: Scalar>(
    _ name: String, _ path: Path<Object, Element?>
  ) -> Property {
    var property = Property(name: name)
    property.probe("==") {
      $0.where(path == Element?($1))
    } _: {
      $0[keyPath: path] == Element?($1)
    }
    property.probe("!=") {
      $0.where(path != Element?($1))
    } _: {
      $0[keyPath: path] != Element?($1)
    }
    property.probe("<") { query, value in
      Element?(value).map { query.where(path < $0) } ?? query.where(path == nil)
    } _: { object, value in
      let own = object[keyPath: path]
      return Element?(value).map { value in own.map { $0 < value } ?? false } ?? (own == nil)
    }
    property.probe(">=") { query, value in
      Element?(value).map { query.where(path >= $0) } ?? query.where(path != nil)
    } _: { object, value in
      let own = object[keyPath: path]
      return Element?(value).map { value in own.map { $0 >= value } ?? false } ?? (own != nil)
    }
    property.sorted = { $0.sorted(by: path, $1 ? .descending : .ascending) }
    property.compare = { order($0[keyPath: path], $1[keyPath: path]) }
    property.results = { query, objects in
      let values = objects.map { $0[keyPath: path] }
      let present = values.compactMap { $0 }
      return try different("values(of: \(name))", query.values(of: path), values)
        + different("distinct(\(name))", Set(query.distinct(path)), Set(values))
        + different("min(\(name))", query.min(path), present.min { order($0, $1) < 0 })
        + different("max(\(name))", query.max(path), present.max { order($0, $1) < 0 })
    }
    return property
  }

  static func value<Element: Wire & Equatable & Sendable & Codable>(
    _ name: String, _ path: Path<Object, Element>
  ) -> Property {
    var property = Property(name: name)
    property.probe("==") {
      $0.where(path == Element($1))
    } _: {
      $0[keyPath: path] == Element($1)
    }
    property.results = { query, objects in
      try different(
        "values(of: \(name))", query.values(of: path), objects.map { $0[keyPath: path] })
    }
    return property
  }

  static func list<Element: Scalar>(
    _ name: String, _ path: Path<Object, [Element]>
  ) -> Property {
    var property = Property.value(name, path)
    property.probe("contains") { query, value in
      query.where { $0[dynamicMember: path].contains(first(value)) }
    } _: {
      $0[keyPath: path].contains(first($1))
    }
    property.probe("count") { query, value in
      query.where { $0[dynamicMember: path].count > 1 }
    } _: { object, _ in
      object[keyPath: path].count > 1
    }
    @Sendable func first(_ value: Value) -> Element {
      guard case .list(let values) = value else { fatalError("\(value)") }
      return Element(values[0])
    }
    return property
  }

  static func text(_ index: String, _ texts: @escaping @Sendable (Object) -> [String]) -> Property {
    var property = Property(name: index)
    property.probe("matching") {
      $0.matching(String($1), in: index)
    } _: { object, value in
      texts(object).contains { $0.split(separator: " ").contains { $0 == String(value) } }
    }
    return property
  }

  /// Adds the operations that change the property.
  func writable<Element: Wire & Sendable & Codable>(
    _ path: Writable<Object, Element>
  ) -> Property {
    var property = self
    property.set = { try $0.set(path, to: Element($1)) }
    property.change = { $0[keyPath: path] = Element($1) }
    return property
  }
}

extension Property {
  static func reference(
    _ name: String, _ path: Path<Object, HasOne<Peer?>>,
    _ change: @escaping @Sendable (inout Object, Value) -> Void
  ) -> Property {
    var property = Property(name: name)
    property.probe("refers") { query, value in
      query.where { $0[dynamicMember: path].refers(toID: Int?(value) ?? -1) }
    } _: { object, value in
      object[keyPath: path].id.flatMap { Int($0) } == Int?(value) ?? -1
    }
    property.change = change
    return property
  }

  /// Adds conditions on the beginning of a text.
  static func string(_ name: String, _ path: Path<Object, String>) -> Property {
    var property = scalar(name, path)
    property.probe("hasPrefix") { query, value in
      query.where { $0[dynamicMember: path].hasPrefix(String(String(value).prefix(1))) }
    } _: {
      $0[keyPath: path].hasPrefix(String(String($1).prefix(1)))
    }
    return property
  }
}
