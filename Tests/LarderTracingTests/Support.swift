// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
import InMemoryTracing
import Larder
import LarderTestSupport
import LarderTesting
import LarderTracing
import Synchronization
import Testing
import Tracing

/// A tracer in memory that counts how often each span ends.
struct CountingTracer: Tracer {
  let memory = InMemoryTracer()
  private let ends = Ends()

  final class Ends: Sendable {
    let counts = Mutex<[String: Int]>([:])
  }

  /// The numbers of times that the spans ended that have ended.
  var endCounts: [Int] { ends.counts.withLock { Array($0.values) } }

  func startSpan<Instant: TracerInstant>(
    _ operationName: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
    at instant: @autoclosure () -> Instant, function: String, file fileID: String, line: UInt
  ) -> CountedSpan {
    let span = memory.startSpan(
      operationName, context: context(), ofKind: kind, at: instant(), function: function,
      file: fileID, line: line)
    return CountedSpan(span: span, ends: ends)
  }

  func forceFlush() {}

  func inject<Carrier, Inject: Injector>(
    _ context: ServiceContext, into carrier: inout Carrier, using injector: Inject
  ) where Inject.Carrier == Carrier {
    memory.inject(context, into: &carrier, using: injector)
  }

  func extract<Carrier, Extract: Extractor>(
    _ carrier: Carrier, into context: inout ServiceContext, using extractor: Extract
  ) where Extract.Carrier == Carrier {
    memory.extract(carrier, into: &context, using: extractor)
  }

  /// The spans with a name that have ended, in the order of their ends.
  func spans(_ name: String) -> [FinishedInMemorySpan] {
    memory.finishedSpans.filter { $0.operationName == name }
  }

  /// The only ended span with a name.
  func span(_ name: String) throws -> FinishedInMemorySpan {
    let spans = spans(name)
    try #require(spans.count == 1, "\(spans.map(\.attributes))")
    return spans[0]
  }

  /// Runs a closure in a span of the test.
  func request<R>(
    _ name: String = "request", _ body: (InMemorySpan) async throws -> R
  ) async throws -> R {
    try await withSpan(name) { try await body($0.span) }
  }
}

/// A span that counts its ends.
struct CountedSpan: Span {
  let span: InMemorySpan
  let ends: CountingTracer.Ends

  var context: ServiceContext { span.context }
  var isRecording: Bool { span.isRecording }
  var operationName: String {
    get { span.operationName }
    nonmutating set { span.operationName = newValue }
  }
  var attributes: SpanAttributes {
    get { span.attributes }
    nonmutating set { span.attributes = newValue }
  }

  func setStatus(_ status: SpanStatus) { span.setStatus(status) }
  func addEvent(_ event: SpanEvent) { span.addEvent(event) }
  func addLink(_ link: SpanLink) { span.addLink(link) }
  func recordError<Instant: TracerInstant>(
    _ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> Instant
  ) {
    span.recordError(error, attributes: attributes, at: instant())
  }

  func end<Instant: TracerInstant>(at instant: @autoclosure () -> Instant) {
    ends.counts.withLock { $0[span.spanID, default: 0] += 1 }
    span.end(at: instant())
  }
}

extension FinishedInMemorySpan {
  /// An attribute as text.
  subscript(_ name: String) -> String? {
    switch attributes.get(name) {
    case nil: nil
    case .string(let text): text
    case .int64(let number): "\(number)"
    case .int32(let number): "\(number)"
    case .bool(let flag): "\(flag)"
    case .stringArray(let texts): texts.joined(separator: ",")
    case let other?: "\(other)"
    }
  }

  /// The names of the attributes.
  var names: Set<String> {
    var names: Set<String> = []
    attributes.forEach { name, _ in names.insert(name) }
    return names
  }
}

/// A store with a tracer.
struct TracedStore {
  let tracer = CountingTracer()
  let temporary: TemporaryStore
  let cache: PersistentCache<String, Int>

  var store: SharedStore { temporary.store }

  init(_ options: StoreOptions = StoreOptions(), keys: TracedKeys = .hashed) throws {
    var options = options
    // Its requests would be among those that the tests count.
    options.sweepsWhenIdle = false
    temporary = try TemporaryStore(options.tracing(keys: keys, tracer: tracer))
    // Other tests may keep the threads of Swift's pool for long.
    cache = PersistentCache(
      storage: temporary.store, namespace: "sums",
      options: CacheOptions(computeTimeout: .seconds(600)))
  }

  /// Starts a peer that has the store open.
  func peer(_ options: String = "") throws -> ChildProcess {
    let peer = try TestExecutable.peer.start()
    let answer = try peer.ask("open \(temporary.path) \(options)")
    try #require(answer.hasPrefix("opened "), "\(answer)")
    return peer
  }
}
#endif
