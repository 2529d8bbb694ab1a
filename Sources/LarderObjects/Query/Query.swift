// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

/// The direction of a sort.
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
  /// Whether an index over the property has the same order.
  let isIndexable: Bool
  /// Compares two objects in ascending order; negative if the first argument comes first.
  let compare: @Sendable (Object, Object) -> Int
  /// The encoding of the value for a page cursor, or `nil` if the value is not codable.
  let coding: SortCoding<Object>?
  /// Whether a closure defines the order, which may depend on more than the objects.
  var isOpaque = false

  var text: String { path.name(in: Object.self) + (direction == .ascending ? "" : " descending") }
}

/// A query for objects of one type: a value that is composed with methods and reads nothing until
/// it runs.
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
/// Without a sort, objects are in the order of their first save. So are objects with equal sort
/// values; if the first key is descending, they are in the reverse order. Index scans, sorts in
/// memory and pages use the same order. A query value caches its last result and returns it again
/// until a process changes an object of the type. A query that filters by a closure does not cache
/// its result.
public struct Query<Object: Storable>: Sendable {
  let store: ObjectStore
  private(set) var predicate: ObjectPredicate<Object> = .all
  /// The predicate before conditions of related objects were replaced.
  private(set) var original: ObjectPredicate<Object>?
  private(set) var sorts: [SortKey<Object>] = []
  private(set) var maximum: Int?
  /// The full-text condition.
  private(set) var search: TextSearch?
  private(set) var skipped = 0
  /// The number of objects to find, including the skipped ones.
  var wanted: Int {
    guard let maximum else { return .max }
    let (sum, overflow) = maximum.addingReportingOverflow(skipped)
    return overflow ? .max : sum
  }
  /// The position after which the objects begin.
  private(set) var start: QueryAnchor<Object>?
  /// The references to load with the objects, in the same snapshot.
  private(set) var inclusions: [Inclusion<Object>] = []
  /// Whether objects that cannot be decoded are passed over.
  private(set) var skipsUnreadable = false
  /// Receives the errors of these objects, in place of the store's `onError`.
  private(set) var unreadable: UnreadableObjects?
  /// The query result cache, shared by copies of this query value.
  private(set) var memo = QueryResultCache<Object>()

  /// The functions that make objects, specialised where the program creates the query.
  let box: ObjectBox<Object>

  @usableFromInline
  init(store: ObjectStore, _ box: ObjectBox<Object>) {
    self.store = store
    self.box = box
  }

  private func changed(_ body: (inout Query) -> Void) -> Query {
    var query = self
    query.memo = QueryResultCache()
    body(&query)
    return query
  }

  /// Returns the query without the objects that cannot be decoded.
  func skippingUnreadable(_ receiver: UnreadableObjects?) -> Query {
    changed {
      $0.skipsUnreadable = true
      $0.unreadable = receiver
    }
  }

  // MARK: Composing

  /// Returns the query restricted by a predicate. Several predicates must all match.
  ///
  /// - Parameter predicate: The predicate.
  /// - Returns: The restricted query.
  public func `where`(_ predicate: ObjectPredicate<Object>) -> Query {
    changed { $0.predicate = $0.predicate && predicate }
  }

  /// Returns the query restricted by a predicate that a closure builds.
  ///
  /// - Parameter build: A closure that returns the predicate. It runs once, when the query is
  ///   composed.
  /// - Returns: The restricted query.
  /// - Throws: The errors of `build`.
  public func `where`(
    _ build: (PredicateRoot<Object>) throws -> ObjectPredicate<Object>
  ) rethrows -> Query {
    let predicate = try build(PredicateRoot())
    return self.where(predicate)
  }

