// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Macros
import Foundation
import LarderObjects
import LarderTesting

/// A condition as a query text, as a typed predicate, and in Swift. The library has no predicate of
/// some conditions of the tool.
struct ToolTerm<Object: Storable>: Sendable {
  let text: String
  var predicate: ObjectPredicate<Object>?
  let holds: @Sendable (Object) -> Bool

  /// A random tree of conditions.
  static func combined(
    _ fields: [ToolField<Object>], depth: Int, _ random: inout SeededRandom
  ) -> ToolTerm {
    guard depth > 0, random.chance(55) else {
      return fields.randomElement(using: &random)!.term(&random)
    }
    let left = combined(fields, depth: depth - 1, &random)
    if random.chance(25) {
      return ToolTerm(
        text: "!(\(left.text))", predicate: left.predicate.map { !$0 }, holds: { !left.holds($0) })
    }
    let right = combined(fields, depth: depth - 1, &random)
    let space = ["", " ", "\n "].randomElement(using: &random)!
    let isAnd = random.chance(60)
    var predicate: ObjectPredicate<Object>?
    if let one = left.predicate, let other = right.predicate {
      predicate = isAnd ? one && other : one || other
    }
    return ToolTerm(
      text: "(\(left.text)\(space)\(isAnd ? "&&" : "||")\(space)\(right.text))",
      predicate: predicate,
      holds: {
        isAnd ? left.holds($0) && right.holds($0) : left.holds($0) || right.holds($0)
      })
  }
}

/// The conditions of one field.
struct ToolField<Object: Storable>: Sendable {
  enum Kind: Sendable { case number, date, text, boolean, uuid, list, map }

  let name: String
  let kind: Kind
  let term: @Sendable (inout SeededRandom) -> ToolTerm<Object>

  init(
    _ name: String, _ kind: Kind,
    _ term: @escaping @Sendable (inout SeededRandom) -> ToolTerm<Object>
  ) {
    (self.name, self.kind, self.term) = (name, kind, term)
  }

  /// The path in a query text, which may be written in several ways.
  private static func spelled(_ name: String, _ random: inout SeededRandom) -> String {
    guard random.chance(20) else { return name }
    return name.split(separator: ".").map { random.chance(50) ? "`\($0)`" : String($0) }
      .joined(separator: random.chance(50) ? "?." : ".")
  }

  private static func comparison(
    _ name: String, _ sign: String, _ literal: String, _ random: inout SeededRandom
  ) -> String {
    let path = spelled(name, &random)
    guard random.chance(20) else {
      return random.chance(10) ? path + sign + literal : "\(path) \(sign) \(literal)"
    }
    let other = ["<": ">", "<=": ">=", ">": "<", ">=": "<="][sign] ?? sign
    return "\(literal) \(other) \(path)"
  }

  /// A constant, and its text.
  typealias Constant<Value> = @Sendable (inout SeededRandom) -> (Value, String)

  /// Values with an order.
  static func ordered<Value: Comparable & Sendable>(
    _ name: String, _ kind: Kind, _ path: Path<Object, Value>, _ constant: @escaping Constant<Value>
  ) -> ToolField {
    let property = PredicateProperty<Object, Value>(path)
    return ToolField(name, kind) { random in
      let ((a, aText), (b, bText)) = (constant(&random), constant(&random))
      func text(_ sign: String) -> String { comparison(name, sign, aText, &random) }
      switch Int.random(in: 0..<9, using: &random) {
      case 0, 1:
        return ToolTerm(text: text("=="), predicate: path == a) { $0[keyPath: path] == a }
      case 2: return ToolTerm(text: text("!="), predicate: path != a) { $0[keyPath: path] != a }
      case 3: return ToolTerm(text: text("<"), predicate: path < a) { $0[keyPath: path] < a }
      case 4: return ToolTerm(text: text("<="), predicate: path <= a) { $0[keyPath: path] <= a }
      case 5: return ToolTerm(text: text(">"), predicate: path > a) { $0[keyPath: path] > a }
      case 6: return ToolTerm(text: text(">="), predicate: path >= a) { $0[keyPath: path] >= a }
      case 7:
        return ToolTerm(text: "\(name) in [\(aText), \(bText)]", predicate: property.isIn([a, b])) {
          $0[keyPath: path] == a || $0[keyPath: path] == b
        }
      default:
        let isClosed = random.chance(50)
        return ToolTerm(
          text: "\(name) in \(aText)\(isClosed ? " ... " : "..<")\(bText)",
          predicate: (path >= a) && (isClosed ? path <= b : path < b)
        ) {
          let value = $0[keyPath: path]
          return value >= a && (isClosed ? value <= b : value < b)
        }
      }
    }
  }

