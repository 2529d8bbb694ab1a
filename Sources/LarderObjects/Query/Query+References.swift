// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

/// A reference whose objects a query loads together with its own.
struct Inclusion<Object: Storable>: Sendable {
  /// Loads the children. With a source, returns a hash of the children's states for each object. The last
  /// argument gets the error of each child that cannot be read, and throws it or returns; the references
  /// to the child then stay unloaded.
  let load:
    @Sendable (
      [Object], borrowing Snapshot, (any Error) throws -> Void
    ) throws -> [Int]

  init<Property: Reference>(_ path: Path<Object, Property>, in store: ObjectStore) {
    let property = PropertyPath(path)
    load = { objects, snapshot, receive in
      let all = objects.map { property.value(of: $0).links.box }
      let boxes = all.filter { !$0.isLoaded }
      guard let context = all.lazy.compactMap(\.context).first else { return [] }
      boxes.forEach { $0.context?.markLoaded() }
      let collection = store.collection(Property.Target.self)
      let find = try Self.finder(collection, context, snapshot)
      var known: [[UInt8]: TrackedSnapshot.Child<Property.Target>] = [:]
      var failed: Set<String> = []
      for box in context.source == nil ? boxes : all {
        for id in box.ids where !failed.contains(id) {
          let key = Array(id.utf8)
          if known[key] != nil { continue }
          do {
            known[key] = try find(id, snapshot)
          } catch {
            try receive(error)
            failed.insert(id)
          }
        }
      }
      for box in boxes where failed.isEmpty || !box.ids.contains(where: failed.contains) {
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
    (String, borrowing Snapshot) throws -> TrackedSnapshot.Child<Target>

  /// Returns the function that finds a child: in the snapshot of the source, or in a transaction
  /// with its uncommitted writes.
  private static func finder<Target: Storable>(
    _ collection: ObjectCollection<Target>, _ context: ReferenceLoader,
    _ snapshot: borrowing Snapshot
  ) throws -> Finder<Target> {
    if let source = context.source {
      return { id, snapshot in
        try source.children(collection, [id], snapshot)[0]
      }
    }
    let kind = collection.kind
    guard let record = try kind.readable(ObjectReading.type(named: kind.name, snapshot)) else {
      return { _, _ in .init(object: nil, state: 0) }
    }
    // In a transaction, the references of the children load its uncommitted writes as well.
    let decoder =
      context.overlay.map {
        ReferenceDecoder(ReferenceLoader(store: collection.store, overlay: $0))
      }
      ?? kind.newDecoder()
    return { id, snapshot in
      guard let item = try collection.stored(id, record.number, snapshot) else {
        return .init(object: nil, state: 0)
      }
      let object = try kind.decode(item.stored, decoder).object
      let identity = ObjectIdentity(type: kind.name, id: item.stored.id)
      if context.overlay?.hasChanged(identity) != true { kind.noteRead(object, item.stored) }
      return .init(object: object, state: 0)
    }
  }
}

extension Query {
  /// Returns the query with the objects of a reference loaded in the same snapshot.
  ///
  /// ```swift
  /// let cars = try store.objects(Car.self).including(\.$parts).including(\.$maker).fetch()
  /// ```
  ///
  /// The query reads each child once, independent of the number of its referrers. Without
  /// inclusion, each object loads its children on first access. An inclusion covers one level: the
  /// children load their own references on first access.
  ///
  /// - Parameter path: The reference.
  /// - Returns: The query.
  public func including<Property: Reference>(_ path: Path<Object, Property>) -> Query {
    adding(Inclusion(path, in: store))
  }

  /// Returns the query restricted to objects whose reference leads to an object.
  ///
  /// - Complexity: O(*k* log *n*) for *k* objects that refer to it; see `explain()`.
  public func `where`<Value: ReferenceTarget>(
    _ path: Path<Object, HasOne<Value>>, is target: Value.LinkedObject
  ) -> Query {
    self.where(PredicateProperty(path).refers(to: target))
  }

  /// Returns the query restricted to objects with at least one reference to an object.
  ///
  /// - Complexity: O(*k* log *n*) for *k* objects that refer to it; see `explain()`.
  public func `where`<Target: Storable>(
    _ path: Path<Object, HasMany<Target>>, contains target: Target
  ) -> Query {
    self.where(PredicateProperty(path).refers(to: target))
  }
}

extension PredicateProperty where Value: Reference {
  /// Returns a predicate that matches objects whose reference leads to an object: `cars.where {
  /// $0.$maker.refers(to: maker) }`.
  ///
  /// - Parameter target: The object referred to; only its id is used.
  /// - Returns: The predicate.
  public func refers(to target: Value.Target) -> ObjectPredicate<Object> { refers(toID: target.id) }

  /// Returns a predicate that matches objects whose reference leads to an id. The object of the id
  /// need not exist.
  ///
  /// - Parameter id: The id referred to.
  /// - Returns: The predicate.
  public func refers(toID id: Value.Target.ID) -> ObjectPredicate<Object> {
    let path = path
    let key = ObjectTypeDescriptor<Value.Target>.bytes(of: id)
    return ObjectPredicate(
      AnyPath(path: \Object.larderReferences),
      "\(name) refers to \(ObjectTypeDescriptor<Value.Target>.text(of: id).debugDescription)",
      elementRanges: [.exactly(ReferenceIndex.prefix(Value.Target.storedName, key))],
      isExact: false
    ) { path.value(of: $0).ids.contains { Array($0.utf8) == key } }
  }
}

extension PredicateProperty where Value: Reference {
  /// Returns a predicate that matches objects whose reference leads to an object with a condition:
  /// `$0.$friends.contains { $0.age > 20 }`. See ``PredicateProperty/contains(_:)-(Element)``.
  ///
  /// - Parameter build: A closure that returns the condition of the object referred to.
  /// - Returns: The predicate.
  /// - Throws: The errors of `build`.
  public func contains<Term: PredicateTerm>(
    _ build: (PredicateRoot<Value.Target>) throws -> Term
  ) rethrows -> ObjectPredicate<Object> where Term.Object == Value.Target {
    let path = path
    return .related(path, try build(PredicateRoot()).asPredicate) {
      path.value(of: $0).links.box.objects()
    }
  }
}

extension PredicateProperty where Value: Collection, Value.Element: Storable {
  /// Returns a predicate that matches objects with a related object that has a condition.
  ///
  /// ```swift
  /// let people = store.objects(Person.self).where { $0.friends.contains { $0.age > 20 } }
  /// ```
  ///
  /// If the macro `@Storable` declares the property as a reference, the query searches the related
  /// objects first, with the indexes of their type, and finds the objects that refer to them in the
  /// reference index. Otherwise it evaluates the condition on the decoded objects. `explain()` shows
  /// both searches.
  ///
  /// - Parameter build: A closure that returns the condition of the related object.
  /// - Returns: The predicate.
  /// - Throws: The errors of `build`.
  public func contains<Term: PredicateTerm>(
    _ build: (PredicateRoot<Value.Element>) throws -> Term
  ) rethrows -> ObjectPredicate<Object> where Term.Object == Value.Element {
    let path = path
    return .related(path, try build(PredicateRoot()).asPredicate) { Array(path.value(of: $0)) }
  }
}

extension ObjectStore {
  /// Returns a query for the objects that refer to another through a property: the inverse of that
  /// property.
  ///
  /// ```swift
  /// let cars = try store.referrers(of: maker, in: Car.self, through: \.$maker).fetch()
  /// ```
  ///
  /// The query uses the reference index, which every write updates in its own transaction. The
  /// inverse needs no declaration and always matches the property.
  ///
  /// - Parameters:
  ///   - target: The object referred to; only its id is used.
  ///   - owner: The type of the referrers.
  ///   - path: The property with the reference.
  /// - Returns: The query.
  /// - Complexity: When the query runs, O(*k* log *n*) for *k* referrers.
  public func referrers<Owner: Storable, Property: Reference>(
    of target: Property.Target, in owner: Owner.Type = Owner.self,
    through path: Path<Owner, Property>
  ) -> Query<Owner> {
    objects(owner).where(PredicateProperty(path).refers(to: target))
  }
}
