// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderObjects

// FLUENT QUERIES
//
// Finders, sorters and limiters are lists of steps that are applied in order. As long as no step
// follows a limit, all steps are one query of the store: it can use an index, and stops early.
// Steps after a limit are applied to the result in memory, in their order.

/// One step of a query.
struct QueryStep<Archive: Archivable>: Sendable {
  let isLimit: Bool
  let query: @Sendable (Query<Archived<Archive>>) throws -> Query<Archived<Archive>>
  let values: @Sendable ([Archive]) throws -> [Archive]
}

/// The opaque steps of a query.
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

/// A query, or a part of one, for ``CacheManager/process(queries:)``.
public protocol QueryCompatible<Archive>: Sendable {
  /// The type of the stored values.
  associatedtype Archive: Archivable
  /// The steps of the query, in order.
  var steps: QuerySteps<Archive> { get }
}

/// A query that belongs to a manager.
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

  /// Returns the matching values. Reports errors to the store's `onError`.
  ///
  /// - Returns: The values; empty after an error.
  public func getResults() -> [Archive] { manager.process(queries: [self]) }

  /// Returns the matching values.
  ///
  /// - Returns: The values.
  /// - Throws: The errors of ``ThrowingCacheManager/process(queries:)``.
  public func results() throws -> [Archive] { try manager.throwing.process(queries: [self]) }

  /// Returns the first matching value.
  ///
  /// - Returns: The value, or `nil` if no value matches or after an error.
  public func firstResult() -> Archive? { limit(by: 1).getResults().first }

  /// Returns the last matching value.
  ///
  /// - Returns: The value, or `nil` if no value matches or after an error.
  public func lastResult() -> Archive? { getResults().last }

  /// The same values in another order, which replaces the current one.
  public var sortedBy: QuerySorter<Archive> { QuerySorter(manager, steps) }

  /// The same values with a further condition.
  public var findWhere: QueryFinder<Archive> { QueryFinder(manager, steps) }

  /// Returns the query limited to a number of values.
  ///
  /// - Parameter count: The maximum number of values.
  /// - Returns: The limited query.
  public func limit(by count: Int) -> QueryLimiter<Archive> {
    let count = max(count, 0)
    return QueryLimiter(manager, steps).adding(
      QueryStep(isLimit: true, query: { $0.limit(count) }, values: { Array($0.prefix(count)) }))
  }

  /// Returns the query limited to a number of values, in the spelling of Vellum.
  ///
  /// - Parameter count: The maximum number of values.
  /// - Returns: The limited query.
  public func limitResults(by count: Int) -> QueryLimiter<Archive> { limit(by: count) }
}

/// A query with a maximum number of values.
public struct QueryLimiter<Archive: Archivable>: ManagedQuery {
  /// The manager that runs the query.
  public let manager: CacheManager<Archive>
  /// The steps of the query.
  public let steps: QuerySteps<Archive>

  /// Creates a query.
  ///
  /// - Parameters:
  ///   - manager: The manager that runs the query.
  ///   - steps: The steps of the query.
  public init(_ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive> = QuerySteps()) {
    self.manager = manager
    self.steps = steps
  }
}

/// A query with conditions: `finder.age(greater(than: 3)).name(contains(with: "a"))`.
@dynamicMemberLookup
public struct QueryFinder<Archive: Archivable>: ManagedQuery {
  /// The manager that runs the query.
  public let manager: CacheManager<Archive>
  /// The steps of the query.
  public let steps: QuerySteps<Archive>

  /// Creates a query.
  ///
  /// - Parameters:
  ///   - manager: The manager that runs the query.
  ///   - steps: The steps of the query.
  public init(_ manager: CacheManager<Archive>, _ steps: QuerySteps<Archive> = QuerySteps()) {
    self.manager = manager
    self.steps = steps
  }

  /// Returns a property of the values.
  ///
  /// - Parameter path: The key path of the property.
  public subscript<Value: Sendable>(
    dynamicMember path: Path<Archive, Value>
  ) -> FinderProperty<Archive, Value> { FinderProperty(finder: self, path: path) }

  /// Returns the query that a closure builds: `findWhere { $0.age(.greater(than: 3)) }`.
  ///
  /// - Parameter build: A closure that adds conditions to the query.
  /// - Returns: The query.
  /// - Throws: The errors of `build`.
  public func callAsFunction(_ build: (QueryFinder) throws -> QueryFinder) rethrows -> QueryFinder {
    try build(self)
  }
}

/// A property of a finder. Call it with a validator.
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
          try predicate.validate(Archived<Archive>.storedName)
          return values.filter { predicate.holds(for: Archived($0)) }
        }))
  }
}

/// A query with an order: `sorter.age(.ascending).name(.descending)`.
@dynamicMemberLookup
public struct QuerySorter<Archive: Archivable>: ManagedQuery {
  /// The manager that runs the query.
  public let manager: CacheManager<Archive>
  /// The steps of the query.
  public let steps: QuerySteps<Archive>
  private let comparisons: [@Sendable (Archive, Archive) -> Int]

  /// Creates a query.
  ///
  /// - Parameters:
  ///   - manager: The manager that runs the query.
  ///   - steps: The steps of the query.
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

  /// Returns a property of the values.
  ///
  /// - Parameter path: The key path of the property.
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

  /// Returns an optional property of the values; `nil` sorts first.
  ///
  /// - Parameter path: The key path of the property.
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

  /// Returns the query that a closure builds: `allSortedBy { $0.age(.ascending) }`.
  ///
  /// - Parameter build: A closure that adds sort keys to the query.
  /// - Returns: The query.
  /// - Throws: The errors of `build`.
  public func callAsFunction(_ build: (QuerySorter) throws -> QuerySorter) rethrows -> QuerySorter {
    try build(self)
  }

  private func then(
    _ query: @escaping @Sendable (Query<Archived<Archive>>) -> Query<Archived<Archive>>,
    _ compare: @escaping @Sendable (Archive, Archive) -> Int
  ) -> QuerySorter {
    let comparisons = comparisons + [compare]
    // A sort in memory applies all comparisons at once; the store query adds them one by one, and
    // the first replaces an earlier order.
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

/// A property of a sorter. Call it with a direction.
public struct SorterProperty<Archive: Archivable>: Sendable {
  let sorted: @Sendable (SortDirection) -> QuerySorter<Archive>

  /// Adds a sort by the property.
  public func callAsFunction(_ direction: SortDirection) -> QuerySorter<Archive> {
    sorted(direction)
  }
}
