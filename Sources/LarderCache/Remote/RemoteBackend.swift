// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

/// The backend of a cache over a store and a remote server.
final class RemoteBackend<Key: CacheKey, Value: Codable & Sendable>: CacheBackend {
  let local: StoreBackend<Key, Value>
  let copies: RemoteCopies

  init(
    _ store: SharedStore, _ namespace: String, _ tier: RemoteTier, _ remote: RemoteOptions,
    _ options: CacheOptions, cost: (@Sendable (Value) -> Int)?
  ) {
    copies = RemoteCopies(store, namespace, tier, remote)
    local = StoreBackend(
      store,
      CacheContext(
        namespace, options, core: store.core, cost: cost, remote: (copies.name, copies.limit)))
  }

  var service: any RemoteService { copies.service }
  var options: RemoteOptions { copies.options }
  var context: CacheContext<Key, Value> { local.context }
  var flights: SingleFlightGroup { local.flights }
  var identity: ObjectIdentifier { local.identity }
  var sharedStore: SharedStore? { local.store }
  var monitors: StoreMonitors? { local.monitors }

  func monitored(_ key: Key) -> MonitoredKey { local.monitored(key) }
  func report(_ error: any Error) { local.report(error) }
  func clearMemory() { local.clearMemory() }
  func sync() throws { try local.sync() }
  func isServerLoss(_ error: any Error) -> Bool { service.isLoss(error) }

  /// Runs an asynchronous operation for a caller that blocks its thread.
  func waiting<R: Sendable>(_ body: @escaping @Sendable () async throws -> R) throws -> R {
    try copies.open("remote").core.requireNoTransaction()
    return try BlockingWork.wait(body)
  }

  func place(_ operation: String, _ key: Key) throws -> RemoteCopies.Place {
    try copies.place(operation, EncodedKey(key))
  }

  // MARK: The store

  func find(_ key: Key, _ read: KeyRead) throws -> KeyState<LoadedValue<Value>> {
    let place = try place("get", key)
    let isFresh = copies.isFresh(place.record, at: tier.now)
    if copies.isAnswered(place) { return .unknown }
    let state = try local.find(key, read, at: place.store)
    switch state {
    case .unknown: return .unknown
    case .value(let loaded):
      // An expired value is one that is kept for a refresh.
      if loaded.expires <= tier.now { return read.includesKept ? state : .unknown }
      return isFresh && place.record.isLinked(commitVersion: loaded.version) ? state : .unknown
    case .absent:
      let lookup = try place.store.core.lookup(
        place.store.encoded, in: place.store.space, isRepeated: true)
      if case .knownAbsent(let stored) = lookup.outcome, isFresh, stored.remoteVersion != 0,
        place.record.isLinked(commitVersion: stored.commitVersion)
      {
        return .absent
      }
      return .unknown
    }
  }

  /// Returns what the host has for a key, verified or not, if it was stored or confirmed in the last `time`.
  func stale(_ key: Key, within time: Duration) throws -> KeyState<LoadedValue<Value>> {
    let place = try place("get", key)
    // A copy that the link has kept until it was lost is as old as the last confirmation, however long ago it was
    // stored.
    let isConfirmed =
      copies.isFresh(place.record, at: tier.now)
      || place.record.isFresh(at: tier.now, within: StalenessLimit(time))
    let lookup = try place.store.core.lookup(
      place.store.encoded, in: place.store.space, isRepeated: true)
    let oldest = tier.now - Int64(clamping: time.milliseconds)
    func mayServe(_ stored: StoredValue) -> Bool {
      isConfirmed && stored.remoteVersion != 0
        && place.record.isLinked(commitVersion: stored.commitVersion) || stored.created >= oldest
    }
    switch lookup.outcome {
    case .found(let stored):
      guard mayServe(stored) else { return .unknown }
      place.record.count(.staleHits)
      let value = try context.decode(stored.payload, codec: stored.codec, of: key)
      return .value(LoadedValue(value: value, expires: stored.expires))
    case .knownAbsent(let stored) where mayServe(stored): return .absent
    default: return .unknown
    }
  }

  func observe(_ key: Key) throws -> ObservedValue<Value> {
    let observed = try local.observe(key)
    // The link removes a value that has changed: the server has the next one.
    return ObservedValue(value: try state(key).value?.value, change: observed.change)
  }
}
