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
// index contains the property, every stored index is one of the program and complete, and setting a property
// runs no code of the type. The change is the same
// as of the decoded objects, which is the way of everything else: of objects in another form, of
// references, of types with a budget, and of queries with a limit.

/// The objects of a change of one property. A class, so that its code has its types at hand: generic
/// code of the transaction would look them up for each object.
private final class FieldChanges<Value> {
  private let locator: FieldLocator
  private let field: DeclaredField
  private let coder: StoredFieldCoder<Value>
  /// The number of the objects whose field was read in place.
  private(set) var count = 0
  /// The objects that change.
  private(set) var rewrites = ObjectRewrites()
  /// The objects, as they are stored, whose new values have no form of one item.
  private(set) var unencodable: [(head: StoredObjectMetadata, object: [UInt8])] = []
  private(set) var values: [Value] = []
  /// The sequences of the objects that must be decoded.
  var others: [UInt64] = []
  /// The error of the closure.
  private(set) var failure: (any Error)?

  init(_ locator: FieldLocator, _ field: DeclaredField, _ coder: StoredFieldCoder<Value>) {
    self.locator = locator
    self.field = field
    self.coder = coder
  }

  /// Changes the field of an object that was visited.
  ///
  /// - Returns: Whether to visit more objects, or `nil` if this one must be decoded.
  @_specialize(where Value == Int)
  @_specialize(where Value == Double)
  @_specialize(where Value == String)
  @_specialize(where Value == Bool)
  func take(
    _ head: StoredObjectMetadata, _ object: RawSpan, _ change: (inout Value) throws -> Void
  ) -> Bool? {
    var place = 0..<0
    var found: Value?
    switch locator.find(in: object) {
    case .found(let range): (place, found) = (range, coder.read(object.slice(range)!))
    case .missing: found = coder.readMissing(field)
    case .unclear: break
    }
    guard var value = found else { return nil }
    do {
      try change(&value)
    } catch {
      failure = error
      return false
    }
    count += 1
    guard let item = coder.item(value, field) else {
      keep(head, object, value)
      return true
    }
    if object.slice(place)!.equals(item) { return true }
    if !rewrites.append(object, head, replacing: place, with: item, locator) {
      keep(head, object, value)
    }
    return true
  }

  private func keep(_ head: StoredObjectMetadata, _ object: RawSpan, _ value: Value) {
    unencodable.append((head, object.copied()))
    values.append(value)
  }
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
      let record = try kind.readable(entries.objectType(named: kind.name)),
      kind.changesFields(property, record)
    else { return nil }
    let changes = FieldChanges(FieldLocator(field.key, record.layouts), field, coder)
    // All closures are called before the first write, as by the other way.
    var wholes = try visit(query, kind, record, changes, change)
    let count = changes.count + wholes.count
    for position in wholes.indices { try change(&wholes[position][keyPath: path]) }
    for (stored, value) in zip(changes.unencodable, changes.values) {
      // The error is that of a save.
      var whole = try decoded(stored.object, stored.head, kind, record)
      whole[keyPath: path] = value
      wholes.append(whole)
    }
    try rewrite(changes.rewrites, kind, record)
    try save(wholes)
    return count
  }

  /// Visits the objects of a query and changes the field of each that can be changed as it is stored.
  ///
  /// - Returns: The other objects, unchanged.
  private mutating func visit<Object: Storable, Value>(
    _ query: Query<Object>, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord,
    _ changes: FieldChanges<Value>, _ change: (inout Value) throws -> Void
  ) throws -> [Object] {
    let decoder = ReferenceDecoder(context())
    let version = record.version
    var wholes: [Object] = []
    try withoutActuallyEscaping(change) { change in
      try entries.withSnapshot { snapshot in
        var run = try QueryExecution(
          kind: kind, query: query, record: record, decoder, in: snapshot)
        run.plan = run.plan.unsorted
        let holds =
          run.needsFilter ? StoredFieldFilter(run.query.predicate, kind, record)?.holds : nil
        let scan = FilteredScan(
          plan: run.plan, type: record.number, needsFilter: run.needsFilter, holds: holds)
        try scan.visit(snapshot) { damage in
          kind.core.report(kind.damaged(damage))
          return true
        } cached: { _ in
          nil
        } undecoded: { head, object in
          guard head.codec == ObjectLayout.codec, head.version == version else { return nil }
          return changes.take(head, object, change)
        } _: { head, _, _, _ in
          changes.others.append(head.sequence)
          return true
        }
        if let failure = changes.failure { throw failure }
        if changes.others.isEmpty { return }
        run.plan.sequences = changes.others
        try run.visit(snapshot) { found in
          wholes.append(found.object())
          return true
        }
      }
    }
    return wholes
  }

  /// Stores objects that were changed as they are stored.
  private mutating func rewrite<Object: Storable>(
    _ rewrites: ObjectRewrites, _ kind: ObjectTypeDescriptor<Object>, _ record: ObjectTypeRecord
  ) throws {
    if rewrites.items.isEmpty { return }
    noteWrite()
    var rewrites = rewrites
    rewrites.sort()
    try entries.rewriteObjects(&rewrites, type: record.number)
    overlay.save(rewrites, of: kind.name, record.layouts)
    for item in rewrites.items where !item.isStored {
      try save(decoded(rewrites.object(item), item.head, kind, record))
    }
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
      && !skipsUnreadable
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
    // A save writes the keys of an index that is being built, or that another program declares in another way: the
    // build skips objects that were changed after it read them.
    let hasKeys = record.indexes.allSatisfy { stored in
      stored.hasAllKeys && (stored.isInternal || declared.contains { $0.isStored(as: stored) })
    }
    return layout != nil && !hasReferences && !hasObservers && !isIndexed
      && record.references == nil && record.isBounded != true && hasKeys
      && schema.withLock { $0.agreed?.isAbout(record) ?? false }
  }
}