  /// Values with an order that may be missing.
  static func ordered<Value: Comparable & Sendable>(
    optional name: String, _ kind: Kind, _ path: Path<Object, Value?>,
    _ constant: @escaping Constant<Value>
  ) -> ToolField {
    let property = PredicateProperty<Object, Value?>(path)
    return ToolField(name, kind) { random in
      let ((a, aText), (b, bText)) = (constant(&random), constant(&random))
      func text(_ sign: String) -> String { comparison(name, sign, aText, &random) }
      @Sendable func has(_ object: Object, _ test: (Value) -> Bool) -> Bool {
        object[keyPath: path].map(test) ?? false
      }
      switch Int.random(in: 0..<9, using: &random) {
      case 0: return ToolTerm(text: text("=="), predicate: path == a) { $0[keyPath: path] == a }
      case 1: return ToolTerm(text: text("!="), predicate: path != a) { $0[keyPath: path] != a }
      case 2: return ToolTerm(text: text("<"), predicate: path < a) { has($0) { $0 < a } }
      case 3: return ToolTerm(text: text("<="), predicate: path <= a) { has($0) { $0 <= a } }
      case 4: return ToolTerm(text: text(">"), predicate: path > a) { has($0) { $0 > a } }
      case 5: return ToolTerm(text: text(">="), predicate: path >= a) { has($0) { $0 >= a } }
      case 6:
        return ToolTerm(
          text: "\(name) in [\(aText), nil, \(bText)]", predicate: property.isIn([a, nil, b])
        ) {
          let value = $0[keyPath: path]
          return value == nil || value == a || value == b
        }
      case 7:
        return ToolTerm(text: comparison(name, "==", "nil", &random), predicate: property.isNil()) {
          $0[keyPath: path] == nil
        }
      default:
        return ToolTerm(text: "\(name) != null", predicate: property.isNotNil()) {
          $0[keyPath: path] != nil
        }
      }
    }
  }

  /// Values without an order.
  static func equal<Value: Equatable & Sendable>(
    _ name: String, _ kind: Kind, _ path: Path<Object, Value>, _ constant: @escaping Constant<Value>
  ) -> ToolField {
    let property = PredicateProperty<Object, Value>(path)
    return ToolField(name, kind) { random in
      let ((a, aText), (b, bText)) = (constant(&random), constant(&random))
      switch Int.random(in: 0..<3, using: &random) {
      case 0:
        return ToolTerm(text: comparison(name, "==", aText, &random), predicate: path == a) {
          $0[keyPath: path] == a
        }
      case 1:
        return ToolTerm(text: comparison(name, "!=", aText, &random), predicate: path != a) {
          $0[keyPath: path] != a
        }
      default:
        return ToolTerm(text: "\(name) in [\(aText), \(bText)]", predicate: property.isIn([a, b])) {
          $0[keyPath: path] == a || $0[keyPath: path] == b
        }
      }
    }
  }

