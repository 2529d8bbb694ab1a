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

/// A type whose values are kept by a ``CacheManager``, in a form of its own.
///
/// ```swift
/// struct User: CodableArchivable {
///   var name: String
///   var age: Int
///   var primaryKey: String { name }
/// }
/// ```
///
/// A class, final or not, is archived as well. The manager gives each caller a separate instance,
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
  /// The type whose values queries see; the type itself. A subclass has that of its class, and no
  /// indexes.
  associatedtype ArchivedModel: Archivable = Self

  /// What the value is found by.
  var primaryKey: String { get }

  /// The value as it is stored. `Codable` types need not write it.
  func archive() throws -> Data

  /// The value that was stored as this. `Codable` types need not write it.
  static func deArchive(fromData: Data) throws -> Self

  /// The name the type is stored under; by default module and type.
  static var archiveName: String { get }

  /// The indexes that queries may use.
  ///
  /// ```swift
  /// static var archiveIndexes: [Index<Archived<User>>] { [Index("age", \.archive.age)] }
  /// ```
  static var archiveIndexes: [Index<Archived<ArchivedModel>>] { get }

  /// The names of computed properties that indexes, sorts and conditions use; see
  /// `ComputedProperty`.
  static var archiveComputedProperties: [ComputedProperty<Archived<ArchivedModel>>] { get }
}

/// A type that is archived as its `Codable` conformance writes it.
public typealias CodableArchivable = Codable & Archivable

extension Archivable {
  public static var archiveName: String { stableTypeName(Self.self) }
  public static var archiveIndexes: [Index<Archived<ArchivedModel>>] { [] }
  public static var archiveComputedProperties: [ComputedProperty<Archived<ArchivedModel>>] { [] }
}

extension Archivable where Self: Codable {
  /// CBOR, which is a third of the work of JSON.
  public func archive() throws -> Data { Data(try CBORCodec().encode(self)) }

  public static func deArchive(fromData data: Data) throws -> Self {
    try CBORCodec().decode(Self.self, from: Array(data))
  }
}

/// An archivable value as an object of an ``/LarderObjects/ObjectStore``.
public struct Archived<Archive: Archivable>: Storable {
  /// The stored value.
  public var archive: Archive
  public var id: String { archive.primaryKey }

  /// Wraps a value.
  public init(_ archive: Archive) { self.archive = archive }

  public static var storedName: String { "archive " + Archive.archiveName }
  public static var indexes: [Index<Archived>] {
    Archive.archiveIndexes as? [Index<Archived>] ?? []
  }
  public static var computedProperties: [ComputedProperty<Archived>] {
    Archive.archiveComputedProperties as? [ComputedProperty<Archived>] ?? []
  }

  private enum CodingKeys: CodingKey {
    case archive
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    // Whoever only asks which fields there are has none of them, and the form is the archive's own.
    guard container.contains(.archive) else {
      throw DecodingError.keyNotFound(
        CodingKeys.archive,
        .init(codingPath: container.codingPath, debugDescription: "There is no archive."))
    }
    archive = try Archive.deArchive(fromData: container.decode(Data.self, forKey: .archive))
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(archive.archive(), forKey: .archive)
  }
}

extension Archivable {
  /// The value, or for a class another instance with the same contents: what one caller changes must
  /// not change what others get.
  func detached() throws -> Self {
    guard Self.self is AnyObject.Type else { return self }
    return try Self.deArchive(fromData: archive())
  }
}
