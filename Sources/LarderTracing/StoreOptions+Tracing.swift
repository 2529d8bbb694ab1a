// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tracing
public import LarderEngine
public import Tracing

extension StoreOptions {
  /// Returns the options with spans of computations, waits and commits for swift-distributed-tracing.
  ///
  /// ```swift
  /// let store = try SharedStore(at: path, StoreOptions().tracing())
  /// ```
  ///
  /// | span | what | parent |
  /// |---|---|---|
  /// | `larder.compute` | the closure of `value(forKey:_:)` and its forms, and of refreshes | the context of the task whose call began the computation |
  /// | `larder.wait` | a wait for another process, or for another task of this one | the context of the task that waits; for the writer lock, the commit that waits |
  /// | `larder.commit` | a write transaction, from the request of the writer lock to the end of the commit | the context of the task that queued the writes; none, with a link to each context, if there are several |
  ///
  /// Every span has the kind `internal` and the attribute `larder.store`, the store's path. LarderTracing's
  /// article lists the attributes. In the closure of a computation the context is that of its span.
  ///
  /// Reads have no spans, and a memory hit executes no instruction more. Waits and commits become spans
  /// after their end, when no lock is held: an exporter that waits delays the writers of this process, and
  /// no other process. A tracer must not use the store.
  ///
  /// Each process traces its operations. If a process opens a store several times, the options of the
  /// first handle apply.
  ///
  /// - Parameters:
  ///   - keys: What spans contain of keys and of the names of locks. Namespaces are in every span of a key.
  ///   - tracer: The tracer, or `nil` for the tracer of the task, which is that of
  ///     `InstrumentationSystem` unless `withTracer` has set another. It is looked up for every span, so it
  ///     may be set after the store was opened.
  /// - Returns: The options.
  public func tracing(
    keys: TracedKeys = .hashed, tracer: (any Tracer)? = nil
  ) -> StoreOptions {
    var options = self
    options.monitors.append { path in StoreTracer(path: path, keys: keys, tracer: tracer) }
    return options
  }
}
#endif
