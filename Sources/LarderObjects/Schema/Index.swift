// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine
internal import LarderObjectEngine

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
  public var name: String { shape.name }
  /// A Boolean value that indicates whether two objects must not have the same key. Any number of
  /// objects can have the key that is `nil` in every property.
  public var isUnique: Bool { shape.isUnique }

  /// The declaration as the planner uses it.
  private(set) var shape: IndexShape
  /// The condition of a partial index, or `nil` if the index contains all objects.
  let condition: ObjectPredicate<Object>?
  private let makeKeys: @Sendable (Object) -> [[UInt8]]
  /// The texts of a full-text index; `nil` for all others.
  private var texts: (@Sendable (Object) -> [String])?

  /// The names of the properties, once the index is ``defined(by:)`` a schema.
  var fields: [String] { shape.fields }
  var definition: String { shape.definition }

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
    where condition: ObjectPredicate<Object>? = nil
  ) {
    var paths: [AnyPath] = []
    var types: [String] = []
    for path in repeat each path { paths.append(AnyPath(path: path)) }
    for type in repeat (each Value).self { types.append(IndexedTypeName.of(type)) }
    let shape = Self.shape(name, paths, types.joined(separator: ", "), unique: unique, condition)
    self.init(shape, condition) { object in
      var encoder = IndexKeyEncoder()
      for path in repeat each path { object[keyPath: path].encodeIndexKey(into: &encoder) }
      return [encoder.bytes]
    }
  }

  /// Creates an index over properties in several orders, or without regard to case.
  ///
  /// ```swift
  /// Index("newest", .ascending(\Car.model), .descending(\Car.year))
  /// Index("owner", .ignoringCase(\Car.owner))
  /// ```
  ///
  /// - Parameters:
  ///   - name: The name of the index, unique among those of the type.
  ///   - parts: The properties, in the order of the keys. The index is read in both directions, so
  ///     only the directions relative to the first property matter.
  ///   - unique: Whether two objects may not have the same key.
  ///   - condition: Which objects are in the index; a query uses it only if it demands the same.
  public init(
    _ name: String, _ parts: IndexPart<Object>..., unique: Bool = false,
    where condition: ObjectPredicate<Object>? = nil
  ) {
    let parts = IndexPart.beginningAscending(parts)
    let types = parts.map { $0.type + $0.path.form.suffix }.joined(separator: ", ")
    let shape = Self.shape(name, parts.map(\.path), types, unique: unique, condition)
    self.init(shape, condition) { object in
      var bytes: [UInt8] = []
      for part in parts {
        let element = part.element(object)
        bytes += part.path.form.isDescending ? IndexKeyForm.complement(element) : element
      }
      return [bytes]
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
    where condition: ObjectPredicate<Object>? = nil
  ) where Elements.Element: IndexValue {
    let types = "each " + IndexedTypeName.of(Elements.Element.self)
    let shape = Self.shape(name, [AnyPath(path: path)], types, isMultiple: true, condition)
    self.init(shape, condition) { object in
      var seen: Set<[UInt8]> = []
      return object[keyPath: path].map(\.indexKey).filter { seen.insert($0).inserted }
    }
  }

  /// Creates a full-text index, for ``Query/matching(_:in:)``.
  ///
  /// ```swift
  /// Index<Article>("body", fullText: \.title, \.body)
  /// ```
  ///
  /// The index contains the words of all texts, without case and diacritical marks. See
  /// <doc:FullText>.
  ///
  /// - Parameters:
  ///   - name: The name, unique within the type.
  ///   - path: The properties: texts, optional texts, or lists of texts.
  ///   - condition: Which objects are in the index. A search finds no others.
  public init<each Text: TextProperty>(
    _ name: String, fullText path: repeat Path<Object, each Text>,
    where condition: ObjectPredicate<Object>? = nil
  ) {
    var paths: [AnyPath] = []
    for path in repeat each path { paths.append(AnyPath(path: path)) }
    let shape = Self.shape(
      name, paths, ObjectTypeRecord.Index.currentTextDefinition, isMultiple: true, condition)
    let texts: @Sendable (Object) -> [String] = { object in
      var texts: [String] = []
      for path in repeat each path { texts += object[keyPath: path].indexedTexts }
      return texts
    }
    self.init(shape, condition) { object in
      let vector = TextVector(texts(object).flatMap(TextWords.words(of:)))
      return vector.length == 0 ? [] : [vector.key]
    }
    self.texts = texts
  }

  /// Not available: values of the property have no key. Index a property of the value.
  @available(
    *, unavailable,
    message:
      "An index needs numbers, texts, dates or raw values, or a path to one: \\.engine.power."
  )
  @_disfavoredOverload
  public init<Value>(_ name: String, _ path: Path<Object, Value>, unique: Bool = false) {
    let shape = Self.shape(name, [AnyPath(path: path)], "\(Value.self)", unique: unique, nil)
    self.init(shape, nil) { _ in [] }
  }

  /// Not available: a list has no key, but each of its elements has one.
  @available(
    *, unavailable,
    message: "The elements of a list are indexed by Index(_:each:) in static let indexes."
  )
  @_disfavoredOverload
  public init<Elements: Collection>(
    _ name: String, _ path: Path<Object, Elements>, unique: Bool = false
  ) {
    let shape = Self.shape(name, [AnyPath(path: path)], "\(Elements.self)", unique: unique, nil)
    self.init(shape, nil) { _ in [] }
  }

  /// Not available: a list has no key, but each of its elements has one.
  @available(
    *, unavailable,
    message: "The elements of a list are indexed by Index(_:each:) in static let indexes."
  )
  @_disfavoredOverload
  public init<Elements: Collection>(
    _ name: String, _ path: Path<Object, Elements?>, unique: Bool = false
  ) {
    let shape = Self.shape(name, [AnyPath(path: path)], "\(Elements.self)?", unique: unique, nil)
    self.init(shape, nil) { _ in [] }
  }

  private init(
    _ shape: IndexShape, _ condition: ObjectPredicate<Object>?,
    _ makeKeys: @escaping @Sendable (Object) -> [[UInt8]]
  ) {
    self.shape = shape
    self.condition = condition
    self.makeKeys = makeKeys
  }

  private static func shape(
    _ name: String, _ paths: [AnyPath], _ types: String, unique: Bool = false,
    isMultiple: Bool = false, _ condition: ObjectPredicate<Object>?
  ) -> IndexShape {
    IndexShape(
      name: name, isUnique: unique, isMultiple: isMultiple, isReferences: false, paths: paths,
      fields: [],
      definition: types + (condition.map { " where \($0.identity(withOrigins: false))" } ?? ""),
      condition: condition.map { $0.node.isConjunction ? $0.node.comparisons : [] })
  }

  /// The reference index; the reference collector provides its keys.
  static var references: IndexShape {
    IndexShape(
      name: ReferenceIndex.name, isUnique: false, isMultiple: true, isReferences: true,
      paths: [AnyPath(path: \Object.larderReferences)], fields: [], definition: "", condition: nil)
  }

  /// The error in the declaration, or `nil` if it is valid.
  var problem: String? {
    let leaves = condition?.node.allComparisons ?? []
    if shape.paths.isEmpty { return "It has no property. Name at least one." }
    if case .tooDeep = condition?.node { return "Its condition has too many levels." }
    if readsReference {
      return
        "It reads a property of a related object, which changes without the objects of the index. Use "
        + "only properties of the object, and declare an index on the type of the related object."
    }
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

  /// Whether a key or the condition is a property of a related object, according to the schema.
  private var readsReference: Bool {
    let conditions = condition?.node.allLeaves ?? []
    let paths =
      shape.paths + conditions.compactMap(\.comparison.path)
      + conditions.compactMap(\.related?.reference)
    return Object.declaredReferences.contains { reference in
      paths.contains { $0.rest(after: reference.path) != nil }
    }
  }

  /// Returns the index, defined by the names under which a schema stores the properties. Programs that
  /// name a stored property differently declare the same index.
  ///
  /// - Parameter schema: The schema, or `nil` if the type declares none.
  func defined(by schema: ObjectSchema<Object>?) -> Index {
    var index = self
    index.shape.fields = shape.paths.map(\.property).map {
      schema?.storedName(of: $0) ?? $0.name(in: Object.self)
    }
    index.shape.defaults =
      schema.map { IndexDefaults(of: index, in: $0) }
      ?? IndexDefaults(ofUndeclared: index.shape.fields)
    return index
  }

  /// Returns whether a stored index is this one.
  func isStored(as stored: ObjectTypeRecord.Index) -> Bool { shape.isStored(as: stored) }

  /// Whether the index is a full-text index.
  var isFullText: Bool { texts != nil }

  /// Returns the words of each text of an object in a full-text index.
  func words(of object: Object) -> [[[UInt8]]] {
    if let condition, !condition.holds(for: object) { return [] }
    return texts?(object).map(TextWords.words(of:)) ?? []
  }

  /// Returns the keys of an object in this index.
  func keys(of object: Object) -> [[UInt8]] {
    if let condition, !condition.holds(for: object) { return [] }
    return makeKeys(object)
  }
}
