// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

/// The answer of the server about a key, with the time at which the host's copy expires.
enum RemoteAnswer: Sendable {
  case unknown
  case absent
  case value(codec: UInt16, payload: [UInt8], expires: Int64)

  func isExpired(at now: Int64) -> Bool {
    if case .value(_, _, let expires) = self { expires <= now } else { false }
  }
}

extension RemoteCopies {
  /// A key that is asked for.
  struct Request: Sendable {
    let place: Place
    let fence: RemoteFence
    /// The entry of the host.
    var stored: StoredValue?
    var isAbsent = false

    /// Whether the entry is known to be as new as the link.
    var isVerified: Bool {
      stored.map {
        $0.remoteVersion != 0 && place.record.isLinked(commitVersion: $0.commitVersion)
      } ?? false
    }

    /// The host's copy of a version of the server. A tag may have been removed since.
    var copy: StoredValue? {
      stored.flatMap { $0.remoteVersion == 0 || !$0.tags.isEmpty ? nil : $0 }
    }
  }

  /// Reads the entries of keys from one snapshot, with the fences that precede it.
  func requests(_ keys: [EncodedKey], isRepeated: Bool) throws -> [Request] {
    let places = try places("get", keys)
    guard let first = places.first else { return [] }
    let fences = places.map(fence)
    let (core, space) = (first.store.core, first.store.space)
    let lookups =
      keys.count == 1
      ? [try core.lookup(keys[0], in: space, isRepeated: isRepeated)]
      : try core.lookup(keys, in: space)
    return places.indices.map { index in
      var request = Request(place: places[index], fence: fences[index])
      switch lookups[index].outcome {
      case .found(let stored): request.stored = stored
      case .knownAbsent(let stored): (request.stored, request.isAbsent) = (stored, true)
      default: break
      }
      return request
    }
  }

  /// Returns what the server has for a key by now, and stores it in the host.
  ///
  /// - Parameters:
  ///   - sharing: Whether the request may be one of another task of this process.
  ///   - replaces: Whether the host may have a verified copy, which must not be read after this returns.
  @concurrent
  func fetch(
    _ key: EncodedKey, sharing: Bool, replaces: Bool
  ) async throws -> RemoteAnswer {
    var joins = sharing
    while true {
      let place = try place("get", key)
      let own = RemoteFetch(fence(place))
      let shared = RemotePlace(place, name)
      let running = RemoteFetches.all.begin(
        shared, own, joins: joins, within: options.maxStaleness)
      if running === own { return try await lead(own, shared, key, replaces) }
      do {
        let answer = try await awaiting(place) {
          try await running.answer.value(within: RemoteFetch.patience)
        }
        if let answer, !answer.isExpired(at: place.store.core.now) { return answer }
        joins = false
      } catch is CancellationError {
        // Of the other task.
        try Task.checkCancellation()
      }
    }
  }

  private func lead(
    _ fetch: RemoteFetch, _ place: RemotePlace, _ key: EncodedKey, _ replaces: Bool
  ) async throws -> RemoteAnswer {
    do {
      let (answers, fills) = try await ask(requests([key], isRepeated: true))
      RemoteFetches.all.settle(place, fetch)
      RemoteFetches.all.noteAnswers(of: [place])
      fetch.answer.finish(.success(answers[0]))
      @Sendable func end() {
        RemoteFetches.all.end(place, fetch)
        RemoteFetches.all.endAnswers(of: [place])
      }
      if replaces {
        defer { end() }
        await storeOrRemove(fills)
      } else {
        // Until the copy is stored, others read the answer.
        storeLater(fills, completion: end)
      }
      return answers[0]
    } catch {
      RemoteFetches.all.end(place, fetch)
      fetch.answer.finish(.failure(error))
      throw error
    }
  }

