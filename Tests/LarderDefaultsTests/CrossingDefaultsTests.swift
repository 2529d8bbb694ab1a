// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderDefaults
import LarderEngine
import LarderTestSupport
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct CrossingDefaultsTests {
  @Test func `Of two suites whose closures write to each other one fails at once`() throws {
    let grounds = [try StoreFixture(), try StoreFixture()]
    let meeting = Meeting(of: 2)
    let threads = (0..<2).map { number in
      JoinableThread { () -> StoreError.Code? in
        let (own, other) = (grounds[number].defaults, grounds[1 - number].defaults)
        do {
          try own.write { values in
            try values.setValue(number, forKey: "own")
            try meeting.meet()
            try other.setValue(number, forKey: "other")
          }
          return nil
        } catch {
          return (error as? StoreError)?.code ?? .system
        }
      }
    }
    let codes = threads.map { $0.join() }
    #expect(codes.count { $0 == .crossingWrites } == 1 && codes.count { $0 == nil } == 1)
    for (number, code) in codes.enumerated() {
      let value = code == nil ? number : nil
      #expect(try grounds[number].defaults.value(Int.self, forKey: "own") == value)
      #expect(try grounds[1 - number].defaults.value(Int.self, forKey: "other") == value)
    }
  }
}