  /// Returns the query restricted by a closure. The query decodes every object, so prefer a
  /// predicate.
  ///
  /// The query calls the closure for each object on every run and does not cache the result, so the
  /// closure may depend on the time or on other state. Inside the closure, Swift's own operators
  /// apply. They agree with the comparisons of key paths except for two operations on strings.
  /// Queries order strings by the bytes of their normalization form C; Swift's `<` differs if a
  /// string is composed of conjoining jamo. And ``PredicateProperty/contains(_:)-(String)`` finds
  /// complete characters, as the standard library's `contains` does; if Foundation is imported,
  /// `contains` in a closure may be Foundation's, which finds parts of characters.
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
    self.where(ObjectPredicate(holds, fileID: fileID, line: line, column: column))
  }

  /// Returns the query sorted by a property. Replaces an earlier order. NaN sorts last.
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  public func sorted<Value: Comparable & Sendable>(
    by path: Path<Object, Value>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts = [Self.key(path, direction)] }
  }

  /// Returns the query sorted by an optional property. Replaces an earlier order. `nil` sorts
  /// first.
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  public func sorted<Value: Comparable & Sendable>(
    by path: Path<Object, Value?>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts = [Self.key(path, direction)] }
  }

  /// Returns the query with another sort key for objects that are equal in all earlier keys.
  ///
  /// - Parameters:
  ///   - path: The property.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  public func then<Value: Comparable & Sendable>(
    by path: Path<Object, Value>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts.append(Self.key(path, direction)) }
  }

  /// Returns the query with an optional property as another sort key for objects that are equal in
  /// all earlier keys.
  ///
  /// - Parameters:
  ///   - path: The property; `nil` sorts first.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  public func then<Value: Comparable & Sendable>(
    by path: Path<Object, Value?>, _ direction: SortDirection = .ascending
  ) -> Query {
    changed { $0.sorts.append(Self.key(path, direction)) }
  }

  /// Returns the query sorted by functions that compare two objects. Replaces an earlier order.
  func sorted(comparing orders: [@Sendable (Object, Object) -> Int]) -> Query {
    changed {
      $0.sorts = orders.map {
        SortKey(
          path: AnyPath(path: \Object.larderComparator), direction: .ascending, isIndexable: false,
          compare: $0, coding: nil, isOpaque: true)
      }
    }
  }

  /// Returns the query with its conditions of related objects replaced by conditions of ids.
  func resolved(_ search: RelatedSearch, _ snapshot: borrowing Snapshot) throws -> Query {
    let node = try predicate.node.resolved(search, snapshot)
    return changed {
      $0.original = predicate
      $0.predicate = ObjectPredicate(node)
    }
  }

  func searching(_ search: TextSearch) -> Query {
    changed { $0.search = $0.search?.and(search) ?? search }
  }

  func adding(_ inclusion: Inclusion<Object>) -> Query {
    changed { $0.inclusions.append(inclusion) }
  }

  func starting(_ start: QueryAnchor<Object>) -> Query { changed { $0.start = start } }

  /// Returns the query limited to a number of objects.
  ///
  /// - Parameter count: The maximum number of objects; a negative number counts as 0.
  /// - Returns: The limited query.
  public func limit(_ count: Int) -> Query { changed { $0.maximum = Swift.max(count, 0) } }

  /// Returns the query without its first objects.
  ///
  /// - Parameter count: The number of objects to skip; a negative number counts as 0.
  /// - Returns: The query.
  /// - Complexity: The query reads the skipped index entries. Prefer pages for large offsets.
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
    as path: AnyPath? = nil, _ order: @escaping @Sendable (Value, Value) -> Int
  ) -> SortKey<Object> {
    SortKey(
      path: path ?? property.erased, direction: direction, isIndexable: isIndexable,
      compare: { order(property.value(of: $0), property.value(of: $1)) },
      coding: SortCoding(property, order))
  }

  /// Returns the query with another sort key that an index contains in a form.
  func then(
    by property: PropertyPath<Object, String?>, _ direction: SortDirection, as path: AnyPath
  ) -> Query {
    changed {
      $0.sorts.append(
        Self.key(property, direction, isIndexable: true, as: path) { SortOrdering.of($0, $1) })
    }
  }

  /// Returns the query in the order of insertion.
  ///
  /// - Returns: The query without sort keys.
  package func unsorted() -> Query { changed { $0.sorts = [] } }

  /// Returns the query with a nested property as another sort key.
  ///
  /// - Parameters:
  ///   - property: The property of a property.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  package func then<Value: Comparable & Sendable>(
    by property: PredicateProperty<Object, Value>, _ direction: SortDirection
  ) -> Query {
    changed { $0.sorts.append(Self.key(property.path, direction)) }
  }

  /// Returns the query with an optional nested property as another sort key.
  ///
  /// - Parameters:
  ///   - property: The property of a property; `nil` sorts first.
  ///   - direction: The direction.
  /// - Returns: The sorted query.
  package func then<Value: Comparable & Sendable>(
    by property: PredicateProperty<Object, Value?>, _ direction: SortDirection
  ) -> Query {
    changed { $0.sorts.append(Self.key(property.path, direction)) }
  }
}

/// The cached last result of a query in this process.
final class QueryResultCache<Object: Storable>: Sendable {
  struct Result: Sendable {
    let objects: [Object]
    let context: ReferenceLoader
    let generation: Generation
    /// The stamp slots of everything the result depends on.
    let slots: [StampSlot]
    /// The commit version of the snapshot that produced the result.
    let commitVersion: UInt64
    /// The recency hashes of the objects, for a type with a budget.
    var uses: [UInt64] = []
  }

  private let last = Mutex<Result?>(nil)

  /// The cached result, or `nil` if any process has changed an object it depends on.
  var current: [Object]? {
    last.withLock { result in
      guard let result,
        !(result.context.source?.wasFollowed ?? result.context.wasLoaded),
        Mutant.memoIgnoresStamp.isActive
          || result.slots.allSatisfy({
            result.generation.isCurrent($0, since: result.commitVersion)
          })
      else {
        return nil
      }
      for hash in result.uses { result.generation.table.touchExactly(hash: hash) }
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
