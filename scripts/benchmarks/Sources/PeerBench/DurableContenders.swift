// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderDefaults
import LarderObjects

/// One of Larder's ways to a durable write above the store: objects of two properties, or defaults.
final class DurableContender: BenchmarkSubject {
  struct Note: Storable {
    let id: String
    var body: [UInt8]
    static let storedName = "Note"
  }

  let name: String
  private let data: Dataset
  private let write: (String, [UInt8]) throws -> Void
  private let read: (String) throws -> [UInt8]?

  private init(
    _ name: String, _ data: Dataset, write: @escaping (String, [UInt8]) throws -> Void,
    read: @escaping (String) throws -> [UInt8]?
  ) {
    (self.name, self.data, self.write, self.read) = (name, data, write, read)
  }

  static func objects(in directory: String, _ data: Dataset, loads: Bool) throws -> DurableContender
  {
    let store = try ObjectStore(at: directory + "/objects")
    if loads { try store.save(zip(data.keys, data.values).map { Note(id: $0, body: $1) }) }
    return DurableContender("Larder, objects", data) {
      try store.save(Note(id: $0, body: $1))
    } read: {
      try store.object(Note.self, id: $0)?.body
    }
  }

  static func defaults(in directory: String, _ data: Dataset, loads: Bool) throws
    -> DurableContender
  {
    let defaults = try Defaults(at: directory + "/defaults")
    if loads {
      let values = Dictionary(uniqueKeysWithValues: zip(data.keys, data.values.map { Data($0) }))
      try defaults.importPropertyList(
        PropertyListSerialization.data(fromPropertyList: values, format: .binary, options: 0))
    }
    return DurableContender("Larder, defaults", data) {
      try defaults.setValue(Data($1), forKey: $0)
    } read: {
      try defaults.value(Data.self, forKey: $0).map(Array.init)
    }
  }

  func get(_ keys: [UInt32], _ times: inout [UInt32]) throws -> UInt64 {
    try keys.reduce(0) { $0 &+ Dataset.first(try value(Int($1))) }
  }

  func set(_ keys: [UInt32], shift: Int, _ times: inout [UInt32]) throws {
    for key in keys {
      let (name, value) = (data.keys[Int(key)], data.values[(Int(key) + shift) % data.count])
      try recordingTimings(&times) { try write(name, value) }
    }
  }

  func value(_ key: Int) throws -> [UInt8] { try read(data.keys[key]) ?? [] }
}
