// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(60))) struct EventuallyTests {
  @Test func `A condition that does not become true is an error that names it`() throws {
    let error = #expect(throws: ConditionTimedOut.self) {
      try eventually("the moon is full", within: .milliseconds(20)) { false }
    }
    #expect(error?.condition == "the moon is full" && error?.limit == .milliseconds(20))
    let calls = Atomic<Int>(0)
    try eventually("three calls") { calls.add(1, ordering: .relaxed).newValue == 3 }
    #expect(calls.load(ordering: .relaxed) == 3)
  }

  @Test func `A wait in a task has a limit, and ends when the task is cancelled`() async throws {
    await #expect(throws: ConditionTimedOut.self) {
      try await awaitEventually("never", within: .milliseconds(20)) { false }
    }
    let task = Task { try await awaitEventually("never") { false } }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
  }
}
