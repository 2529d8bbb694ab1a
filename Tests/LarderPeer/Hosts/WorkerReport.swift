// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools && Redis
import Foundation

/// The line that a worker prints.
package struct WorkerReport: Codable, Sendable {
  package var index: Int
  package var seconds: Double
  package var reads: Int
  package var writes: Int
  package var misses: Int
  package var violations: Int
  package var longest_ms: Int
  package var computations: Int
  package var fetched_by_host: Int
  package var verified_by_host: Int
  package var links_of_host: Int
  package var invalidations_of_host: Int
  package var errors: [String: Int]

  package init(_ line: String) throws {
    self = try JSONDecoder().decode(Self.self, from: Data(line.utf8))
  }
}
#endif
