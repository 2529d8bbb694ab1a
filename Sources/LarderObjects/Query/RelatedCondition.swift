// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// CONDITIONS OF RELATED OBJECTS
//
//     people.where { $0.boss?.name == "Ann" }
//     people.where { $0.friends.contains { $0.age > 20 } }
//
// Such a condition can be evaluated on a decoded object: its references load the related objects from
// the snapshot of the query. Before a query runs, it replaces the condition by one of ids (a
// semi-join): it searches the related type for the objects that match, with the indexes of that type,
// and the condition becomes "refers to one of these ids", which the reference index serves. A chain
// whose condition holds without an object (`!= "Ann"`) becomes the negation of the opposite one.
//
// The search reads the snapshot of the query, so its result is exact. It is omitted, and the condition
// evaluated on the objects, if it would read many more objects than the query itself.

/// The property of a related object, at the end of a path that begins with a reference.
struct RelatedProperty<Object: Storable, Value>: Sendable {
  /// Returns the condition of the related object.
  let condition: @Sendable (PropertyComparison<Value>) -> RelatedCondition<Object>

  private init<Target: Storable, Inner>(
    at reference: AnyPath, _ inner: PropertyPath<Target, Inner>, missing: Value?,
    _ convert: @escaping @Sendable (Inner) -> Value
  ) {
    let missing = SendableValue(value: missing)
    condition = { comparison in
      let holdsWithout = missing.value.map(comparison.holds) ?? false
      return RelatedCondition(at: reference, excludes: holdsWithout) {
        let condition = ObjectPredicate<Target>(
          of: inner, comparison.text(), constants: comparison.constants(),
          ranges: comparison.ranges, isExact: comparison.isExact, stored: comparison.stored()
        ) { comparison.holds(convert($0)) }
        return holdsWithout ? !condition : condition
      }
    }
  }

  /// Creates the property, or returns `nil` if the path does not lead to a property of an object.
  ///
  /// - Parameters:
  ///   - owner: The path to the object.
  ///   - inner: The property of the object.
  ///   - missing: The value without an object, or `nil` if there always is one.
  ///   - convert: Returns the value of a property.
  static func of<Outer, Inner, Referred>(
    _ owner: PropertyPath<Object, Referred>, _ inner: KeyPath<Outer, Inner>, missing: Value?,
    _ convert: @escaping @Sendable (Inner) -> Value
  ) -> RelatedProperty? {
    func open<Target: Storable>(_ type: Target.Type) -> RelatedProperty? {
      (inner as? KeyPath<Target, Inner>).map {
        RelatedProperty(at: owner.erased, PropertyPath(joined: $0), missing: missing, convert)
      }
    }
    guard owner.related == nil, let type = Outer.self as? any Storable.Type else { return nil }
    return open(type)
  }
}

/// The value of a missing object.
// @unchecked Sendable: `nil`, or an optional without a value.
private struct SendableValue<Value>: @unchecked Sendable {
  let value: Value?
}

/// A comparison of values of one type.
struct PropertyComparison<Value>: Sendable {
  let text: @Sendable () -> String
  let constants: @Sendable () -> ConstantIdentity
  let ranges: [IndexKeyRange]?
  let isExact: Bool
  let stored: @Sendable () -> StoredFieldTest?
  let holds: @Sendable (Value) -> Bool
}

/// A condition of the objects that a reference leads to.
struct RelatedCondition<Object: Storable>: Sendable {
  /// The property with the objects, or the reference itself.
  let reference: AnyPath
  /// Whether an object matches if it refers to none of the objects found.
  let excludes: Bool
  /// Returns the ids of the objects found as keys, or `nil` if there are too many.
  private let search: @Sendable (RelatedSearch, borrowing Snapshot) throws -> RelatedIDs?
  private let plan: @Sendable (RelatedSearch, borrowing Snapshot) throws -> String

