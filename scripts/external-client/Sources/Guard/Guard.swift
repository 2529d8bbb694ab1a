// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderObjects

/// `larder-guard DIRECTORY`: each hot path in a separate function, which callgrind finds by its name.
/// The preparation, and one warm-up pass, are outside these functions.
///
/// Everything is the same in each run but the store's hash secret, by which entries lie elsewhere in
/// the tree; hence many keys, so that it comes to the same on average.
@main
struct Guard {
  static let repeats = 20

  static func main() throws {
    let directory = CommandLine.arguments[1]
    let store = try SharedStore(at: directory + "/cache", .init(budget: .megabytes(64)))
    defer { store.close() }
    try memory(store)
    try bytes(store)
    try decoding()
    try objects(store)
  }

  private static func memory(_ store: SharedStore) throws {
    let people = (0..<500).map(Person.sample)
    let numbers = PersistentCache<Int, Person>(storage: store, namespace: "numbers")
    let names = PersistentCache<String, Person>(storage: store, namespace: "names")
    let keys = people.map(\.name)
    try numbers.setValues(Dictionary(uniqueKeysWithValues: people.map { ($0.id, $0) }))
    try names.setValues(Dictionary(uniqueKeysWithValues: people.map { ($0.name, $0) }))
    _ = people.map { numbers[$0.id] }
    _ = people.map { names[$0.name] }
    guard_memory_hit_int(numbers, people.count)
    guard_memory_hit_string(names, keys)
  }

  private static func bytes(_ store: SharedStore) throws {
    let value = [UInt8](repeating: 7, count: 256)
    let keys = (0..<10_000).map { "key-\(100_000 + $0)" }
    let batch = keys.enumerated().filter { $0.offset % 10 == 0 }.map(\.element)
    try store.write { transaction in
      for key in keys { try transaction.setBytes(value, forKey: key, in: "values") }
    }
    let namespace = try store.namespace("values")
    // A key that is read again is found where it was.
    _ = try namespace.bytes(forKey: "none")
    try guard_store_get(namespace, keys)
    try guard_store_get_again(namespace, keys)
    try guard_set_batch(store, batch, value)
    try guard_set_batch(store, batch, value)
    try guard_set_committed(namespace, batch, value)
  }

  private static func decoding() throws {
    let codec = CBORCodec()
    let encoded = try (0..<200).map { try codec.encode(Person.sample($0)) }
    _ = try codec.decode(Person.self, from: encoded[0])
    try guard_cbor_decode(codec, encoded)
    let people = (0..<200).map(Person.sample)
    try guard_cbor_encode(codec, people)
  }

  // In the cache: a durable store's map of a terabyte is more than valgrind gives.
  private static func objects(_ storage: SharedStore) throws {
    let store = ObjectStore(storage)
    let parts = (0..<500).map { Part(id: "part-\($0)", name: "Part number \($0)", price: $0) }
    try store.save(parts)
    let collection = store.collection(Part.self)
    for part in parts { _ = try collection.object(id: part.id) }
    try guard_object_fetch_hot(collection, parts.map(\.id))
  }
}

struct Person: Codable, Hashable, Sendable {
  var id: Int
  var name: String
  var email: String
  var score: Double
  var isActive: Bool

  static func sample(_ number: Int) -> Person {
    Person(
      id: number, name: "Person number \(number)", email: "person\(number)@example.com",
      score: Double(number) * 1.25, isActive: number % 2 == 0)
  }
}

struct Part: Storable, Equatable {
  let id: String
  var name: String
  var price: Int
  static let storedName = "Part"
}
