// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

// VALUES OF A REMOTE SERVER
//
// The server has the values, and the store of the host has copies. `SharedTable+Remote.swift` has the rules
// L1 to L5 by which a copy is known to be at most `maxStaleness` old. A read looks for
//
//   1. a verified value in memory        MemoryTier.validValue
//   2. a verified entry of the store     find(_:_:)
//   3. an entry that is not verified     fetch(_:): if the server has the same version, it is verified now
//   4. the server's value                fetch(_:), which stores a copy
//
// and a computing read then claims the key, in the host (the lease of the store) and among the hosts. The
// first two never wait for the network. A write goes to the server, and then to the store. Whatever may have
// reached the server without an answer is removed from the store.

/// The backend of a cache over a store and a remote server.
final class RemoteBackend<Key: CacheKey, Value: Codable & Sendable>: CacheBackend {
  let local: StoreBackend<Key, Value>
  private let remote: RemoteTier
  let options: RemoteOptions
  let name: RemoteName
  private let limit: StalenessLimit
  /// The error of options without meaning, for each use of the cache.
  private let failure: StoreError?

  init(
    _ store: SharedStore, _ namespace: String, _ tier: RemoteTier, _ remote: RemoteOptions,
    _ options: CacheOptions, cost: (@Sendable (Value) -> Int)?
  ) {
    self.remote = tier
    self.options = remote
    name = RemoteName(tier.service.name)
    limit = StalenessLimit(remote.maxStaleness)
    local = StoreBackend(
      store,
      CacheContext(namespace, options, core: store.core, cost: cost, remote: (name, limit)))
    do throws(StoreError) {
      try remote.validate()
      failure = nil
    } catch {
      failure = error
    }
    if failure == nil { tier.service.attach(to: store) }
  }

  var service: any RemoteService { remote.service }
  var context: CacheContext<Key, Value> { local.context }
  var flights: SingleFlightGroup { local.flights }
  var identity: ObjectIdentifier { local.identity }
  var sharedStore: SharedStore? { local.store }
  var monitors: StoreMonitors? { local.monitors }

  func monitored(_ key: Key) -> MonitoredKey { local.monitored(key) }
  func report(_ error: any Error) { local.report(error) }
  func clearMemory() { local.clearMemory() }
  func sync() throws { try local.sync() }

  /// Runs an asynchronous operation for a caller that blocks its thread.
  func waiting<R: Sendable>(_ body: @escaping @Sendable () async throws -> R) throws -> R {
    try local.open("remote").core.requireNoTransaction()
    return try BlockingWork.wait(body)
  }

  // MARK: The words of the link

  /// A key of the cache, on the server and in the store.
  struct Place {
    let store: StoreKey
    let record: RemoteRecord
    let hash: UInt64

    /// Notes that this process changes the key (L5).
    func noteChange() { record.table.noteRemoteChange(hash: hash) }
  }

  /// Returns what a value from the server must be stored under (L4).
  func fence(_ place: Place) -> RemoteFence {
    let topology = service.topology
    if place.record.hasLink(toOthersThan: topology) { service.refreshTopology() }
    return place.record.fence(hash: place.hash, topology: topology)
  }

  func place(_ operation: String, _ key: Key) throws -> Place {
    if let failure { throw failure }
    let store = try local.open(operation, key)
    let generation = try store.core.generation()
    return Place(
      store: store, record: try record(in: generation.table), hash: store.hash(in: generation))
  }

  func record(in table: SharedTable) throws -> RemoteRecord {
    if let record = table.remoteRecord(name) { return record }
    throw StoreError(
      .invalidOption, during: "cache",
      "A store has room for 8 remote servers, and one for defaults has room for none. Use fewer servers and "
        + "prefixes for a store.")
  }

  func remoteKey(_ key: EncodedKey) -> RemoteKey { RemoteKey(context.namespace, key) }

  /// Whether the host has the changes of the server up to a time within the limit. To be called before an
  /// entry is read.
  func isFresh(_ record: RemoteRecord) -> Bool { record.isFresh(at: tier.now, within: limit) }

  // MARK: The store

  func find(_ key: Key, _ read: KeyRead) throws -> KeyState<LoadedValue<Value>> {
    let place = try place("get", key)
    let isFresh = isFresh(place.record)
    let state = try local.find(key, read)
    switch state {
    case .unknown: return .unknown
    case .value(let loaded):
      // An expired value is one that is kept for a refresh.
      if loaded.expires <= tier.now { return read.includesKept ? state : .unknown }
      return isFresh && place.record.isLinked(commitVersion: loaded.version) ? state : .unknown
    case .absent:
      let lookup = try place.store.core.lookup(
        place.store.encoded, in: place.store.space, isRepeated: true)
      if case .knownAbsent(let stored) = lookup.outcome, isFresh,
        place.record.isLinked(commitVersion: stored.commitVersion)
      {
        return .absent
      }
      return .unknown
    }
  }

