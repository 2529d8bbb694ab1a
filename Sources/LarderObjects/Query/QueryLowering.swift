// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

// LOWERING
//
// A typed query becomes a request of the planner (`QueryPlan.swift` of LarderObjectEngine): the
// properties that an index contains become numbers. The planner decides which index it scans; the
// partial indexes that a query may use are selected here, because their conditions are typed
// predicates.

/// One comparison of a predicate.
struct Comparison: Sendable {
  /// The property, or `nil` for a closure.
  let path: AnyPath?
  /// The description, created on demand: describing a key path takes longer than a query.
  let makeText: @Sendable () -> String
  /// The keys of an index on the property that can match, or `nil` if an index cannot serve the
  /// comparison.
  let ranges: [IndexKeyRange]?
  /// The same for a multi-key index.
  let elementRanges: [IndexKeyRange]?
  /// Whether the ranges contain exactly the matching objects.
  let isExact: Bool
  /// The identity of the constants beyond their descriptions, created on demand.
  var makeConstants: @Sendable () -> ConstantIdentity = { .text }

  var text: String { makeText() }
  var constants: ConstantIdentity { makeConstants() }

  /// The identity of the comparison: the description, and the constants whose description is not
  /// exact.
  var identity: String { text + constants.suffix }

  /// Returns whether another comparison is the same. Closures are never the same.
  func isSame(as other: Comparison) -> Bool {
    path != nil && path == other.path && ranges == other.ranges
      && elementRanges == other.elementRanges && isExact == other.isExact && text == other.text
      && constants != .unknown && constants == other.constants
  }
}

/// The declaration of an index without the object type.
struct IndexShape: Sendable {
  let name: String
  let isUnique: Bool
  let isMultiple: Bool
  let isReferences: Bool
  /// The properties in the order of the key.
  let paths: [AnyPath]
  /// The names of the properties as the catalog stores them.
  var fields: [String]
  /// The definition that identifies the index among indexes of the same name.
  let definition: String
  /// The defaults of missing fields on which the keys rest.
  var defaults = IndexDefaults()
  /// The comparisons of a partial index's condition, empty if the condition is not a conjunction of
  /// comparisons; `nil` if the index contains all objects.
  let condition: [Comparison]?

  /// Whether the index is a full-text index.
  var isText: Bool { definition.hasPrefix(ObjectTypeRecord.Index.textDefinition) }

  /// Returns whether a stored index is this one.
  func isStored(as stored: ObjectTypeRecord.Index) -> Bool {
    guard stored.name == name else { return false }
    return isReferences
      || stored.definition == definition && stored.isUnique == isUnique && stored.fields == fields
        && stored.hasKeysOfToday && defaults.agree(with: stored.defaults)
  }

  /// Returns whether a query implies the index's condition.
  func serves(_ comparisons: @autoclosure () -> [Comparison]) -> Bool {
    guard let condition else { return true }
    guard !condition.isEmpty else { return false }
    let comparisons = comparisons()
    return condition.allSatisfy { part in comparisons.contains { $0.isSame(as: part) } }
  }
}

/// The indexes of a type that a query can scan: the declared ones, and the reference index.
struct ScannableIndexes: Sendable {
  let shapes: [IndexShape]
  /// The indexes as the planner uses them, in the same order.
  let indexes: [QueryPlan.Index]
  /// The distinct properties. The position of a property is its number in requests.
  private let paths: [AnyPath]
  /// Whether an index contains a property in descending form.
  let hasDescending: Bool

  init(_ shapes: [IndexShape]) {
    var paths: [AnyPath] = []
    indexes = shapes.map { shape in
      // No comparison needs the words of a text.
      let fields = (shape.isText ? [] : shape.paths).map { path in
        if let known = paths.firstIndex(of: path) { return known }
        paths.append(path)
        return paths.count - 1
      }
      return QueryPlan.Index(
        name: shape.name, fields: fields, isUnique: shape.isUnique, isMultiple: shape.isMultiple,
        isOpen: shape.isReferences, isPartial: shape.condition != nil)
    }
    self.shapes = shapes
    self.paths = paths
    hasDescending = paths.contains { $0.form.isDescending }
  }

  func field(of path: AnyPath) -> QueryPlan.Field? {
    // A loop over elements requests no type metadata of the collection.
    for position in paths.indices where paths[position] == path { return position }
    return nil
  }
}

extension QueryPlan {
  /// Creates the best plan for a typed query.
  init<Object>(
    _ query: Query<Object>, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord
  ) {
    if query.search != nil {
      self.init(ofTextHits: !query.sorts.isEmpty)
      return
    }
    let node = query.predicate.node
    let scannable = kind.scannable
    var request = Request()
    request.isComplete = node.isConjunction
    request.isLimited = query.maximum != nil
    node.visitConjunction { comparison in
      request.comparisons.append(
        QueryPlan.Comparison(
          field: comparison.path.flatMap { scannable.field(of: $0) }, ranges: comparison.ranges,
          elementRanges: comparison.elementRanges, isExact: comparison.isExact))
    }
    for sort in query.sorts {
      request.sorts.append(
        Sort(
          field: sort.isIndexable ? scannable.field(of: sort.path) : nil,
          descending: sort.isIndexable && scannable.hasDescending
            ? scannable.field(of: sort.path.descending) : nil,
          isDescending: sort.direction == .descending))
    }
    self.init(request, scannable.indexes) { position in
      let shape = scannable.shapes[position]
      guard
        let stored = record.indexes.first(where: { shape.isStored(as: $0) }), stored.isComplete,
        shape.serves(node.comparisons)
      else { return nil }
      return stored.number
    }
  }
}

extension ObjectPredicate.Node {
  /// Calls `body` with the comparisons that must all match.
  func visitConjunction(_ body: (Comparison) -> Void) {
    switch self {
    case .leaf(let leaf): body(leaf.comparison)
    case .and(let nodes):
      _ = nodes.contains { node in
        node.visitConjunction(body)
        return false
      }
    default: break
    }
  }

  /// The comparisons that must all match.
  var comparisons: [Comparison] {
    var all: [Comparison] = []
    visitConjunction { all.append($0) }
    return all
  }

  /// All comparisons of the tree, with their evaluation.
  var allLeaves: [ObjectPredicate.Leaf] {
    switch self {
    case .all, .tooDeep: []
    case .leaf(let leaf): [leaf]
    case .and(let nodes), .or(let nodes): nodes.all.flatMap(\.allLeaves)
    case .not(let node): node.allLeaves
    }
  }

  /// All comparisons of the tree.
  var allComparisons: [Comparison] { allLeaves.map(\.comparison) }

  /// Whether the predicate contains a closure, whose result may depend on more than the object.
  var isOpaque: Bool { contains { $0.origin != nil } }

  /// Whether a comparison is a condition of related objects.
  var hasRelated: Bool { contains { $0.related != nil } }

  private func contains(_ holds: (ObjectPredicate.Leaf) -> Bool) -> Bool {
    switch self {
    case .all, .tooDeep: false
    case .leaf(let leaf): holds(leaf)
    case .and(let nodes), .or(let nodes): nodes.contains { $0.contains(holds) }
    case .not(let node): node.contains(holds)
    }
  }

  /// Whether the predicate is a conjunction of comparisons.
  var isConjunction: Bool {
    switch self {
    case .all, .leaf: true
    case .and(let nodes): nodes.allSatisfy { $0.isConjunction }
    default: false
    }
  }
}
