// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

// COMPUTING AMONG HOSTS
//
// The process that has the lease of a key in its host asks the server. If that has no value, the process
// claims the key there for `claimTime`, and renews the claim while it computes. A process of another host
// that finds a claim waits until the value comes or the claim ends. The server takes the result only with
// the claim, which a write and a removal of the key end: a late result never replaces a newer value. With
// two hosts that lose the server at the same time, or a claim that ends too early, a key is computed twice.

extension RemoteBackend {
  func compute(
    _ key: Key, _ computation: Computation<Value>, _ flight: Flight<Value?>
  ) async throws -> Value? {
    let stored = { try self.result(computation, of: key) }
    return try await local.leading(key, flight, monitored(key), stored) { [self] _, lease in
      do {
        if computation.replacing == nil, let copy = try copyDuringLoss(key),
          let result = computation.stored(copy.map(\.value))
        {
          return result
        }
        return try await computeOnce(key, computation, flight, lease)
      } catch let loss as ServerLoss {
        guard case .serveStale(let limit) = options.onLoss else { throw loss.error }
        if computation.replacing == nil,
          let result = computation.stored(try stale(key, within: limit).map(\.value))
        {
          return result
        }
        return try await computeAlone(key, computation, flight, lease, limit)
      }
    }
  }

  /// The loss of the server before a computation began.
  private struct ServerLoss: Error { let error: any Error }

  private func asking<R>(_ body: () async throws -> R) async throws -> R {
    do {
      return try await body()
    } catch  where service.isLoss(error) {
      throw ServerLoss(error: error)
    }
  }

  /// Returns the server's value, or computes it with a claim.
  private func computeOnce(
    _ key: Key, _ computation: Computation<Value>, _ flight: Flight<Value?>,
    _ lease: ComputationLease
  ) async throws -> Value? {
    let token = UInt64.random(in: 1...UInt64.max)
    let end = ContinuousClock.now.advanced(by: context.options.computeTimeout)
    let remote = RemoteKey(context.namespace, EncodedKey(key))
    // A value that has not expired is computed early; the server has the same one.
    let isEarly = computation.replacing.map { $0.expires > tier.now } ?? false
    while true {
      if !isEarly,
        let result = computation.stored(try await asking { try await fetch(key) }.map(\.value))
      {
        return result
      }
      if try await asking({
        try await copies.awaiting {
          try await service.claim(remote, token: token, for: options.claimTime)
        }
      }) {
        break
      }
      flight.note(holder: nil)
      try await waitForChange(of: key, atMost: .milliseconds(100), flight)
      if ContinuousClock.now >= end { throw claimedElsewhere(key) }
      if isEarly { return computation.replacing?.value }
    }
    let renewal = renew(remote, token)
    defer { renewal.cancel() }
    // Between the answer above and the claim, another host may have stored its result.
    if !isEarly,
      let result = computation.stored(try await asking { try await fetch(key) }.map(\.value))
    {
      _ = try? await service.complete(remote, token: token, nil)
      return result
    }
    // A value with a tag that is removed from now on is not valid.
    let tokens = try await asking {
      try await copies.awaiting {
        try await service.tokens(of: computation.tags, in: context.namespace)
      }
    }
    let old = try oldValue(computation, of: key)
    let (result, content): (Value?, ComputedContent<Value>)
    do {
      (result, content) = try await local.run(computation, key, old, flight, lease)
    } catch {
      _ = try? await service.complete(remote, token: token, nil)
      throw error
    }
    // The value is valid although it could not be stored.
    do { try await complete(content, old, key, (token, tokens)) } catch { report(error) }
    return result
  }

  /// Computes without the server. The value is kept for the processes of the host while there is no link:
  /// the next one does not verify it.
  private func computeAlone(
    _ key: Key, _ computation: Computation<Value>, _ flight: Flight<Value?>,
    _ lease: ComputationLease, _ limit: Duration
  ) async throws -> Value? {
    let old = try oldValue(computation, of: key)
    let (result, content) = try await local.run(computation, key, old, flight, lease)
    do {
      guard limit > .zero, let write = try prepared(content, old, key) else { return result }
      var entry = write.write.entry
      // Without a version it is fetched again when the server is back.
      entry.version = RemoteVersion(
        0,
        lifetime: min(
          entry.version.lifetime ?? .max, Int64(clamping: limit.milliseconds)))
      let (space, encoded, name) = (
        write.place.store.space, write.place.store.encoded, copies.name
      )
      let content = try copies.content(entry, encoded, write.refresh)
      flight.deliver(early: result)
      _ = try await write.place.store.core.submitAsync(
        .alter(bytes: entry.payload.count) { transaction in
          guard transaction.generation.table.remoteRecord(name)?.link == 0,
            lease.isUndisturbed(tags: [])
          else { return false }
          try transaction.set(content, forKey: encoded, in: space)
          return true
        }, space: nil)
    } catch {
      report(error)
    }
    return result
  }

  /// Returns the write of a computed result, if there is one.
  private func prepared(
    _ content: ComputedContent<Value>, _ old: LoadedValue<Value>?, _ key: Key
  ) throws -> PreparedWrite? {
    switch content {
    case .nothing: nil
    case .value(let value, let attributes): try prepare(value, key, attributes)
    case .absent(let attributes): try prepare(nil, key, attributes)
    case .unchanged(let attributes): try old.map { try prepare($0.value, key, attributes) }
    }
  }

  private func complete(
    _ content: ComputedContent<Value>, _ old: LoadedValue<Value>?, _ key: Key,
    _ claim: (token: UInt64, tags: RemoteTokens)
  ) async throws {
    let remote = RemoteKey(context.namespace, EncodedKey(key))
    let write: PreparedWrite?
    do {
      write = try prepared(content, old, key)
    } catch {
      _ = try? await service.complete(remote, token: claim.token, nil)
      throw error
    }
    let fence = write.map { copies.fence($0.place) }
    var completed = write?.write
    completed?.tokens = claim.tags
    let isStored = try await copies.awaiting(write?.place) {
      try await service.complete(remote, token: claim.token, completed)
    }
    if isStored, let write, let fence {
      write.place.record.count(.writes)
      await keep([(write, fence)])
    }
  }

  /// Renews a claim until the task is cancelled.
  private func renew(_ key: RemoteKey, _ token: UInt64) -> Task<Void, Never> {
    let (service, time) = (service, options.claimTime)
    return BlockingWork.task {
      while !Task.isCancelled {
        do {
          try await BlockingWork.sleep(for: time / 3)
          guard try await service.renew(key, token: token, for: time) else { return }
        } catch is CancellationError {
          return
        } catch {
          // The server may be back before the claim ends.
        }
      }
    }
  }

  /// Waits until the server says that a key has changed, or for a time.
  private func waitForChange(
    of key: Key, atMost time: Duration, _ flight: Flight<Value?>
  ) async throws {
    let place = try place("compute", key)
    let before = copies.fence(place)
    let end = ContinuousClock.now.advanced(by: time)
    while ContinuousClock.now < end, copies.fence(place) == before {
      await place.store.core.waitForNextCommit()
      try flights.checkInterest(in: flight, of: place.store.encoded, in: context.namespace)
    }
  }

  private func claimedElsewhere(_ key: Key) -> StoreError {
    StoreError(
      .computationStalled, during: "compute",
      "Another host is computing \(context.text(of: key)()), and did not finish within "
        + "\(context.options.computeTimeout). For longer computations raise "
        + "CacheOptions.computeTimeout.")
  }
}
