// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderTesting
import Testing

/// The reaction of reads to damage: one policy for all reads.
@Suite(.timeLimit(.minutes(60))) struct ReadDamageTests {
  let temporary: TemporaryStore
  var store: SharedStore { temporary.store }
  init() throws { temporary = try TemporaryStore() }

  @Test func `Damage in one generation fences that one only`() throws {
    let first = try store.statistics().generation
    let damage = LMDBError(.corrupted, during: "a page")
    let found = try store.core.withSnapshot("read") { snapshot in
      if snapshot.generation.number == first { throw damage }
      return snapshot.generation.number
    }
    #expect(found == first + 1)
    #expect(try store.statistics().generation == first + 1)
  }

  @Test func `Damage in every generation is an error after two of them`() throws {
    let first = try store.statistics().generation
    do {
      try store.core.withSnapshot("read") { _ in
        throw LMDBError(.corrupted, during: "a page")
      }
      Issue.record("No error.")
    } catch let error as StoreError {
      #expect(error.code == .damaged)
    }
    #expect(try store.statistics().generation == first + 2)
    try store.setBytes([1], forKey: 1)
    #expect(try store.verify() == [])
  }

  @Test func `Damage that is not there in the next snapshot fences nothing`() throws {
    let first = try store.statistics().generation
    var tries = 0
    let found = try store.core.withSnapshot("read") { snapshot in
      tries += 1
      if tries <= 3 { throw LMDBError(.corrupted, during: "a page") }
      return snapshot.generation.number
    }
    #expect(found == first && tries == 4)
  }
}
