// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// One store opened several times in one process.
@Suite(.timeLimit(.minutes(60))) struct OpenedTwiceTests {
  let directory: TemporaryDirectory
  var path: String { directory.path + "/store" }
  init() throws { directory = try TemporaryDirectory() }

  @Test(arguments: [(Durability.relaxed, Durability.durable), (.durable, .relaxed)])
  func `Opening an open store with another durability level names both`(
    first: Durability, second: Durability
  ) throws {
    let store = try SharedStore(at: path, StoreOptions(durability: first))
    do {
      let other = try SharedStore(at: path, StoreOptions(durability: second))
      Issue.record("Opened as \(other.path).")
    } catch let error as StoreError {
      #expect(error.code == .durabilityMismatch && error.path == store.path)
      #expect(error.message.contains(".\(first)") && error.message.contains(".\(second)"))
    }
    // The same level is the same store, and the first handle still counts alone.
    try SharedStore(at: path, StoreOptions(durability: first)).close()
    try store.setBytes([1], forKey: 1)
    store.close()
    #expect(throws: StoreError.self) {
      try SharedStore(at: path, StoreOptions(durability: second))
    }
  }
}
