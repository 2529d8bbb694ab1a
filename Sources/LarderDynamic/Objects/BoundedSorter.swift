// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

/// The numbers of objects, to be put in order by some of their values: all of them, or the first so
/// many, in a heap whose top is the last of them.
struct BoundedSorter {
  private struct Row {
    let values: [ComparableValue]
    let sequence: UInt64
  }

  private let fields: [SortField]
  private let limit: Int?
  private var rows: [Row] = []

  init(_ fields: [SortField], keeping limit: Int?) {
    self.fields = fields
    self.limit = limit
  }

  mutating func add(_ object: DynamicObject) {
    let row = Row(
      values: fields.map { ComparableValue($0.path.value(in: object.value)) },
      sequence: object.sequence)
    guard let limit else {
      rows.append(row)
      return
    }
    if rows.count < limit {
      rows.append(row)
      rise()
    } else if !rows.isEmpty, precedes(row, rows[0]) {
      rows[0] = row
      sink()
    }
  }

  /// The numbers in order.
  func sequences() -> [UInt64] { rows.sorted(by: precedes).map(\.sequence) }

  /// Ties are in the order of insertion, turned round with the first key, as an index has them.
  private func precedes(_ left: Row, _ right: Row) -> Bool {
    for (position, field) in fields.enumerated() {
      let order = left.values[position].sorts(before: right.values[position])
      if order != 0 { return field.isDescending ? order > 0 : order < 0 }
    }
    return fields.first?.isDescending ?? false
      ? left.sequence > right.sequence : left.sequence < right.sequence
  }

  // MARK: The heap

  private mutating func rise() {
    var child = rows.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard precedes(rows[parent], rows[child]) else { return }
      rows.swapAt(parent, child)
      child = parent
    }
  }

  private mutating func sink() {
    var parent = 0
    while true {
      var last = parent
      for child in [2 * parent + 1, 2 * parent + 2]
      where child < rows.count && precedes(rows[last], rows[child]) { last = child }
      guard last != parent else { return }
      rows.swapAt(parent, last)
      parent = last
    }
  }
}
