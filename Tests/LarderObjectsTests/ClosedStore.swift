// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderLMDB
import LarderObjects
import LarderSystem
import LarderTesting
import Testing

/// Access to the files of a store that no process has open.
enum ClosedStore {
  /// Returns the directory of the current generation.
  static func generation(of path: String) throws -> String {
    let (found, _) = try #require(StoreDirectory.find(path))
    let number = try CurrentPointer.read(in: found)
    return found.generation(try #require(number))
  }

  /// Changes the tables as no version of the library would.
  static func change(_ path: String, _ body: (inout WriteTransaction) throws -> Void) throws {
    let environment = try EnvironmentHandle(
      path: generation(of: path), options: .init(mapSize: nil, synchronous: false))
    defer { environment.close() }
    var transaction = try WriteTransaction(in: environment)
    try body(&transaction)
    try transaction.commit()
  }
}
