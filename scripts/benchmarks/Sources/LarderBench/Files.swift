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

  static func fresh(in parent: String?) throws -> String {
    let parent = parent ?? NSTemporaryDirectory()
    let path = parent + (parent.hasSuffix("/") ? "" : "/") + "larder-bench-" + UUID().uuidString
    try make(path)
    return path
  }
}
