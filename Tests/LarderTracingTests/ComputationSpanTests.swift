// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
import Foundation
import InMemoryTracing
import Larder
import LarderEngine
import LarderTesting
import LarderTracing
import Synchronization
import Testing
import Tracing

@Suite(.timeLimit(.minutes(60)))
struct ComputationSpanTests {
  private struct Failure: Error {}

  @Test func `A computation is a child of the calling task's span, and its code has its context`()
    async throws
  {
    let traced = try TracedStore()
    let (tracer, cache) = (traced.tracer, traced.cache)
    let request = try await tracer.request { span in
      let value = try await cache.value(forKey: "a") {
        tracer.withSpan("inner") { _ in 7 }
      }
      #expect(value == 7)
      // From memory: no span.
      let again = try await cache.value(forKey: "a") { 8 }
      #expect(again == 7)
      return span.spanContext
    }
    let span = try tracer.span("larder.compute")
    #expect(span.parentSpanID == request.spanID && span.traceID == request.traceID)
    #expect(try tracer.span("inner").parentSpanID == span.spanID)
    #expect(span.kind == .internal)
    #expect(span["larder.store"] == traced.store.path)
    #expect(span["larder.namespace"] == "sums")
    #expect(span["larder.compute.reason"] == "miss")
    #expect(span["larder.outcome"] == "value")
    #expect(span["larder.served_stale"] == "false")
    #expect(span.errors.isEmpty && span.status == nil)
    // The commit of the value is a child of the same span. The value is returned before it on a busy machine.
    try await awaitEventually("the commit has ended") { !tracer.spans("larder.commit").isEmpty }
    let commit = try tracer.span("larder.commit")
    #expect(commit.parentSpanID == request.spanID)
    #expect(tracer.endCounts.allSatisfy { $0 == 1 })
    #expect(tracer.memory.activeSpans.isEmpty)
  }

  @Test func `Without a context a computation is a root`() async throws {
    let traced = try TracedStore()
    _ = try await traced.cache.value(forKey: "a") { 7 }
    #expect(try traced.tracer.span("larder.compute").parentSpanID == nil)
  }

  @Test func `Spans contain hashes of keys, keys, or nothing, as the options demand`() async throws
  {
    var hashes: [String] = []
    for keys in [TracedKeys.none, .hashed, .plain] {
      let traced = try TracedStore(keys: keys)
      for _ in 0..<2 {
        _ = try await traced.cache.value(forKey: "secret") { 7 }
        try await traced.cache.removeValue(forKey: "secret")
      }
      let spans = traced.tracer.spans("larder.compute")
      try #require(spans.count == 2)
      let names = spans[0].names.filter { $0.hasPrefix("larder.key") }
      switch keys {
      case .none: #expect(names.isEmpty)
      case .hashed:
        #expect(names == ["larder.key.hash"])
        hashes += spans.compactMap { $0["larder.key.hash"] }
      case .plain:
        #expect(names == ["larder.key"])
        #expect(spans[0]["larder.key"] == "secret")
      }
      let texts = traced.tracer.memory.finishedSpans.map { "\($0.attributes)" }
      #expect(texts.contains { $0.contains("secret") } == (keys == .plain))
    }
    try #require(hashes.count == 2)
    #expect(hashes[0] == hashes[1] && hashes[0].count == 16)
  }

