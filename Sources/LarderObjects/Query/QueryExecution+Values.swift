// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem

extension QueryExecution {
  /// Reads the values of a property from the stored fields, without decoding the objects.
  ///
  /// - Returns: The values, or `nil` if the query needs the objects: to sort them, or because the
  ///   type does not declare the field of the property.
  func fieldValues<Value>(
    of property: PropertyPath<Object, Value>, _ snapshot: borrowing Snapshot
  ) throws -> [Value]? {
    // A type with a budget needs the ids, to record the use of the objects.
    guard query.start == nil, query.sorts.isEmpty || plan.isSorted, record.references == nil,
      record.isBounded != true,
      !kind.fields.isEmpty, let scalar = Value.self as? any StoredScalar.Type
    else { return nil }
    return try fieldValues(opening: scalar, property, snapshot)
  }

  private func fieldValues<Scalar: StoredScalar, Value>(
    opening type: Scalar.Type, _ property: PropertyPath<Object, Value>,
    _ snapshot: borrowing Snapshot
  ) throws -> [Value]? {
    guard let path = property as? PropertyPath<Object, Scalar>,
      let field = kind.fields[path.erased]
    else { return nil }
    func value(_ object: RawSpan) -> Scalar? {
      switch StoredField.find(field.key, in: object) {
      case .found(let range): Scalar.read(object.slice(range)!)
      case .missing: field.valueWithoutField()
      case .unclear: nil
      }
    }
    let wanted = query.wanted
    if wanted == 0 { return [] }
    var found: [(sequence: UInt64, value: Scalar)] = []
    func add(_ sequence: UInt64, _ value: Scalar) -> Bool {
      found.append((sequence, value))
      return !plan.isSorted || found.count < wanted
    }
    do {
      try visit(
        snapshot,
        undecoded: { head, object in value(object).map { add(head.sequence, $0) } }
      ) { add($0.sequence, path.value(of: $0.object)) }
    } catch is QueryPlan.TruncatedKey {
      return nil
    }
    if !plan.isSorted { found.sort { $0.sequence < $1.sequence } }
    let values = found.dropFirst(query.skipped).prefix(max(wanted - query.skipped, 0))
      .map { $0.value }
    return values as? [Value]
  }
}
