// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation

// A long chain takes the time of all other tests together, so that a run of `.ci/run` has only a part of it, and
// four commits in a row have all. `scripts/test-chains` divides the chains into files; a test with many arguments
// divides these by itself.

/// The part of the arguments of long tests that this run has: `LARDER_SHARE=2/4`, or all of them.
package struct Share: Sendable, Equatable {
  package let part: Int
  package let count: Int

  /// The share of this process.
  package static let current: Share = {
    let text = ProcessInfo.processInfo.environment["LARDER_SHARE"] ?? "1/1"
    guard let share = Share(text) else {
      // All of them instead would hide that the variable is wrong, none of them would pass.
      fatalError("LARDER_SHARE is \"\(text)\"; it is K/N with K from 1 to N, such as 2/4.")
    }
    return share
  }()

  /// Returns a share from its text, `2/4`, or nil.
  package init?(_ text: String) {
    let words = text.split(separator: "/", omittingEmptySubsequences: false)
    guard words.count == 2, let part = Int(words[0]), let count = Int(words[1]), part >= 1,
      part <= count
    else { return nil }
    (self.part, self.count) = (part, count)
  }

  /// Returns every `count`th argument, so that the shares together are all of them, each once.
  package func arguments<Argument>(of all: [Argument]) -> [Argument] {
    all.indices.filter { $0 % count == part - 1 }.map { all[$0] }
  }
}