  @Test func `Outcomes are those of the closure, and each span ends once`() async throws {
    let traced = try TracedStore()
    let (tracer, cache) = (traced.tracer, traced.cache)
    #expect(try await cache.value(forKey: "absent", absentFor: .seconds(60)) { nil } == nil)
    await #expect(throws: Failure.self) {
      try await cache.value(forKey: "failed") { throw Failure() }
    }
    await #expect(throws: CancellationError.self) {
      try await cache.value(forKey: "cancelled") { throw CancellationError() }
    }
    await #expect(throws: StoreError.self) {
      try await cache.value(forKey: "store") {
        throw StoreError(.storageFull, during: "set", "The key \"store\" has no room.")
      }
    }
    let spans = tracer.spans("larder.compute")
    #expect(spans.map { $0["larder.outcome"] } == ["absent", "failed", "cancelled", "failed"])
    #expect(spans.map { $0.status?.code } == [nil, .error, nil, .error])
    #expect(spans.map(\.errors.count) == [0, 1, 0, 0])
    #expect(spans[1].errors.first?.error is Failure)
    // Its text may contain a key.
    #expect(spans[3]["larder.error.code"] == "storageFull")
    #expect(tracer.endCounts.allSatisfy { $0 == 1 })
  }

  @Test func `A cancelled caller ends the span of its computation once`() async throws {
    let traced = try TracedStore()
    let started = Mutex(false)
    let cache = traced.cache
    let task = Task {
      try await cache.value(forKey: "a") {
        started.withLock { $0 = true }
        // Ends when the task is cancelled.
        let never = AsyncStream<Never>.makeStream()
        for await _ in never.stream {}
        never.continuation.finish()
        try Task.checkCancellation()
        return 1
      }
    }
    try await awaitEventually("the computation runs") { started.withLock { $0 } }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    try await awaitEventually("the span has ended") {
      !traced.tracer.spans("larder.compute").isEmpty
    }
    #expect(try traced.tracer.span("larder.compute")["larder.outcome"] == "cancelled")
    #expect(traced.tracer.endCounts == [1])
  }

  @Test func `A refresh is a child of the call that was served a stale value`() async throws {
    let clock = ManualClock()
    let traced = try TracedStore(StoreOptions(clock: clock.storeClock))
    let (tracer, cache) = (traced.tracer, traced.cache)
    let refresh = Refresh(staleFor: .seconds(60))
    func value(_ new: Int) async throws -> Int {
      try await cache.value(forKey: "a", expires: .after(.seconds(10)), refresh: refresh) { new }
    }
    #expect(try await value(1) == 1)
    clock.advance(by: .seconds(11))
    let request = try await tracer.request { span in
      let stale = try await value(2)
      #expect(stale == 1)
      return span.spanContext
    }
    try await awaitEventually("the refresh has ended") { tracer.spans("larder.compute").count == 2 }
    let span = tracer.spans("larder.compute")[1]
    #expect(span.parentSpanID == request.spanID)
    #expect(span["larder.compute.reason"] == "stale")
    #expect(span["larder.served_stale"] == "true")
    #expect(span["larder.outcome"] == "value")
  }

  @Test func `A failed computation records whether the expired value is served instead`()
    async throws
  {
    let clock = ManualClock()
    let traced = try TracedStore(StoreOptions(clock: clock.storeClock))
    let cache = traced.cache
    let refresh = Refresh(staleIfError: .seconds(60), onError: { _ in })
    func value(_ new: @escaping @Sendable () throws -> Int) async throws -> Int {
      try await cache.value(forKey: "a", expires: .after(.seconds(10)), refresh: refresh) {
        try new()
      }
    }
    #expect(try await value { 1 } == 1)
    clock.advance(by: .seconds(11))
    #expect(try await value { throw Failure() } == 1)
    clock.advance(by: .seconds(3600))
    await #expect(throws: Failure.self) { try await value { throw Failure() } }
    let spans = traced.tracer.spans("larder.compute")
    #expect(spans.map { $0["larder.outcome"] } == ["value", "failed", "failed"])
    #expect(spans.map { $0["larder.served_stale"] } == ["false", "true", "false"])
  }

  @Test func `A task that joins a computation has the span of a wait that names this process`()
    async throws
  {
    let traced = try TracedStore()
    let (tracer, cache) = (traced.tracer, traced.cache)
    let mayEnd = Mutex(false)
    let first = Task {
      try await cache.value(forKey: "a") {
        try await awaitEventually("the test goes on") { mayEnd.withLock { $0 } }
        return 7
      }
    }
    try await awaitEventually("it computes") { !tracer.memory.activeSpans.isEmpty }
    let second = Task {
      try await tracer.request("second") { span in
        let value = try await cache.value(forKey: "a") { 8 }
        #expect(value == 7)
        return span.spanContext
      }
    }
    try await awaitEventually("it waits") { cache.waitingCallers == 2 }
    mayEnd.withLock { $0 = true }
    #expect(try await first.value == 7)
    let context = try await second.value
    let wait = try tracer.span("larder.wait")
    #expect(wait.parentSpanID == context.spanID)
    #expect(wait["larder.wait.kind"] == "computation")
    #expect(wait["larder.holder.pid"] == "\(ProcessInfo.processInfo.processIdentifier)")
    #expect(wait["larder.namespace"] == "sums")
    #expect(wait["larder.key.hash"] == (try tracer.span("larder.compute")["larder.key.hash"]))
    #expect(wait["larder.outcome"] == "ended")
  }

  @Test func `A store without the option records nothing, and a process without a tracer works`()
    async throws
  {
    let tracer = CountingTracer()
    let plain = try TemporaryStore()
    let unset = try TemporaryStore(StoreOptions().tracing())
    #expect(plain.store.core.monitors == nil)
    try await withTracer(tracer) {
      let cache = PersistentCache<String, Int>(storage: plain.store)
      _ = try await cache.value(forKey: "a") { 7 }
      try await plain.store.setBytes([1], forKey: "b")
    }
    #expect(tracer.memory.finishedSpans.isEmpty && tracer.memory.activeSpans.isEmpty)

    let cache = PersistentCache<String, Int>(storage: unset.store)
    #expect(try await cache.value(forKey: "a") { 7 } == 7)
    // Each span uses the tracer of its task.
    try await withTracer(tracer) { _ = try await cache.value(forKey: "b") { 7 } }
    #expect(tracer.spans("larder.compute").count == 1)
  }
}
#endif
