// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Directories for what is measured.
enum Files {
  static func make(_ path: String) throws {
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  static func remove(_ path: String) {
    try? FileManager.default.removeItem(atPath: path)
  }

  /// The space on the disk of a file, or of all files in a directory, in MiB.
  static func size(_ path: String) throws -> Double {
    let files = FileManager.default.enumerator(atPath: path)?.allObjects as? [String] ?? []
    var blocks = 0
    for file in [path] + files.map({ path + "/" + $0 }) {
      var status = stat()
      guard lstat(file, &status) == 0 else { throw BenchFailure("\(file) is gone.") }
      blocks += Int(status.st_blocks)
    }
    return Double(blocks) * 512 / 1_048_576
  }

  static func fresh(in parent: String?) throws -> String {
    let parent = parent ?? NSTemporaryDirectory()
    let path = parent + (parent.hasSuffix("/") ? "" : "/") + "larder-bench-" + UUID().uuidString
    try make(path)
    return path
  }
}
