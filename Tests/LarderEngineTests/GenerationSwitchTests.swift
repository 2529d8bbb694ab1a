// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Generations after a process died between two of them, or cannot read them.
@Suite struct GenerationSwitchTests {
  let directory: TemporaryDirectory
  let path: String

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.path + "/store"
  }

  @Test(.timeLimit(.minutes(60)))
  func `Files of the owner's in a durable store's directory are left alone`() throws {
    let store = try SharedStore(at: path, StoreOptions(durability: .durable))
    try store.setBytes([1], forKey: "k")
    store.close()
    for name in ["g-photos", "g-01", "g-x.tmp", "g-notes.d"] {
      try TestFiles.makeDirectory(path + "/" + name)
      try TestFiles.write([1], to: path + "/" + name + "/own")
    }
    try TestFiles.write([2], to: path + "/g-7.tmp")
    let again = try SharedStore(at: path, StoreOptions(durability: .durable))
    try again.compact()
    again.close()
    for name in ["g-photos/own", "g-01/own", "g-x.tmp/own", "g-notes.d/own", "g-7.tmp"] {
      #expect(TestFiles.exists(path + "/" + name), "\(name)")
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `With CURRENT lost and two generations a durable store touches neither`() throws {
    let store = try SharedStore(at: path, StoreOptions(durability: .durable))
    try store.setBytes([1], forKey: "k")
    store.close()
    try TestFiles.makeDirectory(path + "/g-2")
    try TestFiles.write([0], to: path + "/CURRENT")
    let error = #expect(throws: StoreError.self) {
      try SharedStore(at: path, StoreOptions(durability: .durable))
    }
    #expect(error?.code == .damaged)
    #expect(TestFiles.exists(path + "/g-1/data.mdb") && TestFiles.exists(path + "/g-2"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `A writer settles what a compactor that died has left`() throws {
    let store = try SharedStore(at: path, StoreOptions(durability: .durable))
    try store.setBytes([1], forKey: "k")
    let first = try store.core.generation()
    // Died before CURRENT was written: forgotten.
    first.table.successor = 2
    try store.setBytes([2], forKey: "k")
    #expect(first.table.successor == 0 && !first.table.isFenced)
    // CURRENT unusable: nothing may be committed in a generation that may have been left.
    first.table.successor = 2
    let current = try TestFiles.contents(of: path + "/CURRENT")
    try TestFiles.write([0], to: path + "/CURRENT")
    #expect(throws: StoreError.self) { try store.setBytes([3], forKey: "k") }
    try TestFiles.write(current, to: path + "/CURRENT")
    try store.setBytes([4], forKey: "k")
    #expect(try store.bytes(forKey: "k") == [4])
    #expect(first.table.successor == 0)
  }
}