  /// The methods of texts.
  static func text(_ name: String, _ path: Path<Object, String>) -> ToolField {
    let property = PredicateProperty<Object, String>(path)
    return ToolField(name, .text) { random in
      let part = ToolValues.text(&random)
      let literal = ToolLiterals.text(part, &random)
      switch Int.random(in: 0..<7, using: &random) {
      case 0:
        return ToolTerm(text: "\(name).hasPrefix(\(literal))", predicate: property.hasPrefix(part))
        {
          $0[keyPath: path].hasPrefix(part)
        }
      case 1:
        return ToolTerm(text: "\(name).hasSuffix(\(literal))", predicate: property.hasSuffix(part))
        {
          $0[keyPath: path].hasSuffix(part)
        }
      case 2:
        return ToolTerm(text: "\(name).contains(\(literal))", predicate: property.contains(part)) {
          Self.has(Array(part), in: Array($0[keyPath: path]))
        }
      case 3:
        return ToolTerm(
          text: "\(name).equalsIgnoringCase(\(literal))",
          predicate: property.equalsIgnoringCase(part)
        ) { $0[keyPath: path].lowercased() == part.lowercased() }
      case 4:
        return ToolTerm(text: "\(name).hasPrefixIgnoringCase(\(literal))") {
          $0[keyPath: path].lowercased().hasPrefix(part.lowercased())
        }
      case 5:
        let count = Int.random(in: 0...4, using: &random)
        return ToolTerm(text: "\(name).count >= \(count)") { $0[keyPath: path].count >= count }
      default: return ToolTerm(text: "\(name).isEmpty") { $0[keyPath: path].isEmpty }
      }
    }
  }

  private static func has(_ part: [Character], in text: [Character]) -> Bool {
    guard part.count <= text.count else { return false }
    return (0...(text.count - part.count)).contains { text[$0...].starts(with: part) }
  }

  /// The elements of a list.
  static func list<Element: Equatable & Sendable>(
    _ name: String, _ path: Path<Object, [Element]>, _ constant: @escaping Constant<Element>
  ) -> ToolField {
    let property = PredicateProperty<Object, [Element]>(path)
    return ToolField(name, .list) { random in
      let ((a, aText), (b, bText)) = (constant(&random), constant(&random))
      switch Int.random(in: 0..<5, using: &random) {
      case 0:
        return ToolTerm(text: "\(name).contains(\(aText))", predicate: property.contains(a)) {
          $0[keyPath: path].contains(a)
        }
      case 1:
        return ToolTerm(
          text: "\(name).contains(any: [\(aText), \(bText)])",
          predicate: property.contains(any: [a, b])
        ) { $0[keyPath: path].contains(a) || $0[keyPath: path].contains(b) }
      case 2:
        return ToolTerm(
          text: "\(name).contains(all: [\(aText), \(bText)])",
          predicate: property.contains(all: [a, b])
        ) { $0[keyPath: path].contains(a) && $0[keyPath: path].contains(b) }
      case 3:
        return ToolTerm(text: "\(name) == [\(aText)]", predicate: path == [a]) {
          $0[keyPath: path] == [a]
        }
      default: return counted(name, &random) { $0[keyPath: path].count }
      }
    }
  }

  /// The number of elements of a collection.
  static func counted(
    _ name: String, _ random: inout SeededRandom, _ count: @escaping @Sendable (Object) -> Int?
  ) -> ToolTerm<Object> {
    let number = Int.random(in: 0...3, using: &random)
    return random.chance(50)
      ? ToolTerm(text: "\(name).count > \(number)") { count($0).map { $0 > number } ?? false }
      : ToolTerm(text: "\(name).isEmpty") { count($0) == 0 }
  }

  /// A condition that the library has not.
  static func only(
    _ name: String, _ kind: Kind,
    _ term: @escaping @Sendable (inout SeededRandom) -> (String, @Sendable (Object) -> Bool)
  ) -> ToolField {
    ToolField(name, kind) { random in
      let (text, holds) = term(&random)
      return ToolTerm(text: text, holds: holds)
    }
  }
}
#endif