  /// Creates the condition.
  ///
  /// - Parameters:
  ///   - reference: The property with the objects, or the reference itself.
  ///   - excludes: Whether an object matches if it refers to none of the objects found.
  ///   - predicate: Returns the predicate of the related objects.
  init<Target: Storable>(
    at reference: AnyPath, excludes: Bool = false,
    _ predicate: @escaping @Sendable () -> ObjectPredicate<Target>
  ) {
    self.reference = reference
    self.excludes = excludes
    search = { search, snapshot in
      let unreadable = search.tell == nil ? nil : UnreadableObjects()
      defer { unreadable?.all.forEach { search.tell?($0) } }
      guard let run = try search.execution(predicate(), snapshot, unreadable) else { return nil }
      var ids: Set<[UInt8]> = []
      try run?.visit(snapshot) { found in
        let object: Target = found.object()
        ids.insert(ObjectTypeDescriptor<Target>.bytes(of: object.id))
        return ids.count <= search.mostFound
      }
      return ids.count <= search.mostFound ? RelatedIDs(type: Target.storedName, ids: ids) : nil
    }
    plan = { search, snapshot in
      guard let run = try search.execution(predicate(), snapshot) else {
        return "related \(Target.storedName): loaded for each object"
      }
      let lines = run?.plan.explanation(
        objects: "all objects of \(Target.storedName)", search: nil, filter: run?.filterText,
        order: [], hasPosition: false, limit: nil)
      return "related \(Target.storedName): "
        + (lines?.joined(separator: ", ") ?? "nothing is stored")
    }
  }

  /// Returns the condition of ids that replaces a comparison, or `nil` if the objects evaluate it.
  func resolved(
    _ leaf: ObjectPredicate<Object>.Leaf, _ search: RelatedSearch, _ snapshot: borrowing Snapshot
  ) throws -> ObjectPredicate<Object>.Node? {
    guard let reference = Object.reference(at: reference) else { return nil }
    let old = leaf.comparison
    guard let found = try self.search(search, snapshot) else {
      // An index cannot contain properties of other objects.
      var leaf = leaf
      leaf.comparison = Comparison(
        path: nil, makeText: old.makeText, ranges: nil, elementRanges: nil, isExact: false,
        makeConstants: old.makeConstants)
      return .leaf(leaf)
    }
    var ranges: [IndexKeyRange]?
    if found.ids.count <= Self.mostRanges {
      ranges = found.ids.sorted { $0.lexicographicallyPrecedes($1) }
        .map { .exactly(ReferenceIndex.prefix(found.type, $0)) }
    }
    let ids = found.ids
    let resolved = ObjectPredicate<Object>.Leaf(
      comparison: Comparison(
        path: AnyPath(path: \Object.larderReferences), makeText: old.makeText, ranges: nil,
        elementRanges: ranges, isExact: false, makeConstants: old.makeConstants),
      holds: { reference($0).contains { ids.contains(Array($0.utf8)) } }, stored: nil,
      origin: leaf.origin)
    return excludes ? .not(.leaf(resolved)) : .leaf(resolved)
  }

  /// Returns how the related objects are found, or `nil` if the property is not a declared reference.
  func explanation(_ search: RelatedSearch, _ snapshot: borrowing Snapshot) throws -> String? {
    Object.reference(at: reference) == nil ? nil : try plan(search, snapshot)
  }

  /// The number of ids up to which the reference index is faster than reading all objects.
  private static var mostRanges: Int { 1000 }
}

/// The ids of related objects.
struct RelatedIDs: Sendable {
  /// The stored name of the type.
  let type: String
  let ids: Set<[UInt8]>
}

/// The circumstances of a search for related objects.
struct RelatedSearch {
  let store: ObjectStore
  let context: ReferenceLoader
  /// The number of objects of the related type up to which all of them are read.
  let mostScanned: Int
  /// The number of related objects that are found at most.
  let mostFound: Int
  /// Receives the errors of related objects, if the query passes over those that cannot be decoded.
  let tell: (@Sendable (ObjectError) -> Void)?

  /// The number of ids that a query holds at most.
  private static var mostHeld: Int { 100_000 }

