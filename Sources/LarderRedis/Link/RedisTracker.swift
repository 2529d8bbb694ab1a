// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
internal import LarderCache
internal import LarderEngine
internal import Synchronization

// THE LINK OF A HOST
//
// Each process with a link waits for its leadership, which ends with the process of the leader. The leader
// has a connection on which the server names each change (CLIENT TRACKING with BCAST, over RESP3: names and
// answers come on one connection, in the order of their commands). It sends a PING every 100 ms; when the
// answer has come, all changes before it have been named. `SharedTable+Remote.swift` has the rules.
//
// In a cluster the leader has such a connection to each primary, and begins again when there are others.
//
// A leader that is stopped keeps the leadership. After some seconds without news another process becomes its
// deputy, under a second name, and ends when the leader has a link again.

/// The task of this process that feeds a store with the changes of a server.
final class RedisTracker: Sendable {
  /// The time between two questions whether all changes have come.
  static let heartbeat: Duration = .milliseconds(100)
  private static let patience: Duration = .seconds(2)

  private struct State {
    var task: Task<Void, Never>?
    var isRunning = true
  }

  private let service: RedisService
  private let store: SharedStore
  private let state = Mutex(State())
  private let lockName: String

  init(_ service: RedisService, _ store: SharedStore) {
    self.service = service
    self.store = store
    lockName = "remote " + String(RemoteName(service.name).hash, radix: 16)
    // A reference of the task keeps the tracker until the service cancels it.
    let task = BlockingWork.task { await self.run() }
    state.withLock { $0.task = task }
  }

  var isRunning: Bool { state.withLock { $0.isRunning } }

  func cancel() { state.withLock { $0.task }?.cancel() }

  /// Makes the process with the link begin it again: the host then verifies each value that it has.
  func restartLink() {
    guard let record = try? record() else { return }
    record.table.noteRemoteChanges()
    record.end(link: record.link)
  }

  // MARK: Leadership

  private func run() async {
    // The waits in a row after which nothing was known of the server.
    var blindWaits = 0
    while !Task.isCancelled, !store.hasClosed {
      do {
        try await store.leader(lockName).lead(timeout: .seconds(1)) { _ in
          await lead(asDeputy: false)
        }
      } catch is CancellationError {
        break
      } catch let error as StoreError where error.code == .lockTimeout {
        // The first one may be that of a leader that is connecting.
        let isBlind = (try? record()).flatMap { $0 }.map { $0.age > Self.patience } ?? false
        blindWaits = isBlind ? blindWaits + 1 : 0
        if blindWaits > 2 { await deputise() }
      } catch let error as StoreError where error.code == .closed {
        break
      } catch {
        store.core.report(error)
        try? await BlockingWork.sleep(for: .seconds(1))
      }
    }
    state.withLock { $0.isRunning = false }
  }

  /// Leads in the place of a leader that is stopped.
  private func deputise() async {
    try? await store.leader(lockName + " deputy").lead(timeout: .milliseconds(1)) { _ in
      await lead(asDeputy: true)
    }
  }

  /// Connects again and again, until the task is cancelled or the store is closed; a deputy once.
  private func lead(asDeputy: Bool) async {
    // The link of a process that has ended, or is stopped, says that there is one.
    if let record = try? record(), record.age > RedisTracker.heartbeat * 2 {
      record.end(link: record.link)
    }
    var failures = 0
    while !Task.isCancelled, !store.hasClosed {
      do {
        let number = UInt64.random(in: 1...UInt64.max)
        try await RedisTracking(service, store, number: number, isDeputy: asDeputy).run {
          failures = 0
        }
      } catch is CancellationError {
        return
      } catch let error as StoreError where error.code == .closed {
        return
      } catch {
        try? record()?.count(.failures)
        if failures == 0 { store.core.report(error) }
      }
      if asDeputy { return }
      failures += 1
      let longest = min(50 << min(failures, 6), 2000)
      try? await BlockingWork.sleep(for: .milliseconds(Int.random(in: longest / 2...longest)))
    }
  }

