// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
internal import LarderEngine
internal import Tracing

// PARENTS OF COMMITS
//
// A commit may contain the writes of several tasks, and runs on the thread of one of them or of the store.
// Each write request keeps the context of the task that queued it. When the commit has ended:
//
//   no request has a context       the span is a root
//   all contexts are of one span   the span is a child of it
//   several                        the span is a root, with a link to each of them
//
// It is not a child of the leader's context then: that the leader's thread ran the commit is chance, and
// the trace of the leader would contain the time of the writes of others. Contexts cannot be compared, so
// they are compared by what the tracer injects of them into a carrier, as for a request to another service.

/// The monitor of a store that makes spans of its operations.
final class StoreTracer: StoreMonitor {
  private let path: String
  private let keys: TracedKeys
  private let tracer: (any Tracer)?

  /// The most links of a span; the tracers of most systems drop further ones.
  static let maximumLinks = 128

  init(path: String, keys: TracedKeys, tracer: (any Tracer)?) {
    self.path = path
    self.keys = keys
    self.tracer = tracer
  }

  /// A context with the tracer of its task.
  private struct TaskContext: Sendable {
    let context: ServiceContext
    let tracer: any Tracer
  }

  private var current: any Tracer { tracer ?? InstrumentationSystem.tracer }

  func taskContext() -> (any Sendable)? {
    ServiceContext.current.map { TaskContext(context: $0, tracer: current) }
  }

  // MARK: Computations

  func begin(_ computation: MonitoredComputation) -> (any ComputationMonitor)? {
    let span = current.startSpan("larder.compute")
    span.update { attributes in
      attributes["larder.store"] = path
      attributes["larder.compute.reason"] = computation.reason.rawValue
      add(computation.key, to: &attributes)
    }
    return ComputationSpan(span: span, keys: keys)
  }

  // MARK: Waits

  func ended(_ wait: WaitReport) {
    record(wait, in: ServiceContext.current ?? .topLevel, current)
  }

  private func record(_ report: WaitReport, in context: ServiceContext, _ tracer: any Tracer) {
    let (start, end) = instants(of: report.time)
    let span = tracer.startSpan("larder.wait", context: context, at: start)
    span.update { attributes in
      attributes["larder.store"] = path
      attributes["larder.wait.kind"] = report.wait.kind.name
      if let pid = report.wait.holder { attributes["larder.holder.pid"] = Int(pid) }
      if let key = report.wait.key { add(key, to: &attributes) }
      if keys == .plain, let name = report.wait.name { attributes["larder.name"] = name }
      attributes["larder.outcome"] = Self.outcome(of: report.error)
    }
    if let error = report.error { span.record(error, keys) }
    span.end(at: end)
  }

  private static func outcome(of error: (any Error)?) -> String {
    switch error {
    case nil: "ended"
    case is CancellationError: "cancelled"
    case let error as StoreError
    where [.lockTimeout, .computationStalled, .writerStalled].contains(error.code):
      "timeout"
    default: "failed"
    }
  }

  // MARK: Commits

  func ended(_ commit: CommitReport, contexts: [any Sendable]?) {
    let origins = distinct((contexts ?? [taskContext()].compactMap(\.self)))
    // The store's maintenance has such transactions about once a second.
    if case .unchanged = commit.outcome, origins.isEmpty { return }
    let tracer = origins.first?.tracer ?? current
    let (start, end) = instants(of: commit.time)
    let parent = origins.count == 1 ? origins[0].context : .topLevel
    let span = tracer.startSpan("larder.commit", context: parent, at: start)
    if origins.count > 1 {
      for origin in origins.prefix(Self.maximumLinks) {
        span.addLink(SpanLink(context: origin.context, attributes: [:]))
      }
    }
    span.update { attributes in
      attributes["larder.store"] = path
      if !commit.namespaces.isEmpty { attributes["larder.namespaces"] = commit.namespaces }
      attributes["larder.commit.requests"] = commit.requests
      attributes["larder.commit.writes"] = commit.writes
      attributes["larder.commit.bytes"] = commit.bytes
      attributes["larder.durability"] = commit.durability.rawValue
      attributes["larder.outcome"] =
        switch commit.outcome {
        case .committed: "committed"
        case .unchanged: "unchanged"
        case .repeated: "repeated"
        case .failed: "failed"
        }
    }
    if let wait = commit.wait { record(wait, in: span.context, tracer) }
    if case .failed(let error) = commit.outcome { span.record(error, keys) }
    span.end(at: end)
  }

  /// Returns one of the contexts of each span, in the order of the requests.
  private func distinct(_ contexts: [any Sendable]) -> [TaskContext] {
    let all = contexts.compactMap { $0 as? TaskContext }
    guard all.count > 1 else { return all }
    var seen: Set<[String: String]> = []
    return all.filter { seen.insert(ContextInjector.fields(of: $0.context, $0.tracer)).inserted }
  }

  // MARK: Attributes

  private func add(_ key: MonitoredKey, to attributes: inout SpanAttributes) {
    attributes["larder.namespace"] = key.namespace
    switch keys {
    case .none: break
    case .hashed:
      if let hash = key.hash {
        let digits = String(hash, radix: 16)
        attributes["larder.key.hash"] =
          String(repeating: "0", count: 16 - digits.count) + digits
      }
    case .plain: attributes["larder.key"] = key.text()
    }
  }

  /// Returns the times of an operation that has ended just now, of the clock of tracers.
  private func instants(
    of time: OperationTime
  ) -> (start: DefaultTracerClock.Timestamp, end: DefaultTracerClock.Timestamp) {
    let end = DefaultTracerClock.now
    let start = end.nanosecondsSinceEpoch &- time.age
    return (
      DefaultTracerClock.Timestamp(nanosecondsSinceEpoch: start),
      DefaultTracerClock.Timestamp(nanosecondsSinceEpoch: start &+ time.nanoseconds)
    )
  }
}

/// The span of a computation.
private struct ComputationSpan: ComputationMonitor {
  let span: any Span
  let keys: TracedKeys

  func withContext<R>(_ body: () async throws -> R) async rethrows -> R {
    try await ServiceContext.$current.withValue(span.context, operation: body)
  }

  func end(_ report: ComputationReport) {
    span.update { attributes in
      attributes["larder.served_stale"] = report.servedStale
      attributes["larder.outcome"] =
        switch report.outcome {
        case .value: "value"
        case .absent: "absent"
        case .unchanged: "unchanged"
        case .nothing: "nothing"
        case .failed: "failed"
        case .cancelled: "cancelled"
        }
    }
    if case .failed(let error) = report.outcome { span.record(error, keys) }
    span.end()
  }
}

extension Span {
  /// Changes the attributes, unless the span is not recorded.
  fileprivate func update(_ change: (inout SpanAttributes) -> Void) {
    if isRecording { updateAttributes(change) }
  }

  /// Records an error. The texts of errors of the store contain keys, so only their codes are recorded
  /// unless spans contain keys.
  fileprivate func record(_ error: any Error, _ keys: TracedKeys) {
    if error is CancellationError { return }
    setStatus(SpanStatus(code: .error))
    if let error = error as? StoreError {
      attributes["larder.error.code"] = "\(error.code)"
      if keys != .plain { return }
    }
    recordError(error)
  }
}

/// An injector that collects the fields of a context in a dictionary.
private struct ContextInjector: Injector {
  static func fields(of context: ServiceContext, _ tracer: any Tracer) -> [String: String] {
    var fields: [String: String] = [:]
    tracer.inject(context, into: &fields, using: ContextInjector())
    return fields
  }

  func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) {
    carrier[key] = value
  }
}
#endif
