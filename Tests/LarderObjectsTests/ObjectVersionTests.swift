// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

private struct Page: Storable, Equatable {
  let id: String
  var text: String
  static let storedName = "Page"
}

@Suite(.timeLimit(.minutes(60))) struct ObjectVersionTests {
  let temporary: TemporaryStore
  let objects: ObjectStore

  init() throws {
    temporary = try TemporaryStore()
    objects = ObjectStore(temporary.store)
  }

  @Test func `A save with the version of the read succeeds, and with an older one is a conflict`()
    throws
  {
    let first = try objects.save(Page(id: "a", text: "one"), ifUnchangedSince: nil)
    let read = try #require(try objects.versionedObject(Page.self, id: "a"))
    #expect(read.object.text == "one" && read.version == first)
    let second = try objects.save(Page(id: "a", text: "two"), ifUnchangedSince: first)
    #expect(second != first)
    let conflict = #expect(throws: ObjectConflict<Page>.self) {
      try objects.save(Page(id: "a", text: "three"), ifUnchangedSince: first)
    }
    #expect(conflict?.attempted.text == "three")
    #expect(conflict?.stored?.object.text == "two" && conflict?.stored?.version == second)
    #expect(conflict?.description.contains("Page \"a\" was changed") == true)
    #expect(try objects.object(Page.self, id: "a")?.text == "two")
    // A conflict shows what the next attempt needs.
    try objects.save(Page(id: "a", text: "three"), ifUnchangedSince: conflict?.stored?.version)
  }

  @Test func `An object that was deleted or inserted in the meantime is a conflict`() throws {
    let version = try objects.save(Page(id: "a", text: "one"), ifUnchangedSince: nil)
    #expect(throws: ObjectConflict<Page>.self) {
      try objects.save(Page(id: "a", text: "two"), ifUnchangedSince: nil)
    }
    try objects.delete(Page.self, id: "a")
    let conflict = #expect(throws: ObjectConflict<Page>.self) {
      try objects.save(Page(id: "a", text: "two"), ifUnchangedSince: version)
    }
    #expect(conflict?.stored == nil && conflict?.description.contains("no longer exists") == true)
    #expect(try objects.versionedObject(Page.self, id: "a") == nil)
    try objects.save(Page(id: "a", text: "one"))
    // The same content again, by another save.
    #expect(throws: ObjectConflict<Page>.self) {
      try objects.save(Page(id: "a", text: "two"), ifUnchangedSince: version)
    }
  }

  @Test func `A save that changes nothing keeps the version, in a transaction too`() async throws {
    let version = try await objects.save(Page(id: "a", text: "one"), ifUnchangedSince: nil)
    try await objects.save(Page(id: "a", text: "one"))
    #expect(try await objects.versionedObject(Page.self, id: "a")?.version == version)
    try await objects.write { transaction in
      let second = try transaction.save(Page(id: "a", text: "two"), ifUnchangedSince: version)
      #expect(try transaction.versionedObject(Page.self, id: "a")?.version == second)
      try transaction.save(Page(id: "a", text: "three"), ifUnchangedSince: second)
    }
    let last = try #require(try objects.read { try $0.versionedObject(Page.self, id: "a") })
    #expect(last.object.text == "three")
    await #expect(throws: ObjectConflict<Page>.self) {
      try await objects.write { transaction in
        try transaction.save(Page(id: "b", text: "new"))
        try transaction.save(Page(id: "a", text: "four"), ifUnchangedSince: version)
      }
    }
    #expect(try objects.object(Page.self, id: "b") == nil)
  }
}
