// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine

extension RemoteBackend {
  func state(_ key: Key) throws -> KeyState<LoadedValue<Value>> {
    let state = try find(key, KeyRead())
    if case .unknown = state { return try waiting { try await self.fetched(key) } }
    return state
  }

  func stateAsync(_ key: Key) async throws -> KeyState<LoadedValue<Value>> {
    let state = try find(key, KeyRead())
    if case .unknown = state { return try await fetched(key) }
    return state
  }

  func contains(_ key: Key) throws -> Bool { try state(key).value != nil }

  func newest(_ key: Key) async throws -> Value? { try await fetch([key])[0].value?.value }

  func values(for keys: some Sequence<Key>) throws -> [Key: Value] {
    var result: [Key: Value] = [:]
    var missing: [Key] = []
    for key in keys {
      if let value = tier.validValue(key) { result[key] = value } else { missing.append(key) }
    }
    guard let first = missing.first else { return result }
    let isFresh = isFresh(try place("get", first).record)
    let requests = try requests(missing, isRepeated: false)
    var wanted: [Request] = []
    for request in requests {
      let isVerified =
        request.stored.map { request.place.record.isLinked(commitVersion: $0.commitVersion) }
        ?? false
      if isFresh, isVerified {
        if request.isAbsent { continue }
        // Through the local backend, which keeps the value in memory. It may be gone by now.
        if let loaded = try local.find(request.key).value {
          result[request.key] = loaded.value
          continue
        }
      }
      wanted.append(request)
    }
    // In parts, so that each has the whole time limit.
    for start in stride(from: 0, to: wanted.count, by: 1000) {
      let asked = Array(wanted[start..<min(start + 1000, wanted.count)])
      let states = try waiting {
        do {
          return try await self.fetch(asked)
        } catch {
          return try asked.map { try self.stale($0.key, after: error) }
        }
      }
      for (request, state) in zip(asked, states) { result[request.key] = state.value?.value }
    }
    return result
  }

  func keys(_ decode: ([UInt8]) -> Key?) throws -> [Key] {
    throw StoreError.unsupported("keys", "The keys of a remote server cannot be listed.")
  }

  /// Returns what the server knows of a key, or if it is lost, what the host has.
  private func fetched(_ key: Key) async throws -> KeyState<LoadedValue<Value>> {
    do {
      return try await fetch([key])[0]
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

  // MARK: The server

  /// A key that is asked for.
  struct Request: Sendable {
    let key: Key
    let place: RemoteBackend.Place
    let fence: RemoteFence
    /// The entry of the host.
    var stored: StoredValue?
    var isAbsent = false

    /// The host's copy of a version of the server. A tag may have been removed since.
    var copy: StoredValue? {
      stored.flatMap { $0.remoteVersion == 0 || !$0.tags.isEmpty ? nil : $0 }
    }
  }

  /// Returns what the server knows of keys, and stores it in the host. Values of which the host has the
  /// same version are not fetched again.
  func fetch(_ keys: [Key]) async throws -> [KeyState<LoadedValue<Value>>] {
    try await fetch(requests(keys, isRepeated: true))
  }

  private func fetch(_ requests: [Request]) async throws -> [KeyState<LoadedValue<Value>>] {
    var result = [KeyState<LoadedValue<Value>>](repeating: .unknown, count: requests.count)
    var fills: [Fill] = []
    var missing = Array(requests.indices)
    do {
      let copied = missing.filter { requests[$0].copy != nil }
      if !copied.isEmpty {
        let versions = try await service.versions(
          of: copied.map { remoteKey(requests[$0].place.store.encoded) })
        for (index, version) in zip(copied, versions) {
          guard let (state, fill) = try verify(requests[index], version) else { continue }
          result[index] = state
          fills.append(fill)
          missing.removeAll { $0 == index }
        }
      }
      if !missing.isEmpty {
        let entries = try await service.read(
          missing.map { remoteKey(requests[$0].place.store.encoded) })
        for (index, entry) in zip(missing, entries) {
          let (state, fill) = try take(entry, requests[index])
          result[index] = state
          if let fill { fills.append(fill) }
        }
      }
    } catch {
      requests.first?.place.record.count(.failures)
      throw error
    }
    storeLater(fills)
    return result
  }

  /// Reads the entries of keys from one snapshot, with the fences that precede it.
  private func requests(_ keys: [Key], isRepeated: Bool) throws -> [Request] {
    let places = try keys.map { try place("get", $0) }
    guard let first = places.first else { return [] }
    let fences = places.map(fence)
    let (core, space) = (first.store.core, first.store.space)
    let lookups =
      keys.count == 1
      ? [try core.lookup(first.store.encoded, in: space, isRepeated: isRepeated)]
      : try core.lookup(places.map { $0.store.encoded }, in: space)
    return places.indices.map { index in
      var request = Request(key: keys[index], place: places[index], fence: fences[index])
      switch lookups[index].outcome {
      case .found(let stored): request.stored = stored
      case .knownAbsent(let stored): (request.stored, request.isAbsent) = (stored, true)
      default: break
      }
      return request
    }
  }

  /// Returns the host's copy as verified, if the server has the same version.
  private func verify(
    _ request: Request, _ version: RemoteVersion?
  ) throws -> (KeyState<LoadedValue<Value>>, Fill)? {
    guard let copy = request.copy, let version, version.version == copy.remoteVersion else {
      return nil
    }
    request.place.record.count(.revalidations)
    let life = min(version.lifetime ?? .max, Int64(clamping: options.lifetime.milliseconds))
    let until = EntryHeader.deadline(of: life, from: request.place.store.core.now)
    let content = EntryContent(
      verifying: copy, forKey: request.place.store.encoded, isAbsent: request.isAbsent,
      until: until)
    let fill = Fill(
      key: request.place.store.encoded, content: content, fence: request.fence, elseRemoves: false)
    if request.isAbsent { return (.absent, fill) }
    let value = try context.decode(copy.payload, codec: copy.codec, of: request.key)
    return (.value(LoadedValue(value: value, expires: until)), fill)
  }

  private func take(
    _ entry: RemoteEntry?, _ request: Request
  ) throws -> (KeyState<LoadedValue<Value>>, Fill?) {
    guard let entry else {
      request.place.record.count(.fetchedMisses)
      return (.unknown, nil)
    }
    request.place.record.count(.fetchedHits)
    let content = try content(entry, request.place.store.encoded)
    let fill = Fill(key: request.place.store.encoded, content: content, fence: request.fence)
    if entry.isAbsent { return (.absent, fill) }
    let value = try context.decode(entry.payload, codec: entry.codec, of: request.key)
    return (.value(LoadedValue(value: value, expires: content.expires)), fill)
  }
}
