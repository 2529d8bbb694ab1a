// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// CHANGES OF ONE PROPERTY
//
// A change of one property of many objects decodes none of them if the type declares its schema, no
// index contains the property, and setting a property runs no code of the type. The change is the same
// as of the decoded objects, which is the way of everything else: of objects in another form, of
// references, of types with a budget, and of queries with a limit.

/// The objects of a change of one property.
private struct FieldChanges<Object: Storable> {
  /// The objects that are changed as they are stored.
  var stored: [(head: StoredObjectMetadata, object: [UInt8])] = []
  /// The objects that must be decoded.
  var decoded: [Object] = []
}

extension ObjectTransaction {
  /// Changes a property of the objects of a query.
  ///
  /// - Parameters:
  ///   - query: The query, which sees the writes of this transaction.
  ///   - path: The property.
  ///   - change: Changes a value of the property.
  /// - Returns: The number of matching objects.
  /// - Throws: The errors of `Query.update(_:)`.
  /// - Complexity: O(*n*) memory in the number of matching objects.
  @discardableResult
  public mutating func update<Object: Storable, Value: Sendable>(
    _ query: Query<Object>, _ path: any (WritableKeyPath<Object, Value> & Sendable),
    _ change: (inout Value) throws -> Void
  ) throws -> Int {
    try operation(on: Object.storedName) { transaction in
      if let count = try transaction.updateFields(query, path, change) { return count }
      return try transaction.update(query) { try change(&$0[keyPath: path]) }
    }
  }

  /// Changes the property without decoding the objects.
  ///
  /// - Returns: The number of matching objects, or `nil` if they must be decoded.
  private mutating func updateFields<Object: Storable, Value: Sendable>(
    _ query: Query<Object>, _ path: any (WritableKeyPath<Object, Value> & Sendable),
    _ change: (inout Value) throws -> Void
  ) throws -> Int? {
    let kind = store.kind(Object.self)
    let property = AnyPath(path: path)
    guard let field = kind.fields[property], property != AnyPath(path: \Object.id),
      let coder = StoredFieldCoder.of(Value.self), query.canUpdateFields,
      let record = try entries.objectType(named: kind.name), kind.changesFields(property, record)
    else { return nil }
    try kind.requireReadable(record)
    let locator = FieldLocator(field.key, record.layouts)
    var changes = try fieldChanges(of: query, locator, kind, record)
    let count = changes.stored.count + changes.decoded.count
    // All closures are called before the first write, as by the other way.
    var replaced: [(head: StoredObjectMetadata, object: [UInt8])] = []
    replaced.reserveCapacity(changes.stored.count)
    var wholes: [Object] = []
    for (head, object) in changes.stored {
      guard var value = Self.value(in: object, locator, field, coder) else {
        changes.decoded.append(try decoded(object, head, kind, record))
        continue
      }
      try change(&value)
      guard let item = coder.item(value, field),
        let new = locator.replacing(with: item, in: object)
      else {
        // The value has no form of one item: the error is that of a save.
        wholes.append(try decoded(object, head, kind, record))
        wholes[wholes.count - 1][keyPath: path] = value
        continue
      }
      if new != object { replaced.append((head, new)) }
    }
    for position in changes.decoded.indices {
      try change(&changes.decoded[position][keyPath: path])
    }
    for (head, object) in replaced { try rewrite(object, head, kind, record) }
    try save(changes.decoded + wholes)
    return count
  }

  /// Returns the matching objects of a query.
  private mutating func fieldChanges<Object: Storable>(
    of query: Query<Object>, _ locator: FieldLocator, _ kind: ObjectTypeDescriptor<Object>,
    _ record: ObjectTypeRecord
  ) throws -> FieldChanges<Object> {
    let decoder = ReferenceDecoder(context())
    var changes = FieldChanges<Object>()
    try entries.withSnapshot { snapshot in
      var run = try QueryExecution(
        kind: kind, query: query, record: record, decoder, in: snapshot)
      run.plan = run.plan.unsorted
      try run.visit(snapshot) { head, object in
        guard head.codec == ObjectLayout.codec, head.version == record.version else { return nil }
        changes.stored.append((head, object.copied()))
        return true
      } _: { found in
        changes.decoded.append(found.object())
        return true
      }
    }
    return changes
  }

  /// Returns the value of the field of an object, or `nil` if the object must be decoded for it.
  private static func value<Value>(
    in object: [UInt8], _ locator: FieldLocator, _ field: DeclaredField,
    _ coder: StoredFieldCoder<Value>
  ) -> Value? {
    object.withRawSpan { object in
      switch locator.find(in: object) {
      case .found(let range): coder.read(object.slice(range)!)
      case .missing: coder.readMissing(field)
      case .unclear: nil
      }
    }
  }

  /// Stores an object that was changed as it is stored.
  private mutating func rewrite<Object: Storable>(
    _ object: [UInt8], _ head: StoredObjectMetadata, _ kind: ObjectTypeDescriptor<Object>,
    _ record: ObjectTypeRecord
  ) throws {
    noteWrite()
    let id = try entries.rewriteObject(object, type: record.number, sequence: head.sequence)
    guard let id else { return try save(decoded(object, head, kind, record)) }
    overlay.save(ObjectIdentity(type: kind.name, id: id), object, record.layouts)
  }

  private func decoded<Object: Storable>(
    _ object: [UInt8], _ head: StoredObjectMetadata, _ kind: ObjectTypeDescriptor<Object>,
    _ record: ObjectTypeRecord
  ) throws -> Object {
    let decoder = ReferenceDecoder(context())
    return ObjectTypeDescriptor.object(
      of: try kind.decode(object, head, id: RawSpan(), record, decoder, ObjectBox()))
  }
}

extension Query {
  /// Whether a change of one property may visit the matching objects in any order.
  fileprivate var canUpdateFields: Bool {
    maximum == nil && skipped == 0 && start == nil && search == nil && inclusions.isEmpty
  }
}

extension ObjectTypeDescriptor {
  /// Whether a change of a property changes nothing else of an object.
  fileprivate func changesFields(_ property: AnyPath, _ record: ObjectTypeRecord) -> Bool {
    // An index with a condition, or of a computed property, may depend on any property.
    let isIndexed = declared.contains { index in
      index.condition != nil
        || !index.shape.paths.allSatisfy { $0 != property && fields[$0] != nil }
    }
    return layout != nil && !hasReferences && !hasObservers && !isIndexed
      && record.references == nil && record.isBounded != true
      && undeclaredIndexes(of: record).isEmpty
      && schema.withLock { $0.agreed?.isAbout(record) ?? false }
  }
}
