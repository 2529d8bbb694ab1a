// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

/// A property that refers to any number of objects of a stored type, in order.
///
/// It is to several objects what ``HasOne`` is to one: they are stored once, as their own; the parent
/// stores their ids; those that were assigned are saved with it; they are loaded when the property is
/// first looked at, all from one snapshot. After `car.parts.append(part)` only the new part is saved
/// with the car, and parts that were changed in place.
///
/// Objects that are gone are left out; `$parts.missingIDs` names them. Objects that cannot be loaded are
/// left out too: `$parts.loadError` has the error, `$parts.ids` still has all ids, and saving the parent
/// after an assignment throws ``ObjectError/Code/notLoaded``, because the ids would be lost.
///
/// Many-to-many is a `@HasMany` on both sides, each kept by whoever saves that side; or on one side
/// only, the other being asked for with ``ObjectStore/referrers(of:in:through:)``, which cannot
/// disagree.
@propertyWrapper
public struct HasMany<Target: Storable>: Reference, CustomStringConvertible {
  /// Where the objects are.
  public private(set) var links: ReferenceContents<Target>

  /// Refers to objects.
  public init(wrappedValue: [Target]) {
    links = ReferenceContents(box: ReferenceBox(assigned: wrappedValue))
  }

  private init(_ box: ReferenceBox<Target>) { links = ReferenceContents(box: box) }

  /// The objects.
  public var wrappedValue: [Target] {
    get { links.box.objects() }
    set { links = ReferenceContents(box: links.box.replaced(by: newValue)) }
  }

  /// The reference itself: `$parts`.
  public var projectedValue: HasMany { self }

  /// The objects; loaded now, if nobody has looked yet.
  ///
  /// - Throws: ``ObjectError`` when one does not decode, `StoreError` when the store is closed.
  public func load() throws -> [Target] { try links.box.load().objects }

  public static var allowsMissingTarget: Bool { true }

  public var description: String { "-> [\(ids.joined(separator: ", "))]" }
}

extension HasMany: Codable {
  /// Decodes ids inside a store, else the objects themselves.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let context = decoder.userInfo[.links] as? ReferenceLoader else {
      self.init(wrappedValue: try container.decode([Target].self))
      return
    }
    context.markUsed()
    self.init(ReferenceBox(ids: try container.decode([String].self), context: context))
  }

  /// Encodes the ids inside a store, else the objects themselves.
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
  /// References that are not there are none: the property may have been added later.
  public func decode<Target: Storable>(
    _ type: HasMany<Target>.Type, forKey key: Key
  ) throws -> HasMany<Target> {
    try decodeIfPresent(type, forKey: key) ?? HasMany(wrappedValue: [])
  }
}

extension HasMany: CBORFieldKind {
  package static var fieldKind: String? { "reference" }
}
