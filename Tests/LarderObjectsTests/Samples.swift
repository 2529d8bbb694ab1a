// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting

struct Car: Storable, Equatable {
  let id: String
  var model: String
  var year: Int
  var owner: String?
  var tags: [String] = []
  var price: Double = 0

  static let indexes = [
    Index<Car>("model", \.model), Index("year", \.year), Index("owner and year", \.owner, \.year),
    Index("tag", each: \.tags), Index("cheap", \.year, where: \.price < 100),
  ]
}

struct Plate: Storable, Equatable {
  let id: Int
  var text: String?
  static let indexes = [Index<Plate>("text", \.text, unique: true)]
}

/// A fresh store of objects.
struct StoreFixture {
  let directory: TemporaryDirectory
  let path: String
  let store: ObjectStore

  init(_ options: StoreOptions = StoreOptions(durability: .durable)) throws {
    directory = try TemporaryDirectory()
    path = directory.path + "/store"
    store = try ObjectStore(at: path, options)
  }
}
