// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE PARTS OF A CONJUNCTION OR DISJUNCTION
//
// A loop that appends one alternative after the other, `condition = condition || \.id == id`, makes a new
// value in each step. With an array each step would copy all parts before it. So the parts are the leaves of
// a balanced tree that never changes (an AVL tree): a step shares all but O(log n) of it. No walk of the tree,
// and no release of it, is deeper than that.

extension ObjectPredicate {
  /// The parts of a conjunction or disjunction, in their order.
  struct Parts: Sendable {
    fileprivate indirect enum Tree: Sendable {
      case one(Node)
      case two(Tree, Tree, height: Int)
    }

    fileprivate let tree: Tree?
    let count: Int

    private init(_ tree: Tree?, count: Int) { (self.tree, self.count) = (tree, count) }

    init(_ node: Node) { self.init(.one(node), count: 1) }

    init(_ nodes: [Node] = []) {
      self = nodes.reduce(Parts(nil, count: 0)) { $0 + Parts($1) }
    }

    var isEmpty: Bool { count == 0 }

    static func + (left: Parts, right: Parts) -> Parts {
      guard let first = left.tree, let second = right.tree else {
        return left.isEmpty ? right : left
      }
      return Parts(Tree.joined(first, second), count: left.count + right.count)
    }

    // Own methods instead of those of a sequence: a query evaluates them for each object, and they
    // allocate nothing.

    func contains(where holds: (Node) throws -> Bool) rethrows -> Bool {
      try tree?.contains(holds) ?? false
    }

    func allSatisfy(_ holds: (Node) throws -> Bool) rethrows -> Bool {
      try !contains { try !holds($0) }
    }

    /// The parts as an array.
    var all: [Node] {
      var nodes: [Node] = []
      nodes.reserveCapacity(count)
      _ = contains {
        nodes.append($0)
        return false
      }
      return nodes
    }
  }
}

extension ObjectPredicate.Parts.Tree {
  private var height: Int {
    if case .two(_, _, let height) = self { height } else { 0 }
  }

  private static func pair(_ left: Self, _ right: Self) -> Self {
    .two(left, right, height: max(left.height, right.height) + 1)
  }

  /// Returns the tree of the leaves of two trees of any heights.
  fileprivate static func joined(_ left: Self, _ right: Self) -> Self {
    if left.height > right.height + 1, case .two(let first, let second, _) = left {
      return balanced(first, joined(second, right))
    }
    if right.height > left.height + 1, case .two(let first, let second, _) = right {
      return balanced(joined(left, first), second)
    }
    return pair(left, right)
  }

  /// Returns the tree of the leaves of two trees whose heights differ by two at most.
  private static func balanced(_ left: Self, _ right: Self) -> Self {
    if left.height > right.height + 1, case .two(let first, let second, _) = left {
      if first.height < second.height, case .two(let inner, let outer, _) = second {
        return pair(pair(first, inner), pair(outer, right))
      }
      return pair(first, pair(second, right))
    }
    if right.height > left.height + 1, case .two(let first, let second, _) = right {
      if second.height < first.height, case .two(let inner, let outer, _) = first {
        return pair(pair(left, inner), pair(outer, second))
      }
      return pair(pair(left, first), second)
    }
    return pair(left, right)
  }

  fileprivate func contains(_ holds: (ObjectPredicate.Node) throws -> Bool) rethrows -> Bool {
    switch self {
    case .one(let node): try holds(node)
    case .two(let left, let right, _): try left.contains(holds) || right.contains(holds)
    }
  }
}
