// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

// PREDICATES
//
// A predicate is a tree of values: comparisons of one property with constants, and `&&`, `||`, `!`
// over them. Each comparison knows how to judge an object, how to describe itself, and, where the
// constant is a value an index can be over, which keys of an index on the property it allows. So the
// planner can look into it, and what the planner cannot use is judged object by object.

/// Which objects a query wants.
///
/// ```swift
/// cars.where(\.year >= 2020 && (\.model == "S" || \.tags, contains("fast")))
/// cars.where { $0.year >= 2020 && $0.model.hasPrefix("A") }
/// ```
public struct Predicate<Object: Storable>: Sendable, CustomStringConvertible {
  indirect enum Node: Sendable {
    case all
    case leaf(Leaf)
    case and([Node])
    case or([Node])
    case not(Node)
  }

  /// One comparison.
  struct Leaf: Sendable {
    let comparison: Comparison
    let holds: @Sendable (Object) -> Bool
    /// The same about the property's field in a record; made when objects have to be judged.
    let stored: (@Sendable () -> StoredProperty<Object>?)?
    /// Where a closure stands in the program: all that tells it from another.
    var origin: String?
  }

  let node: Node

  init(_ node: Node) { self.node = node }

  init(
    _ path: AnyPath?, _ text: @autoclosure @escaping @Sendable () -> String,
    ranges: [KeyRange]? = nil, elementRanges: [KeyRange]? = nil, isExact: Bool = true,
    holds: @escaping @Sendable (Object) -> Bool
  ) {
    node = .leaf(
      Leaf(
        comparison: Comparison(
          path: path, makeText: text, ranges: ranges, elementRanges: elementRanges,
          isExact: isExact), holds: holds, stored: nil))
  }

  /// A comparison of a property.
  init<Value>(
    of path: PropertyPath<Object, Value>, _ text: @autoclosure @escaping @Sendable () -> String,
    constants: @autoclosure @escaping @Sendable () -> ConstantIdentity = .text,
    ranges: [KeyRange]? = nil, elementRanges: [KeyRange]? = nil, isExact: Bool = true,
    holds: @escaping @Sendable (Value) -> Bool
  ) {
    node = .leaf(
      Leaf(
        comparison: Comparison(
          path: path.erased, makeText: text, ranges: ranges, elementRanges: elementRanges,
          isExact: isExact, makeConstants: constants), holds: { holds(path.value(of: $0)) },
        stored: { StoredProperty(path, holds) }))
  }

  /// A predicate no index can help: every object is decoded and judged.
  ///
  /// - Parameters:
  ///   - holds: The closure that decides whether an object matches.
  ///   - fileID: With `line` and `column`, the location of the closure; see ``PageCursor``.
  ///   - line: The line of the closure.
  ///   - column: The column of the closure.
  public init(
    _ holds: @escaping @Sendable (Object) -> Bool, fileID: String = #fileID, line: UInt = #line,
    column: UInt = #column
  ) {
    node = .leaf(
      Leaf(
        comparison: Comparison(
          path: nil, makeText: { "a closure" }, ranges: nil, elementRanges: nil, isExact: false),
        holds: holds, stored: nil, origin: "\(fileID):\(line):\(column)"))
  }

  /// Every object.
  public static var all: Predicate { Predicate(.all) }

  /// Whether it holds for an object.
  public func holds(for object: Object) -> Bool { Self.holds(node, object) }

  static func holds(_ node: Node, _ object: Object) -> Bool {
    switch node {
    case .all: true
    case .leaf(let leaf): leaf.holds(object)
    case .and(let nodes): nodes.allSatisfy { holds($0, object) }
    case .or(let nodes): nodes.contains { holds($0, object) }
    case .not(let node): !holds(node, object)
    }
  }

  public var description: String { Self.text(node) }

  /// What tells it from other predicates, in every process that runs the same program.
  ///
  /// - Parameter withOrigins: Whether closures are told apart by where they are in the source.
  func identity(withOrigins: Bool) -> String {
    Self.text(node) { leaf in
      leaf.comparison.constants.suffix
        + (withOrigins ? leaf.origin.map { " at \($0)" } ?? "" : "")
    }
  }

  static func text(_ node: Node, _ suffix: (Leaf) -> String = { _ in "" }) -> String {
    switch node {
    case .all: "all"
    case .leaf(let leaf): leaf.comparison.text + suffix(leaf)
    case .and(let nodes): "(" + nodes.map { text($0, suffix) }.joined(separator: " && ") + ")"
    case .or(let nodes): "(" + nodes.map { text($0, suffix) }.joined(separator: " || ") + ")"
    case .not(let node): "!" + text(node, suffix)
    }
  }

  // MARK: Composing

  /// Both.
  public static func && (left: Predicate, right: Predicate) -> Predicate {
    var nodes: [Node] = []
    for predicate in [left, right] {
      switch predicate.node {
      case .all: break
      case .and(let inner): nodes += inner
      default: nodes.append(predicate.node)
      }
    }
    return nodes.isEmpty ? .all : Predicate(nodes.count == 1 ? nodes[0] : .and(nodes))
  }

  /// Either, or both.
  public static func || (left: Predicate, right: Predicate) -> Predicate {
    var nodes: [Node] = []
    for predicate in [left, right] {
      switch predicate.node {
      case .all: return .all
      // A list, not a chain: thousands of alternatives are no deep recursion.
      case .or(let inner): nodes += inner
      default: nodes.append(predicate.node)
      }
    }
    return Predicate(.or(nodes))
  }

  /// Not.
  public static prefix func ! (predicate: Predicate) -> Predicate {
    Predicate(.not(predicate.node))
  }
}

/// Keys of an index from one on and below another, as bytes.
struct KeyRange: Sendable, Hashable {
  var lower: [UInt8]
  /// `nil`: up to the last.
  var upper: [UInt8]?
  /// Whether the lower bound is whole elements and every key in the range begins with them: what
  /// comes next in a compound key may be said as well. A part of a text is no whole element.
  private(set) var isEquality = false

  init(lower: [UInt8], upper: [UInt8]?) {
    self.lower = lower
    self.upper = upper
  }

  /// The keys that are, or begin with, these whole elements.
  static func exactly(_ key: [UInt8]) -> KeyRange {
    var range = KeyRange(lower: key, upper: after(key))
    range.isEquality = true
    return range
  }

  /// The first bytes behind every key that begins with these. No type code is 0xFF.
  static func after(_ key: [UInt8]) -> [UInt8] { key + [0xFF] }

  /// Behind every value that is there; a value that is missing comes before all.
  static let firstValue: [UInt8] = [0x01]

  func intersection(_ other: KeyRange) -> KeyRange {
    let lower = lower.lexicographicallyPrecedes(other.lower) ? other.lower : lower
    guard let mine = upper, let theirs = other.upper else {
      return KeyRange(lower: lower, upper: upper ?? other.upper)
    }
    return KeyRange(lower: lower, upper: mine.lexicographicallyPrecedes(theirs) ? mine : theirs)
  }
}
