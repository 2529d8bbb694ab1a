// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// FROM ONE LIST TO THE NEXT
//
// Two looks at a query's result give two lists; whatever happened in between, in however many
// commits, is what differs. Objects are told apart by their ids. Those of the old list that are not
// in the new one were removed; those that are new were inserted; of the rest, a longest part that is
// in the same order in both stays where it is (found in O(n log n), by patience sorting), and the
// others were moved. So the steps are as few as can be, and exact: done to the old list they give
// the new one.

/// What happened to a query's result: the new list, and the steps that lead there from the old one.
///
/// A list view applies them in this order, as `UITableView` and `NSTableView` do in a batch: rows
/// are taken out at their places in the old list, rows are put in at their places in the new list,
/// and rows that were updated are drawn again at their places in the new list.
public struct ListChange<Object: Storable>: Sendable {
  /// An object and its place.
  public struct Step: Sendable {
    /// The object; of a removal, as it was last seen.
    public let object: Object
    /// The place: of a removal in the old list, else in the new one.
    public let offset: Int

    /// The object's id.
    public var id: Object.ID { object.id }
  }

  /// An object that is at another place than the others' order would have it.
  public struct Move: Sendable {
    /// The object as it is now.
    public let object: Object
    /// Its place in the old list.
    public let from: Int
    /// Its place in the new list.
    public let to: Int

    /// The object's id.
    public var id: Object.ID { object.id }
  }

  /// The new list.
  public let objects: [Object]
  /// Whether this is the first look: then every object is among ``inserted``.
  public let isInitial: Bool
  /// What is in the list no more, by ascending places in the old list.
  public let removed: [Step]
  /// What came into the list, by ascending places in the new list.
  public let inserted: [Step]
  /// What stayed and moved, by ascending places in the new list.
  public let moved: [Move]
  /// What stayed and was changed, by ascending places in the new list; it may have moved as well.
  public let updated: [Step]

  /// Does the steps to a list, which must be the old one.
  public func apply(to list: inout [Object]) {
    for offset in (removed.map(\.offset) + moved.map(\.from)).sorted(by: >) {
      list.remove(at: offset)
    }
    let arrivals =
      inserted.map { ($0.offset, $0.object) } + moved.map { ($0.to, $0.object) }
    for (offset, object) in arrivals.sorted(by: { $0.0 < $1.0 }) {
      list.insert(object, at: offset)
    }
    for step in updated { list[step.offset] = step.object }
  }
}

extension ListChange {
  typealias Found = QueryExecution<Object>.Found

  /// - Parameters:
  ///   - old: The list before; `nil`: this is the first look.
  ///   - isSame: Whether an object of the old list and one of the new, of one id, are in one state.
  init(from old: [Found]?, to new: [Found], isSame: (Found, Found) -> Bool) {
    objects = new.map(\.object)
    isInitial = old == nil
    let old = old ?? []
    var places: [[UInt8]: Int] = [:]
    for (offset, found) in old.enumerated() {
      places[ObjectTypeDescriptor<Object>.bytes(of: found.object.id)] = offset
    }
    var inserted: [Step] = []
    var updated: [Step] = []
    var kept: [(from: Int, to: Int)] = []
    for (offset, found) in new.enumerated() {
      let step = Step(object: found.object, offset: offset)
      guard
        let from = places.removeValue(
          forKey: ObjectTypeDescriptor<Object>.bytes(of: found.object.id))
      else {
        inserted.append(step)
        continue
      }
      kept.append((from, offset))
      if !isSame(old[from], found) { updated.append(step) }
    }
    self.inserted = inserted
    self.updated = updated
    removed = places.values.sorted().map { Step(object: old[$0].object, offset: $0) }
    let staying = Self.longestAscending(kept.map(\.from))
    moved = kept.enumerated().filter { !staying.contains($0.offset) }.map { _, place in
      Move(object: new[place.to].object, from: place.from, to: place.to)
    }
  }

  /// The positions of a longest ascending part of different numbers.
  private static func longestAscending(_ numbers: [Int]) -> Set<Int> {
    // The position of the smallest number that ends a part of each length, and what came before it.
    var ends: [Int] = []
    var before: [Int?] = []
    for (position, number) in numbers.enumerated() {
      var (low, high) = (0, ends.count)
      while low < high {
        let middle = (low + high) / 2
        if numbers[ends[middle]] < number { low = middle + 1 } else { high = middle }
      }
      before.append(low > 0 ? ends[low - 1] : nil)
      if low == ends.count { ends.append(position) } else { ends[low] = position }
    }
    var result: Set<Int> = []
    var next = ends.last
    while let position = next {
      result.insert(position)
      next = before[position]
    }
    return result
  }
}

/// The changes of a query's result, as they become: first everything that is there, then what
/// differs whenever a commit of any process changed the result.
///
/// Several commits between two looks are one change. The sequence ends with an error when the store
/// is closed, and quietly when its task is cancelled.
public struct ListChanges<Object: Storable>: AsyncSequence, Sendable {
  let query: Query<Object>

  /// One observer.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private var steps: ObservationIterator<[QueryExecution<Object>.Found]>
    private var last: [QueryExecution<Object>.Found]?
    private let kind: ObjectTypeDescriptor<Object>

    init(_ query: Query<Object>) {
      steps = query.observation.steps
      kind = query.store.kind(Object.self)
    }

    /// The next change; `nil`: the task was cancelled.
    public mutating func next() async throws -> ListChange<Object>? {
      guard let found = try await steps.next() else { return nil }
      defer { last = found }
      return ListChange(from: last, to: found, isSame: kind.isSame)
    }
  }

  /// Begins an observation of its own.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(query) }
}

extension Query {
  /// What happens to the result, step by step, for lists on a screen.
  ///
  /// ```swift
  /// var shown: [Car] = []
  /// for try await change in store.objects(Car.self).sorted(by: \.year).changes {
  ///   change.apply(to: &shown)
  ///   print(change.inserted.map(\.id), change.removed.map(\.id), change.updated.map(\.id))
  /// }
  /// ```
  ///
  /// The first element says that all objects were inserted. A change of a child that is included, or
  /// that the query judges or sorts by, is an update of the objects that show it.
  public var changes: ListChanges<Object> { ListChanges(query: self) }
}
