// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderTesting
import Testing

/// Objects that wait once and refer to their waiter.
@Suite struct OneShotTests {
  private final class Sentinel: Sendable {}

  @Test func `An action that has run or was cancelled refers to nothing any more`() {
    for isCancelled in [false, true] {
      weak var left: Sentinel?
      weak var pass: OnceCallback?
      do {
        let shot = OnceCallback()
        let sentinel = Sentinel()
        (left, pass) = (sentinel, shot)
        shot.arm { _ = sentinel }
        shot.setOnCancel { _ = (sentinel, shot.fire()) }
        if isCancelled { shot.cancel() } else { shot.fire() }
        // Too late: it has run.
        shot.setOnCancel { _ = (sentinel, shot) }
      }
      #expect(left == nil && pass == nil)
    }
  }
}
