// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderObjects

// THE FLUENT FORMS
//
// Finders, sorters and limiters are lists of steps that are carried out in their order. As long as
// nothing comes after a limit, all steps are one query of the store: it may use an index, and stops
// early. What comes after a limit is done with the values in hand, as the order says.

/// One step of a query.
struct QueryStep<Archive: Archivable>: Sendable {
  let isLimit: Bool
  let query: @Sendable (Query<Archived<Archive>>) throws -> Query<Archived<Archive>>
  let values: @Sendable ([Archive]) throws -> [Archive]
}

/// What a query is made of; opaque.
public struct QuerySteps<Archive: Archivable>: Sendable {
  var list: [QueryStep<Archive>] = []

  /// Creates a query without steps.
  public init() {}

  init(_ list: [QueryStep<Archive>]) { self.list = list }

  func results(in store: ObjectStore) throws -> [Archive] {
    var query: Query<Archived<Archive>> = store.objects()
    var rest = list[...]
    while let step = rest.popFirst() {
      query = try step.query(query)
      if step.isLimit { break }
    }
    var values = try query.fetch().map { try $0.archive.detached() }
    for step in rest { values = try step.values(values) }
    return values
  }
}

/// A query, or a part of one, as ``CacheManager/process(queries:)`` takes it.
public protocol QueryCompatible<Archive>: Sendable {
  /// The type of the stored values.
  associatedtype Archive: Archivable
  /// The steps of the query, in order.
  var steps: QuerySteps<Archive> { get }
}

/// What can be asked of a query that belongs to a manager.
public protocol ManagedQuery<Archive>: QueryCompatible {
  /// The manager that executes the query.
  var manager: CacheManager<Archive> { get }
  /// Creates a query of a manager with steps.
  init(_ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive>)
}

extension ManagedQuery {
  func adding(_ step: QueryStep<Archive>) -> Self {
    Self(manager, QuerySteps(steps.list + [step]))
  }

  /// The values; what goes wrong is told to the store's `onError`.
  public func getResults() -> [Archive] { manager.process(queries: [self]) }

  /// The values, or what went wrong.
  public func results() throws -> [Archive] { try manager.throwing.process(queries: [self]) }

  /// The first value.
  public func firstResult() -> Archive? { limit(by: 1).getResults().first }

  /// The last value.
  public func lastResult() -> Archive? { getResults().last }

  /// And these in an order; the one before does not count any more.
  public var sortedBy: QuerySorter<Archive> { QuerySorter(manager, steps) }

  /// And only those of these that fit.
  public var findWhere: QueryFinder<Archive> { QueryFinder(manager, steps) }

  /// At most so many.
  public func limit(by count: Int) -> QueryLimiter<Archive> {
    let count = max(count, 0)
    return QueryLimiter(manager, steps).adding(
      QueryStep(isLimit: true, query: { $0.limit(count) }, values: { Array($0.prefix(count)) }))
  }

  /// At most so many, as Vellum writes it.
  public func limitResults(by count: Int) -> QueryLimiter<Archive> { limit(by: count) }
}

/// A number of values at most.
public struct QueryLimiter<Archive: Archivable>: ManagedQuery {
  public let manager: CacheManager<Archive>
  public let steps: QuerySteps<Archive>

  public init(_ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive> = QuerySteps()) {
    self.manager = manager
    self.steps = steps
  }
}

/// Values that fit: `finder.age(greater(than: 3)).name(contains(with: "a"))`.
@dynamicMemberLookup
public struct QueryFinder<Archive: Archivable>: ManagedQuery {
  public let manager: CacheManager<Archive>
  public let steps: QuerySteps<Archive>

  public init(_ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive> = QuerySteps()) {
    self.manager = manager
    self.steps = steps
  }

  /// A property of the values.
  public subscript<Value: Sendable>(
    dynamicMember path: Path<Archive, Value>
  ) -> FinderProperty<Archive, Value> { FinderProperty(finder: self, path: path) }

