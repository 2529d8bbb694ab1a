// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// Results that are made of properties instead of objects. If the type declares the fields
// (`DeclaresSchema`), they are read from the stored bytes.

extension Query {
  /// Returns the values of a property.
  ///
  /// - Parameter path: The property.
  /// - Returns: One value per matching object, in the query's order.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `fetch()`. If the type declares the field, the query does not decode the
  ///   objects.
  public func values<Value: Sendable>(of path: Path<Object, Value>) throws -> [Value] {
    try rows(RowReader(PropertyPath(path), store.kind(Object.self)))
  }

  /// Returns several properties of each object.
  ///
  /// ```swift
  /// for (model, year) in try store.objects(Car.self).select(\.model, \.year) { print(model, year) }
  /// ```
  ///
  /// - Parameter path: The properties.
  /// - Returns: One tuple per matching object, in the query's order.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func select<each Value: Sendable>(
    _ path: repeat Path<Object, each Value>
  ) throws -> [(repeat each Value)] {
    try rows(RowReader(repeat PropertyPath(each path), in: store.kind(Object.self)))
  }

  private func rows<Row>(_ reader: RowReader<Object, Row>) throws -> [Row] {
    if let known = remembered { return known.map(reader.decoded) }
    let rows: [Row]? = try run("values", empty: []) { run, snapshot in
      try run.rows(reader, snapshot)
    }
    return try rows ?? fetch().map(reader.decoded)
  }

  /// Adds a property of the matching objects to a reduction, in any order if there is no limit.
  ///
  /// - Parameter make: Makes the empty reduction; called again if the query is repeated.
  func folded<Value: Sendable, Reduction: FieldReduction<Value>>(
    _ path: Path<Object, Value>, _ make: () -> Reduction
  ) throws -> Reduction {
    let property = PropertyPath(path)
    if remembered == nil,
      let reduction: Reduction = try run(
        "values", empty: make(),
        {
          let reduction = make()
          return try $0.fold(property, into: reduction, $1) ? reduction : nil
        })
    {
      return reduction
    }
    let reduction = make()
    for value in try values(of: path) { reduction.add(value) }
    return reduction
  }

  /// Returns the distinct values of a property, in the order of their first object.
  ///
  /// - Parameter path: The property.
  /// - Returns: Each value once.
  /// - Throws: The errors of `fetch()`.
  public func distinct<Value: Hashable & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> [Value] {
    var seen: Set<Value> = []
    return try values(of: path).filter { seen.insert($0).inserted }
  }

  /// Returns whether the plan scans an index in the requested order.
  private func isIndexOrder() throws -> Bool {
    try run("plan", empty: false) { run, _ in run.plan.scan != nil && run.plan.isSorted }
  }

  /// Returns the smallest value of a property in the order of a sort.
  ///
  /// - Parameter path: The property.
  /// - Returns: The value, or `nil` if no object matches.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: O(log *n*) if an index has the order of the property; otherwise as `values(of:)`.
  public func min<Value: Comparable & Sendable>(_ path: Path<Object, Value>) throws -> Value? {
    if sorts.isEmpty, maximum == nil, skipped == 0 {
      let first = sorted(by: path).limit(1)
      if try first.isIndexOrder() { return try first.values(of: path).first }
    }
    return try extreme(path) { SortOrdering.of($0, $1) < 0 }
  }

  /// Returns the largest value of a property in the order of a sort.
  ///
  /// - Parameter path: The property.
  /// - Returns: The value, or `nil` if no object matches.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: O(log *n*) if an index has the order of the property; otherwise as `values(of:)`.
  public func max<Value: Comparable & Sendable>(_ path: Path<Object, Value>) throws -> Value? {
    if sorts.isEmpty, maximum == nil, skipped == 0 {
      let last = sorted(by: path, .descending).limit(1)
      if try last.isIndexOrder() { return try last.values(of: path).first }
    }
    return try extreme(path) { SortOrdering.of($0, $1) > 0 }
  }

  private func extreme<Value: Sendable>(
    _ path: Path<Object, Value>, _ precedes: @escaping (Value, Value) -> Bool
  ) throws -> Value? {
    try folded(path) { ExtremeReduction(precedes) }.result
  }

  /// Returns the sum of a property over the matching objects.
  ///
  /// Integer sums are exact: intermediate sums may exceed the range of the type. Other types are
  /// added with their own `+`, in the query's order.
  ///
  /// - Parameter path: The property.
  /// - Returns: The sum, zero if no object matches.
  /// - Throws: ``ObjectError/Code/overflow`` if an integer sum exceeds the range of its type; the
  ///   errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func sum<Value: AdditiveArithmetic & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> Value {
    try Self.exact(folded(path) { Summation<Value>.make() }, PropertyPath(path).name)
  }

  /// Returns the result of a sum.
  static func exact<Value: AdditiveArithmetic>(
    _ sum: Summation<Value>, _ property: @autoclosure () -> String
  ) throws -> Value {
    guard let result = sum.result else {
      throw ObjectError(
        .overflow, type: Object.storedName,
        "The sum of \(property()) exceeds the range of \(Value.self). Sum fewer "
          + "objects, or use a wider type.")
    }
    return result
  }

  /// Returns the number of matching objects for each value of a property: `grouped(by:).count()`.
  ///
  /// - Parameter path: The property.
  /// - Returns: The counts by value.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func counts<Value: Hashable & Sendable>(
    by path: Path<Object, Value>
  ) throws -> [Value: Int] {
    try grouped(by: path).count()
  }
}
