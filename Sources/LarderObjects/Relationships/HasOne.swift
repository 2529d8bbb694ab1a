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
/// The object is stored once, as an independent object; the parent stores its id. Saving the parent
/// also saves the object if it was *assigned*, by an initialiser or by setting the property; an
/// object that was read, here or elsewhere, and not changed is not written again. ``init(id:)`` refers
/// to an object without having it.
///
/// A fetched parent loads the object on first access of the property, so a graph can have any depth
/// and any cycles. The loaded state is the newest at that
/// time, never older than the state at the fetch of the parent. The value keeps it from then on.
///
/// A reference to a missing object is `nil`; `$maker.missingIDs` returns its id. A nonoptional
/// property is loaded together with its parent, and the parent cannot be decoded if the object is
/// missing: the error is ``ObjectError/Code/unreadable`` and names the missing object. Deleting
/// that object is denied unless a ``Relationship`` of the property declares another rule.
///
/// A value loads through the `ObjectStore` from which it was fetched, so keep that store. If
/// loading fails, the property is `nil`, the store's `onError` receives the error, and
/// `$maker.loadError` returns it; `$maker.load()` throws instead. The reference keeps its id; if
/// the property is then assigned, saving the parent throws ``ObjectError/Code/notLoaded``.
///
/// Any other coder, such as a JSON encoder, encodes the object itself.
@propertyWrapper
public struct HasOne<Value: ReferenceTarget>: Reference, CustomStringConvertible {
  /// The stored type referred to.
  public typealias Target = Value.LinkedObject

  /// The contents of the reference.
  public private(set) var links: ReferenceContents<Target>

  /// Creates a reference to an object, or an empty reference.
  ///
  /// - Parameter wrappedValue: The object. A save of the parent saves it too.
  public init(wrappedValue: Value) {
    links = ReferenceContents(
      box: ReferenceBox(assigned: wrappedValue.referencedObject.map { [$0] } ?? []))
  }

  /// Creates a reference to the object of an id, which is neither read nor saved.
  ///
  /// ```swift
  /// init(id: Int, makerID: String) {
  ///   self.id = id
  ///   _maker = HasOne(id: makerID)
  /// }
  /// ```
  ///
  /// The property is `nil` in this value; the saved object, once fetched, has the object.
  ///
  /// - Parameter id: The id of the object, or `nil` for an empty reference.
  public init<Wrapped: Storable>(id: Wrapped.ID?) where Value == Wrapped? {
    links = ReferenceContents(box: ReferenceBox(linking: id.map { [$0] } ?? []))
  }

  private init(_ box: ReferenceBox<Target>) { links = ReferenceContents(box: box) }

  /// The object, loaded on first access.
  public var wrappedValue: Value {
    get {
      guard let value = Value.makeReference(links.box.objects().first) else {
        // A nonoptional reference is loaded when its parent is decoded.
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

  /// The id referred to, or `nil` for an empty reference; available without loading the object.
  public var id: String? { ids.first }

  /// Returns the object, loading it on first access.
  ///
  /// - Returns: The object, or `nil` if the reference is empty or the object is missing.
  /// - Throws: ``ObjectError/Code/unreadable`` if the object cannot be decoded;
  ///   ``ObjectError/Code/notFound`` if the `ObjectStore` of the parent was released; `StoreError`
  ///   if the store is closed.
  public func load() throws -> Target? { try links.box.load().objects.first }

  /// Whether the reference allows a missing object: `true` for an optional property.
  public static var allowsMissingTarget: Bool { !Value.requiresObject }

  /// The id referred to.
  public var description: String { id.map { "-> \($0)" } ?? "nil" }
}

extension HasOne: Codable {
  /// Decodes the id inside a store, otherwise the object itself.
  ///
  /// - Parameter decoder: The decoder.
  /// - Throws: The errors of the decoder; ``ObjectError/Code/unreadable`` if the object of a
  ///   nonoptional property is missing.
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

  /// Encodes the id inside a store, otherwise the object itself.
  ///
  /// - Parameter encoder: The encoder.
  /// - Throws: The errors of the encoder; `EncodingError` if objects outside a store refer to each
  ///   other in a cycle.
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
  /// Decodes a reference; a missing field is `nil`, because the property may have been added later.
  ///
  /// - Parameters:
  ///   - type: The type of the reference.
  ///   - key: The coding key.
  /// - Returns: The reference.
  /// - Throws: The errors of the decoder.
  public func decode<Target: Storable>(
    _ type: HasOne<Target?>.Type, forKey key: Key
  ) throws -> HasOne<Target?> {
    try decodeIfPresent(type, forKey: key) ?? HasOne(wrappedValue: nil)
  }
}

extension HasOne: CBORFieldKind {
  /// The kind of the field in the record of a type: a reference.
  package static var fieldKind: String? { "reference" }
}
