// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
import InMemoryTracing
import Larder
import LarderEngine
import LarderTesting
import LarderTracing
import Testing
import Tracing

/// Spans of waits for real processes.
@Suite(.serialized, .timeLimit(.minutes(60)))
struct WaitSpanTests {
  /// Runs a closure that waits, and makes the other process continue once it waits.
  private func wait(
    _ isWaiting: @escaping @Sendable () throws -> Bool, _ peer: ChildProcess,
    _ body: @escaping @Sendable () async throws -> Void
  ) async throws {
    let task = Task { try await body() }
    try await awaitEventually("the task waits") { try isWaiting() }
    try peer.send("go")
    try await task.value
  }

  /// Starts a process that computes the value of the key 1 until it may continue.
  private func computingPeer(_ traced: TracedStore) throws -> ChildProcess {
    let log = traced.temporary.appending("log")
    try TestFiles.makeDirectory(log)
    let peer = try traced.peer()
    try peer.send("compute 1 theirs \(log) held")
    #expect(try peer.nextLine() == "computing")
    return peer
  }

  private func waiters(_ store: SharedStore, _ name: String) throws -> Int {
    try store.locks().first { $0.name == name }?.waiters.count ?? 0
  }

  @Test func `A wait for a lock names the process that holds it`() async throws {
    let traced = try TracedStore(keys: .plain)
    let (store, tracer) = (traced.store, traced.tracer)
    let peer = try traced.peer()
    #expect(try peer.ask("lock import").hasPrefix("holding "))
    try await wait({ try waiters(store, "import") == 1 }, peer) {
      try await tracer.request { span in
        try await store.lock("import").withLock(timeout: .seconds(600)) { _ in }
      }
    }
    let request = try tracer.span("request")
    let wait = try tracer.span("larder.wait")
    #expect(wait.parentSpanID == request.spanID)
    #expect(wait["larder.wait.kind"] == "lock")
    #expect(wait["larder.name"] == "import")
    #expect(wait["larder.holder.pid"] == "\(peer.processIdentifier)")
    #expect(wait["larder.outcome"] == "ended")
    // Nothing to wait for: no span.
    try await store.lock("import").withLock(timeout: .seconds(600)) { _ in }
    #expect(tracer.spans("larder.wait").count == 1)
  }

  @Test func `Waits in a thread, of other kinds, and without an end name the process as well`()
    async throws
  {
    let traced = try TracedStore()
    let (store, tracer) = (traced.store, traced.tracer)
    let peer = try traced.peer()
    let pid = "\(peer.processIdentifier)"
    #expect(try peer.ask("permit few 1") == "holding")
    #expect(throws: StoreError.self) {
      try store.semaphore("few", permits: 1).withPermit(timeout: .milliseconds(20)) {}
    }
    let task = Task {
      try await store.semaphore("few", permits: 1).withPermit(timeout: .seconds(600)) {}
    }
    try await awaitEventually("the task waits") { try waiters(store, "few") == 1 }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    let waits = tracer.spans("larder.wait")
    #expect(waits.map { $0["larder.outcome"] } == ["timeout", "cancelled"])
    #expect(waits.map { $0["larder.wait.kind"] } == ["semaphore", "semaphore"])
    #expect(waits.map { $0["larder.holder.pid"] } == [pid, pid])
    #expect(waits.map { $0["larder.error.code"] } == ["lockTimeout", nil])
    // The name of a semaphore may be personal data.
    #expect(waits.allSatisfy { $0["larder.name"] == nil && $0.errors.isEmpty })
    #expect(tracer.endCounts.allSatisfy { $0 == 1 })
  }

  @Test func `A wait for the writer lock is part of the commit and names the writing process`()
    async throws
  {
    let traced = try TracedStore(StoreOptions(writeTimeout: .seconds(600)))
    let (store, tracer) = (traced.store, traced.tracer)
    let peer = try traced.peer()
    #expect(try peer.ask("hold") == "holding")
    try await wait({ store.core.monitors?.isWaitingForWriter == true }, peer) {
      try await tracer.request { _ in try await store.write { try $0.setBytes([1], forKey: 1) } }
    }
    let commit = try tracer.span("larder.commit")
    #expect(try tracer.span("request").spanID == commit.parentSpanID)
    let waits = tracer.spans("larder.wait")
    #expect(waits.count == 1)
    #expect(waits[0].parentSpanID == commit.spanID)
    #expect(waits[0]["larder.wait.kind"] == "writer")
    #expect(waits[0]["larder.holder.pid"] == "\(peer.processIdentifier)")
    #expect(
      waits[0].startInstant.nanosecondsSinceEpoch >= commit.startInstant.nanosecondsSinceEpoch)
  }

  @Test func `A write that times out has a failed commit, and its wait names the stopped process`()
    async throws
  {
    let traced = try TracedStore(StoreOptions(writeTimeout: .milliseconds(100)))
    let peer = try traced.peer()
    #expect(try peer.ask("hold") == "holding")
    _ = try await traced.tracer.request { _ in
      #expect(throws: StoreError.self) { try traced.store.setBytes([1], forKey: 1) }
    }
    let commit = try traced.tracer.span("larder.commit")
    let wait = try traced.tracer.span("larder.wait")
    #expect(try traced.tracer.span("request").spanID == commit.parentSpanID)
    #expect(commit["larder.outcome"] == "failed")
    #expect(commit["larder.error.code"] == "writerStalled")
    #expect(wait["larder.outcome"] == "timeout")
    #expect(wait["larder.holder.pid"] == "\(peer.processIdentifier)")
  }

  @Test
  func `A wait for the computation of another process names it, and no computation is traced`()
    async throws
  {
    let traced = try TracedStore()
    let (store, tracer) = (traced.store, traced.tracer)
    let numbers = PersistentCache<Int, String>(
      storage: store, options: CacheOptions(computeTimeout: .seconds(600)))
    let peer = try computingPeer(traced)
    try await wait({ store.core.waitingForCommits > 0 }, peer) {
      try await tracer.request { _ in
        let value = try await numbers.value(forKey: 1) { "ours" }
        #expect(value == "theirs")
      }
    }
    let wait = try tracer.span("larder.wait")
    #expect(try tracer.span("request").spanID == wait.parentSpanID)
    #expect(wait["larder.wait.kind"] == "computation")
    #expect(wait["larder.holder.pid"] == "\(peer.processIdentifier)")
    #expect(wait["larder.outcome"] == "ended")
    #expect(tracer.spans("larder.compute").isEmpty)
    #expect(tracer.endCounts.allSatisfy { $0 == 1 })
  }

  @Test func `After the death of a computing process the wait ends and a computation begins`()
    async throws
  {
    let traced = try TracedStore()
    let (store, tracer) = (traced.store, traced.tracer)
    let numbers = PersistentCache<Int, String>(
      storage: store, options: CacheOptions(computeTimeout: .seconds(600)))
    let peer = try computingPeer(traced)
    let task = Task { try await numbers.value(forKey: 1) { "ours" } }
    try await awaitEventually("the task waits") { store.core.waitingForCommits > 0 }
    peer.kill()
    #expect(try await task.value == "ours")
    let (wait, computation) = (try tracer.span("larder.wait"), try tracer.span("larder.compute"))
    #expect(wait["larder.holder.pid"] == "\(peer.processIdentifier)")
    #expect(
      wait.endInstant.nanosecondsSinceEpoch <= computation.endInstant.nanosecondsSinceEpoch)
  }
}
#endif
