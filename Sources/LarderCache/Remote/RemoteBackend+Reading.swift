// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension RemoteBackend {
  func state(_ key: Key) throws -> KeyState<LoadedValue<Value>> {
    let state = try find(key, KeyRead())
    guard case .unknown = state else { return state }
    if let copy = try copyDuringLoss(key) { return copy }
    return try waiting { try await self.fetched(key, sharing: false) }
  }

  func stateAsync(_ key: Key) async throws -> KeyState<LoadedValue<Value>> {
    let state = try find(key, KeyRead())
    guard case .unknown = state else { return state }
    if let copy = try copyDuringLoss(key) { return copy }
    return try await fetched(key, sharing: true)
  }

  func contains(_ key: Key) throws -> Bool { try state(key).value != nil }

  func containsAsync(_ key: Key) async throws -> Bool { try await stateAsync(key).value != nil }

  func newest(_ key: Key) async throws -> Value? {
    try await fetch(key, replaces: true).value?.value
  }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    let read = try copied(keys)
    return read.keys.isEmpty ? read.values : try waiting { try await self.completed(read) }
  }

  func valuesAsync(for keys: some Sequence<Key>) async throws -> [Key: Value] {
    try await completed(copied(keys))
  }

  /// Several keys of which the host has some.
  private struct BatchRead: Sendable {
    var values: [Key: Value] = [:]
    /// The keys that the server is asked for.
    var keys: [Key] = []
    var requests: [RemoteCopies.Request] = []
  }

  /// Reads the keys that the host has.
  private func copied(_ keys: some Sequence<Key>) throws -> BatchRead {
    var read = BatchRead()
    var missing: [Key] = []
    for key in keys {
      if let value = tier.validValue(key) { read.values[key] = value } else { missing.append(key) }
    }
    let encoded = missing.map { EncodedKey($0) }
    guard let first = encoded.first else { return read }
    let isFresh = copies.isFresh(try copies.place("get", first).record, at: tier.now)
    for (key, request) in zip(missing, try copies.requests(encoded, isRepeated: false)) {
      if isFresh, request.isVerified, !copies.isAnswered(request.place) {
        if request.isAbsent { continue }
        // Through the local backend, which keeps the value in memory. It may be gone by now.
        if let loaded = try local.find(key).value {
          read.values[key] = loaded.value
          continue
        }
      }
      if let copy = try copyDuringLoss(key) {
        read.values[key] = copy.value?.value
        continue
      }
      read.keys.append(key)
      read.requests.append(request)
    }
    return read
  }

  /// Asks the server for the keys that the host does not have.
  private func completed(_ read: BatchRead) async throws -> [Key: Value] {
    var values = read.values
    // In parts, so that each has the whole time limit.
    for start in stride(from: 0, to: read.keys.count, by: 1000) {
      let part = start..<min(start + 1000, read.keys.count)
      let keys = read.keys[part]
      let answers: [RemoteAnswer]
      do {
        answers = try await copies.fetch(Array(read.requests[part]))
      } catch {
        for key in keys { values[key] = try stale(key, after: error).value?.value }
        continue
      }
      for (answer, key) in zip(answers, keys) {
        guard case .value(let codec, let payload, _) = answer else { continue }
        values[key] = try context.decode(payload, codec: codec, of: key)
      }
    }
    return values
  }

  func keys(_ decode: ([UInt8]) -> Key?) throws -> [Key] {
    throw StoreError.unsupported("keys", "The keys of a remote server cannot be listed.")
  }

  /// Returns what the server knows of a key, or if it is lost, what the host has.
  private func fetched(_ key: Key, sharing: Bool) async throws -> KeyState<LoadedValue<Value>> {
    do {
      return try await fetch(key, sharing: sharing)
    } catch {
      return try stale(key, after: error)
    }
  }

  /// Returns what may be served without a request, because the last one was not answered.
  func copyDuringLoss(_ key: Key) throws -> KeyState<LoadedValue<Value>>? {
    guard case .serveStale(let limit) = options.onLoss, copies.loss.avoidsRequest(),
      // Otherwise the link of the host has an answer.
      !copies.isFresh(try place("get", key).record, at: tier.now)
    else { return nil }
    let state = try stale(key, within: limit)
    if case .unknown = state { return nil }
    return state
  }

  /// Returns what may be served although the server could not be asked.
  func stale(_ key: Key, after error: any Error) throws -> KeyState<LoadedValue<Value>> {
    guard service.isLoss(error), case .serveStale(let limit) = options.onLoss else { throw error }
    let state = try stale(key, within: limit)
    if case .unknown = state { throw error }
    return state
  }

  /// Returns what the server has for a key by now, and stores it in the host.
  ///
  /// - Parameters:
  ///   - sharing: Whether the request may be one of another task of this process.
  ///   - replaces: Whether the host may have a verified copy, which must not be read after this returns.
  func fetch(
    _ key: Key, sharing: Bool = false, replaces: Bool = false
  ) async throws -> KeyState<LoadedValue<Value>> {
    try state(
      await copies.fetch(EncodedKey(key), sharing: sharing, replaces: replaces), of: key)
  }

  private func state(
    _ answer: RemoteAnswer, of key: Key
  ) throws -> KeyState<LoadedValue<Value>> {
    switch answer {
    case .unknown: return .unknown
    case .absent: return .absent
    case .value(let codec, let payload, let expires):
      let value = try context.decode(payload, codec: codec, of: key)
      return .value(LoadedValue(value: value, expires: expires))
    }
  }
}
