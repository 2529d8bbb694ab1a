// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import Synchronization

/// The result of a compiler.
struct Compilation: Codable, Sendable {
  let status: Int32
  let object: Data
  /// The warnings, which are printed again for each hit.
  let diagnostics: Data
}

/// A compilation that is not stored, because the compiler found errors.
struct CompilerFailed: Error {
  let result: Compilation
}

/// The compiled files of the machine, by a hash of what they are made from.
struct CompilerCache {
  private let compilations: PersistentCache<String, Compilation>
  private let hits: SharedCounter
  private let misses: SharedCounter

  init(at path: String) throws {
    // The least useful files are evicted when there are more than this.
    let store = try SharedStore(at: path, .init(budget: .megabytes(512)))
    compilations = PersistentCache(
      storage: store, namespace: "compilations",
      // Other processes wait for a file that one is compiling. Some files take long.
      options: CacheOptions(computeTimeout: .seconds(600)))
    hits = SharedCounter(storage: store, name: "hits")
    misses = SharedCounter(storage: store, name: "misses")
  }

  /// Returns a compilation of the cache, or that of the compiler.
  ///
  /// Of all processes that need the same one, one runs the compiler. If it is killed, another one does.
  ///
  /// - Throws: `CompilerFailed`, which the cache does not store: each call tries again.
  func compilation(
    _ key: String, _ compile: @escaping @Sendable () throws -> Compilation
  ) async throws -> Compilation {
    let isCompiled = Flag()
    let result = try await compilations.value(forKey: key) {
      isCompiled.set()
      let result = try compile()
      guard result.status == 0 else { throw CompilerFailed(result: result) }
      return result
    }
    try await (isCompiled.isSet ? misses : hits).increment()
    return result
  }

  func counts() throws -> (hits: Int64, misses: Int64) { (try hits.value(), try misses.value()) }
}

/// A flag that a closure sets, which may run in another task.
private final class Flag: Sendable {
  private let value = Atomic(false)

  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}
