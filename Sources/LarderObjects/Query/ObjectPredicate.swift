// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// PREDICATES
//
// A predicate is a tree of values: comparisons of one property with constants, and `&&`, `||`, `!`
// over them. Each comparison contains a function that evaluates it on an object, a description and,
// if an index can contain the constant, the index keys on the property that can match. So the
// planner can analyse the tree, and the query evaluates per object what no index covers.
//
// The tree is walked by recursion, and so is its release. So its depth has a limit: what would be deeper
// becomes `.tooDeep`, with which a query throws. `&&` in `&&`, `||` in `||` and `!` of `!` make it no deeper.

/// A condition that selects objects of a type.
///
/// ```swift
/// cars.where(\.year >= 2020 && (\.model == "S" || \.model == "X"))
/// cars.where { $0.year >= 2020 && $0.model.hasPrefix("A") }
/// ```
public struct ObjectPredicate<Object: Storable>: Sendable, CustomStringConvertible {
  indirect enum Node: Sendable {
    case all
    case leaf(Leaf)
    case and(Parts)
    case or(Parts)
    case not(Node)
    /// A condition that had more than ``maximumDepth`` levels.
    case tooDeep
  }

  /// The most levels of `&&`, `||`, `!` and conditions of related objects in each other.
  static var maximumDepth: Int { 128 }

  /// One comparison.
  struct Leaf: Sendable {
    var comparison: Comparison
    let holds: @Sendable (Object) -> Bool
    /// The same comparison on the property's field in a record; created when the query filters
    /// objects.
    let stored: (@Sendable () -> StoredProperty?)?
    /// The source location of a closure, which is the closure's only identity.
    var origin: String?
    /// The same comparison as a condition of the related object that has the property.
    var related: RelatedCondition<Object>?
  }

  let node: Node
  /// The levels below the outermost node.
  private var depth = 0

  init(_ node: Node, depth: Int = 0) {
    self.node = depth > Self.maximumDepth ? .tooDeep : node
    self.depth = min(depth, Self.maximumDepth)
  }

  /// Creates a condition of related objects.
  init<Target>(_ leaf: Leaf, containing predicate: ObjectPredicate<Target>) {
    if case .tooDeep = predicate.node {
      self.init(.tooDeep)
    } else {
      self.init(.leaf(leaf), depth: predicate.depth + 1)
    }
  }

  init(
    _ path: AnyPath?, _ text: @autoclosure @escaping @Sendable () -> String,
    ranges: [IndexKeyRange]? = nil, elementRanges: [IndexKeyRange]? = nil, isExact: Bool = true,
    holds: @escaping @Sendable (Object) -> Bool
  ) {
    node = .leaf(
      Leaf(
        comparison: Comparison(
          path: path, makeText: text, ranges: ranges, elementRanges: elementRanges,
          isExact: isExact), holds: holds, stored: nil))
  }

  /// Creates a comparison of a property.
  init<Value>(
    of path: PropertyPath<Object, Value>, _ text: @autoclosure @escaping @Sendable () -> String,
    constants: @autoclosure @escaping @Sendable () -> ConstantIdentity = .text,
    ranges: [IndexKeyRange]? = nil, elementRanges: [IndexKeyRange]? = nil, isExact: Bool = true,
    stored test: @autoclosure @escaping @Sendable () -> StoredFieldTest? = nil,
    holds: @escaping @Sendable (Value) -> Bool
  ) {
    node = .leaf(
      Leaf(
        comparison: Comparison(
          path: path.erased, makeText: text, ranges: ranges, elementRanges: elementRanges,
          isExact: isExact, makeConstants: constants), holds: { holds(path.value(of: $0)) },
        stored: { StoredProperty(path, test(), holds) },
        related: path.related?.condition(
          PropertyComparison(
            text: text, constants: constants, ranges: ranges, isExact: isExact, stored: test,
            holds: holds))))
  }

  /// Returns the comparison with the keys of an index over another form of its property.
  func served(by path: AnyPath, _ ranges: [IndexKeyRange]) -> ObjectPredicate {
    guard case .leaf(var leaf) = node else { return self }
    let old = leaf.comparison
    leaf.comparison = Comparison(
      path: path, makeText: old.makeText, ranges: ranges, elementRanges: nil, isExact: false,
      makeConstants: old.makeConstants)
    return ObjectPredicate(.leaf(leaf))
  }

