// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// COMPUTATIONS OF ONE PROCESS
//
// There is one flight for each key: a task that computes the value, or waits for the process that
// computes it. Its callers wait for the flight, each until it has a result, until the caller is
// cancelled, or until the caller's time limit. The computation continues for the other callers, and
// is cancelled when the last one has left.
//
// A refresh in the background is a flight whose only caller is a task that the group starts.
//
// A call inside a computation makes that computation wait for another one. If the other one waits
// for the first, directly or through others, the call that would close the cycle fails. Calls from
// detached tasks, and cycles across several processes, are not detected: their time limit ends
// them.

/// The computations in flight in this process, by key.
package final class SingleFlightGroup: Sendable {
  private struct Name: Hashable {
    let pendingWrite: WriteQueue.PendingKey
    /// The type of the value: two value types are two computations, even for one key.
    let type: ObjectIdentifier
  }

  /// One call: the key to compute, and the time limit of the wait.
  package struct Call<Value: Sendable>: Sendable {
    let key: EncodedKey
    let space: String
    /// A closure that returns the key and its namespace, for error messages.
    let text: @Sendable () -> String
    let timeout: Duration
    /// Called when another task or process computes the key.
    package var onWait: (@Sendable () -> Void)?
    /// Whether the result may be none.
    package var mayBeNil = false
    /// Whether a flight of another caller whose result may be none can give the result.
    package var joinsAny = true
    /// The monitors of the store, and the key as they get it.
    package var monitors: (all: StoreMonitors, key: @Sendable () -> MonitoredKey)?

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

  /// The computation that the current task is part of.
  @TaskLocal package static var current: FlightNode?

  package init() {}

  /// Returns the value of a key from the key's flight, and starts one with `compute` if there is
  /// none.
  ///
  /// - Throws: Any error that `compute` throws; ``StoreError/Code/recursiveComputation`` if the
  ///   computation would wait for the calling one; ``StoreError/Code/computationStalled`` if the
  ///   time limit passes; `CancellationError` if the calling task is cancelled.
  package func value<Value: Sendable>(
    _ call: Call<Value>, compute: @escaping @Sendable (Flight<Value>) async throws -> Value
  ) async throws -> Value {
    try Task.checkCancellation()
    let name = name(of: call)
    let (flight, isNew, stale) = flights.withLock { flights in
      let known = flights[name] as? Flight<Value>
      if let known, call.joinsAny || !known.mayBeNil, known.enter() {
        return (known, false, nil as Flight<Value>?)
      }
      let flight = Flight<Value>(onWait: call.onWait, mayBeNil: call.mayBeNil)
      flights[name] = flight
      return (flight, true, known)
    }
    defer { flight.leave() }
    // Counts as a wait for the stale one: a computation that writes its own key and requests it, again
    // and again, would never end.
    if let stale { _ = FlightNode.connect(flight.node, to: stale.node) }
    defer { if let stale { FlightNode.disconnect(flight.node, from: stale.node) } }
    let caller = SingleFlightGroup.current
    if let caller, !FlightNode.connect(caller, to: flight.node) {
      let error = StoreError.crossedComputation(call.text())
      if isNew { end(flight, name, .failure(error)) }
      throw error
    }
    defer { if let caller { FlightNode.disconnect(caller, from: flight.node) } }
    if isNew {
      let task = Task {
        let result: Result<Value, any Error>
        do {
          result = .success(
            try await SingleFlightGroup.$current.withValue(flight.node) {
              try await compute(flight)
            })
        } catch {
          result = .failure(error)
        }
        end(flight, name, result)
      }
      flight.run(task)
    }
    if isNew { return try await flight.wait(for: call, isFirst: true) }
    call.onWait?()
    let monitors = call.monitors?.all
    return try await monitors.waiting(
      MonitoredWait(.computation, holder: flight.process, key: call.monitors?.key())
    ) {
      try await flight.wait(for: call, isFirst: false)
    }
  }

  /// Starts a flight in the background, unless the key has one.
  ///
  /// - Parameter onError: A closure that receives the error of the flight.
  package func start<Value: Sendable>(
    _ call: Call<Value>, onError: @escaping @Sendable (any Error) -> Void,
    compute: @escaping @Sendable (Flight<Value>) async throws -> Value
  ) {
    let isThere = flights.withLock { flights in
      (flights[name(of: call)] as? Flight<Value>)?.isOpen ?? false
    }
    if isThere { return }
    // No caller waits for it, so it cannot be part of a cycle.
    SingleFlightGroup.$current.withValue(nil) {
      _ = Task {
        do {
          _ = try await value(call, compute: compute)
        } catch let error as StoreError
          where error.code == .computationStalled && error.pid != ProcessIdentity.pid
        {
          // Another process computes the value.
        } catch {
          onError(error)
        }
      }
    }
  }

  private func end<Value>(
    _ flight: Flight<Value>, _ name: Name, _ result: Result<Value, any Error>
  ) {
    // Removed before delivery: the next caller begins another flight.
    flights.withLock { flights in
      if flights[name] as? Flight<Value> === flight { flights[name] = nil }
    }
    flight.deliver(result)
  }

  /// The number of callers of all computations. For tests.
  package var callers: Int {
    flights.withLock { $0.values.reduce(0) { $0 + (($1 as? any CalledFlight)?.callers ?? 0) } }
  }

  private func name<Value>(of call: Call<Value>) -> Name {
    Name(
      pendingWrite: WriteQueue.PendingKey(space: call.space, key: call.key),
      type: ObjectIdentifier(Value.self))
  }

  /// Ends a flight that waits for another process and has no callers left.
  ///
  /// - Throws: `CancellationError` if the flight has no callers left.
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

/// A computation of any type.
protocol CalledFlight {
  var callers: Int { get }
}

/// A computation as a node of the wait-for graph.
package final class FlightNode: Sendable {
  private static let edges = Mutex<[ObjectIdentifier: [ObjectIdentifier: Int]]>([:])

  /// Records that one computation waits for another.
  ///
  /// - Returns: `false` if the other one waits for the first. Nothing is recorded then.
  package static func connect(_ caller: FlightNode, to target: FlightNode) -> Bool {
    let (first, last) = (ObjectIdentifier(caller), ObjectIdentifier(target))
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

  package static func disconnect(_ caller: FlightNode, from target: FlightNode) {
    let (first, last) = (ObjectIdentifier(caller), ObjectIdentifier(target))
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
      "Computing \(key) in process \(ProcessIdentity.pid) would deadlock: its computation waits, "
        + "directly or through others, for the computation that requests it. "
        + "Compute the value directly.",
      pid: ProcessIdentity.pid)
  }

  static func computationStopped(_ limit: ComputeLimit) -> StoreError {
    StoreError(
      .computationStalled, during: "compute",
      "Computing \(limit.text()) in process \(ProcessIdentity.pid) took longer than "
        + "\(limit.duration) and was cancelled. Raise CacheOptions.computeLimit, or make the "
        + "computation faster.",
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
      "\(process) is computing \(key) and did not finish within \(timeout). If the process is "
        + "stopped, resume or terminate it; for longer computations raise "
        + "CacheOptions.computeTimeout.",
      pid: holder)
  }
}
