// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTestSupport
import Testing

@Suite struct ShareTests {
  @Test(arguments: [1, 2, 4, 7])
  func `The shares together have each argument once, whatever their number`(count: Int) throws {
    for length in [0, 1, 3, 4, 31] {
      let all = Array(0..<length)
      let parts = try (1...count).map { part in
        try #require(Share("\(part)/\(count)")).arguments(of: all)
      }
      #expect(parts.flatMap { $0 }.sorted() == all)
      // No share has two more than another.
      let sizes = parts.map(\.count)
      #expect(sizes.max()! - sizes.min()! <= 1)
    }
  }

  @Test(arguments: ["", "1", "0/4", "5/4", "-1/4", "1/0", "1/2/3", "a/b", " 1/4"])
  func `A share that is none is refused`(text: String) {
    #expect(Share(text) == nil)
  }
}
