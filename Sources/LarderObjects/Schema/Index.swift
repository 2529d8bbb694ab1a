// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine

/// An index over one or several properties of a stored type.
///
/// ```swift
/// static let indexes = [
///   Index("model", \Car.model),
///   Index("plate", \Car.plate, unique: true),
///   Index("owner and year", \Car.owner, \Car.year),
///   Index("tag", each: \Car.tags),
///   Index("open", \Car.year, where: \Car.sold == false),
/// ]
/// ```
///
/// Every process keeps it, in the transaction that changes the object.
public struct Index<Object: Storable>: Sendable {
  /// The name, one of its own within the type.
  public let name: String
  /// Whether no two objects may have the same key. A key without any value, `nil` in every
  /// property, may be had by many.
  public let isUnique: Bool

  /// The properties, in the order of the key.
  let paths: [AnyPath]
  /// Their names, as the catalog has them.
  let fields: [String]
  /// Whether an object has one key an element of a collection.
  let isMultiple: Bool
  /// Only objects for which this holds are in the index.
  let condition: Predicate<Object>?
  /// What tells this index from another of the same name.
  let definition: String
  private let makeKeys: @Sendable (Object) -> [[UInt8]]

  /// An index over one property, or over several for queries that fix the first ones and range over
  /// the next.
  ///
  /// - Parameters:
  ///   - name: The name of the index, unique among those of the type.
  ///   - path: The properties, in the order of the keys.
  ///   - unique: Whether two objects may not have the same key.
  ///   - condition: Which objects are in the index; a query uses it only if it demands the same.
  public init<each Value: IndexValue>(
    _ name: String, _ path: repeat Path<Object, each Value>, unique: Bool = false,
    where condition: Predicate<Object>? = nil
  ) {
    self.name = name
    isUnique = unique
    isMultiple = false
    self.condition = condition
    var paths: [AnyPath] = []
    var types: [String] = []
    for path in repeat each path { paths.append(AnyPath(path: path)) }
    for type in repeat (each Value).self { types.append("\(type)") }
    self.paths = paths
    fields = paths.map { $0.name(in: Object.self) }
    definition = Self.definition(types, "", condition)
    makeKeys = { object in
      var encoder = IndexKeyEncoder()
      for path in repeat each path { object[keyPath: path].encodeIndexKey(into: &encoder) }
      return [encoder.bytes]
    }
  }

  /// An index with one key for each element of a collection.
  public init<Elements: Collection & Sendable>(
    _ name: String, each path: Path<Object, Elements>,
    where condition: Predicate<Object>? = nil
  ) where Elements.Element: IndexValue {
    self.name = name
    isUnique = false
    isMultiple = true
    paths = [AnyPath(path: path)]
    fields = paths.map { $0.name(in: Object.self) }
    self.condition = condition
    definition = Self.definition(["\(Elements.Element.self)"], "each ", condition)
    makeKeys = { object in
      var seen: Set<[UInt8]> = []
      return object[keyPath: path].map(\.indexKey).filter { seen.insert($0).inserted }
    }
  }

  /// The index kept of references; its keys are not made here.
  static var references: Index { Index() }

  private init() {
    name = ReferenceIndex.name
    isUnique = false
    isMultiple = true
    condition = nil
    paths = [AnyPath(path: \Object.larderReferences)]
    fields = []
    definition = ""
    makeKeys = { _ in [] }
  }

  var isReferences: Bool { name == ReferenceIndex.name }

  private static func definition(
    _ types: [String], _ prefix: String, _ condition: Predicate<Object>?
  ) -> String {
    prefix + types.joined(separator: ", ")
      + (condition.map { " where \($0.identity(withOrigins: false))" } ?? "")
  }

  /// What the planner looks at.
  var shape: IndexShape {
    IndexShape(
      name: name, isUnique: isUnique, isMultiple: isMultiple, isReferences: isReferences,
      paths: paths, fields: fields, definition: definition,
      condition: condition.map { $0.node.isConjunction ? $0.node.comparisons : [] })
  }

  /// What is wrong with the declaration; `nil`: nothing.
  var flaw: String? {
    let leaves = condition?.node.allComparisons ?? []
    if fields.contains(where: AnyPath.isAnonymous)
      || leaves.contains(where: { AnyPath.isAnonymous($0.text) })
    {
      return
        "It uses a computed property without a name, which could not be told from another of its "
        + "type. Name it in computedProperties."
    }
    if leaves.contains(where: { $0.constants == .unknown }) {
      return
        "Its condition compares with a constant that cannot be encoded, so it could not be told "
        + "from another. Make the constant's type Codable."
    }
    return nil
  }

  /// Whether what is stored as an index is this one.
  func isStored(as stored: ObjectTypeRecord.Index) -> Bool {
    stored.name == name && stored.definition == definition && stored.isUnique == isUnique
      && stored.fields == fields && stored.hasKeysOfToday
  }

  /// The keys an object has in this index.
  func keys(of object: Object) -> [[UInt8]] {
    if let condition, !condition.holds(for: object) { return [] }
    return makeKeys(object)
  }

  /// Whether a key has no value in any property.
  static func isEmpty(_ key: [UInt8]) -> Bool { key.allSatisfy { $0 == 0 } }
}
