// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding

/// A property that refers to one object of a stored type.
///
/// ```swift
/// struct Car: Storable {
///   let id: String
///   @HasOne var maker: Maker?
///   @HasOne var model: Model
///   @HasMany var parts: [Part]
/// }
/// ```
///
/// The object is stored once, as its own; the parent stores its id. Saving the parent saves the
/// object with it if it was *assigned*, by an initialiser or by setting the property; one that was
/// merely loaded is not written back. A parent that is fetched loads the object when the property is
/// first looked at, so a graph may have any depth and any cycles, and shows the newest state then,
/// never one older than when the parent was fetched. From there on the value keeps what it showed.
///
/// A reference to an object that is gone is `nil`; `$maker.missingIDs` names it. A property that is not
/// optional is loaded together with its parent, which does not decode when the object is gone: the
/// error is ``ObjectError/Code/unreadable`` and names the missing object. Deleting that object is denied
/// unless a ``Relationship`` of the property says otherwise.
///
/// A value loads through the `ObjectStore` it was fetched from: keep that. Where loading fails the
/// property is `nil`, the store's `onError` gets the error, and `$maker.loadError` has it;
/// `$maker.load()` throws instead. The reference keeps its id; if the property is assigned after that,
/// saving the parent throws ``ObjectError/Code/notLoaded``.
///
/// Coded by any other coder, a JSON encoder say, the property is coded as the object itself.
@propertyWrapper
public struct HasOne<Value: ReferenceTarget>: Reference, CustomStringConvertible {
  /// The stored type referred to.
  public typealias Target = Value.LinkedObject

  /// Where the object is.
  public private(set) var links: ReferenceContents<Target>

  /// Refers to an object, or to none.
  public init(wrappedValue: Value) {
    links = ReferenceContents(
      box: ReferenceBox(assigned: wrappedValue.referencedObject.map { [$0] } ?? []))
  }

  private init(_ box: ReferenceBox<Target>) { links = ReferenceContents(box: box) }

  /// The object.
  public var wrappedValue: Value {
    get {
      guard let value = Value.makeReference(links.box.objects().first) else {
        // A reference that is not optional is loaded before anybody can look.
        preconditionFailure("a required reference without an object")
      }
      return value
    }
    set {
      links = ReferenceContents(
        box: links.box.replaced(by: newValue.referencedObject.map { [$0] } ?? []))
    }
  }

  /// The reference itself: `$maker`.
  public var projectedValue: HasOne { self }

  /// The id referred to; known without loading anything.
  public var id: String? { ids.first }

  /// The object; loaded now, if nobody has looked yet.
  ///
  /// - Throws: ``ObjectError`` when it does not decode, `StoreError` when the store is closed.
  public func load() throws -> Target? { try links.box.load().objects.first }

  public static var allowsMissingTarget: Bool { !Value.requiresObject }

  public var description: String { id.map { "-> \($0)" } ?? "nil" }
}

extension HasOne: Codable {
  /// Decodes an id inside a store, else the object itself.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let context = decoder.userInfo[.links] as? ReferenceLoader else {
      self.init(wrappedValue: try container.decode(Value.self))
      return
    }
    context.markUsed()
    let ids = container.decodeNil() ? [] : [try container.decode(String.self)]
    let box = ReferenceBox<Target>(ids: ids, context: context)
    if Value.requiresObject, try context.nested({ try box.load().objects.isEmpty }) {
      throw context.missing(Target.storedName, ids)
    }
    self.init(box)
  }

  /// Encodes the id inside a store, else the object itself.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let collector = encoder.userInfo[.links] as? ReferenceCollector {
      try links.box.requireKnown(encoder.codingPath)
      collector.add(links.box, at: encoder.codingPath, isRequired: Value.requiresObject)
      if let id { try container.encode(id) } else { try container.encodeNil() }
      return
    }
    guard let value = Value.makeReference(try links.box.load().objects.first) else {
      try container.encodeNil()
      return
    }
    try ReferenceCodingPath.descend(Target.storedName, ids, encoder.codingPath) {
      try container.encode(value)
    }
  }
}

extension KeyedDecodingContainer {
  /// A reference that is not there is `nil`: the property may have been added later.
  public func decode<Target: Storable>(
    _ type: HasOne<Target?>.Type, forKey key: Key
  ) throws -> HasOne<Target?> {
    try decodeIfPresent(type, forKey: key) ?? HasOne(wrappedValue: nil)
  }
}

extension HasOne: CBORFieldKind {
  package static var fieldKind: String? { "reference" }
}
