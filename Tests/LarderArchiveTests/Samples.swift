// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderArchive
import LarderEngine
import LarderObjects
import LarderTesting

struct User: CodableArchivable, Equatable {
  var name: String
  var age: Int
  var city: String?
  var tags: [String] = []
  var primaryKey: String { name }
  static var archiveIndexes: [Index<Archived<User>>] { [Index("age", \.archive.age)] }
}

/// Archived by a custom coder.
struct Event: CodableArchivable, Equatable {
  var name: String
  var date: Date
  var primaryKey: String { name }

  func archive() throws -> Data {
    let encoder = JSONEncoder()
    encoder.dateEncodingStrategy = .iso8601
    return try encoder.encode(self)
  }

  static func deArchive(fromData data: Data) throws -> Event {
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .iso8601
    return try decoder.decode(Event.self, from: data)
  }
}

/// Not Codable at all.
struct Raw: Archivable, Equatable {
  var key: String
  var bytes: [UInt8]
  var primaryKey: String { key }

  struct Refusal: Error {}
  func archive() throws -> Data {
    if bytes.isEmpty { throw Refusal() }
    return Data(Array(key.utf8) + [0] + bytes)
  }
  static func deArchive(fromData data: Data) throws -> Raw {
    let parts = Array(data).split(separator: 0, maxSplits: 1, omittingEmptySubsequences: false)
    return Raw(key: String(decoding: parts[0], as: UTF8.self), bytes: Array(parts[1]))
  }
}

/// A fresh store, and managers over it.
struct StoreFixture {
  let directory: TemporaryDirectory
  let path: String
  let shared: SharedStore
  let store: ObjectStore

  init(_ options: StoreOptions = StoreOptions()) throws {
    directory = try TemporaryDirectory()
    path = directory.appending("store")
    shared = try SharedStore(at: path, options)
    store = ObjectStore(shared)
  }
}
