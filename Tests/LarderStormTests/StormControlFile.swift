// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting

/// The storm's control file, read through plain file calls: the parent maps nothing.
struct StormControlFile {
  let path: String
  private static let names = [
    "reads", "misses", "stale", "newThenOld", "torn", "lost", "errors", "stop",
  ]

  init(path: String) throws {
    self.path = path
    try Files.write([UInt8](repeating: 0, count: 4096), to: path)
  }

  var counts: [String: UInt64] {
    guard let bytes = try? Files.contents(of: path), bytes.count == 4096 else { return [:] }
    var result: [String: UInt64] = [:]
    for (index, name) in Self.names.enumerated() {
      var word: UInt64 = 0
      for byte in (0..<8).reversed() { word = word << 8 | UInt64(bytes[(128 + index) * 8 + byte]) }
      result[name] = word
    }
    return result
  }

  /// Tells every process to end.
  func stop() { try? Files.overwrite([1], at: 135 * 8, in: path) }
}
