// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import Synchronization

// VALUES OF A REMOTE SERVER
//
// The server has the values, and the store of the host has copies. `SharedTable+Remote.swift` has the rules
// L1 to L6 by which a copy is known to be at most `maxStaleness` old. A read looks for
//
//   1. a verified value in memory        MemoryTier.validValue
//   2. a verified entry of the store     RemoteBackend.find(_:_:)
//   3. an entry that is not verified     RemoteCopies.fetch(_:): if the server has the same version, it is
//                                        verified now
//   4. the server's value                RemoteCopies.fetch(_:), which stores a copy
//
// and a computing read then claims the key, in the host (the lease of the store) and among the hosts. The
// first two never wait for the network. A write goes to the server, and then to the store. Whatever may have
// reached the server without an answer is removed from the store.

/// The copies of one namespace in the store of a host.
final class RemoteCopies: Sendable {
  let store: SharedStore
  let namespace: String
  let options: RemoteOptions
  let name: RemoteName
  let limit: StalenessLimit
  private let space: Result<NamespaceHandle, StoreError>
  /// The bytes of fetched values that are not stored yet.
  private let waiting = Atomic<Int>(0)
  private static let waitingLimit = 16 << 20
  private let tier: RemoteTier
  /// The error of options without meaning, for each use of the cache.
  private let failure: StoreError?

  init(_ store: SharedStore, _ namespace: String, _ tier: RemoteTier, _ options: RemoteOptions) {
    self.store = store
    self.namespace = namespace
    self.tier = tier
    self.options = options
    name = RemoteName(tier.service.name)
    limit = StalenessLimit(options.maxStaleness)
    space = Result { () throws(StoreError) in try NamespaceHandle(name: namespace) }
    do throws(StoreError) {
      try options.validate()
      failure = nil
    } catch {
      failure = error
    }
    if failure == nil { tier.service.attach(to: store) }
  }

  var service: any RemoteService { tier.service }
  var loss: RemoteLoss { tier.loss }

  func report(_ error: any Error) { store.core.report(error) }

  /// Runs a closure that waits for the server, and reports the wait to the monitors of the store.
  func awaiting<R>(
    _ place: @autoclosure () -> Place? = nil, _ body: () async throws -> R
  ) async throws -> R {
    try await store.core.monitors.waiting(
      MonitoredWait(.remote, key: place()?.monitored, name: service.name), body)
  }

  // MARK: The words of the link

  /// A key on the server and in the store.
  struct Place: Sendable {
    let store: StoreKey
    let remote: RemoteKey
    let record: RemoteRecord
    let hash: UInt64

    var monitored: MonitoredKey {
      MonitoredKey(
        namespace: remote.namespace, hash: hash,
        text: { CustomStorageKey.text(remote.key, in: remote.namespace) })
    }

    /// Notes that this process changes the key (L5).
    func noteChange() { record.table.noteRemoteChange(hash: hash) }
  }

  func place(_ operation: String, _ key: EncodedKey) throws -> Place {
    try places(operation, CollectionOfOne(key))[0]
  }

  func places(_ operation: String, _ keys: some Sequence<EncodedKey>) throws -> [Place] {
    let (core, space) = try open(operation)
    let generation = try core.generation()
    let record = try record(in: generation.table)
    return keys.map { key in
      let store = StoreKey(core: core, space: space, encoded: key)
      return Place(
        store: store, remote: RemoteKey(namespace, key), record: record,
        hash: store.hash(in: generation))
    }
  }

  /// Returns the open engine and the namespace.
  func open(_ operation: String) throws -> (core: StoreCore, space: NamespaceHandle) {
    if let failure { throw failure }
    return (try store.openCore(operation), try space.get())
  }

  private func record(in table: SharedTable) throws -> RemoteRecord {
    if let record = table.remoteRecord(name) { return record }
    throw StoreError(
      .invalidOption, during: "cache",
      "A store has room for 8 remote servers, and one for defaults has room for none. Use fewer servers and "
        + "prefixes for a store. The place of one without a link is free after ten minutes.")
  }

  /// Returns what a value from the server must be stored under (L4).
  func fence(_ place: Place) -> RemoteFence {
    let topology = service.topology
    if place.record.hasLink(toOthersThan: topology) { service.refreshTopology() }
    return place.record.fence(hash: place.hash, topology: topology)
  }

  /// Whether the host has the changes of the server up to a time within the limit. To be called before an
  /// entry is read.
  func isFresh(_ record: RemoteRecord, at now: Int64) -> Bool {
    record.isFresh(at: now, within: limit)
  }

  // MARK: Storing

  /// A value that is to be stored in the host, if nothing has overtaken it.
  struct Fill: Sendable {
    let key: EncodedKey
    /// `nil` for a removal.
    let content: EntryContent?
    let fence: RemoteFence
    /// Whether the key is removed if something has overtaken the value.
    var elseRemoves = false

    fileprivate var bytes: Int { (content?.payload.count ?? 0) + 256 }
  }

  /// Stores values in one transaction (L4).
  func store(_ fills: [Fill]) async throws {
    if fills.isEmpty { return }
    let (core, space) = try open("set")
    _ = try await core.submitAsync(storing(fills, in: space), space: nil)
  }

  /// Stores values, or removes the keys of those that are overtaken.
  func storeOrRemove(_ fills: [Fill]) async {
    let fills = fills.map { fill in
      var fill = fill
      fill.elseRemoves = true
      return fill
    }
    do { try await store(fills) } catch {
      report(error)
      await forget(fills.map(\.key))
    }
  }

