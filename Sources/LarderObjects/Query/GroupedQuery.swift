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
  private let key: PropertyPath<Object, Key>

  init(_ query: Query<Object>, _ path: Path<Object, Key>) {
    self.query = query
    key = PropertyPath(path)
  }

  /// Returns the number of objects of each group.
  ///
  /// - Returns: The counts by value.
  /// - Throws: The errors of `Query.fetch()`.
  public func count() throws -> [Key: Int] {
    try reduced(nil) { CountReduction<Key>() }.mapValues(\.result)
  }

  /// Returns the sum of a property over the objects of each group. Integer sums are exact; floating-point
  /// numbers are added in no particular order.
  ///
  /// - Parameter path: The property.
  /// - Returns: The sums by value.
  /// - Throws: ``ObjectError/Code/overflow`` if an integer sum exceeds the range of its type; the
  ///   errors of `Query.fetch()`.
  public func sum<Value: AdditiveArithmetic & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Key: Value] {
    let property = PropertyPath(path)
    return try reduced(property) { Summation<Value>.make() }
      .mapValues { try Query<Object>.exact($0, property.name) }
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

  /// Returns the sum of an optional property over the objects of each group, as that of a property
  /// without `nil`.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The sums by value, without the groups that have no value.
  /// - Throws: ``ObjectError/Code/overflow`` if an integer sum exceeds the range of its type; the
  ///   errors of `Query.fetch()`.
  public func sum<Value: AdditiveArithmetic & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> [Key: Value] {
    let property = PropertyPath(path)
    return try reduced(property) { OptionalReduction(Summation<Value>.make()) }
      .mapValues { try Query<Object>.exact($0.wrapped, property.name) }
  }

  /// Returns the smallest value of an optional property in each group, in the order of a sort.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The smallest values by value of the group, without the groups that have no value.
  /// - Throws: The errors of `Query.fetch()`.
  public func min<Value: Comparable & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> [Key: Value] {
    try reduced(PropertyPath(path)) {
      OptionalReduction(ExtremeReduction { SortOrdering.of($0, $1) < 0 })
    }.compactMapValues(\.wrapped.result)
  }

  /// Returns the largest value of an optional property in each group, in the order of a sort.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The largest values by value of the group, without the groups that have no value.
  /// - Throws: The errors of `Query.fetch()`.
  public func max<Value: Comparable & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> [Key: Value] {
    try reduced(PropertyPath(path)) {
      OptionalReduction(ExtremeReduction { SortOrdering.of($0, $1) > 0 })
    }.compactMapValues(\.wrapped.result)
  }

  /// Returns the arithmetic mean of an optional property in each group.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The means by value, without the groups that have no value.
  /// - Throws: The errors of `Query.fetch()`.
  public func average<Value: BinaryInteger & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> [Key: Double] { try optionalMeans(path) { Double($0) } }

  /// Returns the arithmetic mean of an optional property in each group.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The means by value, without the groups that have no value.
  /// - Throws: The errors of `Query.fetch()`.
  public func average<Value: BinaryFloatingPoint & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> [Key: Double] { try optionalMeans(path) { Double($0) } }

  private func optionalMeans<Value: Sendable>(
    _ path: Path<Object, Value?>, _ number: @escaping (Value) -> Double
  ) throws -> [Key: Double] {
    try reduced(PropertyPath(path)) { OptionalReduction(MeanReduction(number)) }
      .compactMapValues(\.wrapped.result)
  }

  private func extremes<Value: Sendable>(
    _ path: Path<Object, Value>, _ precedes: @escaping (Value, Value) -> Bool
  ) throws -> [Key: Value] {
    try reduced(PropertyPath(path)) { ExtremeReduction(precedes) }.compactMapValues(\.result)
  }

  private func means<Value: Sendable>(
    _ path: Path<Object, Value>, _ number: @escaping (Value) -> Double
  ) throws -> [Key: Double] {
    try reduced(PropertyPath(path)) { MeanReduction(number) }.compactMapValues(\.result)
  }

  /// Returns the reductions of a property by group.
  ///
  /// - Parameter property: The property, or `nil` if the reductions count.
  private func reduced<Value: Sendable, Reduction: FieldReduction<Value>>(
    _ property: PropertyPath<Object, Value>?, _ make: @escaping () -> Reduction
  ) throws -> [Key: Reduction] {
    if query.remembered == nil,
      let groups: [Key: Reduction] = try query.run(
        "values", empty: [:],
        {
          let groups = GroupReductions<Key, Value, Reduction>(make)
          return try $0.fold(key, property, into: groups, $1) ? groups.all : nil
        })
    {
      return groups
    }
    let groups = GroupReductions<Key, Value, Reduction>(make)
    for object in try query.fetch() {
      groups.add(key.value(of: object), property?.value(of: object))
    }
    return groups.all
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
