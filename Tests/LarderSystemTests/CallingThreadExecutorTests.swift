// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60))) struct CallingThreadExecutorTests {
  @Test func `A caller that returns while its last job is being enqueued leaves nothing in use`() {
    // The last job comes from another thread, which is still in the executor when the caller leaves.
    let threads = (0..<8).map { _ in
      JoinableThread {
        var sum = 0
        for step in 0..<2000 {
          sum += CallingThreadExecutor.run {
            (try? await BackgroundExecutor.shared.run { step }) ?? -1
          }
        }
        return sum
      }
    }
    for thread in threads { #expect(thread.join() == 1999 * 1000) }
  }
}
