// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

// Sorts by comparators of Foundation: `SortDescriptor`, `KeyPathComparator`, and those of a program.

extension Query {
  /// Returns the query sorted by a comparator. Replaces an earlier order.
  ///
  /// ```swift
  /// let people = store.objects(Person.self).sorted(using: SortDescriptor(\.name))
  /// ```
  ///
  /// The order of a comparator may differ from that of an index: `SortDescriptor` sorts strings in the
  /// order of the locale. So the query decodes and sorts the matching objects, does not cache its
  /// result, and has no page cursors. `sorted(by:)` uses an index.
  ///
  /// - Parameter comparator: The comparator of objects.
  /// - Returns: The sorted query.
  public func sorted<Comparator: SortComparator & Sendable>(using comparator: Comparator) -> Query
  where Comparator.Compared == Object { sorted(using: [comparator]) }

  /// Returns the query sorted by comparators, each for the objects that are equal for all earlier
  /// ones. Replaces an earlier order.
  ///
  /// - Parameter comparators: The comparators of objects, as in ``sorted(using:)-(Comparator)``.
  /// - Returns: The sorted query; in the order of insertion if there are no comparators.
  public func sorted<Comparators: Sequence>(using comparators: Comparators) -> Query
  where
    Comparators.Element: SortComparator & Sendable, Comparators.Element.Compared == Object
  {
    sorted(comparing: comparators.map { comparator in { comparator.compare($0, $1).rawValue } })
  }
}