  /// Returns what the server has for keys, and stores it in the host.
  func fetch(_ requests: [Request]) async throws -> [RemoteAnswer] {
    let (answers, fills) = try await ask(requests)
    let places = requests.map { RemotePlace($0.place, name) }
    for place in places { RemoteFetches.all.settle(place, nil) }
    RemoteFetches.all.noteAnswers(of: places)
    storeLater(fills) { RemoteFetches.all.endAnswers(of: places) }
    return answers
  }

  /// Whether this process has returned a value of the key that the store does not have yet.
  func isAnswered(_ place: Place) -> Bool {
    RemoteFetches.all.isAnswered(RemotePlace(place, name))
  }

  /// Notes that this process has read a key from the server.
  func settle(_ place: Place) { RemoteFetches.all.settle(RemotePlace(place, name), nil) }

  /// Asks the server. Values of which the host has the same version are not fetched again.
  private func ask(
    _ requests: [Request]
  ) async throws -> (answers: [RemoteAnswer], fills: [Fill]) {
    let begun = RemoteRecord.now
    var answers = [RemoteAnswer?](repeating: nil, count: requests.count)
    var fills: [Fill] = []
    fills.reserveCapacity(requests.count)
    do {
      let copied = requests.indices.filter { requests[$0].copy != nil }
      if !copied.isEmpty {
        let versions = try await awaiting(requests[copied[0]].place) {
          try await service.versions(of: copied.map { requests[$0].place.remote })
        }
        for (index, version) in zip(copied, versions) {
          guard let (answer, fill) = verify(requests[index], version) else { continue }
          answers[index] = answer
          fills.append(fill)
        }
      }
      let missing = requests.indices.filter { answers[$0] == nil }
      if !missing.isEmpty {
        let entries = try await awaiting(requests[missing[0]].place) {
          try await service.read(missing.map { requests[$0].place.remote })
        }
        for (index, entry) in zip(missing, entries) {
          let (answer, fill) = try take(entry, requests[index])
          answers[index] = answer
          if let fill { fills.append(fill) }
        }
      }
    } catch {
      requests.first?.place.record.count(.failures)
      if service.isUnanswered(error) { loss.noteLoss(begun: begun) }
      throw error
    }
    loss.noteAnswer(begun: begun)
    return (answers.map { $0 ?? .unknown }, fills)
  }

  /// Returns the host's copy as verified, if the server has the same version.
  private func verify(
    _ request: Request, _ version: RemoteVersion?
  ) -> (RemoteAnswer, Fill)? {
    guard let copy = request.copy, let version, version.version == copy.remoteVersion else {
      return nil
    }
    request.place.record.count(.revalidations)
    let store = request.place.store
    let until = EntryHeader.deadline(of: life(of: version), from: store.core.now)
    let content = EntryContent(
      verifying: copy, forKey: store.encoded, isAbsent: request.isAbsent, until: until)
    let fill = Fill(key: store.encoded, content: content, fence: request.fence)
    if request.isAbsent { return (.absent, fill) }
    return (.value(codec: copy.codec, payload: copy.payload, expires: until), fill)
  }

  private func take(
    _ entry: RemoteEntry?, _ request: Request
  ) throws -> (RemoteAnswer, Fill?) {
    guard let entry else {
      request.place.record.count(.fetchedMisses)
      return (.unknown, try removal(request))
    }
    request.place.record.count(.fetchedHits)
    let key = request.place.store.encoded
    let content = try content(entry, key)
    let fill = Fill(key: key, content: content, fence: request.fence)
    if entry.isAbsent { return (.absent, fill) }
    return (.value(codec: entry.codec, payload: entry.payload, expires: content.expires), fill)
  }

  /// Returns the removal of the host's entry of a key that the server has no value for, if there is one.
  private func removal(_ request: Request) throws -> Fill? {
    // A value that is on its way is older.
    request.place.noteChange()
    let store = request.place.store
    let present = try store.core.lookup(
      store.encoded, in: store.space, isRepeated: true)
    if case .absent = present.outcome { return nil }
    return Fill(key: store.encoded, content: nil, fence: request.fence, elseRemoves: true)
  }
}
