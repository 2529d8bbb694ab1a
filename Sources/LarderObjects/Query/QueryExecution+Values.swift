// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

extension QueryExecution {
  /// Whether the query reads no more of an object than its own fields.
  private var needsOnlyFields: Bool {
    // A type with a budget needs the ids, to record the use of the objects.
    query.start == nil && record.references == nil && record.isBounded != true
      && !query.skipsUnreadable
  }

  /// Reads a row of each matching object, in the query's order, without decoding the objects.
  ///
  /// - Returns: The rows, or `nil` if the query needs the objects: to sort them, or because the type
  ///   does not declare the fields.
  func rows<Row>(
    _ reader: RowReader<Object, Row>, _ snapshot: borrowing Snapshot
  ) throws -> [Row]? {
    guard needsOnlyFields, query.sorts.isEmpty || plan.isSorted,
      let stored = reader.stored?(record.layouts)
    else {
      return nil
    }
    let wanted = query.wanted
    if wanted == 0 { return [] }
    guard plan.isSorted else { return try sortedRows(stored, reader.decoded, snapshot) }
    var rows: [Row] = []
    do {
      try visit(snapshot) { _, bytes in
        guard let row = stored(bytes) else { return nil }
        rows.append(row)
        return rows.count < wanted
      } _: { found in
        rows.append(reader.decoded(found.object()))
        return rows.count < wanted
      }
    } catch is QueryPlan.TruncatedKey {
      return nil
    }
    return query.skipped == 0 ? rows : Array(rows.dropFirst(query.skipped))
  }

  /// Reads the rows of a scan in another order, and sorts them in the order of insertion.
  private func sortedRows<Row>(
    _ stored: @escaping @Sendable (RawSpan) -> Row?, _ decoded: @Sendable (Object) -> Row,
    _ snapshot: borrowing Snapshot
  ) throws -> [Row] {
    var found: [(sequence: UInt64, row: Row)] = []
    try visit(snapshot) { head, bytes in
      guard let row = stored(bytes) else { return nil }
      found.append((head.sequence, row))
      return true
    } _: { object in
      found.append((object.sequence, decoded(object.object())))
      return true
    }
    found.sort { $0.sequence < $1.sequence }
    let count = max(query.wanted - query.skipped, 0)
    return found.dropFirst(query.skipped).prefix(count).map { $0.row }
  }

  /// Whether a scan in any order is one in the order of the query.
  private var isInOrder: Bool { query.sorts.isEmpty && query.search == nil && plan.scan == nil }

  /// Passes each matching object to `stored` as it is stored, in any order, and decodes it for
  /// `decoded` if that returns `false`.
  ///
  /// - Returns: `false` if the query needs the objects, or an order that matters; nothing was passed.
  private func fold(
    _ snapshot: borrowing Snapshot, _ stored: @escaping (RawSpan) -> Bool,
    _ decoded: (Object) -> Void
  ) throws -> Bool {
    guard needsOnlyFields, query.maximum == nil, query.skipped == 0 else { return false }
    // The order of the keys does not matter.
    var run = self
    run.plan = plan.unsorted
    try run.visit(snapshot) { _, bytes in
      stored(bytes) ? true : nil
    } _: { found in
      decoded(found.object())
      return true
    }
    return true
  }

  /// Adds a property of all matching objects to a reduction, without decoding the objects.
  ///
  /// - Returns: `false` if the query needs the objects, or an order that matters.
  func fold<Value>(
    _ property: PropertyPath<Object, Value>, into reduction: FieldReduction<Value>,
    _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    guard let reader = StoredFieldCoder.of(Value.self), let field = kind.fields[property.erased],
      !reduction.dependsOnOrder || isInOrder
    else { return false }
    let missing = reader.readMissing(field)
    let stored = Self.receiving(FieldLocator(field.key, record.layouts), reduction) {
      missing.map(reduction.add) != nil
    }
    return try fold(snapshot, stored) { reduction.add(property.value(of: $0)) }
  }

  /// Returns a function that adds a field of an object, without generic code.
  private static func receiving(
    _ locator: FieldLocator, _ receiver: FieldReceiver, addMissing: @escaping () -> Bool
  ) -> (RawSpan) -> Bool {
    { object in
      switch locator.find(in: object) {
      case .found(let range): receiver.add(stored: object.slice(range)!)
      case .missing: addMissing()
      case .unclear: false
      }
    }
  }

  /// Adds a property of all matching objects to the reduction of each object's group, without
  /// decoding the objects.
  ///
  /// - Parameter property: The property, or `nil` if the reductions count.
  /// - Returns: `false` if the query needs the objects, or an order that matters.
  func fold<Key, Value, Reduction>(
    _ key: PropertyPath<Object, Key>, _ property: PropertyPath<Object, Value>?,
    into groups: GroupReductions<Key, Value, Reduction>, _ snapshot: borrowing Snapshot
  ) throws -> Bool {
    guard let keyReader = StoredFieldCoder.of(Key.self), let keyField = kind.fields[key.erased],
      let reader = StoredFieldCoder.of(Value.self)
    else { return false }
    let field = property.flatMap { kind.fields[$0.erased] }
    if property != nil, field == nil { return false }
    let missing = field.flatMap(reader.readMissing)
    let grouping = StoredGrouping(
      key: FieldLocator(keyField.key, record.layouts),
      value: field.map { FieldLocator($0.key, record.layouts) }
    ) { form in
      let key: Key?
      if let form { key = keyReader.read(form) } else { key = keyReader.readMissing(keyField) }
      // Not-a-number equals nothing: each is a group, as in a dictionary.
      guard let key, key == key else { return nil }
      let group = groups.group(of: key)
      return (group, groups[group])
    } addMissing: { group in
      missing.map(groups[group].add) != nil
    }
    return try fold(snapshot, grouping.add) { object in
      groups.add(key.value(of: object), property?.value(of: object))
    }
  }
}
