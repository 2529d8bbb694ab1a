// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTestSupport
import LarderTesting
import Testing

// The types are those of `Peer+Objects.swift`, under the same stored name.

private struct AgedPerson: Storable, Equatable {
  let id: Int
  var name: String
  var age: String
  static let storedName = "Person"
  static let indexes = [
    Index<AgedPerson>("name", \.name), Index<AgedPerson>("age", \.age),
  ]
}

@Suite struct UndeclaredIndexProcessTests {
  private let ages = (0..<7).map { "\($0)" }

  /// Compares the answers over the index with all objects, in one snapshot.
  private func check(_ store: ObjectStore) throws {
    let (found, all) = try store.read { snapshot in
      let found = try ages.map { age in
        try snapshot.fetch(store.objects(AgedPerson.self).where(\.age == age)).map(\.id).sorted()
      }
      return (found, try snapshot.fetch(store.objects(AgedPerson.self)))
    }
    for (age, found) in zip(ages, found) {
      #expect(found == all.filter { $0.age == age }.map(\.id).sorted())
    }
  }

  private func start(_ path: String, _ words: String, seed: Int) throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    let answer = try peer.ask("people \(path)")
    try #require(answer == "opened", "\(answer)")
    try peer.send("side \(words) \(seed)")
    return peer
  }

  @Test(.timeLimit(.minutes(60)))
  func `Programs with and without an index write side by side, and its answers are right`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("people")
    let store = try ObjectStore(at: path, StoreOptions())
    try store.save((0..<2000).map { AgedPerson(id: $0, name: "n", age: ages[$0 % 7]) })
    try store.prepare(AgedPerson.self)
    // The ranges overlap, so that each program replaces what the other saved.
    let kinds = ["plain 0 300", "aged 200 300", "plain 100 300"]
    var peers = try kinds.enumerated().map { try start(path, $0.element, seed: $0.offset) }
    for round in 0..<12 {
      for peer in peers { try peer.wait(for: "wrote") }
      try check(store)
      if round % 3 == 0 { try store.prepare(AgedPerson.self) }
      try check(store)
      let victim = round % peers.count
      peers[victim].kill()
      #expect(try peers[victim].wait() == .killed)
      try check(store)
      peers[victim] = try start(path, kinds[victim], seed: 100 + round)
    }
    for peer in peers {
      peer.kill()
      #expect(try peer.wait() == .killed)
    }
    try store.prepare(AgedPerson.self)
    let people = store.objects(AgedPerson.self).where(\.age == "3")
    #expect(try people.explain().hasPrefix("scan index \"age\""))
    try check(store)
    #expect(try store.storage.verify() == [])
  }
}
