// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// COMPUTATIONS OF ONE PROCESS
//
// One flight a key: a task that computes the value, or waits for the process that does. Its callers
// wait for the flight, each until it has a result, until the caller is cancelled, or until the
// caller's time is up. None of that ends the computation, which others may join.
//
// A caller inside of a computation makes that computation wait for another. If the other one waits for
// the first, directly or through more of them, the call that closes the circle fails. Calls from
// detached tasks, and circles over several processes, are not seen: their time limit ends them.

/// The computations in flight in this process, by key.
package final class SingleFlightGroup: Sendable {
  private struct Name: Hashable {
    let pendingWrite: WriteQueue.PendingKey
    /// Values of two types are two computations, even of one key.
    let type: ObjectIdentifier
  }

  /// One call: what is computed and how the call waits for it.
  package struct Call<Value: Sendable>: Sendable {
    let key: EncodedKey
    let space: String
    /// The key and its namespace, for errors.
    let text: @Sendable () -> String
    let timeout: Duration

    package init(
      _ key: EncodedKey, in space: String, timeout: Duration,
      text: @escaping @Sendable () -> String
    ) {
      self.key = key
      self.space = space
      self.timeout = timeout
      self.text = text
    }
  }

  private let flights = Mutex<[Name: any Sendable]>([:])

  /// The computation the current task is part of.
  @TaskLocal static var current: FlightNode?

  package init() {}

  /// The value of a key, from the flight of the key, started with `compute` if there is none.
  ///
  /// - Throws: What `compute` throws; ``StoreError/Code/recursiveComputation`` when the computation
  ///   would wait for the calling one; ``StoreError/Code/computationStalled`` when the time is up;
  ///   `CancellationError` when the calling task is cancelled.
  package func value<Value: Sendable>(
    _ call: Call<Value>, compute: @escaping @Sendable (Flight<Value>) async throws -> Value
  ) async throws -> Value {
    try Task.checkCancellation()
    let name = Name(
      pendingWrite: WriteQueue.PendingKey(space: call.space, key: call.key),
      type: ObjectIdentifier(Value.self))
    let (flight, isNew) = flights.withLock { flights -> (Flight<Value>, Bool) in
      if let known = flights[name] as? Flight<Value>, known.enter() { return (known, false) }
      let flight = Flight<Value>()
      flights[name] = flight
      return (flight, true)
    }
    defer { flight.leave() }
    let asking = SingleFlightGroup.current
    if let asking, !FlightNode.connect(asking, to: flight.node) {
      throw StoreError.crossedComputation(call.text())
    }
    defer { if let asking { FlightNode.disconnect(asking, from: flight.node) } }
    if isNew {
      Task {
        let result: Result<Value, any Error>
        do {
          result = .success(
            try await SingleFlightGroup.$current.withValue(flight.node) {
              try await compute(flight)
            })
        } catch {
          result = .failure(error)
        }
        // First: the next caller begins another.
        flights.withLock { flights in
          if flights[name] as? Flight<Value> === flight { flights[name] = nil }
        }
        flight.deliver(result)
      }
    }
    return try await flight.wait(for: call, isFirst: isNew)
  }

  /// Ends a flight that waits for another process and for which no caller waits any more.
  ///
  /// - Throws: `CancellationError` then.
  package func checkInterest<Value: Sendable>(
    in flight: Flight<Value>, of key: EncodedKey, in space: String
  ) throws {
    let name = Name(
      pendingWrite: WriteQueue.PendingKey(space: space, key: key),
      type: ObjectIdentifier(Value.self))
    let isOver = flights.withLock { flights in
      guard flight.isUnwanted else { return false }
      if flights[name] as? Flight<Value> === flight { flights[name] = nil }
      return true
    }
    if isOver { throw CancellationError() }
  }
}

/// A computation as a member of the graph of those that wait for each other.
package final class FlightNode: Sendable {
  private static let edges = Mutex<[ObjectIdentifier: [ObjectIdentifier: Int]]>([:])

  /// Notes that one computation waits for another.
  ///
  /// - Returns: `false`, and nothing is noted, if the other one waits for the first.
  static func connect(_ asking: FlightNode, to asked: FlightNode) -> Bool {
    let (first, last) = (ObjectIdentifier(asking), ObjectIdentifier(asked))
    return edges.withLock { edges in
      var open = [last]
      var seen: Set<ObjectIdentifier> = [last]
      while let node = open.popLast() {
        if node == first { return false }
        for next in (edges[node] ?? [:]).keys where seen.insert(next).inserted {
          open.append(next)
        }
      }
      edges[first, default: [:]][last, default: 0] += 1
      return true
    }
  }

  static func disconnect(_ asking: FlightNode, from asked: FlightNode) {
    let (first, last) = (ObjectIdentifier(asking), ObjectIdentifier(asked))
    edges.withLock { edges in
      guard let count = edges[first]?[last] else { return }
      edges[first]![last] = count > 1 ? count - 1 : nil
      if edges[first]!.isEmpty { edges[first] = nil }
    }
  }
}

extension StoreError {
  static func crossedComputation(_ key: String) -> StoreError {
    StoreError(
      .recursiveComputation, during: "compute",
      "The computation of \(key) in process \(ProcessIdentity.pid) waits, directly or through others, "
        + "for the computation that asks for it. Compute the value directly.",
      pid: ProcessIdentity.pid)
  }

  static func computationStalled(
    _ key: String, by holder: Int32?, _ timeout: Duration
  ) -> StoreError {
    let process =
      switch holder {
      case nil: "Another process"
      case ProcessIdentity.pid: "Another task of this process (\(ProcessIdentity.pid))"
      case let pid?: "Process \(pid)"
      }
    return StoreError(
      .computationStalled, during: "compute",
      "\(process) computes \(key) and has not finished within \(timeout). If it is stopped, continue "
        + "it or end it; for longer computations raise CacheOptions.computeTimeout.",
      pid: holder)
  }
}