  /// Returns what the host has for a key, verified or not, if it was stored in the last `time`.
  func stale(_ key: Key, within time: Duration) throws -> KeyState<LoadedValue<Value>> {
    let place = try place("get", key)
    let isFresh = isFresh(place.record)
    let lookup = try place.store.core.lookup(
      place.store.encoded, in: place.store.space, isRepeated: true)
    let oldest = tier.now - Int64(clamping: time.milliseconds)
    switch lookup.outcome {
    case .found(let stored):
      let isVerified = isFresh && place.record.isLinked(commitVersion: stored.commitVersion)
      guard isVerified || stored.created >= oldest else { return .unknown }
      place.record.count(.staleHits)
      let value = try context.decode(stored.payload, codec: stored.codec, of: key)
      return .value(LoadedValue(value: value, expires: stored.expires))
    case .knownAbsent(let stored) where stored.created >= oldest: return .absent
    default: return .unknown
    }
  }

  /// A value that is to be stored in the host, if nothing has overtaken it.
  struct Fill: Sendable {
    let key: EncodedKey
    let content: EntryContent
    let fence: RemoteFence
    /// Whether the key is removed if something has overtaken the value.
    var elseRemoves = false
  }

  /// Stores values in one transaction (L4).
  func store(_ fills: [Fill]) async throws {
    if fills.isEmpty { return }
    let (core, space) = try local.open("set")
    _ = try await core.submitAsync(storing(fills, in: space), space: nil)
  }

  /// Stores values that the server has, without waiting for it.
  func storeLater(_ fills: [Fill]) {
    if fills.isEmpty { return }
    do {
      let (core, space) = try local.open("set")
      core.submit(
        storing(fills, in: space), space: nil, key: WriteRequest.noKey
      ) { [local] result in
        // The values are valid although they could not be stored.
        if case .failed(let error) = result { local.report(error) }
      }
    } catch {
      report(error)
    }
  }

  private func storing(_ fills: [Fill], in space: NamespaceHandle) -> WriteRequest.Kind {
    let (name, service) = (name, service)
    let bytes = fills.reduce(0) { $0 + $1.content.payload.count }
    return .alter(bytes: bytes) { transaction in
      let record = transaction.generation.table.remoteRecord(name)
      let topology = service.topology
      var isChange = false
      for fill in fills {
        let isCurrent = record?.isPassed(by: fill.fence, topology: topology) ?? false
        if isCurrent {
          try transaction.set(fill.content, forKey: fill.key, in: space)
          // A value that is on its way from the server may be older than one that was written.
          if fill.elseRemoves { record?.table.noteRemoteChange(hash: fill.fence.hash) }
          isChange = true
        } else if fill.elseRemoves {
          isChange = try transaction.unset(fill.key, in: space) || isChange
          // A write that was sent before this one may have been executed after it, or not be stored yet.
          transaction.generation.table.noteRemoteChange(
            hash: space.hash(of: fill.key, in: transaction.generation))
        }
      }
      return isChange
    }
  }

  /// Removes keys from the host.
  func removeLocally(_ keys: [EncodedKey]) async throws {
    let (core, space) = try local.open("remove")
    let table = try core.generation().table
    for key in keys {
      table.noteRemoteChange(hash: space.hash(of: key, in: try core.generation()))
    }
    _ = try await core.submitAsync(
      .alter(bytes: 0) { transaction in
        try keys.reduce(false) { try transaction.unset($1, in: space) || $0 }
      }, space: nil)
  }

  /// Returns the content of the host's copy of an entry.
  func content(
    _ entry: RemoteEntry, _ key: EncodedKey, _ refresh: (kept: Int64, computeTime: UInt32) = (0, 0)
  ) throws -> EntryContent {
    let core = try local.open("set").core
    let life = min(entry.version.lifetime ?? .max, Int64(clamping: options.lifetime.milliseconds))
    var attributes = EntryAttributes(
      .after(.milliseconds(max(life, 1))), tags: entry.tags, isAbsent: entry.isAbsent)
    attributes.remoteVersion = entry.version.version
    attributes.kept = refresh.kept
    attributes.computeTime = refresh.computeTime
    return try EntryContent(
      key: key, codec: entry.codec, payload: entry.payload, attributes, now: core.now)
  }

  func observe(_ key: Key) throws -> ObservedValue<Value> {
    let observed = try local.observe(key)
    // The link removes a value that has changed: the server has the next one.
    return ObservedValue(value: try state(key).value?.value, change: observed.change)
  }
}