  /// Creates a predicate that no index serves: the query decodes and evaluates every object.
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

  /// A predicate that matches every object.
  public static var all: ObjectPredicate { ObjectPredicate(.all) }

  /// Returns whether an object matches the predicate.
  ///
  /// - Parameter object: The object.
  /// - Returns: `true` if the object matches. A predicate of more than 128 levels, with which a query throws
  ///   ``ObjectError/Code/invalidPredicate``, matches no object.
  public func holds(for object: Object) -> Bool { Self.holds(node, object) }

  static func holds(_ node: Node, _ object: Object) -> Bool {
    switch node {
    case .all: true
    case .leaf(let leaf): leaf.holds(object)
    case .and(let nodes): nodes.allSatisfy { holds($0, object) }
    case .or(let nodes): nodes.contains { holds($0, object) }
    case .not(let node): !holds(node, object)
    case .tooDeep: false
    }
  }

  /// The predicate as an expression, with constants abbreviated where their type describes itself
  /// so.
  public var description: String { Self.text(node) }

  /// Returns the identity of the predicate, equal in every process that runs the same program.
  ///
  /// - Parameter withOrigins: Whether closures are identified by their source location.
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
    case .and(let nodes): "(" + nodes.all.map { text($0, suffix) }.joined(separator: " && ") + ")"
    case .or(let nodes): "(" + nodes.all.map { text($0, suffix) }.joined(separator: " || ") + ")"
    case .not(let node): "!" + text(node, suffix)
    case .tooDeep: "a condition with more than \(maximumDepth) levels"
    }
  }

  /// Checks a predicate before a query uses it.
  ///
  /// - Throws: ``ObjectError/Code/invalidPredicate`` if it has too many levels.
  package func validate(_ type: String) throws(ObjectError) {
    guard case .tooDeep = node else { return }
    throw ObjectError(
      .invalidPredicate, type: type,
      "The condition has more than \(Self.maximumDepth) levels of &&, ||, ! and conditions of related "
        + "objects in each other. Compose it with fewer: parts of one && or || need no further level, and "
        + "isIn(_:) takes any number of values.")
  }

  // MARK: Composing

  /// Returns a predicate that matches if both predicates match.
  ///
  /// - Parameters:
  ///   - left: A predicate.
  ///   - right: Another predicate.
  /// - Returns: The conjunction.
  public static func && (left: ObjectPredicate, right: ObjectPredicate) -> ObjectPredicate {
    switch (left.node, right.node) {
    case (.tooDeep, _), (_, .tooDeep): return ObjectPredicate(.tooDeep)
    case (.all, _): return right
    case (_, .all): return left
    default: break
    }
    return joined(left, right, Node.and) { if case .and(let parts) = $0 { parts } else { nil } }
  }

  /// Returns a predicate that matches if at least one of the predicates matches.
  ///
  /// - Parameters:
  ///   - left: A predicate.
  ///   - right: Another predicate.
  /// - Returns: The disjunction.
  public static func || (left: ObjectPredicate, right: ObjectPredicate) -> ObjectPredicate {
    switch (left.node, right.node) {
    case (.tooDeep, _), (_, .tooDeep): return ObjectPredicate(.tooDeep)
    case (.all, _), (_, .all): return .all
    default: break
    }
    return joined(left, right, Node.or) { if case .or(let parts) = $0 { parts } else { nil } }
  }

  /// The parts of two predicates side by side, those of a predicate of the same kind as they are.
  private static func joined(
    _ left: ObjectPredicate, _ right: ObjectPredicate, _ node: (Parts) -> Node,
    parts: (Node) -> Parts?
  ) -> ObjectPredicate {
    let (first, second) = (parts(left.node), parts(right.node))
    return ObjectPredicate(
      node((first ?? Parts(left.node)) + (second ?? Parts(right.node))),
      depth: max(left.depth + (first == nil ? 1 : 0), right.depth + (second == nil ? 1 : 0)))
  }

  /// Returns a predicate that matches if another does not.
  ///
  /// - Parameter predicate: The predicate.
  /// - Returns: The negation.
  public static prefix func ! (predicate: ObjectPredicate) -> ObjectPredicate {
    switch predicate.node {
    case .tooDeep: predicate
    case .not(let inner): ObjectPredicate(inner, depth: predicate.depth - 1)
    default: ObjectPredicate(.not(predicate.node), depth: predicate.depth + 1)
    }
  }
}
