// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjects

struct Maker: Storable, Equatable {
  let id: String
  var name: String
  @HasMany var founders: [Person] = []
}

struct Person: Storable, Equatable {
  let id: Int
  var name: String
  @HasOne var employer: Maker? = nil
  @HasMany var friends: [Person] = []
}

struct Part: Storable, Equatable {
  let id: String
  var weight: Int
}

struct Vehicle: Storable, Equatable {
  let id: String
  var year: Int
  @HasOne var maker: Maker? = nil
  @HasOne var designer: Maker? = nil
  @HasMany var parts: [Part] = []
  static let indexes = [Index<Vehicle>("year", \.year)]
}

/// A reference that is not optional.
struct Ticket: Storable, Equatable {
  let id: Int
  @HasOne var holder: Person
}

/// The same, with a type that allows the reference to dangle.
struct LooseTicket: Storable, Equatable {
  let id: Int
  @HasOne var holder: Person
  static let relationships = [
    Relationship<LooseTicket>(\.$holder, onTargetDelete: .leaveDangling)
  ]
}

/// A chain of any length.
struct Node: Storable, Equatable {
  let id: Int
  var text = ""
  @HasOne var next: Node? = nil
  static let relationships = [Relationship<Node>(\.$next, onDelete: .cascade)]
}

/// A tree with rules: what is in a folder goes with it.
struct Folder: Storable, Equatable {
  let id: String
  @HasMany var folders: [Folder] = []
  @HasMany var files: [File] = []
  static let relationships = [
    Relationship<Folder>(\.$folders, onDelete: .cascade),
    Relationship<Folder>(\.$files, onDelete: .cascade, onTargetDelete: .nullify),
  ]
}

struct File: Storable, Equatable {
  let id: String
  @HasOne var format: Format? = nil
  static let relationships = [Relationship<File>(\.$format, onTargetDelete: .deny)]
}

struct Format: Storable, Equatable {
  let id: String
}

/// Takes a reference out of objects that are indexed by it.
struct Shelf: Storable, Equatable {
  let id: Int
  @HasOne var owner: Person? = nil
  static let relationships = [Relationship<Shelf>(\.$owner, onTargetDelete: .nullify)]
  static let computedProperties = [ComputedProperty<Shelf>("owner", \.$owner.id)]
  static let indexes = [Index<Shelf>("owner", \.$owner.id)]
}

/// The same objects in a program without references.
struct PlainVehicle: Storable, Equatable {
  static let storedName = Vehicle.storedName
  let id: String
  var year: Int
  static let indexes = [Index<PlainVehicle>("year", \.year)]
}

struct Impossible: Storable {
  let id: Int
  @HasOne var holder: Person
  static let relationships = [Relationship<Impossible>(\.$holder, onTargetDelete: .nullify)]
}