  /// The same in a closure: `findWhere { $0.age(.greater(than: 3)) }`.
  public func callAsFunction(_ build: (QueryFinder) throws -> QueryFinder) rethrows -> QueryFinder {
    try build(self)
  }
}

/// A property in a finder, to be called with a validator.
public struct FinderProperty<Archive: Archivable, Value: Sendable>: Sendable {
  let finder: QueryFinder<Archive>
  let path: Path<Archive, Value>

  /// Adds the condition that the property's value is accepted by a validator.
  public func callAsFunction(_ validator: PropertyValidator<Archive, Value>) -> QueryFinder<Archive>
  {
    let property = PredicateProperty(\Archived<Archive>.archive)[dynamicMember: path]
    return finder.adding(
      QueryStep(
        isLimit: false, query: { try $0.where(validator.predicate(property)) },
        values: { values in
          let predicate = try validator.predicate(property)
          return values.filter { predicate.holds(for: Archived($0)) }
        }))
  }
}

/// Values in an order: `sorter.age(.ascending).name(.descending)`.
@dynamicMemberLookup
public struct QuerySorter<Archive: Archivable>: ManagedQuery {
  public let manager: CacheManager<Archive>
  public let steps: QuerySteps<Archive>
  private let comparisons: [@Sendable (Archive, Archive) -> Int]

  public init(_ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive> = QuerySteps()) {
    self.manager = manager
    self.steps = steps
    comparisons = []
  }

  private init(
    _ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive>,
    _ comparisons: [@Sendable (Archive, Archive) -> Int]
  ) {
    self.manager = manager
    self.comparisons = comparisons
    self.steps = steps
  }

  /// A property of the values.
  public subscript<Value: Comparable & Sendable>(
    dynamicMember path: Path<Archive, Value>
  ) -> SorterProperty<Archive> {
    let property = PredicateProperty(\Archived<Archive>.archive)[dynamicMember: path]
    return SorterProperty { direction in
      self.then({ $0.then(by: property, direction) }) { left, right in
        let order = SortOrdering.of(left[keyPath: path], right[keyPath: path])
        return direction == .ascending ? order : -order
      }
    }
  }

  /// A property of the values that may be missing; those without come first.
  public subscript<Value: Comparable & Sendable>(
    dynamicMember path: Path<Archive, Value?>
  ) -> SorterProperty<Archive> {
    let property = PredicateProperty(\Archived<Archive>.archive)[dynamicMember: path]
    return SorterProperty { direction in
      self.then({ $0.then(by: property, direction) }) { left, right in
        let order = SortOrdering.of(left[keyPath: path], right[keyPath: path])
        return direction == .ascending ? order : -order
      }
    }
  }

  /// The same in a closure: `allSortedBy { $0.age(.ascending) }`.
  public func callAsFunction(_ build: (QuerySorter) throws -> QuerySorter) rethrows -> QuerySorter {
    try build(self)
  }

  private func then(
    _ query: @escaping @Sendable (Query<Archived<Archive>>) -> Query<Archived<Archive>>,
    _ compare: @escaping @Sendable (Archive, Archive) -> Int
  ) -> QuerySorter {
    let comparisons = comparisons + [compare]
    // Values are sorted once, by all comparisons; the query adds them one by one, the first in the
    // place of any order before.
    let isFirst = comparisons.count == 1
    let step = QueryStep<Archive>(
      isLimit: false, query: { query(isFirst ? $0.unsorted() : $0) },
      values: { values in
        values.enumerated().sorted { left, right in
          for compare in comparisons {
            let order = compare(left.element, right.element)
            if order != 0 { return order < 0 }
          }
          return left.offset < right.offset
        }.map(\.element)
      })
    return QuerySorter(manager, QuerySteps(steps.list + [step]), comparisons)
  }
}

/// A property in a sorter, to be called with a direction.
public struct SorterProperty<Archive: Archivable>: Sendable {
  let sorted: @Sendable (SortDirection) -> QuerySorter<Archive>

  /// Adds a sort by the property.
  public func callAsFunction(_ direction: SortDirection) -> QuerySorter<Archive> {
    sorted(direction)
  }
}