  private func record() throws -> RemoteRecord? {
    try store.core.generation().table.remoteRecord(RemoteName(service.name))
  }
}

/// The messages of a connection that were not applied yet.
private final class PushInbox: Sendable {
  private struct State {
    var messages: [[RedisValue]] = []
    var waiter: CheckedContinuation<Void, Never>?
    var isAwake = false
  }

  private let state = Mutex(State())

  func add(_ message: [RedisValue]) {
    state.withLock { state in
      state.messages.append(message)
      defer { state.waiter = nil }
      return state.waiter
    }?.resume()
  }

  func take() -> [[RedisValue]] {
    state.withLock { state in
      defer { state.messages = [] }
      return state.messages
    }
  }

  /// Wakes the waiter without a message.
  func wake() {
    state.withLock { state in
      state.isAwake = true
      defer { state.waiter = nil }
      return state.waiter
    }?.resume()
  }

  /// Waits until there is a message, or ``wake()`` was called.
  func wait() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isReady = state.withLock { state in
          defer { state.isAwake = false }
          if state.isAwake || !state.messages.isEmpty || Task.isCancelled { return true }
          state.waiter = continuation
          return false
        }
        if isReady { continuation.resume() }
      }
    } onCancel: {
      wake()
    }
  }
}

/// The connections on which the servers name changes.
private final class RedisTracking {
  private let service: RedisService
  private let store: SharedStore
  private let core: StoreCore
  private let name: RemoteName
  /// The number of this link.
  private let number: UInt64
  private let isDeputy: Bool
  private let inbox = PushInbox()
  /// By the bytes of the name: equal strings can be the names of two namespaces.
  private var spaces: [[UInt8]: NamespaceHandle] = [:]

  init(_ service: RedisService, _ store: SharedStore, number: UInt64, isDeputy: Bool) {
    self.service = service
    self.store = store
    core = store.core
    name = RemoteName(service.name)
    self.number = number
    self.isDeputy = isDeputy
  }

  private func record() throws -> RemoteRecord {
    if let record = try core.generation().table.remoteRecord(name) { return record }
    throw StoreError(
      .invalidOption, during: "remote", "The store has no room for another remote server.")
  }

  /// Runs until the connection fails, or a deputy is needed no longer.
  ///
  /// - Parameter onConnect: Called when the link has begun.
  func run(onConnect: () -> Void) async throws {
    try record().describe(server: service.name)
    let servers = try await TrackedServers.connect(service.client, prefix: service.keys.tracked) {
      [inbox] message in
      inbox.add(message)
    }
    defer { try? record().end(link: number) }
    let clock = BlockingWork.task { [inbox] in
      while !Task.isCancelled {
        try? await BlockingWork.sleep(for: RedisTracker.heartbeat)
        inbox.wake()
      }
    }
    defer { clock.cancel() }
    do {
      // Before a link begins that ends at once.
      if servers.servers != 0 { try await servers.confirm() }
      try await begin(servers)
      onConnect()
      while !Task.isCancelled, !store.hasClosed {
        let record = try record()
        if record.link != number {
          // Of another process, or of a generation that has just begun.
          if isDeputy, record.link != 0 { break }
          try await begin(servers)
        }
        try await confirm(servers)
        let next = ContinuousClock.now.advanced(by: RedisTracker.heartbeat)
        while !Task.isCancelled, ContinuousClock.now < next {
          await inbox.wait()
          try await apply(servers)
        }
      }
    } catch {
      await servers.close()
      throw error
    }
    await servers.close()
  }

  /// Begins the link in the table (L1).
  private func begin(_ servers: TrackedServers) async throws {
    let (name, number, server, set) = (name, number, service.name, servers.servers)
    _ = try await core.submitAsync(
      .alter(bytes: 0) { transaction in
        transaction.generation.table.remoteRecord(name)?.begin(
          link: number, commitVersion: transaction.commitVersion, server: server,
          servers: set)
        transaction.force()
        return true
      }, space: nil)
  }

