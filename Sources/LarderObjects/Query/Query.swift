// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderSystem
internal import Synchronization

/// Which direction a sort goes.
public enum SortDirection: Sendable, Hashable {
  /// From the least to the greatest value.
  case ascending
  /// From the greatest to the least value.
  case descending
}

/// One key of a sort.
struct SortKey<Object: Storable>: Sendable {
  let path: AnyPath
  let direction: SortDirection
  /// Whether an index over the property is in the same order.
  let isIndexable: Bool
  /// Negative: the first comes first; ascending.
  let compare: @Sendable (Object, Object) -> Int
  /// How a page remembers the value of its last object; `nil`: it cannot be coded.
  let coding: SortCoding<Object>?
  /// Whether the order is a closure's, which may depend on more than the objects.
  var isOpaque = false

  var text: String { path.name(in: Object.self) + (direction == .ascending ? "" : " descending") }
  var shape: SortShape {
    SortShape(path: path, direction: direction, isIndexable: isIndexable)
  }
}

/// A question for objects of one type: a value that composes.
///
/// ```swift
/// let query = store.objects(Car.self)
///   .where(\.year >= 2020 && \.model != "X")
///   .sorted(by: \.model).then(by: \.year, .descending)
///   .limit(20)
/// let cars = try query.fetch()
/// print(try query.explain())
/// ```
///
/// Without a sort, objects come in the order they were first saved in. So do objects with equal values
/// of a sort; if its first key is descending, in the opposite order, by an index, in memory and in
/// pages alike. A query that is kept remembers its result, and gives it again as long as no process
/// has changed anything of the type; one that filters by a closure does not.
public struct Query<Object: Storable>: Sendable {
  let store: ObjectStore
  private(set) var predicate: Predicate<Object> = .all
  private(set) var sorts: [SortKey<Object>] = []
  private(set) var maximum: Int?
  private(set) var skipped = 0
  /// How many have to be found, the skipped ones included.
  var wanted: Int {
    guard let maximum else { return .max }
    let (sum, overflow) = maximum.addingReportingOverflow(skipped)
    return overflow ? .max : sum
  }
  /// Behind what the objects come.
  private(set) var start: QueryAnchor<Object>?
  /// What is loaded along with the objects, in the same snapshot.
  private(set) var inclusions: [Inclusion<Object>] = []
  /// The last result, shared by copies of this very query.
  private(set) var memo = QueryResultCache<Object>()

  init(store: ObjectStore) { self.store = store }

  private func changed(_ body: (inout Query) -> Void) -> Query {
    var query = self
    query.memo = QueryResultCache()
    body(&query)
    return query
  }

  // MARK: Composing

  /// Only objects that fit; a second one narrows further.
  public func `where`(_ predicate: Predicate<Object>) -> Query {
    changed { $0.predicate = $0.predicate && predicate }
  }

  /// Only objects that fit what a closure says of their properties.
  public func `where`(
    _ build: (PredicateRoot<Object>) throws -> Predicate<Object>
  ) rethrows -> Query {
    let predicate = try build(PredicateRoot())
    return self.where(predicate)
  }

  /// Only objects for which a closure holds. Every one is decoded: the last resort.
  ///
  /// The closure is called for every object each time the query runs: its result is never remembered,
  /// so it may depend on the time or on other state. Inside of it Swift's own operators hold. They
  /// agree with the comparisons of key paths but for two of texts. The order of texts in queries is
  /// that of the bytes of their normalization form C, with which `<` disagrees where a text is
  /// composed of conjoining jamo. And ``PredicateProperty/contains(_:)-(String)`` finds whole characters, as
  /// the standard library's `contains` does; where Foundation is imported, `contains` of a closure
  /// may be Foundation's, which finds parts of characters.
  ///
  /// - Parameters:
  ///   - holds: The closure that decides whether an object matches.
  ///   - fileID: With `line` and `column`, the location of the closure; see ``PageCursor``.
  ///   - line: The line of the closure.
  ///   - column: The column of the closure.
  public func filter(
    _ holds: @escaping @Sendable (Object) -> Bool, fileID: String = #fileID, line: UInt = #line,
    column: UInt = #column
  ) -> Query {
    self.where(Predicate(holds, fileID: fileID, line: line, column: column))
  }

