// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderObjectEngine
internal import LarderSystem

// PRIVATE TYPES OF ONE NAME
//
// Two private or local types of one module may have one name, and the runtime does not know the file that
// distinguishes them. Their default stored name is the same in every process, and so it is the same for
// both. But each has its own place in the program's file. A type's record in the catalog contains the
// places of the private types that declared it, for the builds of the programs that did: a type of a
// known build at another place is another type, and gets an error that asks for `storedName`.

extension ObjectTypeDescriptor {
  /// The maximum number of builds in a record. None is forgotten: programs of more builds would replace each
  /// other's places with each save. The types of further builds are not compared.
  private static var mostPlaces: Int { 64 }

  /// Returns the place of a private or local type that is stored under its default name, or `nil` for all
  /// others.
  static func place(storedAs name: String) -> ImagePlace? {
    guard let address = privateContext(of: Object.self) else { return nil }
    let full = stableTypeName(Object.self)
    // The name of a wrapper is that of its content.
    guard full == name || full.hasSuffix("<\(name.split(separator: " ").last ?? "")>") else {
      return nil
    }
    return ImagePlace(ofAddress: address)
  }

  /// Verifies that no other private type of the program has declared the stored type.
  ///
  /// - Throws: ``ObjectError/Code/invalidSchema`` if one has.
  func requireSoleDeclaration(_ record: ObjectTypeRecord) throws {
    guard let place,
      let known = record.places?.last(where: { $0.image == place.image }),
      known.offset != place.offset
    else { return }
    throw ObjectError(
      .invalidSchema, type: name,
      "This program contains two private or local types that are stored as \"\(name)\", and would "
        + "replace each other's objects. Declare static let storedName in one of them.")
  }

  /// Adds the place of the type to its record.
  ///
  /// - Returns: Whether the record did not contain it.
  func notePlace(in record: inout ObjectTypeRecord) -> Bool {
    guard let place else { return false }
    let own = ObjectTypeRecord.Place(image: place.image, offset: place.offset)
    var places = record.places ?? []
    if places.contains(own) || places.count >= Self.mostPlaces { return false }
    places.append(own)
    record.places = places
    return true
  }
}
