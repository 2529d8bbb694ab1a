// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension RemoteBackend {
  func state(_ key: Key) throws -> KeyState<LoadedValue<Value>> {
    let state = try find(key, KeyRead())
    if case .unknown = state { return try waiting { try await self.fetched(key, sharing: false) } }
    return state
  }

  func stateAsync(_ key: Key) async throws -> KeyState<LoadedValue<Value>> {
    let state = try find(key, KeyRead())
    if case .unknown = state { return try await fetched(key, sharing: true) }
    return state
  }

  func contains(_ key: Key) throws -> Bool { try state(key).value != nil }

  func newest(_ key: Key) async throws -> Value? {
    try await fetch(key, replaces: true).value?.value
  }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    var result: [Key: Value] = [:]
    var missing: [Key] = []
    for key in keys {
      if let value = tier.validValue(key) { result[key] = value } else { missing.append(key) }
    }
    let encoded = missing.map { EncodedKey($0) }
    guard let first = encoded.first else { return result }
    let isFresh = copies.isFresh(try copies.place("get", first).record, at: tier.now)
    let requests = try copies.requests(encoded, isRepeated: false)
    var wanted: [Int] = []
    for index in requests.indices {
      if isFresh, requests[index].isVerified {
        if requests[index].isAbsent { continue }
        // Through the local backend, which keeps the value in memory. It may be gone by now.
        if let loaded = try local.find(missing[index]).value {
          result[missing[index]] = loaded.value
          continue
        }
      }
      wanted.append(index)
    }
    // In parts, so that each has the whole time limit.
    for start in stride(from: 0, to: wanted.count, by: 1000) {
      let part = wanted[start..<min(start + 1000, wanted.count)]
      try fetch(part, of: missing, requests, into: &result)
    }
    return result
  }

  /// Asks the server for some of the keys.
  private func fetch(
    _ indices: ArraySlice<Int>, of keys: [Key], _ requests: [RemoteCopies.Request],
    into result: inout [Key: Value]
  ) throws {
    let answers: [RemoteAnswer]
    do {
      answers = try waiting { [copies] in try await copies.fetch(indices.map { requests[$0] }) }
    } catch {
      for index in indices {
        result[keys[index]] = try stale(keys[index], after: error).value?.value
      }
      return
    }
    for (answer, index) in zip(answers, indices) {
      guard case .value(let codec, let payload, _) = answer else { continue }
      result[keys[index]] = try context.decode(payload, codec: codec, of: keys[index])
    }
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