  /// In the order of a property, instead of any order before; numbers and dates that are none (NaN)
  /// come last.
  public func sorted<Value: Comparable & Sendable>(
    by path: Path<Object, Value>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts = [Self.key(path, direction)] }
  }

  /// In the order of a property; objects without it come first.
  public func sorted<Value: Comparable & Sendable>(
    by path: Path<Object, Value?>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts = [Self.key(path, direction)] }
  }

  /// And those that are equal so far, in the order of another property.
  public func then<Value: Comparable & Sendable>(
    by path: Path<Object, Value>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts.append(Self.key(path, direction)) }
  }

  /// And those that are equal so far, in the order of another property.
  public func then<Value: Comparable & Sendable>(
    by path: Path<Object, Value?>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts.append(Self.key(path, direction)) }
  }

  /// In the order of a comparator, instead of any order before.
  func sorted(comparing precedes: @escaping @Sendable (Object, Object) -> Bool) -> Query {
    changed {
      $0.sorts = [
        SortKey(
          path: AnyPath(path: \Object.larderComparator), direction: .ascending, isIndexable: false,
          compare: { precedes($0, $1) ? -1 : precedes($1, $0) ? 1 : 0 }, coding: nil, isOpaque: true
        )
      ]
    }
  }

  func adding(_ inclusion: Inclusion<Object>) -> Query {
    changed { $0.inclusions.append(inclusion) }
  }

  func starting(_ start: QueryAnchor<Object>) -> Query { changed { $0.start = start } }

  /// At most so many.
  public func limit(_ count: Int) -> Query { changed { $0.maximum = Swift.max(count, 0) } }

  /// Without the first so many.
  public func offset(_ count: Int) -> Query { changed { $0.skipped = Swift.max(count, 0) } }

  private static func key<Value: Comparable & Sendable>(
    _ path: Path<Object, Value>, _ direction: SortDirection
  ) -> SortKey<Object> { key(PropertyPath(path), direction) }

  private static func key<Value: Comparable & Sendable>(
    _ path: Path<Object, Value?>, _ direction: SortDirection
  ) -> SortKey<Object> { key(PropertyPath(path), direction) }

  private static func key<Value: Comparable & Sendable>(
    _ property: PropertyPath<Object, Value>, _ direction: SortDirection
  ) -> SortKey<Object> {
    key(property, direction, isIndexable: Value.self is any IndexOrdered.Type) {
      SortOrdering.of($0, $1)
    }
  }

  private static func key<Value: Comparable & Sendable>(
    _ property: PropertyPath<Object, Value?>, _ direction: SortDirection
  ) -> SortKey<Object> {
    key(property, direction, isIndexable: Value.self is any IndexOrdered.Type) {
      SortOrdering.of($0, $1)
    }
  }

  private static func key<Value: Sendable>(
    _ property: PropertyPath<Object, Value>, _ direction: SortDirection, isIndexable: Bool,
    _ order: @escaping @Sendable (Value, Value) -> Int
  ) -> SortKey<Object> {
    SortKey(
      path: property.erased, direction: direction, isIndexable: isIndexable,
      compare: { order(property.value(of: $0), property.value(of: $1)) },
      coding: SortCoding(property, order))
  }

  /// In the order of insertion again.
  package func unsorted() -> Query { changed { $0.sorts = [] } }

  /// And those that are equal so far, in the order of a property of a property.
  package func then<Value: Comparable & Sendable>(
    by property: PredicateProperty<Object, Value>, _ direction: SortDirection
  ) -> Query {
    changed { $0.sorts.append(Self.key(property.path, direction)) }
  }

  /// And those that are equal so far, in the order of a property of a property.
  package func then<Value: Comparable & Sendable>(
    by property: PredicateProperty<Object, Value?>, _ direction: SortDirection
  ) -> Query {
    changed { $0.sorts.append(Self.key(property.path, direction)) }
  }
}

/// The last result of a query in this process.
final class QueryResultCache<Object: Storable>: Sendable {
  struct Result: Sendable {
    let objects: [Object]
    let context: ReferenceLoader
    let generation: Generation
    /// What the result is made of.
    let slots: [StampSlot]
    /// The snapshot the result was made in.
    let commitVersion: UInt64
    /// Of a type with a budget: where it is noted that the objects were used.
    var uses: [UInt64] = []
  }

  private let last = Mutex<Result?>(nil)

  /// The last result, if nothing it is made of has changed in any process since.
  var current: [Object]? {
    last.withLock { result in
      guard let result,
        !(result.context.source?.wasLookedAt ?? result.context.wasLoaded),
        Mutant.memoIgnoresStamp.isActive
          || result.slots.allSatisfy({
            result.generation.isCurrent($0, since: result.commitVersion)
          })
      else {
        return nil
      }
      for hash in result.uses { result.generation.table.touch(hash: hash) }
      return result.objects
    }
  }

  func remember(_ result: Result) {
    last.withLock { old in
      if old == nil || old!.generation !== result.generation
        || old!.commitVersion <= result.commitVersion
      {
        old = result
      }
    }
  }
}
