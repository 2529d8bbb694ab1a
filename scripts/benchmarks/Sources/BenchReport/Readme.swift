// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

/// The part of an article that a run writes, between two comments.
enum Readme {
  private static let begin = "<!-- bench:begin -->"
  private static let end = "<!-- bench:end -->"

  static func rewrite(_ path: String, with text: String) throws {
    let old = try String(contentsOfFile: path, encoding: .utf8)
    let parts = old.components(separatedBy: begin)
    let tails = parts.last?.components(separatedBy: end) ?? []
    guard parts.count == 2, tails.count == 2 else {
      throw ReportFailure("\(path) must have one line \(begin) and, after it, one \(end).")
    }
    try Data((parts[0] + begin + "\n" + text + end + tails[1]).utf8)
      .write(to: URL(fileURLWithPath: path), options: .atomic)
  }
}
