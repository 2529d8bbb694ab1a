// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension StoreBackend {
  func compute(
    _ key: Key, _ computation: Computation<Value>, _ flight: Flight<Value?>
  ) async throws -> Value? {
    let stored = { try self.result(computation, of: key) }
    return try await leading(key, flight, monitored(key), stored) { [self] place, lease in
      let old = try oldValue(computation, of: key)
      let (result, content) = try await run(computation, key, old, flight, lease)
      do {
        guard let content = try self.content(of: content, replacing: old, place) else {
          return result
        }
        try await place.core.fill(content, lease, place.encoded, in: place.space) {
          flight.deliver(early: result)
        }
      } catch {
        // The value is valid although it could not be stored.
        report(error)
      }
      return result
    }
  }

  /// Calls a closure with the computation lease of a key, once no other process of the machine has it.
  ///
  /// - Parameters:
  ///   - stored: A closure that returns the result of another process, if there is one.
  ///   - body: A closure that computes the result.
  func leading(
    _ key: Key, _ flight: Flight<Value?>, _ monitoredKey: MonitoredKey,
    _ stored: () throws -> Value??,
    _ body: (StoreKey, ComputationLease) async throws -> Value?
  ) async throws -> Value? {
    let place = try open("compute", key)
    let (core, space, encoded) = (place.core, place.space, place.encoded)
    var wait: RunningWait?
    defer { wait?.end() }
    while true {
      // This process's earlier writes of the key are older than the value that is computed now.
      await core.settle(encoded, in: space)
      if let lease = try await core.acquireComputationLease(encoded, in: space) {
        defer { core.release(lease) }
        wait?.end()
        // A previous holder of the lease has committed its value.
        if let result = try stored() { return result }
        return try await body(place, lease)
      }
      let holder = core.computingProcess(encoded, in: space)
      if wait == nil {
        wait = core.monitors.begin(
          MonitoredWait(.computation, holder: holder, key: monitoredKey))
      }
      if holder != nil { wait?.wait.holder = holder }
      flight.note(holder: holder)
      await core.waitForNextCommit()
      do {
        try flights.checkInterest(in: flight, of: encoded, in: context.namespace)
      } catch {
        wait?.end(error)
        throw error
      }
      if let result = try stored() { return result }
    }
  }

  /// Runs a computation under a lease.
  ///
  /// - Returns: The result, and what is to be stored.
  func run(
    _ computation: Computation<Value>, _ key: Key, _ old: LoadedValue<Value>?,
    _ flight: Flight<Value?>, _ lease: ComputationLease
  ) async throws -> (Value?, ComputedContent<Value>) {
    let core = try open("compute").core
    let tags = try Tag.hashes(of: computation.tags, in: core.generation())
    let clock = ContinuousClock()
    let start = clock.now
    let (result, content) = try await flight.compute(
      while: { lease.isUndisturbed(tags: tags) }, limit: context.limit(of: key)
    ) {
      try await core.monitors.computing(
        monitored(computation, key), outcome: \.content.outcome
      ) { try await computation.body(old?.value) }
    }
    core.countComputation()
    return (
      result, content.noting(computation.refresh, computeTime: start.duration(to: clock.now))
    )
  }

  /// Returns a computation as monitors get it.
  private func monitored(
    _ computation: Computation<Value>, _ key: Key
  ) -> MonitoredComputation {
    MonitoredComputation(monitored(key), computation.reason) { [self] in
      let refresh = computation.refresh
      guard refresh.staleIfError > .zero,
        let kept = try? readable(key, KeyRead(includesKept: true, isRepeated: true)).value
      else { return false }
      return refresh.servesAfterError(kept.expires, at: tier.now)
    }
  }

  /// Returns what is stored for a computed result, if anything.
  private func content(
    of computed: ComputedContent<Value>, replacing old: LoadedValue<Value>?, _ place: StoreKey
  ) throws -> EntryContent? {
    let (core, encoded) = (place.core, place.encoded)
    switch computed {
    case .nothing: return nil
    case .value(let value, let attributes): return try content(value, encoded, attributes, core)
    case .absent(let attributes): return try absence(encoded, attributes, core)
    case .unchanged(let attributes):
      // The bytes of the entry. If it was replaced in the meantime, the fill would be rejected.
      let lookup = try core.lookup(
        encoded, in: place.space, includesKept: true, isRepeated: true)
      guard case .found(let stored) = lookup.outcome, stored.commitVersion == old?.version else {
        return nil
      }
      return try EntryContent(renewing: stored, forKey: encoded, attributes, now: core.now)
    }
  }

  func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    let place = try open("get", key)
    let (core, space, encoded) = (place.core, place.space, place.encoded)
    let seen = try core.lookup(encoded, in: space)
    let isThere =
      switch seen.outcome {
      case .absent, .knownAbsent: false
      case .unchanged, .found, .unreadable: true
      }
    return { [self] value, expires in
      if isThere || core.pendingWrite(of: encoded, in: space) != nil { return false }
      let content = try content(value, encoded, EntryAttributes(expires), core)
      return try core.write { transaction in
        // Under the writer lock no other process can stamp the key's slot.
        guard
          transaction.generation.table === seen.generation.table,
          seen.generation.table.isCurrent(slot: seen.slot, readVersion: seen.readVersion)
        else { return false }
        try transaction.set(content, forKey: encoded, in: space)
        return true
      }
    }
  }
}
