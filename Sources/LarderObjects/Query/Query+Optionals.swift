// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// Means, and results over optional properties.

extension Query {
  /// Returns the arithmetic mean of a property over the matching objects.
  ///
  /// - Parameter path: The property.
  /// - Returns: The mean, or `nil` if no object matches.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func average<Value: BinaryInteger & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> Double? { try folded(path) { MeanReduction { Double($0) } }.result }

  /// Returns the arithmetic mean of a property over the matching objects.
  ///
  /// - Parameter path: The property.
  /// - Returns: The mean, or `nil` if no object matches.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func average<Value: BinaryFloatingPoint & Sendable>(
    _ path: Path<Object, Value>
  ) throws -> Double? { try folded(path) { MeanReduction { Double($0) } }.result }

  /// Returns the arithmetic mean of an optional property over the matching objects.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The mean, or `nil` if no object matches with a value.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func average<Value: BinaryInteger & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> Double? { try mean(path) { Double($0) } }

  /// Returns the arithmetic mean of an optional property over the matching objects.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The mean, or `nil` if no object matches with a value.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func average<Value: BinaryFloatingPoint & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> Double? { try mean(path) { Double($0) } }

  private func mean<Value: Sendable>(
    _ path: Path<Object, Value?>, _ number: @escaping (Value) -> Double
  ) throws -> Double? {
    try folded(path) { OptionalReduction(MeanReduction(number)) }.wrapped.result
  }

  /// Returns the smallest value of an optional property in the order of a sort.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The value, or `nil` if no object matches with a value.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func min<Value: Comparable & Sendable>(_ path: Path<Object, Value?>) throws -> Value? {
    try folded(path) { OptionalReduction(ExtremeReduction { SortOrdering.of($0, $1) < 0 }) }
      .wrapped.result
  }

  /// Returns the largest value of an optional property in the order of a sort.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The value, or `nil` if no object matches with a value.
  /// - Throws: The errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func max<Value: Comparable & Sendable>(_ path: Path<Object, Value?>) throws -> Value? {
    try folded(path) { OptionalReduction(ExtremeReduction { SortOrdering.of($0, $1) > 0 }) }
      .wrapped.result
  }

  /// Returns the sum of an optional property over the matching objects, as that of a property
  /// without `nil`.
  ///
  /// - Parameter path: The property. Objects without a value do not count.
  /// - Returns: The sum, zero if no object matches with a value.
  /// - Throws: ``ObjectError/Code/overflow`` if an integer sum exceeds the range of its type; the
  ///   errors of `fetch()`.
  /// - Complexity: As `values(of:)`.
  public func sum<Value: AdditiveArithmetic & Sendable>(
    _ path: Path<Object, Value?>
  ) throws -> Value {
    let sum = try folded(path) { OptionalReduction(Summation<Value>.make()) }
    return try Self.exact(sum.wrapped, PropertyPath(path).name)
  }
}