  /// Confirms that all changes have come (L3).
  private func confirm(_ servers: TrackedServers) async throws {
    let (wall, start) = (core.now, RemoteRecord.now)
    try await servers.confirm()
    let roundTrip = RemoteRecord.now - start
    try await apply(servers)
    let record = try record()
    // In the table of a new generation the link has not begun: no entry of it is verified.
    guard record.link == number else { return }
    record.confirm(fresh: start, wall: wall, roundTrip: roundTrip)
  }

  // MARK: Changes

  private func apply(_ servers: TrackedServers) async throws {
    var values: Set<RemoteKey> = []
    for message in inbox.take() {
      guard message.first?.text == "invalidate", message.count == 2 else { continue }
      guard let keys = message[1].elements else {
        // All keys: the server was flushed.
        try core.generation().table.noteRemoteChanges()
        try await begin(servers)
        continue
      }
      for key in keys {
        switch service.keys.parse(key) {
        case .value(let key): values.insert(key)
        case .tag(let tag, let namespace): try await removeAll(tagged: tag, in: namespace)
        case nil: break
        }
      }
    }
    if !values.isEmpty { try await remove(Array(values), servers) }
  }

  private func space(_ name: String) throws -> NamespaceHandle {
    let bytes = Array(name.utf8)
    if let space = spaces[bytes] { return space }
    let space = try NamespaceHandle(name: name)
    if spaces.count >= 256 { spaces = [:] }
    spaces[bytes] = space
    return space
  }

  private func removeAll(tagged tag: String, in namespace: String) async throws {
    try core.generation().table.noteRemoteChanges()
    let (core, space) = (core, try space(namespace))
    try await BlockingWork.run { try core.removeAll(tagged: tag, in: space) }
  }

  /// A changed key, and what the store has of it.
  private struct Change: Sendable {
    let key: RemoteKey
    let space: NamespaceHandle
    /// The version on the server by now, if it was read.
    var current: UInt64 = 0
  }

  /// Removes keys from the store (L2).
  private func remove(_ keys: [RemoteKey], _ servers: TrackedServers) async throws {
    let generation = try core.generation()
    var changes = try keys.map { Change(key: $0, space: try space($0.namespace)) }
    for change in changes {
      generation.table.noteRemoteChange(hash: change.space.hash(of: change.key.key, in: generation))
    }
    // Writers that begin from now on see the changes.
    let writer = generation.table.writerVersion
    try record().count(.invalidations, changes.count)
    // A writer that is in a transaction may store a value that it read before.
    let isQuiet = generation.table.ticketHolder == nil
    var young: [Int] = []
    var present: [Int] = []
    for (index, change) in changes.enumerated() {
      let lookup = try core.lookup(
        change.key.key, in: change.space, includesKept: true, isRepeated: true)
      switch lookup.outcome {
      case .found(let stored), .knownAbsent(let stored):
        present.append(index)
        // Probably the host's own write, which the server has named as well.
        if core.now - stored.created < 2000,
          RemoteVersion.isOwn(stored.remoteVersion, in: generation)
        {
          young.append(index)
        }
      case .absent, .unchanged: break
      case .unreadable: present.append(index)
      }
    }
    if isQuiet, present.isEmpty { return }
    if !young.isEmpty {
      let versions = try await service.versions(of: young.map { changes[$0].key }) { commands in
        try await servers.send(commands)
      }
      for (index, version) in zip(young, versions) {
        changes[index].current = version?.version ?? 0
      }
    }
    let removed = isQuiet ? present.map { changes[$0] } : changes
    _ = try await core.submitAsync(
      .alter(bytes: 0) { transaction in
        var isChange = false
        for change in removed {
          let present = try transaction.versions(of: change.key.key, in: change.space)
          if let present, transaction.generation === generation,
            present.commit > writer || change.current != 0 && present.remote == change.current
          {
            continue
          }
          isChange = try transaction.unset(change.key.key, in: change.space) || isChange
        }
        return isChange
      }, space: nil)
  }
}
#endif
