// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
import InMemoryTracing
import Larder
import LarderEngine
import LarderTesting
import LarderTracing
import Synchronization
import Testing
import Tracing

@Suite(.timeLimit(.minutes(60)))
struct CommitSpanTests {
  @Test func `A commit is a child of the span that wrote, with namespaces, writes and bytes`()
    async throws
  {
    let traced = try TracedStore(StoreOptions(durability: .durable))
    let (tracer, store) = (traced.tracer, traced.store)
    let request = try await tracer.request { span in
      try store.setBytes([1, 2, 3], forKey: "a", in: "n")
      return span.spanContext
    }
    let first = try tracer.span("larder.commit")
    #expect(first.parentSpanID == request.spanID && first.links.isEmpty)
    #expect(first["larder.namespaces"] == "n")
    #expect(first["larder.commit.requests"] == "1")
    #expect(first["larder.commit.writes"] == "1")
    #expect(first["larder.commit.bytes"] == "\(try store.statistics().bytes)")
    #expect(first["larder.durability"] == "durable")
    #expect(first["larder.outcome"] == "committed")
    #expect(first.startInstant.nanosecondsSinceEpoch < first.endInstant.nanosecondsSinceEpoch)

    tracer.memory.clearFinishedSpans()
    try await store.write { transaction in
      for key in 0..<5 { try transaction.setBytes([1], forKey: key, in: "x") }
      _ = try transaction.remove(forKey: "a", in: "n")
    }
    let second = try tracer.span("larder.commit")
    #expect(second.parentSpanID == nil && second.links.isEmpty)
    #expect(second["larder.namespaces"] == "x,n")
    #expect(second["larder.commit.writes"] == "6")
  }

  @Test func `A commit without changes and one that fails have these outcomes`() async throws {
    struct Failure: Error {}
    let traced = try TracedStore()
    try await traced.store.setBytes([1], forKey: "a")
    let isRemoved = try await traced.tracer.request { _ in
      try traced.store.remove(forKey: "none")
    }
    #expect(!isRemoved)
    #expect(throws: Failure.self) { try traced.store.write { _ in throw Failure() } }
    let spans = traced.tracer.spans("larder.commit")
    #expect(spans.map { $0["larder.outcome"] } == ["committed", "unchanged", "failed"])
    #expect(spans[2].errors.first?.error is Failure)
    #expect(spans[2].status?.code == .error)
    #expect(traced.tracer.endCounts.allSatisfy { $0 == 1 })
  }

  @Test func `A value set by subscript is committed in the context of its setter`() async throws {
    let traced = try TracedStore()
    let request = try await traced.tracer.request { span in
      traced.cache["a"] = 1
      return span.spanContext
    }
    try traced.cache.sync()
    let commit = try #require(
      traced.tracer.spans("larder.commit").first { $0["larder.namespaces"] == "sums" })
    #expect(commit.parentSpanID == request.spanID)
  }

  /// Queues writes while a transaction runs, and returns the span of their common commit.
  private func groupCommit(
    _ traced: TracedStore, count: Int, _ write: @escaping @Sendable (Int) async throws -> Void
  ) async throws -> FinishedInMemorySpan {
    let store = traced.store
    let isRunning = Mutex(false)
    let mayEnd = Mutex(false)
    let blocker = JoinableThread {
      Result {
        try store.write { _ in
          isRunning.withLock { $0 = true }
          try eventually("the writes are queued") { mayEnd.withLock { $0 } }
        }
      }
    }
    try await awaitEventually("the transaction runs") { isRunning.withLock { $0 } }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<count { group.addTask { try await write(number) } }
      try await awaitEventually("they are queued") { store.core.queuedWrites >= count }
      mayEnd.withLock { $0 = true }
      try await group.waitForAll()
    }
    try blocker.join().get()
    return try #require(
      traced.tracer.spans("larder.commit").first { $0["larder.commit.requests"] == "\(count)" })
  }

  @Test func `A group commit of several spans is a root with a link to each`() async throws {
    let traced = try TracedStore(StoreOptions(writeTimeout: .seconds(600)))
    let parents = Mutex<Set<String>>([])
    let (tracer, cache) = (traced.tracer, traced.cache)
    let span = try await groupCommit(traced, count: 4) { number in
      try await tracer.request("request \(number)") { span in
        parents.withLock { _ = $0.insert(span.spanID) }
        try await cache.setValue(number, forKey: "\(number)")
      }
    }
    #expect(span.parentSpanID == nil)
    let linked = span.links.compactMap { $0.context.inMemorySpanContext?.spanID }
    #expect(linked.count == 4 && Set(linked) == parents.withLock { $0 })
    #expect(span["larder.commit.writes"] == "4")
    #expect(traced.tracer.endCounts.allSatisfy { $0 == 1 })
  }

  @Test func `A group commit of one span is a child of it, also if other writes have no context`()
    async throws
  {
    let traced = try TracedStore(StoreOptions(writeTimeout: .seconds(600)))
    let request = try await traced.tracer.request { span in
      let cache = traced.cache
      let commit = try await groupCommit(traced, count: 4) { number in
        if number == 0 {
          try await ServiceContext.withValue(nil) {
            try await cache.setValue(number, forKey: "\(number)")
          }
        } else {
          try await cache.setValue(number, forKey: "\(number)")
        }
      }
      #expect(commit.parentSpanID == span.spanID && commit.links.isEmpty)
      return span.spanContext
    }
    #expect(request.parentSpanID == nil)
  }
}
#endif
