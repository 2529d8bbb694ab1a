// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The objects of a query in groups with equal values of a property.
///
/// ```swift
/// let byCity = store.objects(Order.self).where(\.year == 2026).grouped(by: \.city)
/// let orders = try byCity.count()              // ["Oslo": 3, "Rome": 8]
/// let turnover = try byCity.sum(\.amount)
/// ```
///
/// The results of one call are of one snapshot and include every write that any process
/// acknowledged before the call. The query's limit and offset apply to the objects, not to the
/// groups. If the type declares the fields, the query does not decode the objects.
public struct GroupedQuery<Object: Storable, Key: Hashable & Sendable>: Sendable {
  let query: Query<Object>
  private let key: RowReader<Object, Key>

  init(_ query: Query<Object>, _ path: Path<Object, Key>) {
    self.query = query
    key = RowReader(PropertyPath(path), query.store.kind(Object.self))
  }

  /// Returns the number of objects of each group.
  ///
  /// - Returns: The counts by value.
  /// - Throws: The errors of `Query.fetch()`.
  public func count() throws -> [Key: Int] {
    try query.reduced(key, into: [:]) { $0[$1, default: 0] += 1 }
  }

  /// Returns the sum of a property over the objects of each group. Integer sums are exact.
  ///
  /// - Parameter path: The property.
  /// - Returns: The sums by value.
  /// - Throws: ``ObjectError/Code/overflow`` if an integer sum exceeds the range of its type; the
  ///   errors of `Query.fetch()`.
  public func sum<Value: AdditiveArithmetic & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Key: Value] {
    try reduced(path, Summation<Value>.make) { sum, value in
      sum.add(value)
    }.mapValues { try Query<Object>.exact($0, PropertyPath(path).name) }
  }

  /// Returns the smallest value of a property in each group, in the order of a sort.
  ///
  /// - Parameter path: The property.
  /// - Returns: The smallest values by value of the group.
  /// - Throws: The errors of `Query.fetch()`.
  public func min<Value: Comparable & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Key: Value] {
    try extremes(path) { SortOrdering.of($0, $1) < 0 }
  }

  /// Returns the largest value of a property in each group, in the order of a sort.
  ///
  /// - Parameter path: The property.
  /// - Returns: The largest values by value of the group.
  /// - Throws: The errors of `Query.fetch()`.
  public func max<Value: Comparable & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Key: Value] {
    try extremes(path) { SortOrdering.of($0, $1) > 0 }
  }

  /// Returns the arithmetic mean of a property in each group.
  ///
  /// - Parameter path: The property.
  /// - Returns: The means by value.
  /// - Throws: The errors of `Query.fetch()`.
  public func average<Value: BinaryInteger & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Key: Double] { try means(path) { Double($0) } }

  /// Returns the arithmetic mean of a property in each group.
  ///
  /// - Parameter path: The property.
  /// - Returns: The means by value.
  /// - Throws: The errors of `Query.fetch()`.
  public func average<Value: BinaryFloatingPoint & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Key: Double] { try means(path) { Double($0) } }

  private func extremes<Value: Sendable>(
    _ path: Path<Object, Value>, _ precedes: (Value, Value) -> Bool
  ) throws -> [Key: Value] {
    try reduced(path, { Value?.none }) { found, value in
      if found.map({ precedes(value, $0) }) ?? true { found = value }
    }.compactMapValues { $0 }
  }

  private func means<Value: Sendable>(
    _ path: Path<Object, Value>, _ number: (Value) -> Double
  ) throws -> [Key: Double] {
    try reduced(path, { (sum: 0.0, count: 0.0) }) { total, value in
      total.sum += number(value)
      total.count += 1
    }.mapValues { $0.sum / $0.count }
  }

  private func reduced<Value: Sendable, Result>(
    _ path: Path<Object, Value>, _ initial: () -> Result, _ add: (inout Result, Value) -> Void
  ) throws -> [Key: Result] {
    let value = RowReader<Object, Value>(PropertyPath(path), query.store.kind(Object.self))
    return try query.reduced(key.with(value), into: [:]) { groups, row in
      add(&groups[row.0, default: initial()], row.1)
    }
  }
}

extension Query {
  /// Returns the matching objects in groups with equal values of a property.
  ///
  /// - Parameter path: The property.
  /// - Returns: The groups, for counts and sums.
  public func grouped<Key: Hashable & Sendable>(
    by path: Path<Object, Key>
  ) -> GroupedQuery<Object, Key> { GroupedQuery(self, path) }
}
