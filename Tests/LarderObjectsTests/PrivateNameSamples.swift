// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderObjects

private struct PrivateItem: Storable, Equatable {
  let id: Int
  var name: String
}

/// The calls of a file with a private type whose name is also in another file.
enum OtherPrivateItem {
  static var storedName: String { PrivateItem.storedName }

  static func save(_ id: Int, in store: ObjectStore) throws {
    try store.save(PrivateItem(id: id, name: "other"))
  }

  static func names(in store: ObjectStore) throws -> [String] {
    try store.objects(PrivateItem.self).fetch().map(\.name)
  }

  static func count(in store: ObjectStore) throws -> Int {
    try store.objects(PrivateItem.self).count()
  }
}
