// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension StoreBackend {
  func compute<R: Sendable>(
    _ key: Key, _ computation: Computation<Value, R>, _ flight: Flight<R>
  ) async throws -> R {
    let place = try open("compute", key)
    let (core, space, encoded) = (place.core, place.space, place.encoded)
    while true {
      // This process's earlier writes of the key are older than the value that is computed now.
      await core.settle(encoded, in: space)
      if let lease = try await core.acquireComputationLease(encoded, in: space) {
        defer { core.release(lease) }
        // A previous holder of the lease has committed its value.
        if let result = try result(computation, of: key) { return result }
        let tags = try tagHashes(of: computation, core)
        flight.beginComputing { lease.isUndisturbed(tags: tags) }
        let result = try await core.recordingTimings(.computation, computation.body)
        core.countComputation()
        do {
          guard let content = try content(of: result, computation, encoded, core) else {
            return result
          }
          try await core.fill(content, lease, encoded, in: space) {
            flight.deliver(early: result)
          }
        } catch {
          // The value is valid although it could not be stored.
          report(error)
        }
        return result
      }
      flight.note(holder: core.computingProcess(encoded, in: space))
      await core.waitForNextCommit()
      try flights.checkInterest(in: flight, of: encoded, in: context.namespace)
      if let result = try result(computation, of: key) { return result }
    }
  }

  /// Returns the tags that the result of a computation will have, as the store knows them.
  private func tagHashes<R>(
    of computation: Computation<Value, R>, _ core: StoreCore
  ) throws -> [UInt64] {
    let generation = try core.generation()
    let tags = computation.attributes.tags + (computation.absent?.tags ?? [])
    return try Tag.hashes(of: tags, in: generation)
  }

  /// Returns what is stored for a computed result, if anything.
  private func content<R>(
    of result: R, _ computation: Computation<Value, R>, _ key: EncodedKey, _ core: StoreCore
  ) throws -> EntryContent? {
    if let value = computation.value(result) {
      return try content(value, key, computation.attributes, core)
    }
    return try computation.absent.map { try absence(key, $0, core) }
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