  /// Stores values that the server has, without waiting for it.
  ///
  /// - Parameter completion: Called when they are stored, or are not going to be.
  func storeLater(_ fills: [Fill], completion: @escaping @Sendable () -> Void = {}) {
    // Without a link nothing is stored.
    var fills = fills.filter { $0.elseRemoves || $0.fence.link != 0 }
    if fills.isEmpty { return completion() }
    var bytes = fills.reduce(0) { $0 + $1.bytes }
    // Values are fetched faster than a store takes them whose writer is stopped. Then the older ones are removed.
    if waiting.add(bytes, ordering: .relaxed).newValue > Self.waitingLimit {
      waiting.subtract(bytes, ordering: .relaxed)
      fills = fills.map { Fill(key: $0.key, content: nil, fence: $0.fence, elseRemoves: true) }
      bytes = fills.reduce(0) { $0 + $1.bytes }
      waiting.add(bytes, ordering: .relaxed)
    }
    let (waited, keys) = (bytes, fills.map(\.key))
    do {
      let (core, space) = try open("set")
      core.submit(
        storing(fills, in: space), space: nil, key: WriteRequest.noKey, isPatient: true
      ) { [self] result in
        waiting.subtract(waited, ordering: .relaxed)
        guard case .failed(let error) = result else { return completion() }
        // The values are valid although they could not be stored, and older ones are not read after them.
        report(error)
        _ = BlockingWork.task { [self] in
          await forget(keys)
          completion()
        }
      }
    } catch {
      waiting.subtract(waited, ordering: .relaxed)
      report(error)
      completion()
    }
  }

  private func storing(_ fills: [Fill], in space: NamespaceHandle) -> WriteRequest.Kind {
    let (name, service) = (name, service)
    let bytes = fills.reduce(0) { $0 + $1.bytes }
    return .alter(bytes: bytes) { transaction in
      let record = transaction.generation.table.remoteRecord(name)
      let topology = service.topology
      var isChange = false
      for fill in fills {
        isChange =
          try Self.apply(fill, record, topology, to: &transaction, in: space) || isChange
      }
      return isChange
    }
  }

  /// Stores a value, or removes the key.
  private static func apply(
    _ fill: Fill, _ record: RemoteRecord?, _ topology: RemoteTopology,
    to transaction: inout StoreTransaction, in space: NamespaceHandle
  ) throws -> Bool {
    guard let content = fill.content, let record,
      record.isPassed(by: fill.fence, topology: topology)
    else {
      // A write that was sent before this one may have been executed after it, or not be stored yet. What
      // replaces a removed value is fetched again.
      if fill.elseRemoves { return try remove(fill.key, from: &transaction, in: space) }
      guard let content = fill.content else { return false }
      // The process has returned the value: no older copy is read after it, nor one that is on its way (L6).
      transaction.generation.table.noteRemoteChange(hash: fill.fence.hash)
      let present = try transaction.versions(of: fill.key, in: space)
      guard let present, present.remote != content.remoteVersion else { return false }
      return try remove(fill.key, from: &transaction, in: space)
    }
    let present = try transaction.versions(of: fill.key, in: space)
    if let present, present.commit >= fill.fence.since,
      present.remote != content.remoteVersion
    {
      // Both are of requests at the same time, and it is not known which is newer (L6).
      return try remove(fill.key, from: &transaction, in: space)
    }
    try transaction.set(content, forKey: fill.key, in: space)
    // A value that is on its way from the server may be older than one that was written.
    if fill.elseRemoves { record.table.noteRemoteChange(hash: fill.fence.hash) }
    return true
  }

  private static func remove(
    _ key: EncodedKey, from transaction: inout StoreTransaction, in space: NamespaceHandle
  ) throws -> Bool {
    let isChange = try transaction.unset(key, in: space)
    let generation = transaction.generation
    generation.table.noteRemoteChange(hash: space.hash(of: key, in: generation))
    return isChange
  }

  /// Removes keys from the host.
  func remove(_ keys: [EncodedKey]) async throws {
    let (core, space) = try open("remove")
    let generation = try core.generation()
    for key in keys {
      generation.table.noteRemoteChange(hash: space.hash(of: key, in: generation))
    }
    _ = try await core.submitAsync(
      .alter(bytes: 0) { transaction in
        try keys.reduce(false) { try transaction.unset($1, in: space) || $0 }
      }, space: nil)
  }

  /// Removes keys after a failed write, unless the server cannot have executed it.
  func forget(_ keys: [EncodedKey], after error: any Error) async {
    if !service.isUnsent(error) { await forget(keys) }
  }

  /// Removes keys of which it is not known what the server has.
  func forget(_ keys: [EncodedKey]) async {
    do { try await remove(keys) } catch { report(error) }
  }

  /// Returns the content of the host's copy of an entry.
  func content(
    _ entry: RemoteEntry, _ key: EncodedKey, _ refresh: (kept: Int64, computeTime: UInt32) = (0, 0)
  ) throws -> EntryContent {
    let core = try open("set").core
    var attributes = EntryAttributes(
      .after(.milliseconds(max(life(of: entry.version), 1))), tags: entry.tags,
      isAbsent: entry.isAbsent)
    attributes.remoteVersion = entry.version.version
    attributes.kept = refresh.kept
    attributes.computeTime = refresh.computeTime
    return try EntryContent(
      key: key, codec: entry.codec, payload: entry.payload, attributes, now: core.now)
  }

  /// The milliseconds for which the host keeps a copy.
  func life(of version: RemoteVersion) -> Int64 {
    min(version.lifetime ?? .max, Int64(clamping: options.lifetime.milliseconds))
  }
}
