// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// FROM ONE LIST TO THE NEXT
//
// Two reads of a query's result produce two lists, and their difference is the change, independent
// of the number of commits between them. Objects are identified by their ids. Objects of the old
// list that are missing in the new one were removed; new ones were inserted; of the rest, a longest
// subsequence in the same relative order stays in place (found in O(n log n) by patience sorting),
// and the others were moved. So the number of steps is minimal, and the steps are exact: applied to
// the old list, they produce the new one.

/// A change of a query's result: the new list, and the steps from the old list to the new one.
///
/// A list view applies them in this order, as `UITableView` and `NSTableView` do in a batch: it
/// removes rows at their offsets in the old list, inserts rows at their offsets in the new list,
/// and redraws updated rows at their offsets in the new list.
public struct ListChange<Object: Storable>: Sendable {
  /// An object and its offset.
  public struct Step: Sendable {
    /// The object; for a removal, its last observed state.
    public let object: Object
    /// The offset: of a removal in the old list, otherwise in the new list.
    public let offset: Int

    /// The object's id.
    public var id: Object.ID { object.id }
  }

  /// An object that changed its position relative to the others.
  public struct Move: Sendable {
    /// The object in its new state.
    public let object: Object
    /// The offset in the old list.
    public let from: Int
    /// The offset in the new list.
    public let to: Int

    /// The object's id.
    public var id: Object.ID { object.id }
  }

  /// The new list.
  public let objects: [Object]
  /// A Boolean value that indicates whether this is the first change, in which ``inserted``
  /// contains every object.
  public let isInitial: Bool
  /// The removed objects, by ascending offset in the old list.
  public let removed: [Step]
  /// The inserted objects, by ascending offset in the new list.
  public let inserted: [Step]
  /// The moved objects, by ascending offset in the new list.
  public let moved: [Move]
  /// The updated objects, by ascending offset in the new list. An updated object may also be in
  /// ``moved``.
  public let updated: [Step]

  /// Applies the change to a list.
  ///
  /// - Parameter list: The old list, which becomes the new one.
  /// - Complexity: O(*n*) in the length of the lists.
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
  /// Computes the change between two lists.
  ///
  /// - Parameters:
  ///   - old: The previous list, or `nil` for the first read.
  ///   - isSame: Returns whether an old and a new object with the same id have the same state.
  init(from old: [FoundObject]?, to new: [FoundObject], isSame: (FoundObject, FoundObject) -> Bool)
  {
    objects = new.map { $0.object() }
    isInitial = old == nil
    let old = old ?? []
    var places: [[UInt8]: Int] = [:]
    for (offset, found) in old.enumerated() {
      places[ObjectTypeDescriptor<Object>.bytes(of: found.object(as: Object.self).id)] = offset
    }
    var inserted: [Step] = []
    var updated: [Step] = []
    var kept: [(from: Int, to: Int)] = []
    for (offset, found) in new.enumerated() {
      let step = Step(object: found.object(), offset: offset)
      guard
        let from = places.removeValue(
          forKey: ObjectTypeDescriptor<Object>.bytes(of: found.object(as: Object.self).id))
      else {
        inserted.append(step)
        continue
      }
      kept.append((from, offset))
      if !isSame(old[from], found) { updated.append(step) }
    }
    self.inserted = inserted
    self.updated = updated
    removed = places.values.sorted().map { Step(object: old[$0].object(), offset: $0) }
    let staying = Self.longestAscending(kept.map(\.from))
    moved = kept.enumerated().filter { !staying.contains($0.offset) }.map { _, place in
      Move(object: new[place.to].object(), from: place.from, to: place.to)
    }
  }

  /// Returns the positions of a longest ascending subsequence of distinct numbers.
  private static func longestAscending(_ numbers: [Int]) -> Set<Int> {
    // For each length, the position of the smallest number that ends a subsequence, and its
    // predecessor.
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

/// The sequence of changes of a query's result: first the complete list, then one change whenever a
/// commit of any process changes the result.
///
/// The sequence coalesces: several commits between two reads are one change. It throws if the store
/// is closed, and ends if its task is cancelled.
public struct ListChanges<Object: Storable>: AsyncSequence, Sendable {
  let query: Query<Object>

  /// The iterator of one observer.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private var steps: ObservationIterator<[FoundObject]>
    private var last: [FoundObject]?
    private let kind: ObjectTypeDescriptor<Object>

    init(_ query: Query<Object>) {
      steps = query.observation.steps
      kind = query.store.kind(Object.self)
    }

    /// Waits for the next change.
    ///
    /// - Returns: The change, or `nil` if the task was cancelled.
    /// - Throws: `StoreError` if the store is closed; the errors of `Query.fetch()`.
    public mutating func next() async throws -> ListChange<Object>? {
      guard let found = try await steps.next() else { return nil }
      defer { last = found }
      return ListChange(from: last, to: found, isSame: kind.isSame)
    }
  }

  /// Creates an independent observer.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(query) }
}

extension Query {
  /// The changes of the result, step by step, for list views.
  ///
  /// ```swift
  /// var shown: [Car] = []
  /// for try await change in store.objects(Car.self).sorted(by: \.year).changes {
  ///   change.apply(to: &shown)
  ///   print(change.inserted.map(\.id), change.removed.map(\.id), change.updated.map(\.id))
  /// }
  /// ```
  ///
  /// The first element contains all objects as inserted. A change of a child that the query
  /// includes, filters by or sorts by is an update of the objects that show it.
  public var changes: ListChanges<Object> { ListChanges(query: self) }
}
