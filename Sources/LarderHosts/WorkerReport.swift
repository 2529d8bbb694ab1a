// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The line that a worker prints.
struct WorkerReport: Codable, Sendable {
  var index: Int
  var seconds: Double
  var reads: Int
  var writes: Int
  var misses: Int
  var violations: Int
  var longest_ms: Int
  var computations: Int
  var fetched_by_host: Int
  var verified_by_host: Int
  var links_of_host: Int
  var invalidations_of_host: Int
  var errors: [String: Int]

  init(_ line: String) throws {
    self = try JSONDecoder().decode(Self.self, from: Data(line.utf8))
  }
}
