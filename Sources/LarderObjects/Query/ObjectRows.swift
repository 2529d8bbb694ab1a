// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// ROWS OF ONE SNAPSHOT
//
// A job of the background executor scans and decodes in one snapshot, a batch ahead of the consumer.
// If the consumer is slower, the job waits for room in the channel, but not past the time limit of the
// snapshot: a snapshot keeps freed pages from being used again. If the consumer ends its loop, is
// cancelled or releases the iterator, the job ends with its next batch.

/// The objects of a query, one after the other, from one snapshot and in bounded memory.
///
/// ```swift
/// for try await car in store.objects(Car.self).where(\.year > 2000).rows() { print(car.id) }
/// ```
///
/// Each loop reads one snapshot, which includes every write that any process acknowledged before the
/// loop began; other processes write on meanwhile. At most 1,024 objects are in memory, unless the query
/// has a sort, or a condition that an index serves. A loop ends without an error if its task is
/// cancelled.
public struct ObjectRows<Object: Storable>: AsyncSequence, Sendable {
  /// The type of the elements.
  public typealias Element = Object

  let query: Query<Object>
  let limit: Duration

  /// The state of one loop.
  public struct AsyncIterator: AsyncIteratorProtocol {
    private let source: RowSource<Object>
    private var batch: [Object] = []
    private var position = 0

    fileprivate init(_ source: RowSource<Object>) { self.source = source }

    /// Returns the next object.
    ///
    /// - Returns: The object, or `nil` after the last one.
    /// - Throws: ``ObjectError/Code/snapshotExpired`` if the loop took longer than allowed; the errors
    ///   of `Query.fetch()`.
    public mutating func next() async throws -> Object? {
      if position == batch.count {
        position = 0
        batch = try await source.channel.next() ?? []
        if batch.isEmpty { return nil }
      }
      defer { position += 1 }
      return batch[position]
    }
  }

  /// Begins a loop.
  ///
  /// - Returns: The iterator.
  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(RowSource(query, limit)) }
}

extension Query {
  /// Returns the matching objects one after the other, from one snapshot and in bounded memory: for
  /// tables that are larger than memory.
  ///
  /// - Parameter limit: The time limit of the snapshot. Pinned snapshots make the files grow.
  /// - Returns: The objects in the query's order.
  public func rows(atMost limit: Duration = .seconds(60)) -> ObjectRows<Object> {
    ObjectRows(query: self, limit: limit)
  }

  /// Puts the objects of one snapshot into a channel.
  fileprivate func put(into channel: RowChannel<Object>) throws {
    // A repetition after damage would deliver objects twice.
    var hasDelivered = false
    try run("rows", empty: (), canRepeat: { !hasDelivered }) { run, snapshot in
      var batch: [Object] = []
      try run.eachObject(snapshot) { object in
        batch.append(object)
        guard batch.count == RowChannel<Object>.batchSize else { return true }
        defer { batch = [] }
        hasDelivered = true
        return try put(batch, of: run, snapshot, into: channel)
      }
      if !batch.isEmpty { _ = try put(batch, of: run, snapshot, into: channel) }
    }
  }

  private func put(
    _ batch: [Object], of run: QueryExecution<Object>, _ snapshot: borrowing Snapshot,
    into channel: RowChannel<Object>
  ) throws -> Bool {
    for inclusion in inclusions {
      _ = try inclusion.load(batch, snapshot, run.pass(overRelated:))
    }
    if run.record.isBounded == true {
      run.kind.noteUse(of: batch, run.record.number, snapshot.view)
    }
    return try channel.put(batch)
  }
}

/// The scan of one loop; it ends when the loop's iterator is released.
private final class RowSource<Object: Storable>: Sendable {
  let channel: RowChannel<Object>

  init(_ query: Query<Object>, _ limit: Duration) {
    let channel = RowChannel<Object>(limit)
    self.channel = channel
    BackgroundExecutor.shared.add {
      let result = Result { try query.put(into: channel) }
      channel.finish(result)
    }
  }

  deinit { channel.abandon() }
}

/// A bounded queue of batches from a thread that blocks to a task that suspends.
private final class RowChannel<Object: Storable>: Sendable {
  static var batchSize: Int { 256 }
  private static var mostBatches: Int { 2 }

  private struct State {
    var batches: [[Object]] = []
    var end: Result<Void, any Error>?
    var isAbandoned = false
    var consumer: CheckedContinuation<[Object]?, any Error>?
  }

  private let state = Mutex(State())
  private let room = Event()
  private let deadline: UInt64

  init(_ limit: Duration) {
    deadline = Clocks.monotonicNanoseconds() &+ limit.clampedNanoseconds
  }

  /// Waits for room and appends a batch.
  ///
  /// - Returns: Whether the consumer wants more.
  func put(_ batch: [Object]) throws -> Bool {
    while true {
      let now = Clocks.monotonicNanoseconds()
      guard now < deadline else { throw expired }
      let consumer: CheckedContinuation<[Object]?, any Error>?? = state.withLock { state in
        if state.isAbandoned { return .some(nil) }
        if let consumer = state.consumer {
          state.consumer = nil
          return consumer
        }
        if state.batches.count < Self.mostBatches {
          state.batches.append(batch)
          return .some(nil)
        }
        room.reset()
        return nil
      }
      if let consumer {
        consumer?.resume(returning: batch)
        return !state.withLock { $0.isAbandoned }
      }
      room.wait(nanoseconds: deadline - now)
    }
  }

  private var expired: ObjectError {
    ObjectError(
      .snapshotExpired, type: Object.storedName,
      "The loop over the rows took longer than `atMost`; pinned snapshots make the files grow. "
        + "Do less in the loop, or pass a longer limit.")
  }

  func finish(_ result: Result<Void, any Error>) {
    let consumer = state.withLock { state in
      state.end = result
      defer { state.consumer = nil }
      return state.consumer
    }
    consumer?.resume(with: result.map { nil })
  }

  func abandon() {
    let consumer = state.withLock { state in
      state.isAbandoned = true
      state.batches = []
      defer { state.consumer = nil }
      return state.consumer
    }
    room.set()
    consumer?.resume(returning: nil)
  }

  /// Returns the next batch, or `nil` at the end.
  func next() async throws -> [Object]? {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { consumer in
        let step: Result<[Object]?, any Error>? = state.withLock { state in
          if state.isAbandoned { return .success(nil) }
          if !state.batches.isEmpty { return .success(state.batches.removeFirst()) }
          if let end = state.end { return end.map { nil } }
          state.consumer = consumer
          return nil
        }
        room.set()
        if let step { consumer.resume(with: step) }
      }
    } onCancel: {
      abandon()
    }
  }
}

extension Duration {
  /// The nanoseconds, at least zero and at most 146 years.
  var clampedNanoseconds: UInt64 {
    let (seconds, attoseconds) = components
    guard seconds >= 0 else { return 0 }
    guard seconds < Int64.max / 2_000_000_000 else { return UInt64(Int64.max / 2) }
    return UInt64(seconds) * 1_000_000_000 + UInt64(max(attoseconds, 0)) / 1_000_000_000
  }
}