  /// Creates the search of a query. A query with an index scan or a limit reads few objects, so it
  /// should read few related ones in advance.
  init<Object: Storable>(
    _ query: Query<Object>, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord,
    _ context: ReferenceLoader, _ snapshot: borrowing Snapshot
  ) throws {
    store = query.store
    self.context = context
    let (unreadable, core) = (query.unreadable, kind.core)
    if query.skipsUnreadable {
      tell = { error in
        if let unreadable { unreadable.add(related: error) } else { core.report(error) }
      }
    } else {
      tell = nil
    }
    let count = Int(clamping: try ObjectReading.books(record.number, snapshot).count)
    if QueryPlan(query, kind, record).scan != nil {
      (mostScanned, mostFound) = (0, 1000)
    } else if query.maximum != nil {
      mostScanned = min(count * 4, 1000 + 16 * min(query.wanted, 1 << 32))
      mostFound = 1000
    } else {
      (mostScanned, mostFound) = (count * 4, min(max(count, 1000), Self.mostHeld))
    }
  }

  /// Returns the execution of a query of the related type: `nil` if it would read too much, and an
  /// inner `nil` if nothing of the type is stored.
  func execution<Target: Storable>(
    _ predicate: ObjectPredicate<Target>, _ snapshot: borrowing Snapshot,
    _ unreadable: UnreadableObjects? = nil
  ) throws -> QueryExecution<Target>?? {
    let kind = store.kind(Target.self)
    var query = store.objects(Target.self).where(predicate)
    if let unreadable { query = query.skippingUnreadable(unreadable) }
    let record: ObjectTypeRecord?
    if let source = context.source {
      record = try source.record(of: kind, snapshot)
    } else {
      record = try kind.readable(ObjectReading.type(named: kind.name, snapshot))
    }
    guard let record else { return .some(nil) }
    if QueryPlan(query, kind, record).scan == nil {
      // Before the search of a nested condition.
      let count = try ObjectReading.books(record.number, snapshot).count
      guard count <= mostScanned else { return nil }
    }
    return try QueryExecution(
      kind: kind, query: query, record: record, ReferenceDecoder(context), in: snapshot)
  }
}

extension ObjectPredicate {
  /// Returns a predicate that matches objects related to an object with a condition.
  static func related<Value, Target: Storable>(
    _ path: PropertyPath<Object, Value>, _ predicate: ObjectPredicate<Target>,
    _ objects: @escaping @Sendable (Object) -> [Target]
  ) -> ObjectPredicate {
    let leaves = predicate.node.allLeaves
    var leaf = Leaf(
      comparison: Comparison(
        path: nil, makeText: { "\(path.name).contains { \(predicate) }" }, ranges: nil,
        elementRanges: nil, isExact: false,
        makeConstants: {
          ConstantIdentity(
            combining: leaves.map(\.comparison.constants),
            as: predicate.identity(withOrigins: false))
        }), holds: { objects($0).contains { predicate.holds(for: $0) } }, stored: nil)
    let origins = leaves.compactMap(\.origin)
    leaf.origin = origins.isEmpty ? nil : origins.joined(separator: ", ")
    leaf.related = RelatedCondition(at: path.erased) { predicate }
    return ObjectPredicate(leaf, containing: predicate)
  }
}

extension ObjectPredicate.Node {
  private static func resolved(
    _ nodes: ObjectPredicate.Parts, _ search: RelatedSearch, _ snapshot: borrowing Snapshot
  ) throws -> ObjectPredicate.Parts {
    var resolved: [Self] = []
    for node in nodes.all { resolved.append(try node.resolved(search, snapshot)) }
    return ObjectPredicate.Parts(resolved)
  }

  /// Returns the predicate with its conditions of related objects replaced by conditions of ids.
  func resolved(
    _ search: RelatedSearch, _ snapshot: borrowing Snapshot
  ) throws -> ObjectPredicate<Object>.Node {
    switch self {
    case .all, .tooDeep: return self
    case .leaf(let leaf): return try leaf.related?.resolved(leaf, search, snapshot) ?? self
    case .and(let nodes): return .and(try Self.resolved(nodes, search, snapshot))
    case .or(let nodes): return .or(try Self.resolved(nodes, search, snapshot))
    case .not(let node): return .not(try node.resolved(search, snapshot))
    }
  }
}
