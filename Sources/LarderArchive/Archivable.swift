// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderObjects

#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A type whose values a ``CacheManager`` stores, in a form that the type defines.
///
/// ```swift
/// struct User: CodableArchivable {
///   var name: String
///   var age: Int
///   var primaryKey: String { name }
/// }
/// ```
///
/// Classes, final or not, can conform too. The manager returns a separate instance to each caller,
/// so a change is stored when the instance is inserted or updated:
///
/// ```swift
/// class Person: CodableArchivable, @unchecked Sendable {    // used by one task at a time
///   var name: String
///   var primaryKey: String { name }
///   init(name: String) { self.name = name }
/// }
/// ```
public protocol Archivable: Sendable {
  /// The type that queries use, by default the type itself. A subclass has the one of its
  /// superclass, and no indexes.
  associatedtype ArchivedModel: Archivable = Self

  /// The key of the value.
  var primaryKey: String { get }

  /// Returns the stored form of the value. `Codable` types have a default implementation.
  ///
  /// - Returns: The bytes.
  /// - Throws: Any error; an insertion of the value then fails with it.
  func archive() throws -> Data

  /// Returns the value of a stored form. `Codable` types have a default implementation.
  ///
  /// - Parameter fromData: The bytes that ``archive()`` returned.
  /// - Returns: The value.
  /// - Throws: Any error; a read of the value then fails with it.
  static func deArchive(fromData: Data) throws -> Self

  /// The name under which the type is stored. The default consists of module and type.
  static var archiveName: String { get }

  /// The indexes that queries can use.
  ///
  /// ```swift
  /// static var archiveIndexes: [Index<Archived<User>>] { [Index("age", \.archive.age)] }
  /// ```
  static var archiveIndexes: [Index<Archived<ArchivedModel>>] { get }

  /// The names of computed properties that indexes, sorts and conditions use; see
  /// `ComputedProperty`.
  static var archiveComputedProperties: [ComputedProperty<Archived<ArchivedModel>>] { get }
}

/// A type that is archived in the encoding of its `Codable` conformance.
public typealias CodableArchivable = Codable & Archivable

extension Archivable {
  /// The module and the name of the type, which a private or local type cannot use.
  public static var archiveName: String { DefaultTypeName.of(Self.self) }
  /// No indexes.
  public static var archiveIndexes: [Index<Archived<ArchivedModel>>] { [] }
  /// No computed properties.
  public static var archiveComputedProperties: [ComputedProperty<Archived<ArchivedModel>>] { [] }
}

extension Archivable where Self: Codable {
  /// Returns the value as CBOR, which costs a third of the time of JSON.
  ///
  /// - Returns: The bytes.
  /// - Throws: `EncodingError` if the value cannot be encoded.
  public func archive() throws -> Data { Data(try CBORCodec().encode(self)) }

  /// Returns the value of stored CBOR.
  ///
  /// - Parameter data: The bytes that ``archive()`` returned.
  /// - Returns: The value.
  /// - Throws: `DecodingError` if the bytes are not an encoding of the type.
  public static func deArchive(fromData data: Data) throws -> Self {
    try CBORCodec().decode(Self.self, from: Array(data))
  }
}

/// An archivable value as an object of an ``/LarderObjects/ObjectStore``.
public struct Archived<Archive: Archivable>: Storable {
  /// The stored value.
  public var archive: Archive
  /// The primary key of the archived value.
  public var id: String { archive.primaryKey }

  /// Wraps a value.
  public init(_ archive: Archive) { self.archive = archive }

  /// The archive name of the value's type with the prefix `archive `.
  public static var storedName: String { "archive " + Archive.archiveName }
  /// The indexes of the value's type.
  public static var indexes: [Index<Archived>] {
    Archive.archiveIndexes as? [Index<Archived>] ?? []
  }
  /// The computed properties of the value's type.
  public static var computedProperties: [ComputedProperty<Archived>] {
    Archive.archiveComputedProperties as? [ComputedProperty<Archived>] ?? []
  }

  private enum CodingKeys: CodingKey {
    case archive
  }

  /// Decodes the archived value.
  ///
  /// - Parameter decoder: The decoder.
  /// - Throws: `DecodingError`, or the error of ``Archivable/deArchive(fromData:)``.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    // A schema probe has no fields, and the form belongs to the archive.
    guard container.contains(.archive) else {
      throw DecodingError.keyNotFound(
        CodingKeys.archive,
        .init(
          codingPath: container.codingPath, debugDescription: "The field \"archive\" is missing."))
    }
    archive = try Archive.deArchive(fromData: container.decode(Data.self, forKey: .archive))
  }

  /// Encodes the archived value.
  ///
  /// - Parameter encoder: The encoder.
  /// - Throws: The errors of the encoder and of ``Archivable/archive()``.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(archive.archive(), forKey: .archive)
  }
}

extension Archivable {
  /// Returns the value, or for a class another instance with the same contents, so that a caller's
  /// changes do not affect other callers.
  func detached() throws -> Self {
    guard Self.self is AnyObject.Type else { return self }
    return try Self.deArchive(fromData: archive())
  }
}
