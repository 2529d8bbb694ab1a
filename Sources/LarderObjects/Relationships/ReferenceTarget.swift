// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// A type that `@HasOne` can hold: a stored type, or an optional one.
///
/// Every ``Storable`` type and its `Optional` conform through default implementations. Do not
/// conform other types.
public protocol ReferenceTarget: Codable, Sendable {
  /// The stored type.
  associatedtype LinkedObject: Storable

  /// The object, or `nil` for an empty optional.
  var referencedObject: LinkedObject? { get }

  /// Returns the value for an object or for an empty reference.
  ///
  /// - Parameter object: The object, or `nil` for an empty reference.
  /// - Returns: The value, or `nil` if the type requires an object.
  static func makeReference(_ object: LinkedObject?) -> Self?

  /// Whether the type requires an object.
  static var requiresObject: Bool { get }
}

extension Storable {
  /// The object itself.
  public var referencedObject: Self? { self }

  /// Returns the object itself.
  ///
  /// - Parameter object: The object.
  /// - Returns: `object`.
  public static func makeReference(_ object: Self?) -> Self? { object }

  /// Always `true`: a nonoptional reference requires an object.
  public static var requiresObject: Bool { true }
}

extension Optional: ReferenceTarget where Wrapped: Storable {
  /// The wrapped object, or `nil`.
  public var referencedObject: Wrapped? { self }

  /// Returns the object as an optional.
  ///
  /// - Parameter object: The object, or `nil`.
  /// - Returns: `object`.
  public static func makeReference(_ object: Wrapped?) -> Wrapped?? { .some(object) }

  /// Always `false`: an optional reference can be empty.
  public static var requiresObject: Bool { false }
}

/// A property that refers to other objects: `$maker` of `@HasOne var maker`, `$parts` of `@HasMany
/// var parts`.
public protocol Reference: Sendable, Hashable {
  /// The stored type referred to.
  associatedtype Target: Storable

  /// The ids referred to, in order; available without loading the objects.
  var ids: [String] { get }

  /// Whether the objects are in memory: assigned, fetched with the parent, or loaded earlier.
  var isLoaded: Bool { get }

  /// The ids of missing objects. Loads the others.
  ///
  /// - Throws: ``ObjectError/Code/unreadable`` if an object cannot be decoded; `StoreError` if the
  ///   store is closed.
  var missingIDs: [String] { get throws }

  /// The error of the last load, or `nil` if it succeeded or nothing was loaded. After an error the
  /// property contains the objects that could be loaded.
  var loadError: (any Error)? { get }

  /// The contents of the reference.
  var links: ReferenceContents<Target> { get }

  /// Whether the property type allows a missing object.
  static var allowsMissingTarget: Bool { get }
}

extension Reference {
  /// Whether the objects are in memory.
  public var isLoaded: Bool { links.box.isLoaded }

  /// The ids referred to, in order.
  public var ids: [String] { links.box.ids }

  /// The ids of missing objects. Loads the others.
  ///
  /// - Throws: ``ObjectError/Code/unreadable`` if an object cannot be decoded; `StoreError` if the
  ///   store is closed.
  public var missingIDs: [String] {
    get throws { try links.box.load().missing }
  }

  /// The error of the last load, or `nil` if it succeeded or nothing was loaded.
  public var loadError: (any Error)? { links.box.loadError }

  /// Returns whether two references have the same ids, which are all that is stored of them. Loads
  /// and compares no objects, so cycles are safe.
  ///
  /// - Parameters:
  ///   - left: A reference.
  ///   - right: Another reference.
  /// - Returns: `true` if the ids are equal.
  public static func == (left: Self, right: Self) -> Bool {
    left.links.box === right.links.box
      || left.ids.lazy.map { Array($0.utf8) }.elementsEqual(right.ids.lazy.map { Array($0.utf8) })
  }

  /// Hashes the ids.
  ///
  /// - Parameter hasher: The hasher.
  public func hash(into hasher: inout Hasher) {
    for id in ids { hasher.combine(Array(id.utf8)) }
  }
}

/// The opaque contents of a reference.
public struct ReferenceContents<Target: Storable>: Sendable {
  let box: ReferenceBox<Target>
}
