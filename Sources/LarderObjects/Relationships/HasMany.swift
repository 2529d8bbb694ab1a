// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

/// A property that refers to any number of objects of a stored type, in order.
///
/// It corresponds to ``HasOne``: the objects are stored once, as independent objects; the parent
/// stores their ids; assigned objects are saved with the parent; the property loads its objects on
/// first access, all from one snapshot. After `car.parts.append(part)`, saving the car saves only
/// the new part and the parts that were changed in place: a part that was read, here or elsewhere, and
/// not changed is not written. ``init(ids:)`` refers to objects without having them.
///
/// The property omits missing objects; `$parts.missingIDs` returns their ids. It also omits objects
/// that cannot be loaded: `$parts.loadError` returns the error, `$parts.ids` still contains all
/// ids, and saving the parent after an assignment throws ``ObjectError/Code/notLoaded``, because
/// the ids would be lost.
///
/// For a many-to-many relationship, declare `@HasMany` on both sides, each updated by a save of
/// that side; or declare it on one side and query the other with
/// ``ObjectStore/referrers(of:in:through:)``, which is always consistent.
@propertyWrapper
public struct HasMany<Target: Storable>: Reference, CustomStringConvertible {
  /// The contents of the reference.
  public private(set) var links: ReferenceContents<Target>

  /// Creates a reference to objects.
  ///
  /// - Parameter wrappedValue: The objects. A save of the parent saves them too.
  public init(wrappedValue: [Target]) {
    links = ReferenceContents(box: ReferenceBox(assigned: wrappedValue))
  }

  /// Creates a reference to the objects of ids, which are neither read nor saved.
  ///
  /// The property is empty in this value; the saved object, once fetched, has the objects.
  ///
  /// - Parameter ids: The ids of the objects, in order.
  public init(ids: [Target.ID]) { links = ReferenceContents(box: ReferenceBox(linking: ids)) }

  private init(_ box: ReferenceBox<Target>) { links = ReferenceContents(box: box) }

  /// The objects, loaded on first access.
  public var wrappedValue: [Target] {
    get { links.box.objects() }
    set { links = ReferenceContents(box: links.box.replaced(by: newValue)) }
  }

  /// The reference itself: `$parts`.
  public var projectedValue: HasMany { self }

  /// Returns the objects, loading them on first access.
  ///
  /// - Returns: The objects in order, without missing ones.
  /// - Throws: ``ObjectError/Code/unreadable`` if an object cannot be decoded;
  ///   ``ObjectError/Code/notFound`` if the `ObjectStore` of the parent was released; `StoreError`
  ///   if the store is closed.
  public func load() throws -> [Target] { try links.box.load().objects }

  /// Whether the reference allows missing objects: always `true`.
  public static var allowsMissingTarget: Bool { true }

  /// The ids referred to.
  public var description: String { "-> [\(ids.joined(separator: ", "))]" }
}

extension HasMany: Codable {
  /// Decodes the ids inside a store, otherwise the objects themselves.
  ///
  /// - Parameter decoder: The decoder.
  /// - Throws: The errors of the decoder.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let context = decoder.userInfo[.links] as? ReferenceLoader else {
      self.init(wrappedValue: try container.decode([Target].self))
      return
    }
    context.markUsed()
    self.init(ReferenceBox(ids: try container.decode([String].self), context: context))
  }

  /// Encodes the ids inside a store, otherwise the objects themselves.
  ///
  /// - Parameter encoder: The encoder.
  /// - Throws: The errors of the encoder; `EncodingError` if objects outside a store refer to each
  ///   other in a cycle.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let collector = encoder.userInfo[.links] as? ReferenceCollector {
      try links.box.requireKnown(encoder.codingPath)
      collector.add(links.box, at: encoder.codingPath)
      try container.encode(ids)
      return
    }
    let objects = try links.box.load().objects
    try ReferenceCodingPath.descend(Target.storedName, ids, encoder.codingPath) {
      try container.encode(objects)
    }
  }
}

extension KeyedDecodingContainer {
  /// Decodes a reference; a missing field is an empty reference, because the property may have been
  /// added later.
  ///
  /// - Parameters:
  ///   - type: The type of the reference.
  ///   - key: The coding key.
  /// - Returns: The reference.
  /// - Throws: The errors of the decoder.
  public func decode<Target: Storable>(
    _ type: HasMany<Target>.Type, forKey key: Key
  ) throws -> HasMany<Target> {
    try decodeIfPresent(type, forKey: key) ?? HasMany(wrappedValue: [])
  }
}

extension HasMany: CBORFieldKind {
  /// The kind of the field in the record of a type: a reference.
  package static var fieldKind: String? { "reference" }
}
