// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB

/// What is loaded along with a query's objects.
struct Inclusion<Object: Storable>: Sendable {
  /// Returns what tells the children's states from others, object by object; with a source only.
  let load: @Sendable ([Object], Generation, borrowing ReadTransaction) throws -> [Int]

  init<Property: Reference>(_ path: Path<Object, Property>, in store: ObjectStore) {
    let property = PropertyPath(path)
    load = { objects, generation, transaction in
      let all = objects.map { property.value(of: $0).links.box }
      let boxes = all.filter { !$0.isLoaded }
      guard let context = all.lazy.compactMap(\.context).first else { return [] }
      boxes.forEach { $0.context?.markLoaded() }
      let collection = store.collection(Property.Target.self)
      let find = try Self.finder(collection, context, generation, transaction)
      var known: [[UInt8]: TrackedSnapshot.Child<Property.Target>] = [:]
      for box in context.source == nil ? boxes : all {
        for id in box.ids {
          let key = Array(id.utf8)
          if known[key] == nil { known[key] = try find(id, transaction) }
        }
      }
      for box in boxes {
        let children = box.ids.map { known[Array($0.utf8)]?.object }
        box.fill(
          children.compactMap { $0 }, zip(box.ids, children).compactMap { $1 == nil ? $0 : nil })
      }
      guard context.source != nil else { return [] }
      return all.map { box in
        var hasher = Hasher()
        for id in box.ids { hasher.combine(known[Array(id.utf8)]?.state) }
        return hasher.finalize()
      }
    }
  }

  private typealias Finder<Target: Storable> =
    (String, borrowing ReadTransaction) throws -> TrackedSnapshot.Child<Target>

  /// How a child is found: in the source's snapshot, or in a transaction with what it wrote.
  private static func finder<Target: Storable>(
    _ collection: ObjectCollection<Target>, _ context: ReferenceLoader, _ generation: Generation,
    _ transaction: borrowing ReadTransaction
  ) throws -> Finder<Target> {
    if let source = context.source {
      return { id, transaction in
        try source.children(collection, [id], generation, transaction)[0]
      }
    }
    let kind = collection.kind
    guard let record = try ObjectReading.type(named: kind.name, transaction) else {
      return { _, _ in .init(object: nil, state: 0) }
    }
    try kind.requireReadable(record)
    // In a transaction the children's references see its writes as well.
    let decoder =
      context.overlay.map {
        ReferenceDecoder(ReferenceLoader(store: collection.store, overlay: $0))
      }
      ?? kind.newDecoder()
    return { id, transaction in
      let item = try collection.stored(id, record.number, generation, transaction)
      return .init(object: try item.map { try kind.decode($0.stored, decoder).object }, state: 0)
    }
  }
}

extension Query {
  /// The objects together with what a reference of theirs leads to.
  ///
  /// ```swift
  /// let cars = try store.objects(Car.self).including(\.$parts).including(\.$maker).fetch()
  /// ```
  ///
  /// All of it is read in the query's own snapshot, each child once, however many refer to it.
  /// Without it each object loads its children when they are looked at. There is no depth to be
  /// chosen: children load theirs when those are looked at.
  public func including<Property: Reference>(_ path: Path<Object, Property>) -> Query {
    adding(Inclusion(path, in: store))
  }

  /// Only objects whose reference leads to an object.
  ///
  /// - Complexity: O(*k* log *n*) for *k* objects that refer to it; see `explain()`.
  public func `where`<Value: ReferenceTarget>(
    _ path: Path<Object, HasOne<Value>>, is target: Value.LinkedObject
  ) -> Query {
    self.where(PredicateProperty(path).refers(to: target))
  }

  /// Only objects one of whose references leads to an object.
  ///
  /// - Complexity: O(*k* log *n*) for *k* objects that refer to it; see `explain()`.
  public func `where`<Target: Storable>(
    _ path: Path<Object, HasMany<Target>>, contains target: Target
  ) -> Query {
    self.where(PredicateProperty(path).refers(to: target))
  }
}

extension PredicateProperty where Value: Reference {
  /// Whether the reference leads to an object: `cars.where { $0.$maker.refers(to: maker) }`.
  public func refers(to target: Value.Target) -> Predicate<Object> { refers(toID: target.id) }

  /// Whether the reference leads to the object of an id, whether there is one or not.
  public func refers(toID id: Value.Target.ID) -> Predicate<Object> {
    let path = path
    let key = ObjectTypeDescriptor<Value.Target>.bytes(of: id)
    return Predicate(
      AnyPath(path: \Object.larderReferences),
      "\(name) refers to \(ObjectTypeDescriptor<Value.Target>.text(of: id).debugDescription)",
      elementRanges: [.exactly(ReferenceIndex.prefix(Value.Target.storedName, key))],
      isExact: false
    ) { path.value(of: $0).ids.contains { Array($0.utf8) == key } }
  }
}

extension ObjectStore {
  /// The objects that refer to another by a property of theirs: the inverse of that property.
  ///
  /// ```swift
  /// let cars = try store.referrers(of: maker, in: Car.self, through: \.$maker).fetch()
  /// ```
  ///
  /// No property has to be declared for it, and it is never out of step with the property itself.
  ///
  /// - Complexity: O(*k* log *n*) for *k* objects that refer to it.
  public func referrers<Owner: Storable, Property: Reference>(
    of target: Property.Target, in owner: Owner.Type = Owner.self,
    through path: Path<Owner, Property>
  ) -> Query<Owner> {
    objects(owner).where(PredicateProperty(path).refers(to: target))
  }
}
