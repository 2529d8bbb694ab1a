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
/// Every process updates the index in the transaction that changes an object. An index that is
/// declared after objects were stored is built in the background; see
/// `ObjectStore.prepare(_:within:progress:)`.
public struct Index<Object: Storable>: Sendable {
  /// The name, unique within the type.
  public let name: String
  /// A Boolean value that indicates whether two objects must not have the same key. Any number of
  /// objects can have the key that is `nil` in every property.
  public let isUnique: Bool

  /// The properties in the order of the key.
  let paths: [AnyPath]
  /// The names of the properties as the catalog stores them.
  let fields: [String]
  /// Whether the index has one key per element of a collection.
  let isMultiple: Bool
  /// The condition of a partial index, or `nil` if the index contains all objects.
  let condition: Predicate<Object>?
  /// The definition that identifies the index among indexes of the same name.
  let definition: String
  private let makeKeys: @Sendable (Object) -> [[UInt8]]

  /// Creates an index over one property, or a compound index for queries that fix the first
  /// properties and range over the next.
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

  /// Creates a multi-key index with one key per element of a collection.
  ///
  /// - Parameters:
  ///   - name: The name, unique within the type.
  ///   - path: The collection.
  ///   - condition: The condition of a partial index. A query uses the index only if its predicate
  ///     contains the same condition.
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

  /// The reference index; the reference collector provides its keys.
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

  /// The index as the planner uses it.
  var shape: IndexShape {
    IndexShape(
      name: name, isUnique: isUnique, isMultiple: isMultiple, isReferences: isReferences,
      paths: paths, fields: fields, definition: definition,
      condition: condition.map { $0.node.isConjunction ? $0.node.comparisons : [] })
  }

  /// The error in the declaration, or `nil` if it is valid.
  var problem: String? {
    let leaves = condition?.node.allComparisons ?? []
    if fields.contains(where: AnyPath.isAnonymous)
      || leaves.contains(where: { AnyPath.isAnonymous($0.text) })
    {
      return
        "It uses a computed property without a name, which is indistinguishable from another of "
        + "its type. Name it in computedProperties."
    }
    if leaves.contains(where: { $0.constants == .unknown }) {
      return
        "Its condition compares with a constant that cannot be encoded and so cannot be "
        + "identified. Make the constant's type Codable."
    }
    return nil
  }

  /// Returns whether a stored index is this one.
  func isStored(as stored: ObjectTypeRecord.Index) -> Bool {
    stored.name == name && stored.definition == definition && stored.isUnique == isUnique
      && stored.fields == fields && stored.hasKeysOfToday
  }

  /// Returns the keys of an object in this index.
  func keys(of object: Object) -> [[UInt8]] {
    if let condition, !condition.holds(for: object) { return [] }
    return makeKeys(object)
  }

  /// Returns whether a key is `nil` in every property.
  static func isEmpty(_ key: [UInt8]) -> Bool { key.allSatisfy { $0 == 0 } }
}
