// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

/// The type of `Peer+Objects.swift`, under the same stored name.
private struct Person: Storable, Equatable {
  let id: Int
  var name: String
  var age: Int
  static let storedName = "Person"
  static let schemaVersion = 2
  static let indexes = [
    Index<Person>("name", \.name, unique: true), Index<Person>("age", \.age),
  ]
}

extension Processes {
  @Test(.timeLimit(.minutes(60)))
  func `Versioned saves of several processes lose no change, and conflicts are noticed`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("people")
    let store = try ObjectStore(at: path, StoreOptions())
    try store.save(Person(id: 1, name: "one", age: 0))
    let peers = try (0..<3).map { _ in
      let peer = try TestExecutable.peer.start()
      try peer.send("people \(path)")
      try peer.expect("opened")
      return peer
    }
    for peer in peers { try peer.send("raise 1 200") }
    // This process conflicts with certainty: it saves with a version that it has outdated itself.
    let first = try #require(try store.versionedObject(Person.self, id: 1))
    var own = 0
    while own < 50 {
      let read = try #require(try store.versionedObject(Person.self, id: 1))
      var person = read.object
      person.age += 1
      do {
        try store.save(person, ifUnchangedSince: read.version)
        own += 1
      } catch is ObjectConflict<Person> {}
    }
    #expect(throws: ObjectConflict<Person>.self) {
      try store.save(first.object, ifUnchangedSince: first.version)
    }
    for peer in peers {
      #expect(try peer.nextLine().hasPrefix("raised "))
      try peer.dismiss()
    }
    #expect(try store.object(Person.self, id: 1)?.age == 3 * 200 + own)
    #expect(try store.storage.verify() == [])
  }
}
