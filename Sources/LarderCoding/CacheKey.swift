// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

/// The kind of a key, one byte that is stored and hashed together with the key's bytes.
///
/// The tag distinguishes keys, never a Swift type's name, so types may be renamed, and a tool
/// without the Swift types can form every key. Two keys are the same key exactly if their tags
/// and their bytes are the same.
public struct KeyTag: RawRepresentable, Hashable, Sendable {
  /// The byte as stored.
  public let rawValue: UInt8

  /// Creates a tag from its stored byte; unknown values stay unchanged.
  @inlinable
  public init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  /// The bytes are the UTF-8 of a text.
  @inlinable public static var text: KeyTag { KeyTag(rawValue: 1) }
  /// The bytes are an integer, of any Swift type.
  @inlinable public static var integer: KeyTag { KeyTag(rawValue: 2) }
  /// The bytes are the 16 of a UUID, in the order they are printed.
  @inlinable public static var uuid: KeyTag { KeyTag(rawValue: 3) }
  /// The bytes are the key.
  @inlinable public static var bytes: KeyTag { KeyTag(rawValue: 4) }
  /// The bytes are a sequence of tagged, length-prefixed components.
  @inlinable public static var composite: KeyTag { KeyTag(rawValue: 5) }
  /// The bytes are the UTF-8 of the key's `description`.
  @inlinable public static var described: KeyTag { KeyTag(rawValue: 6) }
  /// The bytes are the eight of a floating-point number.
  @inlinable public static var real: KeyTag { KeyTag(rawValue: 7) }
  /// The bytes are the eight of a date's seconds since 2001, a floating-point number.
  @inlinable public static var date: KeyTag { KeyTag(rawValue: 8) }
  /// The bytes are one, 0 or 1.
  @inlinable public static var boolean: KeyTag { KeyTag(rawValue: 9) }
}

/// A value that can name an entry of a cache.
///
/// Texts, integers, `UUID`, `[UInt8]`, `Data`, `Double`, `Date`, `Bool` and `URL` are keys as they
/// are. A type with a raw value that is a key, and a type that describes itself, become keys by
/// declaring it:
///
/// ```swift
/// enum Screen: String, CacheKey { case home, profile }       // same key as the text "home"
///
/// struct Route: Hashable, CustomStringConvertible, CacheKey { // tag .described
///   var description: String { ... }
/// }
/// ```
///
/// A key of several parts has the tag `.composite` and appends its parts as components, so that no
/// two different keys are ever the same bytes (for two parts, ``KeyPair`` does it):
///
/// ```swift
/// struct Page: CacheKey {
///   var book: UUID
///   var number: Int
///   static var keyTag: KeyTag { .composite }
///   func encodeKey(into encoder: inout KeyEncoder) {
///     encoder.appendComponent(book)
///     encoder.appendComponent(number)
///   }
/// }
/// ```
///
/// Every process must form the same bytes for the same key: encode no hash value, no address and
/// nothing that depends on the locale. Keys are compared by their bytes, so two texts that differ
/// only in Unicode normalisation are two keys, although Swift's `==` calls them equal.
public protocol CacheKey: Hashable, Sendable {
  /// The kind of key this type makes.
  static var keyTag: KeyTag { get }

  /// Appends the key's bytes.
  func encodeKey(into encoder: inout KeyEncoder)
}

extension CacheKey {
  /// The key's bytes, without the tag.
  @inlinable
  public var keyBytes: [UInt8] {
    var encoder = KeyEncoder()
    encodeKey(into: &encoder)
    return encoder.take()
  }
}

extension CacheKey where Self: RawRepresentable, RawValue: CacheKey {
  /// The tag of the raw value: the key is the raw value's key.
  @inlinable
  public static var keyTag: KeyTag { RawValue.keyTag }

  /// Appends the raw value's bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    rawValue.encodeKey(into: &encoder)
  }
}

extension CacheKey where Self: CustomStringConvertible {
  /// `.described`.
  @inlinable
  public static var keyTag: KeyTag { .described }

  /// Appends the UTF-8 of `description`.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    encoder.append(text: description)
  }
}

extension CacheKey where Self: RawRepresentable & CustomStringConvertible, RawValue: CacheKey {
  /// The tag of the raw value, which is more stable than a description.
  @inlinable
  public static var keyTag: KeyTag { RawValue.keyTag }

  /// Appends the raw value's bytes.
  @inlinable
  public func encodeKey(into encoder: inout KeyEncoder) {
    rawValue.encodeKey(into: &encoder)
  }
}
