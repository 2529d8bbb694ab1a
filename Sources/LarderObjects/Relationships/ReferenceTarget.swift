// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// What `@HasOne` can hold: a stored type, or an optional one.
///
/// Every ``Storable`` type conforms by itself, and so does `Optional` of one; there is nothing to
/// write.
public protocol ReferenceTarget: Codable, Sendable {
  /// The stored type.
  associatedtype LinkedObject: Storable

  /// The object, if there is one.
  var referencedObject: LinkedObject? { get }

  /// The value for an object, or for none; `nil`: there must be one.
  static func makeReference(_ object: LinkedObject?) -> Self?

  /// Whether there must be an object.
  static var requiresObject: Bool { get }
}

extension Storable {
  /// The object itself.
  public var referencedObject: Self? { self }

  /// The object itself.
  public static func makeReference(_ object: Self?) -> Self? { object }

  /// There must be one.
  public static var requiresObject: Bool { true }
}

extension Optional: ReferenceTarget where Wrapped: Storable {
  /// The object, if there is one.
  public var referencedObject: Wrapped? { self }

  /// The object, or `nil`.
  public static func makeReference(_ object: Wrapped?) -> Wrapped?? { .some(object) }

  /// There may be none.
  public static var requiresObject: Bool { false }
}

/// A property that refers to other objects: `$maker` of `@HasOne var maker`, `$parts` of
/// `@HasMany var parts`.
public protocol Reference: Sendable, Hashable {
  /// The stored type referred to.
  associatedtype Target: Storable

  /// The ids referred to, in order; known without loading anything.
  var ids: [String] { get }

  /// Whether the objects are here already: assigned, fetched with the parent, or looked at before.
  var isLoaded: Bool { get }

  /// The ids whose objects are gone. Loads the others.
  var missingIDs: [String] { get throws }

  /// Why objects could not be loaded when the property was last looked at; 'nil': they could, or nothing
  /// has looked yet. The property has those that could be loaded.
  var loadError: (any Error)? { get }

  /// Where the objects are.
  var links: ReferenceContents<Target> { get }

  /// Whether the type allows that there is no object.
  static var allowsMissingTarget: Bool { get }
}

extension Reference {
  /// Whether the objects are here already.
  public var isLoaded: Bool { links.box.isLoaded }

  /// The ids referred to, in order.
  public var ids: [String] { links.box.ids }

  /// The ids whose objects are gone. Loads the others.
  public var missingIDs: [String] {
    get throws { try links.box.load().missing }
  }

  /// Why objects could not be loaded when the property was last looked at.
  public var loadError: (any Error)? { links.box.loadError }

  /// Two references are equal when they lead to the same ids: what is stored of them is equal then.
  /// Nothing is loaded or compared any deeper, so cycles do no harm.
  public static func == (left: Self, right: Self) -> Bool {
    left.links.box === right.links.box
      || left.ids.lazy.map { Array($0.utf8) }.elementsEqual(right.ids.lazy.map { Array($0.utf8) })
  }

  /// Hashes the ids.
  public func hash(into hasher: inout Hasher) {
    for id in ids { hasher.combine(Array(id.utf8)) }
  }
}

/// The objects behind a reference; opaque.
public struct ReferenceContents<Target: Storable>: Sendable {
  let box: ReferenceBox<Target>
}
